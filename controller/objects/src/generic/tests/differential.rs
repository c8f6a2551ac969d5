//! The built-in providers' rules, said by config, must come to the same.

use sandgate_routes::Clash;
use serde_json::{Value, json};

use super::build;
use crate::fixture::{BEFORE_NOW, IN_AN_HOUR, NOW, Object};
use crate::provider::Provider;
use crate::{agent_sandbox, openkruise};

fn kruise() -> Box<dyn Provider> {
    let phase = |phases: Value| json!({ "path": "status.phase", "in": phases });
    let ready = json!({ "path": "status.conditions[?@.type=='Ready'].status", "equals": "True" });
    let pooled = json!({
        "path": "metadata.ownerReferences[?@.controller==true && @.kind=='SandboxSet' && @.apiVersion=='agents.kruise.io/v1alpha1'].kind",
        "exists": true,
    });
    build(&json!({
        "kind": "generic",
        "name": "by-config",
        "resource": { "group": "agents.kruise.io", "version": "v1alpha1", "kind": "Sandbox", "plural": "sandboxes" },
        "id": r#"metadata.labels["agents.kruise.io/sandbox-id"]"#,
        "ip": "status.podInfo.podIP",
        "token": [
            r#"metadata.annotations["agents.kruise.io/runtime-access-token"]"#,
            r#"metadata.annotations["e2b.agents.kruise.io/envd-access-token"]"#,
        ],
        "owner": r#"metadata.annotations["agents.kruise.io/owner"]"#,
        "traffic-auth": {
            "path": r#"metadata.annotations["security.agents.kruise.io/enable-jwt-auth"]"#, "equals": "true"
        },
        "dead-at": "spec.shutdownTime",
        "states": [
            { "when": [phase(json!(["Pending"]))], "state": "creating" },
            { "when": [phase(json!(["Succeeded", "Failed", "Terminating"]))], "state": "dead" },
            { "when": [{ "path": "status.podInfo.podIP", "absent": true }], "state": "creating" },
            { "when": [pooled, ready], "state": "available" },
            { "when": [pooled], "state": "creating" },
            { "when": [phase(json!(["Running"])), { "path": "spec.paused", "equals": true }], "state": "paused" },
            { "when": [phase(json!(["Running"])), ready], "state": "running" },
            { "when": [phase(json!(["Running"]))], "state": "creating" },
            { "when": [phase(json!(["Paused", "Resuming", "Upgrading", "Recycling"]))], "state": "paused" },
            { "when": [{ "path": "status.phase", "absent": true }], "state": "paused" },
        ],
        "default-state": "unknown",
    }))
    .unwrap()
}

fn sig() -> Box<dyn Provider> {
    let ready = json!({ "path": "status.conditions[?@.type=='Ready'].status", "equals": "True" });
    let address = json!({ "path": "status.podIPs[0]", "exists": true });
    let reasons = ["PodFailed", "PodSucceeded", "SandboxExpired"];
    build(&json!({
        "kind": "generic",
        "name": "by-config",
        "resource": { "group": "agents.x-k8s.io", "version": "v1beta1", "kind": "Sandbox", "plural": "sandboxes" },
        "ip": "status.podIPs[0]",
        "dead-at": "spec.shutdownTime",
        "states": [
            {
                "when": [
                    ready, address,
                    { "path": r#"metadata.labels["agents.x-k8s.io/warm-pool-sandbox"]"#, "exists": true }
                ],
                "state": "available"
            },
            { "when": [ready, address], "state": "running" },
            { "when": [{ "path": "spec.operatingMode", "equals": "Suspended" }], "state": "paused" },
            { "when": [{ "path": "status.conditions[?@.type=='Finished'].status", "equals": "True" }], "state": "dead" },
            { "when": [{ "path": "status.conditions[?@.type=='Ready'].reason", "in": reasons }], "state": "dead" },
            { "when": [{ "path": "spec.operatingMode", "equals": "Running" }], "state": "creating" },
            { "when": [{ "path": "spec.operatingMode", "absent": true }], "state": "creating" },
        ],
        "default-state": "unknown",
    }))
    .unwrap()
}

fn compare(object: &Object, built_in: &dyn Provider, generic: &dyn Provider) {
    let summary = |provider: &dyn Provider| match object.seen_by(provider) {
        Ok(seen) => {
            let o = &seen.observation;
            let token =
                ["r", "e"].map(|text| o.token.as_ref().is_some_and(|token| token.matches(text.as_bytes())));
            let head =
                (o.key.name().to_owned(), o.id.clone(), o.uid.clone(), o.owner.clone(), o.version.clone());
            let facts = (o.created, o.ip_is_claimed, o.own_id, o.require_traffic_auth, seen.dead_at);
            Ok((head, o.state, o.ip, token, o.token.is_some(), facts))
        }
        // Of two fields that are wrong either may be named.
        Err(_) => Err(()),
    };
    assert_eq!(summary(built_in), summary(generic), "{}", object.0);
}

/// Something done to an object.
type Change = Box<dyn Fn(Object) -> Object>;

/// Every combination of what each dimension may do to an object.
fn combinations(start: Object, dimensions: &[Vec<Change>]) -> Vec<Object> {
    dimensions.iter().fold(vec![start], |objects, choices| {
        objects.iter().flat_map(|object| choices.iter().map(|choice| choice(object.clone()))).collect()
    })
}

fn set(path: &'static [&'static str], values: Vec<Value>) -> Vec<Change> {
    let choice =
        |value: Value| -> Change { Box::new(move |object: Object| object.with(path, value.clone())) };
    values.into_iter().map(choice).collect()
}

fn condition(status: &str, reason: &str) -> Value {
    json!([{ "type": "Other", "status": "True" }, { "type": "Ready", "status": status, "reason": reason }])
}

#[test]
fn openkruise_by_config_is_openkruise() {
    let phases = [
        "Pending",
        "Running",
        "Paused",
        "Resuming",
        "Upgrading",
        "Succeeded",
        "Failed",
        "Recycling",
        "Terminating",
        "Hibernating",
        "",
    ];
    let owner = |version: &str, kind: &str, controller: bool| {
        let owner = json!({ "apiVersion": version, "kind": kind, "name": "p", "controller": controller });
        json!([{ "apiVersion": "v1", "kind": "Node", "name": "n" }, owner])
    };
    let set_version = "agents.kruise.io/v1alpha1";
    let mut phases: Vec<Value> = phases.iter().map(|phase| json!(phase)).collect();
    phases.push(Value::Null);
    let objects = combinations(
        Object::new(),
        &[
            set(&["metadata", "deletionTimestamp"], vec![Value::Null, json!(BEFORE_NOW)]),
            set(&["spec", "shutdownTime"], [BEFORE_NOW, NOW, IN_AN_HOUR].map(Value::from).to_vec()),
            set(&["status", "phase"], phases),
            set(&["spec", "paused"], vec![Value::Null, json!(true)]),
            set(&["status", "conditions"], vec![Value::Null, condition("True", ""), condition("False", "")]),
            set(&["status", "podInfo", "podIP"], vec![json!("10.0.0.1"), json!(""), Value::Null]),
            set(
                &["metadata", "ownerReferences"],
                vec![
                    Value::Null,
                    owner(set_version, "SandboxSet", true),
                    owner(set_version, "SandboxSet", false),
                    owner("agents.kruise.io/v1", "SandboxSet", true),
                    owner(set_version, "SandboxClaim", true),
                ],
            ),
        ],
    );
    assert!(objects.len() > 5_000);
    let (built_in, generic) = (openkruise::provider(Clash::Rank), kruise());
    for object in &objects {
        compare(object, &*built_in, &*generic);
    }
    let annotations = combinations(
        openkruise::tests::running(),
        &[
            set(
                &["metadata", "labels", "agents.kruise.io/sandbox-id"],
                vec![Value::Null, json!(""), json!("id"), json!("a b")],
            ),
            set(
                &["metadata", "annotations", "agents.kruise.io/runtime-access-token"],
                vec![Value::Null, json!(""), json!("r"), json!("x".repeat(5000)), json!(1)],
            ),
            set(
                &["metadata", "annotations", "e2b.agents.kruise.io/envd-access-token"],
                vec![Value::Null, json!("e")],
            ),
            set(
                &["metadata", "annotations", "agents.kruise.io/owner"],
                vec![Value::Null, json!(""), json!("alice")],
            ),
            set(
                &["metadata", "annotations", "security.agents.kruise.io/enable-jwt-auth"],
                vec![Value::Null, json!(""), json!("true"), json!("True")],
            ),
        ],
    );
    for object in &annotations {
        compare(object, &*built_in, &*generic);
    }
}

#[test]
fn agent_sandbox_by_config_is_agent_sandbox() {
    let reasons = [
        "DependenciesReady",
        "DependenciesNotReady",
        "SandboxSuspended",
        "PodSucceeded",
        "PodFailed",
        "SandboxExpired",
        "MultiplePods",
        "ReconcilerError",
        "",
    ];
    let mut conditions = vec![Value::Null, json!([])];
    for reason in reasons {
        for status in ["True", "False"] {
            conditions.push(condition(status, reason));
        }
    }
    for (status, finished) in [("True", "True"), ("False", "True"), ("False", "False")] {
        let mut list = condition(status, "DependenciesNotReady");
        list.as_array_mut().unwrap().push(json!({ "type": "Finished", "status": finished }));
        conditions.push(list);
    }
    let objects = combinations(
        Object::new(),
        &[
            set(&["metadata", "creationTimestamp"], vec![Value::Null, json!(BEFORE_NOW), json!("x")]),
            set(&["metadata", "deletionTimestamp"], vec![Value::Null, json!(BEFORE_NOW)]),
            set(&["spec", "shutdownTime"], vec![Value::Null, json!(BEFORE_NOW), json!(IN_AN_HOUR)]),
            set(
                &["spec", "operatingMode"],
                vec![Value::Null, json!("Running"), json!("Suspended"), json!("Hibernating")],
            ),
            set(
                &["metadata", "labels", "agents.x-k8s.io/warm-pool-sandbox"],
                vec![Value::Null, json!("5f3a")],
            ),
            set(
                &["status", "podIPs"],
                vec![Value::Null, json!([]), json!(["10.0.0.1"]), json!(["fd00::1", "10.0.0.1"])],
            ),
            set(&["status", "conditions"], conditions),
        ],
    );
    let (built_in, generic) = (agent_sandbox::provider(Clash::Rank), sig());
    for object in &objects {
        compare(object, &*built_in, &*generic);
    }
}
