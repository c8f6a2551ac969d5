//! The status of a sandbox, on its way to the next one.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::{is_deleting, is_ready};
use crate::kubernetes::timestamp;

pub(super) const READY: &str = "Ready";
pub(super) const PAUSED: &str = "SandboxPaused";
pub(super) const RESUMED: &str = "SandboxResumed";
pub(super) const INITIALIZED: &str = "RuntimeInitialized";

pub(super) struct Status(Value);

impl Status {
    pub(super) fn of(sandbox: &Value) -> Self {
        let mut status = if sandbox["status"].is_object() { sandbox["status"].clone() } else { json!({}) };
        if status["conditions"].is_null() {
            status["conditions"] = json!([]);
        }
        Self(status)
    }

    pub(super) fn whole(&self) -> &Value {
        &self.0
    }

    pub(super) fn phase(&self) -> &str {
        self.0["phase"].as_str().unwrap_or_default()
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase(), "Failed" | "Succeeded")
    }

    /// Whether the runtime of a new pod is not initialised yet.
    pub(super) fn awaits_runtime(&self) -> bool {
        self.is(INITIALIZED, "False")
    }

    pub(super) fn is(&self, kind: &str, status: &str) -> bool {
        self.condition(kind).is_some_and(|one| one["status"] == status)
    }

    pub(super) fn observe(&mut self, generation: &Value, revision: &str) {
        self.0["observedGeneration"] = generation.clone();
        self.0["updateRevision"] = revision.into();
    }

    pub(super) fn enter(&mut self, phase: &str) {
        self.0["phase"] = phase.into();
    }

    fn end(&mut self, phase: &str, message: &str) {
        self.enter(phase);
        self.0["message"] = message.into();
    }

    /// The phase that follows from what is asked for and from the pod.
    pub(super) fn turn(&mut self, paused: bool, pod: Option<&Value>) {
        let pod = pod.filter(|pod| !is_deleting(pod));
        let ended = pod.and_then(|pod| pod["status"]["phase"].as_str());
        let ended = ended.filter(|phase| matches!(*phase, "Failed" | "Succeeded"));
        match (self.phase(), ended) {
            ("" | "Pending" | "Running", Some(phase)) => {
                self.end(phase, &format!("Pod status phase is {phase}"));
            }
            ("", None) => self.enter("Pending"),
            ("Running", None) if pod.is_none() => self.end("Failed", "Pod Not Found"),
            ("Running", None) if paused => {
                self.remove(RESUMED);
                self.enter("Paused");
            }
            ("Paused", _) if !paused && self.is(PAUSED, "True") => {
                self.put(RESUMED, "False", "CreatePod", "");
                self.enter("Resuming");
            }
            _ => {}
        }
    }

    /// Shows where the pod is.
    pub(super) fn place(&mut self, pod: &Value) {
        let (node, ip) = (&pod["spec"]["nodeName"], &pod["status"]["podIP"]);
        self.0["nodeName"] = node.clone();
        self.0["sandboxIp"] = ip.clone();
        self.0["podInfo"] = json!({ "nodeName": node, "podIP": ip, "podUID": pod["metadata"]["uid"] });
    }

    /// Shows where the pod is, and whether it is ready.
    pub(super) fn show(&mut self, pod: &Value) {
        self.place(pod);
        let status = if is_ready(pod) { "True" } else { "False" };
        let before = self.condition(READY).filter(|before| before["status"] == status).cloned();
        let before = before.unwrap_or_else(|| json!({ "reason": "PodReady" }));
        let mut containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let waits = containers.find_map(|one| one["state"].get("waiting")).filter(|_| status == "False");
        let (reason, message) = match waits {
            Some(waits) => (Some("StartContainerFailed"), waits["message"].as_str()),
            None => (before["reason"].as_str(), before["message"].as_str()),
        };
        self.put(READY, status, reason.unwrap_or_default(), message.unwrap_or_default());
    }

    fn condition(&self, kind: &str) -> Option<&Value> {
        self.0["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
    }

    /// Sets a condition. Its time is that of the last change of its status.
    pub(super) fn put(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let before = self.condition(kind).filter(|before| before["status"] == status);
        let since = before.map(|before| before["lastTransitionTime"].clone());
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since.unwrap_or_else(|| timestamp(SystemTime::now()).into()),
        });
        let conditions = self.0["conditions"].as_array_mut().expect("a list");
        match conditions.iter().position(|one| one["type"] == kind) {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }

    pub(super) fn remove(&mut self, kind: &str) {
        self.0["conditions"].as_array_mut().expect("a list").retain(|one| one["type"] != kind);
    }
}
