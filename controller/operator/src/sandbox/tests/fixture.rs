//! A sandbox and its pod, in words.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::openkruise::resources::{Sandbox, decode};
use serde_json::{Value, json};

use crate::sandbox::observe::{Observed, PodOf, TemplateOf};
use crate::sandbox::pause::Pauses;
use crate::sandbox::plan::{Plan, PodStep, Settle, plan};
use crate::sandbox::pod::{Template, manifest};
use crate::view::{PodFacts, Seen, Viewed};
use crate::{Again, conditions};

pub(super) const NOW: i64 = 1_000_000;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A sandbox, its pod and its template, to be changed step by step.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) sandbox: Value,
    pub(super) pod: Option<Value>,
    pub(super) template: Option<Value>,
    pub(super) now: i64,
}

pub(super) fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {"containers": [{
            "name": "main",
            "image": "base:1",
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
        }]},
    })
}

impl Case {
    /// A sandbox that was just created.
    pub(super) fn new() -> Self {
        let sandbox = json!({
            "apiVersion": "agents.kruise.io/v1alpha1",
            "kind": "Sandbox",
            "metadata": {
                "name": "s", "namespace": "n", "uid": "sandbox-uid", "resourceVersion": "7", "generation": 3,
            },
            "spec": {},
        });
        Self { sandbox, pod: None, template: Some(template()), now: NOW }
    }

    /// A sandbox in this phase, whose pod runs and is ready.
    pub(super) fn in_phase(phase: &str) -> Self {
        let mut case = Self::new();
        case.sandbox["status"] = json!({
            "phase": phase,
            "observedGeneration": 3,
            "podInfo": {"podIP": "127.0.0.9", "podUID": "pod-uid", "nodeName": "node"},
            "updateRevision": case.read_template().revision,
        });
        case.with_pod("Running", true)
    }

    pub(super) fn set(mut self, pointer: &str, value: Value) -> Self {
        put(&mut self.sandbox, pointer, value);
        self
    }

    pub(super) fn paused(self) -> Self {
        self.set("/spec/paused", json!(true))
    }

    pub(super) fn condition(mut self, kind: &str, status: &str, reason: &str) -> Self {
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "1970-01-02T00:00:00Z",
        });
        let conditions = &mut self.sandbox["status"]["conditions"];
        match conditions.as_array_mut() {
            Some(list) => list.push(condition),
            None => *conditions = json!([condition]),
        }
        self
    }

    /// The pod that this controller makes, in this phase.
    pub(super) fn with_pod(mut self, phase: &str, is_ready: bool) -> Self {
        let mut pod = manifest(&self.seen(), &self.read_template());
        pod["metadata"]["uid"] = json!("pod-uid");
        pod["metadata"]["resourceVersion"] = json!("9");
        pod["spec"]["nodeName"] = json!("node");
        let status = if is_ready { "True" } else { "False" };
        pod["status"] = json!({
            "phase": phase,
            "podIP": "127.0.0.9",
            "conditions": [{"type": "Ready", "status": status}],
            "containerStatuses": [{"name": "main", "image": "base:1", "state": {"running": {}}}],
        });
        self.pod = Some(pod);
        self
    }

    pub(super) fn pod(mut self, pointer: &str, value: Value) -> Self {
        put(self.pod.as_mut().unwrap(), pointer, value);
        self
    }

    pub(super) fn deleting_pod(self) -> Self {
        self.pod("/metadata/deletionTimestamp", json!("1970-01-12T00:00:00Z"))
    }

    pub(super) fn waiting(self, reason: &str) -> Self {
        self.pod("/status/containerStatuses/0/state", json!({"waiting": {"reason": reason}}))
    }

    pub(super) fn without_pod(mut self) -> Self {
        self.pod = None;
        self
    }

    pub(super) fn templated(mut self, pointer: &str, value: Value) -> Self {
        put(self.template.as_mut().unwrap(), pointer, value);
        self
    }

    pub(super) fn seen(&self) -> Seen<Sandbox> {
        let object: Sandbox = decode(self.sandbox.to_string().as_bytes()).unwrap();
        Sandbox::read(&serde_json::to_vec(&object).unwrap()).unwrap()
    }

    pub(super) fn read_template(&self) -> Template {
        let template = self.template.clone().unwrap_or_else(template);
        let claims = self.seen().spec.volume_claim_templates.clone();
        let template = sandgate_objects::openkruise::resources::PodTemplate::new(&template);
        Template::read(&template, &claims).unwrap()
    }

    pub(super) fn observed(&self) -> Observed {
        let sandbox = Arc::new(self.seen());
        let pod = match &self.pod {
            None => PodOf::None,
            Some(pod) => {
                let pod = PodFacts::read(pod.to_string().as_bytes()).unwrap();
                match pod.owner_uid.as_deref() == Some(&*sandbox.uid) {
                    true => PodOf::Own(Arc::new(pod)),
                    false => PodOf::Other(Arc::new(pod)),
                }
            }
        };
        let template = match &self.template {
            Some(_) => TemplateOf::Found(self.read_template()),
            None => TemplateOf::Missing("there is no SandboxTemplate t".to_owned()),
        };
        Observed { sandbox, pod, template, now: at(self.now) }
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observed(), &Pauses::default())
    }

    /// The plan, which is the usual one.
    pub(super) fn settled(&self) -> Settled {
        match self.plan() {
            Plan::Settle(settle) => Settled(*settle),
            other => panic!("{other:?}"),
        }
    }

    /// The sandbox after its plan was carried out and its status was written.
    pub(super) fn after(mut self) -> Self {
        self.sandbox["status"] = serde_json::to_value(&self.settled().0.status.status).unwrap();
        self
    }
}

fn put(value: &mut Value, pointer: &str, new: Value) {
    let mut at = value;
    for part in pointer.trim_start_matches('/').split('/') {
        let part = part.replace("~1", "/");
        at = match part.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[part.as_str()],
        };
    }
    *at = new;
}

/// A plan to look at.
pub(super) struct Settled(pub(super) Settle);

impl Settled {
    pub(super) fn phase(&self) -> &str {
        self.0.status.phase()
    }

    pub(super) fn condition(&self, kind: &str) -> (&str, &str) {
        let found = conditions::find(&self.0.status.status.conditions, kind);
        found.map_or(("", ""), |found| (found.status.as_str(), found.reason.as_str()))
    }

    pub(super) fn ready(&self) -> (&str, &str) {
        self.condition("Ready")
    }

    pub(super) fn step(&self) -> &'static str {
        match &self.0.pod {
            PodStep::Keep => "keep",
            PodStep::Confirm => "confirm",
            PodStep::Create { .. } => "create",
            PodStep::Delete { grace: None } => "delete",
            PodStep::Delete { grace: Some(5) } => "stop",
            PodStep::Delete { .. } => "delete otherwise",
            PodStep::Discard => "discard",
            PodStep::Patch { resize: None, .. } => "patch",
            PodStep::Patch { resize: Some(_), .. } => "resize",
        }
    }

    pub(super) fn again(&self) -> Again {
        self.0.again
    }

    pub(super) fn info(&self, field: &str) -> Value {
        serde_json::to_value(&self.0.status.status.pod_info).unwrap()[field].clone()
    }
}
