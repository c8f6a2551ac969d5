//! Objects to be made.

use serde_json::{Value, json};

/// A pod template with one container, `sandbox`, of an image of `tests/cluster/images.yaml`. That of envd is
/// ready when envd answers.
pub fn pod_template(image: &str) -> Value {
    let mut container = json!({ "name": "sandbox", "image": image });
    if image.split(':').next() == Some("envd") {
        let get = json!({ "path": "/health", "port": 49983 });
        // On a loaded machine an answer may take longer than the second that is the default.
        container["readinessProbe"] = json!({ "httpGet": get, "periodSeconds": 1, "timeoutSeconds": 10 });
    }
    json!({
        "metadata": { "labels": {} },
        "spec": {
            "containers": [container],
            // Nothing in it speaks to the API server, and nothing is kept when it goes.
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
        },
    })
}

/// A sandbox of its own.
pub fn sandbox(name: &str, template: &Value) -> Value {
    json!({
        "apiVersion": "agents.kruise.io/v1alpha1",
        "kind": "Sandbox",
        "metadata": { "name": name },
        "spec": { "template": template },
    })
}

/// A set that keeps so many sandboxes warm.
pub fn sandbox_set(name: &str, replicas: u32, template: &Value) -> Value {
    json!({
        "apiVersion": "agents.kruise.io/v1alpha1",
        "kind": "SandboxSet",
        "metadata": { "name": name },
        "spec": { "replicas": replicas, "template": template },
    })
}

/// A pool that keeps between `buffer[0]` and `buffer[1]` pods ready, and has between `bounds[0]` and
/// `bounds[1]` in all.
pub fn pool(name: &str, template: &Value, buffer: [u32; 2], bounds: [u32; 2]) -> Value {
    json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1",
        "kind": "Pool",
        "metadata": { "name": name },
        "spec": {
            "template": template,
            "capacitySpec": {
                "bufferMin": buffer[0], "bufferMax": buffer[1], "poolMin": bounds[0], "poolMax": bounds[1],
            },
        },
    })
}

/// So many sandboxes, each a pod of its own by this template.
pub fn batch_sandbox(name: &str, replicas: u32, template: &Value) -> Value {
    json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1",
        "kind": "BatchSandbox",
        "metadata": { "name": name },
        "spec": { "replicas": replicas, "template": template },
    })
}

/// So many sandboxes of a pool's pods.
pub fn pooled(name: &str, replicas: u32, pool: &str) -> Value {
    json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1",
        "kind": "BatchSandbox",
        "metadata": { "name": name },
        "spec": { "replicas": replicas, "poolRef": pool },
    })
}

/// A template of environments: one container, `sandbox`, that waits with the image `idle` and runs `image` as
/// a sandbox.
pub fn env_template(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "agents.navix.sh/v1alpha1",
        "kind": "SandboxTemplate",
        "metadata": { "name": name },
        "spec": { "version": "1", "idleImage": "idle", "template": pod_template(image) },
    })
}

/// An environment with so many pods in each of these pools of a cluster.
pub fn sandbox_env(name: &str, template: &str, cluster: &str, members: &[(&str, u32)]) -> Value {
    let member = |(member, replicas): &(&str, u32)| json!({ "name": member, "spec": { "replicas": replicas }, "config": { "scalingGroup": "" } });
    json!({
        "apiVersion": "agents.navix.sh/v1alpha1",
        "kind": "SandboxEnv",
        "metadata": { "name": name },
        "spec": {
            "templateRef": { "name": template },
            "clusters": [{ "clusterID": cluster, "members": members.iter().map(member).collect::<Vec<_>>() }],
        },
    })
}

/// Images to be made of a sandbox.
pub fn snapshot(name: &str, sandbox: &str) -> Value {
    json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1",
        "kind": "SandboxSnapshot",
        "metadata": { "name": name },
        "spec": { "sandboxName": sandbox },
    })
}
