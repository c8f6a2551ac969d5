//! A batch, its pods and its snapshot, in words.

use jiff::Timestamp;
use sandgate_objects::opensandbox::names;
use serde_json::{Value, json};

use crate::Key;
use crate::assign::DefaultPools;
use crate::batch::observe::{Observed, observe};
use crate::view::{Kind, View};

pub(super) const NOW: i64 = 1_000_000;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A batch and what belongs to it.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) batch: Value,
    pods: Vec<Value>,
    snapshot: Option<Value>,
}

impl Case {
    /// A batch of one pod that is in this phase, whose wish about a pause has been heard.
    pub(super) fn in_phase(phase: &str) -> Self {
        let mut batch = json!({
            "metadata": {
                "name": "b", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": at(NOW - 100).to_string(),
            },
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "base"}]}}},
        });
        if !phase.is_empty() {
            batch["status"] = json!({"phase": phase, "pauseObservedGeneration": 3});
        }
        Self { batch, pods: Vec::new(), snapshot: None }
    }

    pub(super) fn set(mut self, pointer: &str, value: Value) -> Self {
        let mut at = &mut self.batch;
        for part in pointer.split('.') {
            at = &mut at[part];
        }
        *at = value;
        self
    }

    /// The same with a new wish.
    pub(super) fn asked(self, pause: bool) -> Self {
        self.set("metadata.generation", json!(4)).set("spec.pause", json!(pause))
    }

    pub(super) fn leaving(self) -> Self {
        self.set("metadata.deletionTimestamp", json!(at(NOW).to_string()))
    }

    pub(super) fn pod(mut self, name: &str, is_ready: bool) -> Self {
        self.pods.push(own_pod(name, is_ready));
        self
    }

    /// The pod that was added last is being deleted.
    pub(super) fn ending(mut self) -> Self {
        let pod = self.pods.last_mut().unwrap();
        pod["metadata"]["deletionTimestamp"] = json!(at(NOW).to_string());
        self
    }

    pub(super) fn snapshot(mut self, phase: &str) -> Self {
        let owner = json!({
            "apiVersion": names::API_VERSION, "kind": "BatchSandbox", "name": "b", "uid": "u",
            "controller": true,
        });
        self.snapshot = Some(json!({
            "metadata": {
                "name": "b-pause", "namespace": "n", "uid": "s", "resourceVersion": "7",
                "ownerReferences": [owner],
            },
            "spec": {"sandboxName": "b"},
            "status": {"phase": phase, "containers": [{"containerName": "main", "imageUri": "kept"}]},
        }));
        self
    }

    pub(super) fn snapshots(mut self, pointer: &str, value: Value) -> Self {
        self.snapshot.as_mut().unwrap()["metadata"][pointer] = value;
        self
    }

    pub(super) fn observed(&self) -> Observed {
        let view = View::new(Box::new(|_, _, _| {}));
        view.observe_json(Kind::BatchSandbox, self.batch.to_string().as_bytes()).unwrap();
        for pod in &self.pods {
            view.observe_json(Kind::OwnPod, pod.to_string().as_bytes()).unwrap();
        }
        if let Some(snapshot) = &self.snapshot {
            view.observe_json(Kind::SandboxSnapshot, snapshot.to_string().as_bytes()).unwrap();
        }
        observe(&view, &Key::new("n", "b"), &DefaultPools, at(NOW)).unwrap().unwrap()
    }
}

pub(super) fn own_pod(name: &str, is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": "9",
            "labels": {names::LABEL_POD_INDEX: name.rsplit('-').next()},
            "ownerReferences": [{
                "apiVersion": names::API_VERSION, "kind": "BatchSandbox", "name": "b", "uid": "u",
                "controller": true,
            }],
        },
        "spec": {"nodeName": "x"},
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": status}],
        },
    })
}
