//! The kinds of environments: what is refused, what is filled in, and what `kubectl` shows of them.

use serde_json::{Value, json};

use super::{assert_columns, get, pod_template, start};
use crate::deploy::dry_run;

const API_VERSION: &str = "agents.navix.sh/v1alpha1";
const CEILING: &str = "set maxReplicas: a group in the mode Aggressive has no other end";

fn made(kind: &str, namespace: &str, spec: &Value) -> Value {
    let mut object =
        json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": "one" }, "spec": spec });
    if kind != "SandboxTemplate" {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// An environment with something more in its spec.
fn env(field: &str, value: Value) -> Value {
    let mut spec = json!({ "templateRef": { "name": "python" } });
    spec[field] = value;
    spec
}

fn group(more: Value) -> Value {
    let mut group = json!({ "name": "default", "enabled": true });
    if let (Value::Object(group), Value::Object(more)) = (&mut group, more) {
        group.extend(more);
    }
    env("autoscaling", json!({ "groups": [group] }))
}

fn member(config: Value) -> Value {
    let mut member = json!({ "name": "python-1c" });
    member["config"] = config;
    env("clusters", json!([{ "clusterID": "here", "members": [member] }]))
}

fn pool(field: &str, value: Value) -> Value {
    let mut spec = json!({ "templateName": "python", "replicas": 1, "template": pod_template() });
    spec[field] = value;
    spec
}

/// What can never work, what is said to it, and the same put right.
fn refused() -> Vec<(&'static str, Value, &'static str, Value)> {
    let aggressive = |more: Value| {
        let mut policy = json!({ "scaleUpPolicy": { "mode": "Aggressive" } });
        policy.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        group(policy)
    };
    let volumes = |count: usize| {
        let all: Vec<_> = (0..count)
            .map(|n| json!({ "claimName": format!("c{n}"), "mountPath": format!("/m{n}") }))
            .collect();
        env("overrides", json!({ "volumes": all }))
    };
    vec![
        (
            "SandboxEnv",
            json!({ "mode": "WarmPool" }),
            "templateRef: Required",
            env("mode", json!("WarmPool")),
        ),
        ("SandboxEnv", env("mode", json!("Cold")), "Unsupported value", env("mode", json!("OnDemandJob"))),
        (
            "SandboxEnv",
            env("templateRef", json!({ "name": "" })),
            "should be at least 1 chars",
            env("templateRef", json!({ "name": "t", "version": "1" })),
        ),
        (
            "SandboxEnv",
            env("clusters", json!([{ "clusterID": "a" }, { "clusterID": "a" }])),
            "duplicate entries",
            env("clusters", json!([{ "clusterID": "a" }, { "clusterID": "b" }])),
        ),
        ("SandboxEnv", aggressive(json!({})), CEILING, aggressive(json!({ "maxReplicas": 10 }))),
        (
            "SandboxEnv",
            group(json!({ "scaleDownPolicy": { "idleTimeoutSeconds": -1 } })),
            "should be greater than or equal to 0",
            group(json!({ "scaleDownPolicy": { "idleTimeoutSeconds": 0 } })),
        ),
        (
            "SandboxEnv",
            member(json!({ "maxReplicas": -1 })),
            "should be greater than or equal to 0",
            member(json!({ "maxReplicas": 0, "priority": -1 })),
        ),
        (
            "SandboxEnv",
            member(json!({ "updateStrategy": { "maxUnavailable": "200%" } })),
            "should match",
            member(json!({ "updateStrategy": { "autoUpdate": false, "maxUnavailable": "50%" } })),
        ),
        ("SandboxEnv", volumes(9), "must have at most 8 items", volumes(8)),
        (
            "SandboxEnv",
            env("overrides", json!({ "defaultIdleTimeout": "an hour" })),
            "should match",
            env("overrides", json!({ "defaultIdleTimeout": "1h30m" })),
        ),
        (
            "SandboxPool",
            pool("replicas", json!(-1)),
            "should be greater than or equal to 0",
            pool("replicas", json!(0)),
        ),
        (
            "SandboxPool",
            pool("maxUnavailable", json!("5")),
            "should match",
            pool("maxUnavailable", json!("5%")),
        ),
        (
            "SandboxPool",
            pool("maxUnavailable", json!(-1)),
            "should be greater than or equal to 0",
            pool("maxUnavailable", json!(1)),
        ),
        (
            "SandboxPool",
            pool("podCreationImagePolicy", json!("Any")),
            "Unsupported value",
            pool("podCreationImagePolicy", json!("PoolDefaultImage")),
        ),
        (
            "SandboxTemplate",
            json!({ "template": { "spec": {} } }),
            "spec.template.spec.containers: Required",
            json!({ "template": pod_template(), "idleImage": "pause", "runtimes": [{ "name": "e2b", "port": 1 }] }),
        ),
    ]
}

#[tokio::test]
async fn what_can_never_work_of_an_environment_is_refused_with_what_to_do_instead() {
    let (server, namespace) = start().await;
    for (kind, bad, says, good) in refused() {
        let good = made(kind, &namespace, &good);
        dry_run(&server, &good).await.unwrap_or_else(|error| panic!("{error} for {good}"));
        let bad = made(kind, &namespace, &bad);
        let message =
            server.dry_run(&bad).await.err().unwrap_or_else(|| panic!("{bad} is taken")).to_string();
        assert!(message.contains(says), "{message:?} does not say {says:?}");
    }
    for kind in ["SandboxEnv", "SandboxPool"] {
        let mut long = made(kind, &namespace, &env("templateRef", json!({ "name": "t" })));
        if kind == "SandboxPool" {
            long["spec"] = pool("replicas", json!(0));
        }
        long["metadata"]["name"] = json!("x".repeat(64));
        let message = server.dry_run(&long).await.expect_err("too long a name").to_string();
        assert!(message.contains("have it as a label"), "{message}");
    }
}

#[tokio::test]
async fn an_environment_has_its_defaults_its_columns_and_a_scale() {
    let (server, namespace) = start().await;
    let mut env = made("SandboxEnv", &namespace, &member(json!({})));
    env["spec"]["autoscaling"] = json!({ "groups": [{ "name": "default" }] });
    server.apply_when_served(&env).await;
    let pool = made("SandboxPool", &namespace, &pool("replicas", json!(2)));
    server.apply_when_served(&pool).await;

    let place = format!("/apis/{API_VERSION}/namespaces/{namespace}");
    let kept = get(&server, &format!("{place}/sandboxenvs/one"), "application/json").await;
    let spec = &kept["spec"];
    assert_eq!(spec["mode"], "WarmPool");
    let config = &spec["clusters"][0]["members"][0]["config"];
    assert_eq!((&config["scalingGroup"], &config["maxReplicas"]), (&json!("default"), &json!(0)));
    let group = &spec["autoscaling"]["groups"][0];
    assert_eq!(group["enabled"], false);
    let up = json!({
        "mode": "Default", "cooldownSeconds": 30, "idleThresholdSeconds": 30, "idleZeroQuietWindowSeconds": 300,
        "saturationCooldownSeconds": 60,
    });
    let down =
        json!({ "idleTimeoutSeconds": 300, "stabilizationSeconds": 60, "protectionWindowSeconds": 10 });
    assert_eq!((&group["scaleUpPolicy"], &group["scaleDownPolicy"]), (&up, &down));

    for (plural, shown) in [
        ("sandboxenvs", "Name Mode Template Members Running Idle Ready Age"),
        ("sandboxpools", "Name Phase Replicas Idle Unavail Running Starting Stopping Failed Age"),
    ] {
        assert_columns(&server, API_VERSION, &namespace, (plural, shown, "")).await;
    }
    let scale = get(&server, &format!("{place}/sandboxpools/one/scale"), "application/json").await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    let names = get(&server, &format!("/apis/{API_VERSION}"), "application/json").await;
    let named: Vec<_> = names["resources"].as_array().expect("resources").iter().collect();
    for (plural, short, is_namespaced) in
        [("sandboxenvs", "sbe", true), ("sandboxpools", "sbp", true), ("sandboxtemplates", "sbt", false)]
    {
        let found = named.iter().find(|resource| resource["name"] == plural).expect("a resource");
        let wanted = (&json!([short]), &json!(is_namespaced));
        assert_eq!((&found["shortNames"], &found["namespaced"]), wanted, "{plural}");
    }
}
