use super::*;

mod lines;

fn read(line: &str) -> Result<Event<'_>, Failure> {
    Event::read(line.as_bytes())
}

#[test]
fn an_event_leaves_the_object_as_it_is_and_its_head_has_name_and_version() {
    let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"spec":{}}}"#;
    let Ok(Event::Seen { added: true, object }) = read(line) else { panic!("{:?}", read(line)) };
    assert!(object.starts_with(br#"{"metadata""#) && object.ends_with(br#""spec":{}}"#));
    let head = Head::read(object).unwrap();
    assert_eq!((&*head.namespace, &*head.name), ("n", "a"));
    assert_eq!(head.version, "7".parse().ok());
}

#[test]
fn an_escaped_name_is_read_too() {
    let line = r#"{"type":"DELETED","object":{"metadata":{"name":"\u0061b","resourceVersion":"7"}}}"#;
    assert!(matches!(read(line), Ok(Event::Deleted(Ok(head))) if head.name == "ab"));
}

#[test]
fn a_version_that_is_none_leaves_the_name() {
    for version in [r#""x""#, r#""0""#, "null"] {
        let object = format!(r#"{{"metadata":{{"name":"a","resourceVersion":{version}}}}}"#);
        assert!(Head::read(object.as_bytes()).is_ok_and(|head| head.version.is_none()));
        let line = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
        assert!(matches!(read(&line), Ok(Event::Seen { added: false, .. })));
    }
}

#[test]
fn an_object_without_a_name_differs_from_a_line_that_is_no_event() {
    for object in
        ["{}", "7", r#"{"metadata":{}}"#, r#"{"metadata":{"name":"a/b"}}"#, r#"{"metadata":{"name":7}}"#]
    {
        assert!(Head::read(object.as_bytes()).is_err(), "{object}");
        let line = format!(r#"{{"type":"DELETED","object":{object}}}"#);
        assert!(matches!(read(&line), Ok(Event::Deleted(Err(_)))), "{object}");
    }
    for line in ["", "{", "[]", "null", r#"{"type":"ADDED"}"#, r#"{"type":"NEW","object":{}}"#, "\u{1}\u{2}"]
    {
        assert!(matches!(read(line), Err(Failure::Garbled(_))), "{line:?}");
    }
}

#[test]
fn a_bookmark_says_whether_the_list_is_complete() {
    let bookmark = |annotations: &str| {
        let line = format!(
            r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"9","annotations":{annotations}}}}}}}"#
        );
        match read(&line) {
            Ok(Event::Bookmark { complete, .. }) => complete,
            other => panic!("{other:?}"),
        }
    };
    assert!(bookmark(r#"{"k8s.io/initial-events-end":"true","x":"y"}"#));
    assert!(!bookmark(r#"{"k8s.io/initial-events-end":"false"}"#));
    assert!(!bookmark("{}"));
    assert!(!bookmark("null"));
}

#[test]
fn an_error_event_is_the_failure_that_it_describes() {
    let error = |code: u16| {
        format!(
            r#"{{"type":"ERROR","object":{{"kind":"Status","code":{code},"message":"m","details":{{"retryAfterSeconds":4}}}}}}"#
        )
    };
    assert!(matches!(read(&error(410)), Ok(Event::Failed(Failure::Gone(_)))));
    let Ok(Event::Failed(failure)) = read(&error(429)).map_err(|e| e.to_string()) else { panic!() };
    assert_eq!(failure.retry_after(), Some(Duration::from_secs(4)));
}
