use super::*;

#[test]
fn a_failed_write_is_told_as_the_table_says() {
    let text = || "why".to_owned();
    let table = [
        (WriteError::Conflict(text()), ErrorKind::Conflict, "conflict"),
        (WriteError::NotFound(text()), ErrorKind::Conflict, "gone"),
        (WriteError::AlreadyExists(text()), ErrorKind::Conflict, "taken"),
        (WriteError::Refused { code: 422, message: text() }, ErrorKind::Invalid, "refused"),
        (WriteError::Refused { code: 403, message: text() }, ErrorKind::Internal, "refused"),
        (WriteError::PutOff(text()), ErrorKind::Unavailable, "put off"),
        (WriteError::Unanswered(text()), ErrorKind::Unknown, "unanswered"),
    ];
    for (error, kind, word) in table {
        assert_eq!(outcome(&error), word);
        let told = Error::from(error);
        assert_eq!((told.kind, told.retry_after.is_some()), (kind, kind == ErrorKind::Unavailable));
    }
}
