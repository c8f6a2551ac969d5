//! Objects as OpenKruise's own programs make them: Go writes empty structs and null times.

use sandgate_tests::kubernetes::pod_template;
use serde_json::{Value, json};

use super::API_VERSION;

pub(super) fn objects(namespace: &str) -> Vec<Value> {
    let template = json!({
        "metadata": { "creationTimestamp": null, "labels": { "app": "code", "agents.kruise.io/sandbox-name": "" } },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "sandbox", "image": "registry.example.com/code:1", "resources": { "limits": { "cpu": "1" } },
                "terminationMessagePath": "/dev/termination-log", "futureField": { "a": [1] },
            }],
            "initContainers": [{ "name": "runtime", "image": "agent-runtime", "restartPolicy": "Always" }],
        },
    });
    let claims = json!([{
        "metadata": { "name": "data", "creationTimestamp": null },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        "status": {},
    }]);
    let ready = |status: &str| {
        json!({
            "type": "Ready", "status": status, "reason": "PodReady", "message": "",
            "lastTransitionTime": "2026-11-16T07:00:00Z",
        })
    };
    let named = |kind: &str, name: &str, spec: Value, status: Value| {
        let mut object = json!({
            "apiVersion": API_VERSION, "kind": kind,
            "metadata": { "name": name, "namespace": namespace }, "spec": spec,
        });
        if !status.is_null() {
            object["status"] = status;
        }
        object
    };
    // A member of a pool that waits.
    let waiting = named(
        "Sandbox",
        "code-interpreter-x7k2p",
        json!({
            "paused": null, "shutdownTime": null, "templateRef": null,
            "template": template, "persistentContents": ["filesystem"], "runtimes": [{ "name": "agent-runtime" }],
            "volumeClaimTemplates": claims,
        }),
        json!({
            "observedGeneration": 1, "phase": "Running", "conditions": [ready("True")],
            "podInfo": {
                "annotations": { "a": "b" }, "labels": { "app": "code" }, "nodeName": "node-1",
                "podIP": "10.1.2.3", "podUID": "9c1f",
            },
            "nodeName": "node-1", "sandboxIp": "10.1.2.3", "updateRevision": "54f8d9c7b6",
        }),
    );
    // A claimed one on its way to sleep, with all that a client of E2B may ask for.
    let claimed = named(
        "Sandbox",
        "claimed",
        json!({
            "paused": true, "pauseTime": "2026-11-16T07:00:00Z", "shutdownTime": "2126-11-16T07:00:00Z",
            "pauseStrategy": { "type": "Hibernate", "hibernateStrategy": { "type": "Snapshot" } },
            "upgradePolicy": { "type": "Recreate" },
            "lifecycle": { "preUpgrade": { "exec": { "command": ["sh", "-c", "sync"] }, "timeoutSeconds": 60 } },
            "autoPausePolicy": {
                "pause": { "whenProbedIdleState": { "probeName": "idle", "thresholdDuration": "5m0s" } },
                "resume": { "onIngressTraffic": { "pauseTimeout": "5m0s" } },
            },
            "probes": [{ "name": "idle", "exec": { "command": ["idle"] } }],
            "template": template,
        }),
        json!({
            "observedGeneration": 4, "phase": "Paused", "message": "", "recycledCount": 0,
            "conditions": [ready("False"), {
                "type": "SandboxPaused", "status": "False", "reason": "Pending", "message": "",
                "lastTransitionTime": "2026-11-16T07:00:00Z", "observedGeneration": 4,
            }],
            "podInfo": {}, "schedules": [{ "reason": "x", "nextPauseTime": "2026-11-16T07:00:00Z" }],
        }),
    );
    let by_reference = named(
        "Sandbox",
        "by-reference",
        json!({ "templateRef": { "name": "code-54f8d9c7b6" } }),
        Value::Null,
    );
    // The harness's own, of a real size.
    let large = named("Sandbox", "large", json!({ "template": pod_template() }), Value::Null);
    let set = named(
        "SandboxSet",
        "code-interpreter",
        json!({
            "replicas": 10, "template": template, "persistentContents": ["memory", "filesystem"],
            "runtimes": [{ "name": "csi" }, { "name": "agent-runtime" }, { "name": "traffic-proxy" }],
            "scaleStrategy": {}, "updateStrategy": { "maxUnavailable": "20%" }, "volumeClaimTemplates": claims,
        }),
        json!({
            "observedGeneration": 1, "replicas": 10, "availableReplicas": 9, "updateRevision": "54f8d9c7b6",
            "currentRevision": "code-interpreter-54f8d9c7b6", "updatedReplicas": 10, "updatedAvailableReplicas": 9,
            "conditions": [],
            "selector": "agents.kruise.io/sandbox-pool=code-interpreter,agents.kruise.io/sandbox-claimed=false",
        }),
    );
    let set_by_reference = named(
        "SandboxSet",
        "by-reference",
        json!({
            "replicas": 0, "scaleStrategy": { "maxUnavailable": 3 }, "updateStrategy": {},
            "templateRef": { "name": "code", "kind": "SandboxTemplate", "apiVersion": API_VERSION },
        }),
        json!({ "replicas": 0, "availableReplicas": 0 }),
    );
    let revision = named(
        "SandboxTemplate",
        "code-interpreter-54f8d9c7b6",
        json!({ "template": template, "volumeClaimTemplates": claims, "pauseStrategy": { "type": "Stop" } }),
        Value::Null,
    );
    let checkpoint = named(
        "Checkpoint",
        "claimed-abcde",
        json!({ "podName": "claimed", "keepRunning": false, "persistentContents": ["memory", "filesystem"], "ttlAfterFinished": "30m" }),
        json!({
            "observedGeneration": 1, "phase": "Succeeded", "checkpointId": "c-1",
            "completionTime": "2026-11-16T07:00:00Z", "podTemplateDelta": { "spec": { "containers": [] } },
        }),
    );
    vec![waiting, claimed, by_reference, large, set, set_by_reference, revision, checkpoint]
}
