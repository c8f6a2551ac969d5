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
