use serde_json::{Value, json};

use super::FieldPath;

fn object() -> Value {
    json!({
        "metadata": { "labels": { "x.y/z": "label", "it's": "quote" } },
        "a b": { "c": "spaced" },
        "spec": { "0": "digit" },
        "status": {
            "ip": "10.0.0.1",
            "ips": [null, "10.0.0.2", "10.0.0.3"],
            "conditions": [
                { "type": "Ready", "status": "True", "first": true },
                { "type": "Ready", "status": "False", "only": "second" },
            ],
        },
    })
}

#[test]
fn each_form_of_a_path_finds_its_value() {
    for (path, found) in [
        ("status.ip", json!("10.0.0.1")),
        ("$.status.ip", json!("10.0.0.1")),
        ("$['status'][\"ip\"]", json!("10.0.0.1")),
        (".status.ip", json!("10.0.0.1")),
        (r#"metadata.labels["x.y/z"]"#, json!("label")),
        (r#"metadata.labels["it's"]"#, json!("quote")),
        (r#"["a b"].c"#, json!("spaced")),
        (r#"spec["0"]"#, json!("digit")),
        ("status.ips[1]", json!("10.0.0.2")),
        ("status.ips[-1]", json!("10.0.0.3")),
        ("status.conditions[?@.type=='Ready'].status", json!("True")),
        ("status.conditions[?(@.type == \"Ready\" && @.first == true)].status", json!("True")),
        ("status..only", json!("second")),
    ] {
        let parsed = FieldPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(parsed.find(&object()), Ok(Some(&found)), "{path}");
        assert_eq!(parsed.as_str(), path);
    }
}

#[test]
fn a_null_is_passed_over_and_the_next_value_counts() {
    let found = |path: &str| FieldPath::parse(path).unwrap().find(&object()).unwrap().cloned();
    assert_eq!(found("status.ips[0]"), None);
    assert_eq!(found("status.ips[*]"), Some(json!("10.0.0.2")));
    assert_eq!(found("status.conditions[?@.type=='Ready'].only"), Some(json!("second")));
    for missing in ["status.none", "status.none.x", "status.ips[9]", "status.ips[9].x", "status.ips[0].x"] {
        assert_eq!(found(missing), None, "{missing}");
    }
}

#[test]
fn what_is_no_query_is_refused() {
    let long = "a".repeat(513);
    for text in [
        "",
        ".",
        "a.",
        "a b",
        "a/b",
        "a-b",
        "a[",
        "a[]",
        "a[b]",
        "a[01]",
        "a[b=]",
        "a[b=c]",
        "[a=b]",
        "a[=c]",
        "a[b=c",
        "a[?@.b=c]",
        r#"a["b]"#,
        r#"a["b"c]"#,
        r#"a["b\"]"#,
        "a[0]b",
        "a]b",
        "a[1e3]",
        "a[+1]",
        "@.a",
        "a[?@.b==$.c]",
        "a[?$.b]",
        "a[?later(@.b)]",
        "a..[?length($.b)>1]",
        &long,
    ] {
        assert!(FieldPath::parse(text).is_err(), "{text} is parsed");
    }
    let deep = format!("a[?{}@.b{}]", "(".repeat(200), ")".repeat(200));
    assert!(FieldPath::parse(&deep).is_err());
}

#[test]
fn two_spellings_are_one_path() {
    let parse = |text: &str| FieldPath::parse(text).unwrap();
    assert_eq!(parse("a.b"), parse("$['a'][\"b\"]"));
    assert_ne!(parse("a.b"), parse("a.c"));
}

#[test]
fn only_a_path_that_begins_with_status_is_in_the_status() {
    for (path, expected) in [
        ("status.ip", true),
        ("$['status'].ip", true),
        ("status..ip", true),
        ("status[?@.x].ip", true),
        ("statuses.ip", false),
        ("spec.status.ip", false),
        ("$..status.ip", false),
        ("$['status','spec'].ip", false),
        ("$[?@.ip].ip", false),
        ("$.*.ip", false),
    ] {
        assert_eq!(FieldPath::parse(path).unwrap().is_in_status(), expected, "{path}");
    }
}
