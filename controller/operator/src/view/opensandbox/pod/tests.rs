use serde_json::{Value, json};

use super::*;

fn read(pod: &Value) -> PodState {
    OwnPod::read(pod.to_string().as_bytes()).unwrap().object.0
}

fn pod(name: &str, label: &str, status: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": "u", "resourceVersion": "7",
            "labels": {"batch-sandbox.sandbox.opensandbox.io/pod-index": label},
        },
        "status": status,
    })
}

#[test]
fn the_index_is_that_of_the_label_or_else_that_of_the_name() {
    for (name, label, expected) in [
        ("b-1", "7", Some(7)),
        ("b-1", "first", Some(1)),
        ("b-1", "", Some(1)),
        ("b-1", "-2", Some(1)),
        ("a-b-12", "4294967296", Some(12)),
        ("3", "x", Some(3)),
        ("b", "x", None),
        ("b-x", "x", None),
        ("b-", "x", None),
    ] {
        let state = read(&pod(name, label, &json!({})));
        assert_eq!(state.index, expected, "{name}, labelled {label:?}");
        assert!(state.has_index, "it is one of a batch's own, whatever the label says");
    }
}

#[test]
fn a_pod_is_ready_while_it_runs_and_its_condition_says_so() {
    let ready = |phase: &str, status: &str| {
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": status}]});
        read(&pod("b-0", "0", &status)).is_ready
    };
    assert!(ready("Running", "True"));
    assert!(!ready("Running", "False"));
    assert!(!ready("Running", "Unknown"));
    // The condition may be of the time before: the kubelet writes the phase first.
    for phase in ["Pending", "Unknown", "Succeeded", "Failed", ""] {
        assert!(!ready(phase, "True"), "{phase}");
    }
    let running = |conditions: &Value| {
        read(&pod("b-0", "0", &json!({"phase": "Running", "conditions": conditions}))).is_ready
    };
    assert!(!running(&json!([])));
    assert!(!running(&json!([{"type": "ContainersReady", "status": "True"}])));
}
