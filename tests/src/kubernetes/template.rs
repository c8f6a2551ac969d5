//! A pod template of the size that real sandboxes have.

use serde_json::{Value, json};

/// About 6 KiB of JSON: two containers with their environment, probes, mounts and limits, and the volumes for
/// them.
pub fn pod_template() -> Value {
    let environment = |prefix: &str, count: u32| -> Vec<Value> {
        let variable = |n| json!({ "name": format!("{prefix}_SETTING_{n}"), "value": format!("value-of-setting-{n:04}") });
        (0..count).map(variable).collect()
    };
    let mounts: Vec<Value> = (0..8)
        .map(|n| json!({ "name": format!("volume-{n}"), "mountPath": format!("/var/lib/sandbox/part-{n}"), "readOnly": n % 2 == 0 }))
        .collect();
    let volumes: Vec<Value> = (0..8)
        .map(|n| json!({ "name": format!("volume-{n}"), "configMap": { "name": format!("sandbox-settings-{n}"), "defaultMode": 420 } }))
        .collect();
    let probe = json!({
        "httpGet": { "path": "/health", "port": 49983, "scheme": "HTTP" },
        "initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 1, "failureThreshold": 30, "successThreshold": 1,
    });
    let resources = json!({
        "limits": { "cpu": "2", "memory": "4Gi", "ephemeral-storage": "20Gi" },
        "requests": { "cpu": "250m", "memory": "512Mi", "ephemeral-storage": "2Gi" },
    });
    let security = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
        "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
    });
    json!({
        "metadata": {
            "labels": { "app": "sandbox", "tier": "workload", "template": "code-interpreter" },
            "annotations": { "cluster-autoscaler.kubernetes.io/safe-to-evict": "false" },
        },
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "runtimeClassName": "isolated",
            "nodeSelector": { "pool": "sandboxes", "kubernetes.io/arch": "amd64" },
            "tolerations": [{ "key": "sandboxes", "operator": "Exists", "effect": "NoSchedule" }],
            "initContainers": [{
                "name": "prepare", "image": "registry.example/prepare:1.0.0", "command": ["/bin/prepare", "--all"],
                "env": environment("PREPARE", 6), "volumeMounts": mounts, "resources": resources,
            }],
            "containers": [
                {
                    "name": "sandbox", "image": "registry.example/code-interpreter:2.4.1",
                    "command": ["/usr/bin/envd", "-port", "49983"],
                    "env": environment("SANDBOX", 24), "ports": [{ "containerPort": 49983, "protocol": "TCP" }],
                    "readinessProbe": probe, "livenessProbe": probe,
                    "resources": resources, "securityContext": security, "volumeMounts": mounts,
                },
                {
                    "name": "sidecar", "image": "registry.example/sidecar:0.9.3",
                    "env": environment("SIDECAR", 8), "resources": resources, "securityContext": security,
                },
            ],
            "volumes": volumes,
        },
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_has_the_size_that_the_cost_is_recorded_for() {
        let size = super::pod_template().to_string().len();
        assert!((5_800..=6_600).contains(&size), "{size} bytes");
    }
}
