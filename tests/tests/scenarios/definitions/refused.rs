//! What the definitions refuse.

use serde_json::{Value, json};

use super::pod_template;

/// Something that can never work, what the server must say to it, and the same put right.
pub(super) struct Case {
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    pub(super) spec: Value,
    pub(super) says: &'static str,
    pub(super) good_name: &'static str,
    pub(super) good: Value,
}

const TOO_LONG: &str = "x123456789x123456789x123456789x123456789x123456789x123456789x123";
const LONGEST: &str = "x123456789x123456789x123456789x123456789x123456789x123456789x12";
const ONE_TEMPLATE: &str = "set exactly one of template (a pod template) and templateRef";
const SHARE: &str = "set a number of sandboxes, or a share of 0% to 100%";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        named(
            "Sandbox",
            json!({ "template": pod_template() }),
            "its pod and its volume claims have it as a label",
        ),
        named(
            "SandboxSet",
            json!({ "replicas": 1, "templateRef": { "name": "t" } }),
            "its sandboxes have it as a label",
        ),
        case(
            "SandboxSet",
            json!({ "template": pod_template() }),
            "spec.replicas: Required",
            json!({ "replicas": 0, "template": pod_template() }),
        ),
        with("replicas", json!(-1), "should be greater than or equal to 0", json!(0)),
        case(
            "Checkpoint",
            json!({}),
            "set sandboxName, or podName for a pod without a sandbox",
            json!({ "podName": "a" }),
        ),
        case(
            "Checkpoint",
            json!({ "sandboxName": "" }),
            "should be at least 1 chars",
            json!({ "sandboxName": "a" }),
        ),
        case(
            "Checkpoint",
            json!({ "sandboxName": "a", "ttlAfterFinished": "soon" }),
            "should match",
            json!({ "sandboxName": "a", "ttlAfterFinished": "30d" }),
        ),
        case(
            "Checkpoint",
            json!({ "sandboxName": "a", "persistentContents": ["ip"] }),
            "Unsupported value: \"ip\"",
            json!({ "sandboxName": "a", "persistentContents": ["podInfo", "memory"] }),
        ),
    ];
    for kind in ["Sandbox", "SandboxSet"] {
        let both = json!({ "replicas": 1, "template": pod_template(), "templateRef": { "name": "t" } });
        let one = json!({ "replicas": 1, "templateRef": { "name": "t" } });
        let neither = json!({ "replicas": 1 });
        cases.push(case(kind, of(kind, both), ONE_TEMPLATE, of(kind, one.clone())));
        cases.push(case(kind, of(kind, neither), ONE_TEMPLATE, of(kind, one)));
    }
    // Templates: what no pod can be made of.
    for (template, says) in [
        (json!("a text"), "must be of type object"),
        (json!({}), "spec.template.spec: Required value"),
        (json!({ "spec": {} }), "spec.template.spec.containers: Required value"),
        (json!({ "spec": { "containers": [] } }), "should have at least 1 items"),
    ] {
        for kind in ["Sandbox", "SandboxSet", "SandboxTemplate"] {
            let spec = |template: &Value| of(kind, json!({ "replicas": 1, "template": template }));
            cases.push(case(kind, spec(&template), says, spec(&pod_template())));
        }
    }
    for (reference, says) in [
        (json!({}), "spec.templateRef.name: Required value"),
        (json!({ "name": "" }), "should be at least 1 chars"),
        (json!({ "name": "t", "kind": "PodTemplate" }), "leave kind out, or set it to SandboxTemplate"),
        (
            json!({ "name": "t", "apiVersion": "v1" }),
            "leave apiVersion out, or set it to agents.kruise.io/v1alpha1",
        ),
    ] {
        let good =
            json!({ "name": "t", "kind": "SandboxTemplate", "apiVersion": "agents.kruise.io/v1alpha1" });
        cases.push(case(
            "Sandbox",
            json!({ "templateRef": reference }),
            says,
            json!({ "templateRef": good }),
        ));
    }
    for strategy in ["scaleStrategy", "updateStrategy"] {
        let share = |value: Value| json!({ "maxUnavailable": value });
        for bad in [json!("101%"), json!("200%"), json!("1000%")] {
            cases.push(with(strategy, share(bad), SHARE, share(json!("100%"))));
        }
        cases.push(with(strategy, share(json!(-1)), "should be greater than or equal to 0", share(json!(0))));
        for bad in [json!("-1%"), json!("half"), json!("5"), json!("1.5%"), json!("")] {
            cases.push(with(strategy, share(bad), "should match '^[0-9]+%$'", share(json!("0%"))));
        }
        cases.push(with(strategy, share(json!(1.5)), "must be of type", share(json!(1000))));
    }
    cases.extend(fields());
    cases
}

/// Fields with a few values, and volume claims.
fn fields() -> Vec<Case> {
    let claims = |names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| json!({ "metadata": { "name": name }, "spec": { "accessModes": [] } }))
            .collect()
    };
    vec![
        with(
            "volumeClaimTemplates",
            claims(&["data", "data"]),
            "give each volume claim template a name of its own",
            claims(&["data", "more"]),
        ),
        with("volumeClaimTemplates", claims(&["Data"]), "should match", claims(&["data"])),
        with("volumeClaimTemplates", claims(&[TOO_LONG]), "63", claims(&[LONGEST])),
        with("volumeClaimTemplates", json!([{ "spec": {} }]), "metadata: Required value", claims(&["data"])),
        with(
            "persistentContents",
            json!(["everything"]),
            "Unsupported value: \"everything\"",
            json!(["ip", "memory", "filesystem"]),
        ),
        with(
            "runtimes",
            json!([{ "name": "other" }]),
            "Unsupported value: \"other\"",
            json!([{ "name": "csi" }]),
        ),
        with(
            "pauseStrategy",
            json!({ "type": "Sleep" }),
            "Unsupported value: \"Sleep\"",
            json!({ "type": "Hibernate", "hibernateStrategy": { "type": "Snapshot" } }),
        ),
        sandbox_with(
            "shutdownTime",
            json!("tomorrow"),
            "must be of type date-time",
            json!("2027-01-01T00:00:00Z"),
        ),
        sandbox_with("pauseTime", json!(""), "must be of type date-time", json!("2027-01-01T00:00:00+01:00")),
        sandbox_with(
            "upgradePolicy",
            json!({ "type": "InPlace" }),
            "Unsupported value: \"InPlace\"",
            json!({ "type": "" }),
        ),
        sandbox_with(
            "lifecycle",
            json!({ "preUpgrade": { "exec": { "command": [] } } }),
            "should have at least 1 items",
            json!({ "preUpgrade": { "exec": { "command": ["true"] } } }),
        ),
        sandbox_with(
            "lifecycle",
            json!({ "postUpgrade": { "timeoutSeconds": -1 } }),
            "should be greater than or equal to 0",
            json!({ "postUpgrade": { "timeoutSeconds": 0 } }),
        ),
    ]
}

pub(super) fn case(kind: &'static str, spec: Value, says: &'static str, good: Value) -> Case {
    Case { kind, name: "one", spec, says, good_name: "one", good }
}

/// A name that does not fit a label.
pub(super) fn named(kind: &'static str, spec: Value, says: &'static str) -> Case {
    Case { kind, name: TOO_LONG, spec: spec.clone(), says, good_name: LONGEST, good: spec }
}

/// A set with one field more.
fn with(field: &str, bad: Value, says: &'static str, good: Value) -> Case {
    let spec = |value: Value| {
        let mut spec = json!({ "replicas": 1, "template": pod_template() });
        spec[field] = value;
        spec
    };
    case("SandboxSet", spec(bad), says, spec(good))
}

/// A sandbox with one field more.
fn sandbox_with(field: &str, bad: Value, says: &'static str, good: Value) -> Case {
    let spec = |value: Value| {
        let mut spec = json!({ "template": pod_template() });
        spec[field] = value;
        spec
    };
    case("Sandbox", spec(bad), says, spec(good))
}

/// A spec of a set as one of this kind: only a set has replicas.
fn of(kind: &str, mut spec: Value) -> Value {
    if kind != "SandboxSet" {
        spec.as_object_mut().expect("a spec").remove("replicas");
    }
    spec
}
