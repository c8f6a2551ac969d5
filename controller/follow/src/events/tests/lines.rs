use super::super::*;

fn lines(text: &str) -> Lines {
    Lines::new(Body::from(text.as_bytes().to_vec()), 8, Duration::from_secs(5))
}

async fn all(text: &str) -> (Vec<String>, Option<Failure>) {
    let mut lines = lines(text);
    let mut seen = Vec::new();
    loop {
        match lines.next(None).await {
            Ok(Line::Text(text)) => seen.push(String::from_utf8_lossy(text).into_owned()),
            Ok(Line::TooLong) => seen.push("too long".to_owned()),
            Ok(Line::End | Line::Due) => return (seen, None),
            Err(failure) => return (seen, Some(failure)),
        }
    }
}

#[tokio::test]
async fn lines_come_one_by_one_and_empty_ones_do_not() {
    let (seen, failure) = all("one\n\n \r\ntwo\n12345678\n").await;
    assert_eq!(seen, ["one", "two", "12345678"]);
    assert!(failure.is_none());
}

#[tokio::test]
async fn an_end_within_a_line_is_a_cut() {
    let (seen, failure) = all("one\ntw").await;
    assert_eq!(seen, ["one"]);
    assert!(matches!(failure, Some(Failure::Cut)), "{failure:?}");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_reported_once_and_those_behind_it_are_read() {
    let (seen, failure) = all("one\n123456789\ntwo\n").await;
    assert_eq!(seen, ["one", "too long", "two"]);
    assert!(failure.is_none());
    let (seen, failure) = all("one\n1234567890123").await;
    assert_eq!(seen, ["one", "too long"]);
    assert!(matches!(failure, Some(Failure::Cut)), "{failure:?}");
}
