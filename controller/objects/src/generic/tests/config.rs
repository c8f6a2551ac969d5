use serde_json::{Value, json};

use super::{build, smallest, with};
use crate::config::ProviderConfig;

fn rule(when: impl Into<Value>, state: &str) -> Value {
    json!({ "when": when.into(), "state": state })
}

fn good() -> Vec<Value> {
    let a = json!({ "path": "a", "equals": "x" });
    vec![
        json!({ "kind": "openkruise" }),
        json!({ "kind": "agent-sandbox", "namespaces": ["a"], "label-selector": "x=y" }),
        json!({ "kind": "opensandbox", "namespaces": [] }),
        json!({ "kind": "sandbox-env", "clash": "refuse", "any-address": false }),
        smallest(),
        with("/id", json!("metadata.name")),
        with("/id", json!(["metadata.labels[\"x/y\"]", "metadata.name"])),
        with("/token", json!("metadata.annotations.t")),
        with("/owner", json!("metadata.annotations.o")),
        with("/dead-at", json!("spec.end")),
        with("/traffic-auth", json!({ "path": "spec.jwt", "in": [true] })),
        with("/traffic-auth", json!({ "path": "spec.jwt", "exists": true })),
        with("/id", json!("$..id")),
        with("/dead-at", json!("spec.times[?@.kind=='end'].at")),
        with(
            "/states",
            json!([
                rule(json!([{ "path": "a", "at-least": 2 }]), "paused"),
                rule(json!([{ "path": "a", "at-least": 1 }]), "dead")
            ]),
        ),
        with(
            "/states",
            json!([
                rule(json!([a, { "path": "b", "absent": true }]), "paused"),
                rule(json!([a]), "available")
            ]),
        ),
        with(
            "/states",
            json!([
                rule(json!([{ "path": "a", "in": ["x", "y"] }]), "paused"),
                rule(json!([{ "path": "a", "in": ["y", "z"] }]), "dead")
            ]),
        ),
    ]
}

/// Configs that schema and parser both refuse, with the key and a word of the reason.
fn bad() -> Vec<(Value, &'static str, &'static str)> {
    let when = "/states/0/when/0";
    let test = |test: Value| with(when, test);
    vec![
        (json!([]), "top level", "expected an object"),
        (json!({}), "top level", "missing field `kind`"),
        (
            json!({ "kind": "Openkruise" }),
            "kind",
            "expected one of openkruise, agent-sandbox, opensandbox, sandbox-env, generic",
        ),
        (json!({ "kind": "openkruise", "name": "x" }), "name", "only for the kind generic"),
        (json!({ "kind": "openkruise", "ip": "a.b" }), "ip", "only for the kind generic"),
        (json!({ "kind": "openkruise", "colour": 1 }), "colour", "unknown field"),
        (json!({ "kind": "openkruise", "namespaces": null }), "namespaces", "expected a sequence"),
        (with("/name", Value::Null), "name", "needs this key"),
        (with("/name", json!("A")), "name", "a-z"),
        (with("/name", json!("a-")), "name", "a-z"),
        (with("/resource", Value::Null), "resource", "needs this key"),
        (with("/resource", json!([])), "resource", "expected an object"),
        (with("/resource/plural", Value::Null), "resource", "missing field `plural`"),
        (with("/resource/scope", json!("x")), "resource.scope", "unknown field"),
        (with("/ip", Value::Null), "ip", "needs this key"),
        (with("/ip", json!([])), "ip", "at least one path"),
        (with("/ip", json!(vec!["a"; 9])), "ip", "at most 8"),
        (with("/traffic-auth", json!({ "path": "a" })), "traffic-auth", "exactly one of"),
        (with("/id", json!("")), "id", "JSONPath"),
        (with("/id", json!("a".repeat(513))), "id", "at most 512 bytes"),
        (with("/default-state", Value::Null), "default-state", "needs this key"),
        (with("/default-state", json!("gone")), "default-state", "one of creating"),
        (with("/states", Value::Null), "states", "needs this key"),
        (with("/states", json!([])), "states", "1 to 64 rules"),
        (with("/states/0/when", json!([])), "states[0].when", "1 to 16 conditions"),
        (with("/states/0/state", json!("Running")), "states[0].state", "one of creating"),
        (with("/states/0/else", json!("dead")), "states[0].else", "unknown field"),
        (test(json!({ "path": "a" })), "states[0].when[0]", "exactly one of"),
        (test(json!({ "path": "a", "equals": 1, "exists": true })), "states[0].when[0]", "exactly one of"),
        (
            test(json!({ "path": "a", "equals": null })),
            "states[0].when[0].equals",
            "a text that is not empty",
        ),
        (test(json!({ "path": "a", "equals": "" })), "states[0].when[0].equals", "ask with `absent`"),
        (test(json!({ "path": "a", "equals": 1.5 })), "states[0].when[0].equals", "whole number"),
        (
            test(json!({ "path": "a", "equals": 9_007_199_254_740_993_i64 })),
            "states[0].when[0].equals",
            "to 9007199254740992",
        ),
        (test(json!({ "path": "a", "in": [] })), "states[0].when[0].in", "1 to 64"),
        (test(json!({ "path": "a", "exists": false })), "states[0].when[0].exists", "expected true"),
        (test(json!({ "path": "a", "at-least": "1" })), "states[0].when[0].at-least", "expected i64"),
        (test(json!({ "path": "a", "at-least": i64::MIN })), "states[0].when[0].at-least", "2^53"),
        (test(json!(["a", 1])), "states[0].when[0]", "expected an object"),
    ]
}

/// What the schema cannot say.
fn beyond_the_schema() -> Vec<(Value, &'static str, &'static str)> {
    let x = json!({ "path": "a", "equals": "x" });
    let y = json!({ "path": "a", "equals": "y" });
    let two =
        |first: Value, second: Value| with("/states", json!([rule(first, "paused"), rule(second, "dead")]));
    vec![
        (with("/ip", json!(["a", "a b"])), "ip[1]", "written [\"key\"]"),
        (with("/id", json!("[a=b]")), "id", "[?@.type=='Ready']"),
        (with("/dead-at", json!("a[b=")), "dead-at", "JSONPath"),
        (with("/states/0/when/0", json!({ "path": "a...b", "equals": 1 })), "states[0].when[0].path", "A-Z"),
        (with("/name", json!("opensandbox")), "name", "another source"),
        (with("/name", json!("file")), "name", "another source"),
        (with("/resource/group", json!("")), "resource.group", "1 to 253"),
        (with("/resource/plural", json!("a/b")), "resource.plural", "letters"),
        (
            with("/states/0/when/0", json!({ "path": "a", "in": ["x", 1] })),
            "states[0].when[0].in",
            "one type",
        ),
        (with("/states/0/when", json!([x, y])), "states[0].when[1]", "cannot hold together"),
        (
            with("/states/0/when", json!([x, { "path": "a", "absent": true }])),
            "states[0].when[1]",
            "cannot hold",
        ),
        (
            with("/states/0/when", json!([{ "path": "a", "at-least": 3 }, { "path": "a", "equals": 2 }])),
            "states[0].when[1]",
            "cannot hold",
        ),
        (two(json!([x]), json!([x])), "states[1]", "never reached: states[0]"),
        (two(json!([x]), json!([{ "path": "b", "exists": true }, x])), "states[1]", "never reached"),
        (two(json!([{ "path": "a", "in": ["y", "x"] }]), json!([x])), "states[1]", "never reached"),
        (two(json!([{ "path": "a", "exists": true }]), json!([x])), "states[1]", "never reached"),
        (
            two(json!([{ "path": "a", "at-least": 1 }]), json!([{ "path": "a", "at-least": 2 }])),
            "states[1]",
            "never reached",
        ),
    ]
}

#[test]
fn a_refusal_names_the_key_and_what_was_expected() {
    for (config, key, word) in bad().into_iter().chain(beyond_the_schema()) {
        let Err(error) = build(&config) else { panic!("{config} is accepted") };
        assert_eq!(error.key, key, "{config} gave {error}");
        assert!(error.reason.contains(word), "{config} gave {error}, without {word:?}");
    }
}

#[test]
fn schema_and_parser_judge_alike() {
    let schema = schemars::schema_for!(ProviderConfig).into();
    let schema = jsonschema::validator_for(&schema).expect("the schema is a schema");
    for config in good() {
        assert!(schema.is_valid(&config), "the schema refuses {config}");
        if let Err(error) = build(&config) {
            panic!("{config} is refused: {error}");
        }
    }
    for (config, ..) in bad() {
        assert!(!schema.is_valid(&config), "the schema takes {config}");
    }
    for (config, ..) in beyond_the_schema() {
        assert!(schema.is_valid(&config), "{config} could move to the configs both refuse");
    }
}

#[test]
fn the_built_in_have_their_names_and_resources() {
    for (kind, resource) in [
        ("openkruise", "sandboxes.v1alpha1.agents.kruise.io Sandbox"),
        ("agent-sandbox", "sandboxes.v1beta1.agents.x-k8s.io Sandbox"),
        ("opensandbox", "batchsandboxes.v1alpha1.sandbox.opensandbox.io BatchSandbox"),
        ("sandbox-env", "pods.v1. Pod"),
    ] {
        let provider = build(&json!({ "kind": kind })).unwrap();
        let found = provider.resource();
        assert_eq!(provider.name(), kind);
        assert_eq!(format!("{}.{}.{} {}", found.plural, found.version, found.group, found.kind), resource);
    }
    let generic = build(&smallest()).unwrap();
    assert_eq!((generic.name(), generic.resource().plural.as_str()), ("boxes", "boxes"));
}
