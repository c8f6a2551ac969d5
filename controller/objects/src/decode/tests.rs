//! What a provider must not take, and what it must not say about it. OpenKruise stands for all: they read
//! alike.

use sandgate_routes::State;
use serde_json::{Value, json};

use crate::fixture::{Object, now};
use crate::openkruise::tests::{provider, running};
use crate::provider::Unreadable;

const TOKEN: &str = "agents.kruise.io/runtime-access-token";

fn refused(object: &Object) -> Unreadable {
    match object.seen_by(&*provider()) {
        Err(error) => error,
        Ok(seen) => panic!("taken: {seen:?} from {}", object.0),
    }
}

fn refused_bytes(bytes: &[u8]) -> Unreadable {
    provider().project(bytes, now()).expect_err("refused")
}

#[test]
fn a_field_of_another_type_is_named_with_what_was_expected() {
    for (path, value, at, reason) in [
        (&["metadata"][..], json!([]), "metadata", "expected an object, found a list"),
        (&["metadata"], json!("x"), "metadata", "expected an object, found a text"),
        (&["metadata", "name"], json!(7), "metadata.name", "expected a text, found a number"),
        (&["metadata", "labels"], json!(true), "metadata.labels", "expected an object, found a boolean"),
        (
            &["metadata", "ownerReferences"],
            json!({}),
            "metadata.ownerReferences",
            "expected a list, found an object",
        ),
        (
            &["metadata", "ownerReferences"],
            json!([{ "controller": "true" }]),
            "metadata.ownerReferences[0].controller",
            "expected a boolean, found a text",
        ),
        (&["spec", "paused"], json!("no"), "spec.paused", "expected a boolean, found a text"),
        (&["spec", "shutdownTime"], json!(1.5), "spec.shutdownTime", "expected a text, found a number"),
        (&["status"], json!("x"), "status", "expected an object, found a text"),
        (
            &["status", "conditions"],
            json!([{ "type": "Ready" }, { "type": 1 }]),
            "status.conditions[1].type",
            "expected a text, found a number",
        ),
    ] {
        assert_eq!(refused(&running().with(path, value)), Unreadable::new(at, reason));
    }
}

#[test]
fn a_value_over_its_limit_is_named_with_the_limit() {
    let control = "a\u{7}b";
    for (path, value, at, word) in [
        (&["metadata", "name"][..], json!("n".repeat(254)), "metadata.name", "253"),
        (&["metadata", "name"], json!("a/b"), "metadata.name", "'/'"),
        (&["metadata", "name"], json!("a b"), "metadata.name", "A-Z"),
        (&["metadata", "name"], Value::Null, "metadata.name", "1 to 253"),
        (&["metadata", "namespace"], json!("n".repeat(64)), "metadata.namespace", "63"),
        (&["metadata", "namespace"], json!(""), "metadata.namespace", "missing"),
        (&["metadata", "uid"], json!("u".repeat(401)), "metadata.uid", "400"),
        (&["metadata", "uid"], json!(""), "metadata.uid", "1 to"),
        (&["metadata", "uid"], json!(control), "metadata.uid", "control"),
        (&["metadata", "resourceVersion"], json!("0"), "metadata.resourceVersion", "positive"),
        (&["metadata", "resourceVersion"], json!("01"), "metadata.resourceVersion", "leading zeros"),
        (&["metadata", "resourceVersion"], json!("-1"), "metadata.resourceVersion", "decimal"),
        (&["metadata", "resourceVersion"], json!(""), "metadata.resourceVersion", "empty"),
        (&["metadata", "resourceVersion"], Value::Null, "metadata.resourceVersion", "empty"),
        (&["metadata", "resourceVersion"], json!("9".repeat(20)), "metadata.resourceVersion", "at most"),
        (&["spec", "shutdownTime"], json!("tomorrow"), "spec.shutdownTime", "RFC 3339"),
        (&["spec", "shutdownTime"], json!("2026-11-16T06:00:00"), "spec.shutdownTime", "RFC 3339"),
        (&["spec", "shutdownTime"], json!("2".repeat(10_000)), "spec.shutdownTime", "RFC 3339"),
    ] {
        let error = refused(&running().with(path, value));
        assert_eq!(error.path, at);
        assert!(error.reason.contains(word), "{error} without {word:?}");
    }
    for (object, key) in [
        (running().label("agents.kruise.io/sandbox-id", "a b"), "sandbox-id"),
        (running().label("agents.kruise.io/sandbox-id", "i".repeat(254)), "sandbox-id"),
        (running().annotation("agents.kruise.io/owner", "o".repeat(256)), "owner"),
        (running().annotation("agents.kruise.io/owner", control), "owner"),
        (running().annotation(TOKEN, "t".repeat(4097)), "runtime-access-token"),
    ] {
        let error = refused(&object);
        assert!(error.path.starts_with("metadata.") && error.path.contains(key), "{error}");
    }
}

#[test]
fn an_address_that_is_none_leaves_the_object_known_and_without_one() {
    for ip in ["10.0.0", "10.0.0.1:80", "nowhere", "0.0.0.0", "::", "224.0.0.1", "ff02::1"] {
        let object = running().with(&["status", "podInfo", "podIP"], ip);
        let observation = object.seen_by(&*provider()).unwrap().observation;
        assert_eq!((observation.state, observation.ip), (State::Creating, None), "{ip}");
    }
}

#[test]
fn values_at_their_limits_are_taken() {
    let object = running()
        .label("agents.kruise.io/sandbox-id", "i".repeat(253))
        .annotation("agents.kruise.io/owner", "o".repeat(255))
        .annotation(TOKEN, "t".repeat(4096))
        .with(&["metadata", "name"], "n".repeat(253))
        .with(&["metadata", "namespace"], "n".repeat(63))
        .with(&["metadata", "uid"], "u".repeat(400))
        .with(&["metadata", "resourceVersion"], u64::MAX.to_string());
    object.seen_by(&*provider()).unwrap();
}

#[test]
fn a_secret_is_not_in_the_error() {
    let secret = "S3CRET";
    let tricky = format!("{secret}\", expected {secret}, found {secret}");
    let number = 7_364_921;
    for value in [
        json!(format!("{secret}{}", "x".repeat(5000))),
        json!(format!("{secret}{}", "x".repeat(100_000))),
        json!([secret]),
        json!({ secret: secret }),
        json!(number),
    ] {
        let error = refused(&running().annotation(TOKEN, value)).to_string();
        assert!(error.contains(TOKEN), "{error}");
        assert!(!error.contains(secret) && !error.contains(&number.to_string()), "{error}");
    }
    // A value in the wrong place is a secret too.
    let error = refused(&running().with(&["spec", "paused"], tricky.clone())).to_string();
    assert_eq!(error, "spec.paused: expected a boolean, found a text");
    let error = refused(&running().with(&["status"], tricky)).to_string();
    assert_eq!(error, "status: expected an object, found a text");
    // Bytes that end in the middle of one.
    let whole = running().annotation(TOKEN, secret).bytes();
    let text = str::from_utf8(&whole).unwrap();
    let error = refused_bytes(&whole[..text.find(secret).unwrap() + 4]).to_string();
    assert!(!error.contains("S3CR"), "{error}");
}

#[test]
fn a_key_given_twice_is_refused_where_it_counts() {
    let metadata = r#""metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"1"}"#;
    for (bytes, word) in [
        (format!("{{{metadata},{metadata}}}"), "metadata"),
        (format!(r#"{{{metadata},"status":{{"phase":"Running","phase":"Failed"}}}}"#), "phase"),
    ] {
        let error = refused_bytes(bytes.as_bytes());
        assert!(error.reason.contains("duplicate field") && error.reason.contains(word), "{error}");
    }
    let elsewhere = format!(r#"{{{metadata},"other":1,"other":2}}"#);
    provider().project(elsewhere.as_bytes(), now()).unwrap();
}

#[test]
fn what_is_not_one_json_object_is_refused() {
    for bytes in ["", "null", "[]", "7", "\"x\"", "{", "{}}", "{} {}", "{\"metadata\":", "\u{feff}{}", "nul"]
    {
        let error = refused_bytes(bytes.as_bytes());
        assert!(!error.reason.is_empty(), "{bytes:?}");
    }
    assert_eq!(refused_bytes(b"null").to_string(), "object: expected an object, found null");
    refused_bytes(b"{\"metadata\":{\"name\":\"\xff\"}}");
}

#[test]
fn depth_and_size_that_are_not_read_do_no_harm() {
    let mut bytes = running().bytes();
    bytes.pop();
    bytes.extend_from_slice(b",\"deep\":");
    bytes.extend(std::iter::repeat_n(b'[', 500_000));
    bytes.extend(std::iter::repeat_n(b']', 500_000));
    bytes.push(b'}');
    provider().project(&bytes, now()).unwrap();

    let huge = "x".repeat(1 << 20);
    running().annotation("other", huge.clone()).seen_by(&*provider()).unwrap();
    let error = refused(&running().annotation(&huge, "x").with(&["metadata", "name"], 1));
    assert_eq!(error.path, "metadata.name");
    let mut open = format!(r#"{{"{huge}":tru"#);
    open.push('}');
    assert!(refused_bytes(open.as_bytes()).to_string().len() < 600);
}

#[test]
fn long_lists_are_read_to_their_end_and_kept_in_part() {
    let mut conditions = vec![json!({ "type": "Ready", "status": "True" }); 10_000];
    running().with(&["status", "conditions"], conditions.clone()).seen_by(&*provider()).unwrap();
    conditions.insert(0, json!({ "type": "Ready", "status": "False" }));
    let first_counts = running().with(&["status", "conditions"], conditions);
    assert_eq!(first_counts.state(&*provider()).as_str(), "creating");
}
