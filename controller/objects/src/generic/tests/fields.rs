use sandgate_routes::State;
use serde_json::{Value, json};

use super::{build, smallest, with};
use crate::fixture::{BEFORE_NOW, IN_AN_HOUR, Object, now};

fn up() -> Object {
    Object::new().with(&["status"], json!({ "up": true, "ip": "10.0.0.1" }))
}

fn ip_at(path: &str, object: &Object) -> Result<Option<String>, String> {
    let provider = build(&with("/ip", json!(path))).unwrap();
    match object.seen_by(&*provider) {
        Ok(seen) => Ok(seen.observation.ip.map(|ip| ip.to_string())),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn one_that_is_deleted_or_past_its_end_is_dead_before_any_rule() {
    let provider = build(&with("/dead-at", json!("spec.end"))).unwrap();
    assert_eq!(up().state(&*provider), State::Running);
    assert_eq!(up().deleting().state(&*provider), State::Dead);
    assert_eq!(up().with(&["spec", "end"], BEFORE_NOW).state(&*provider), State::Dead);
    let seen = up().with(&["spec", "end"], IN_AN_HOUR).seen_by(&*provider).unwrap();
    assert_eq!(seen.dead_at.unwrap().duration_since(now()).unwrap().as_secs(), 3600);
}

#[test]
fn a_running_one_without_an_address_is_creating() {
    let provider = build(&smallest()).unwrap();
    assert_eq!(up().with(&["status", "ip"], "").state(&*provider), State::Creating);
}

#[test]
fn paths_lead_through_lists_to_the_first_value_that_matches() {
    let list = json!([
        null,
        { "kind": "a", "ip": "10.0.0.1" },
        { "ip": "10.0.0.2", "kind": "b", "more": [{ "on": false, "ip": "10.0.0.3" }, { "on": true, "ip": "10.0.0.4" }] },
        { "ip": "10.0.0.5", "kind": "b" },
        { "kind": "c" },
        { "kind": "c", "ip": "10.0.0.6" },
    ]);
    let object = up().with(&["spec", "list"], list);
    for (path, expected) in [
        ("spec.list[1].ip", Some("10.0.0.1")),
        ("spec.list[0].ip", None),
        ("spec.list[9].ip", None),
        ("spec.list[?@.kind=='b'].ip", Some("10.0.0.2")),
        ("spec.list[?@.kind=='b'].more[?@.on==true].ip", Some("10.0.0.4")),
        ("spec.list[?@.kind=='b'].more[0].ip", Some("10.0.0.3")),
        ("spec.list[?@.kind=='b' && @.ip=='10.0.0.5'].ip", Some("10.0.0.5")),
        ("spec.list[?@.kind=='c'].ip", Some("10.0.0.6")),
        ("spec.list[?@.kind=='d'].ip", None),
        ("spec.nothing[?@.kind=='d'].ip", None),
    ] {
        assert_eq!(ip_at(path, &object), Ok(expected.map(str::to_owned)), "{path}");
    }
}

#[test]
fn a_path_through_something_else_is_unreadable() {
    let object =
        up().with(&["spec"], json!({ "text": "x", "list": ["x"], "object": { "a": 1, "b c": true } }));
    for (path, error) in [
        ("spec.text.a", "spec.text: expected an object, found a text"),
        ("spec.text[0]", "spec.text: expected a list, found a text"),
        ("spec.text[0:2]", "spec.text: expected a list, found a text"),
        ("spec.text[*]", "spec.text: expected an object or a list, found a text"),
        ("spec.text[?@.a=='b']", "spec.text: expected an object or a list, found a text"),
        ("spec.text['a', 0]", "spec.text: expected an object or a list, found a text"),
        ("spec.object[0]", "spec.object: expected a list, found an object"),
        ("spec.object['a', 'b'].c", "spec.object.a: expected an object, found a number"),
        ("spec.object[\"b c\"].d", "spec.object[\"b c\"]: expected an object, found a boolean"),
        ("spec.list.a", "spec.list: expected an object, found a list"),
        ("spec.list[*].a", "spec.list[0]: expected an object, found a text"),
        ("spec..a.b", "spec.object.a: expected an object, found a number"),
        ("spec.list[?@.a=='b'].c", "spec.list[0]: expected an object, found a text"),
        ("spec.list[?@=='y' || !@.a].c", "spec.list[0]: expected an object, found a text"),
        ("spec.list[?length(@.a)>1 && match(@[0], 'x')].c", "spec.list[0]: expected an object, found a text"),
        ("spec[?@.a[?@.b].c]", "spec.list: expected an object, found a list"),
        ("spec.object", "spec.object: expected a text"),
        ("spec.object.a", "spec.object.a: expected a text"),
        ("spec.list", "spec.list: expected a text"),
    ] {
        assert_eq!(ip_at(path, &object), Err(error.to_owned()), "{path}");
    }
    for path in ["spec.list[?@=='y']", "spec.none.a[0].b", "spec..none", "spec.list[7].a"] {
        assert_eq!(ip_at(path, &object), Ok(None), "{path}");
    }
}

#[test]
fn an_error_names_a_key_with_any_characters() {
    for key in ["a", "é", "x.y/z", "it's", "say \"x\"", "\u{1}\n\t", "\u{1f600}", ""] {
        let object = up().with(&["spec", key], json!(1));
        for path in ["spec.*.a", "spec[?@.a]"] {
            let error = ip_at(path, &object).unwrap_err();
            assert!(error.starts_with("spec"), "{error}");
            assert!(error.len() > "spec: expected an object, found a number".len(), "{error}");
        }
    }
}

/// `traffic-auth` in particular: taken for absent, such a field would open the sandbox.
#[test]
fn a_path_through_something_else_is_unreadable_for_every_key() {
    let condition = |path: &str| json!({ "path": path, "exists": true });
    let set = |pointer: &str, value: Value| build(&with(pointer, value)).unwrap();
    for path in ["spec.auth.on", "spec.auth[0]", "spec.list[?@.name=='auth'].on"] {
        for provider in [
            set("/id", json!(path)),
            set("/ip", json!(["status.ip", path])),
            set("/token", json!(path)),
            set("/owner", json!(path)),
            set("/dead-at", json!(path)),
            set("/traffic-auth", condition(path)),
            set("/traffic-auth", json!({ "path": path, "absent": true })),
            set("/states/0/when/0", condition(path)),
        ] {
            for wrong in [json!("on"), json!(true), json!(1)] {
                let object = up().with(&["spec"], json!({ "auth": wrong, "list": [wrong] }));
                let error = object.seen_by(&*provider).unwrap_err();
                assert!(["spec.auth", "spec.list[0]"].contains(&error.path.as_str()), "{path}: {error}");
            }
            for nothing in [json!({}), json!({ "auth": null, "list": [null] }), Value::Null] {
                up().with(&["spec"], nothing).seen_by(&*provider).unwrap();
            }
        }
    }
}

#[test]
fn a_value_of_another_type_than_it_is_compared_with_is_unreadable() {
    for (test, value) in [
        (json!({ "path": "spec.x", "equals": true }), json!("true")),
        (json!({ "path": "spec.x", "equals": "1" }), json!(1)),
        (json!({ "path": "spec.x", "in": [1, 2] }), json!("1")),
        (json!({ "path": "spec.x", "at-least": 1 }), json!({})),
    ] {
        let provider = build(&with("/states/0/when/0", test)).unwrap();
        let error = up().with(&["spec", "x"], value).seen_by(&*provider).unwrap_err();
        assert_eq!(error.path, "spec.x");
    }
}

#[test]
fn each_test_of_a_field_holds_when_it_should() {
    let cases = [
        (json!({ "equals": "x" }), vec![json!("x")], vec![json!("y"), json!(""), Value::Null]),
        (json!({ "in": [1, 2] }), vec![json!(1), json!(2.0)], vec![json!(3), json!(1.5), Value::Null]),
        (json!({ "at-least": 2 }), vec![json!(2), json!(u64::MAX)], vec![json!(1), json!(-5), Value::Null]),
        (
            json!({ "exists": true }),
            vec![json!("x"), json!(false), json!([]), json!(0)],
            vec![json!(""), Value::Null],
        ),
        (json!({ "absent": true }), vec![json!(""), Value::Null], vec![json!("x"), json!({}), json!(0)]),
    ];
    for (mut test, holds, fails) in cases {
        test["path"] = json!("spec.x");
        let provider = build(&with("/states/0/when/0", test.clone())).unwrap();
        let running = |value: Value| up().with(&["spec", "x"], value).state(&*provider) == State::Running;
        for value in holds {
            assert!(running(value.clone()), "{test} does not hold for {value}");
        }
        for value in fails {
            assert!(!running(value.clone()), "{test} holds for {value}");
        }
    }
}

/// An object with this JSON in its spec.
fn with_spec(spec: &str) -> String {
    let metadata = r#"{"name":"a","uid":"u","resourceVersion":"1"}"#;
    format!(r#"{{"metadata":{metadata},"spec":{spec},"status":{{"up":true,"ip":"10.0.0.1"}}}}"#)
}

#[test]
fn a_key_given_twice_is_refused() {
    let provider = build(&smallest()).unwrap();
    for (spec, error) in [
        (r#"{"up":true,"up":false}"#, "spec: duplicate field `up`"),
        (r#"{"list":[{},{"a":{"b":1,"c":2,"b":1}}]}"#, "spec.list[1].a: duplicate field `b`"),
        (r#"{"a":1,"\u0061":2}"#, "spec: duplicate field `a`"),
        (r#"{},"spec":{}"#, "object: duplicate field `spec`"),
    ] {
        let found = provider.project(with_spec(spec).as_bytes(), now()).unwrap_err();
        assert_eq!(found.to_string(), error);
    }
    provider.project(with_spec(r#"[{"a":1},{"a":1}]"#).as_bytes(), now()).unwrap();
}

#[test]
fn an_object_that_is_too_deep_is_refused() {
    let provider = build(&with("/owner", json!("$..none"))).unwrap();
    let nested = |open: &str, close: &str, depth: usize| {
        let object = with_spec(&format!("{}1{}", open.repeat(depth), close.repeat(depth)));
        provider.project(object.as_bytes(), now())
    };
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        nested(open, close, 126).unwrap();
        for depth in [127, 1_000_000] {
            let error = nested(open, close, depth).unwrap_err();
            assert!(error.path.starts_with("spec"), "{error}");
            assert_eq!(error.reason, "not JSON: recursion limit exceeded");
        }
    }
}

#[test]
fn metadata_that_is_missing_or_wrong_is_named() {
    let provider = build(&smallest()).unwrap();
    for (key, value, error) in [
        ("name", json!(1), "metadata.name: expected a text, found a number"),
        (
            "name",
            Value::Null,
            "metadata.name: a name has 1 to 253 bytes, none of them '/', ':' or a control character",
        ),
        ("labels", json!([]), "metadata.labels: expected an object, found a list"),
        (
            "resourceVersion",
            json!("x"),
            "metadata.resourceVersion: expected a positive decimal number: a version has only decimal digits",
        ),
    ] {
        let found = up().with(&["metadata", key], value).seen_by(&*provider).unwrap_err();
        assert_eq!(found.to_string(), error);
    }
    for object in ["[]", "null", "", "{", "{} {}", r#"{"metadata":"S3CRET"}"#] {
        let found = provider.project(object.as_bytes(), now()).unwrap_err().to_string();
        assert!(!found.contains("S3CRET"), "{found}");
    }
}

#[test]
fn an_object_without_a_namespace_is_known_by_its_name() {
    let provider = build(&smallest()).unwrap();
    let seen = up().with(&["metadata", "namespace"], Value::Null).seen_by(&*provider).unwrap().observation;
    assert_eq!((seen.id.as_str(), seen.key.to_string().as_str()), ("demo", "boxes:/demo"));
}
