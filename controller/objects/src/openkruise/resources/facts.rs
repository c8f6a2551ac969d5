//! A sandbox as a cache keeps it: what is read of it, in little memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use sandgate_routes::{Secret, State};
use serde_json::Value;
use serde_json::value::RawValue;

use super::texts::Texts;
use super::{
    AutoPausePolicy, Condition, PauseStrategy, PodTemplate, Probe, Runtime, Sandbox, SandboxStatus,
    SandboxTemplateSpec, TemplateRef, VolumeClaimTemplate,
};
use crate::condition::READY;
use crate::fields::{Address, Place, TRAFFIC_ACCESS_TOKEN, annotated_traffic_token, owner, since_1970};
use crate::kind::{Id, Kind};
use crate::metadata::{Identity, Named};
use crate::openkruise::names::{ANNOTATION_HASH_IMMUTABLE_PART, LABEL_ALLOW_INTERNET, LABEL_SANDBOX_NAME};
use crate::openkruise::rules::{Facts, id_of, token_of};
use crate::openkruise::{ENABLE_JWT_AUTH, ENVD_ACCESS_TOKEN, NAME, OWNER, RUNTIME_ACCESS_TOKEN, SANDBOX_ID};
use crate::provider::Unreadable;

/// What `kubectl apply` remembers.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The labels that a claim gives to the pod. Each claim sets them anew, so nobody reads them here.
const POD_LABELS: [&str; 3] = [OWNER, LABEL_SANDBOX_NAME, LABEL_ALLOW_INTERNET];

/// What is read of a sandbox. It means the same as the whole [`Sandbox`], and cannot be written back.
///
/// A text that is missing is empty. The pod template lacks the labels that a claim gives to a pod: these
/// differ between any two sandboxes, and without them the templates of a pool are equal and can be one text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxFacts {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// Which object of that name it is.
    pub uid: Arc<str>,
    /// The version.
    pub resource_version: Box<str>,
    /// The generation of the spec.
    pub generation: Option<i64>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The SandboxSet that controls it.
    pub pool: Option<Box<str>>,
    /// The labels.
    pub labels: Texts,
    /// The annotations.
    pub annotations: Texts,
    /// Whether it is to be paused.
    pub paused: bool,
    /// When it ends.
    pub shutdown_time: Option<Timestamp>,
    /// When it is paused by itself.
    pub pause_time: Option<Timestamp>,
    /// The pod template.
    pub template: Option<PodTemplate>,
    /// The SandboxTemplate with the pod template, instead of it.
    pub template_ref: Option<Box<TemplateRef>>,
    /// When it pauses and resumes by itself.
    pub auto_pause_policy: Option<AutoPausePolicy>,
    /// What few sandboxes have.
    rare: Option<Box<Rare>>,
    /// The generation that the status is about.
    pub observed_generation: Option<i64>,
    /// The phase.
    pub phase: Box<str>,
    /// Why it is in this phase.
    pub message: Box<str>,
    /// The conditions.
    pub conditions: Box<[ConditionFacts]>,
    /// The address of the pod.
    pub pod_ip: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Rare {
    persistent_contents: Vec<String>,
    runtimes: Vec<Runtime>,
    volume_claim_templates: Vec<VolumeClaimTemplate>,
    pause_strategy: Option<PauseStrategy>,
    probes: Vec<Probe>,
}

/// What is read of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionFacts {
    /// What it is about.
    pub kind: Box<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// Why, in a word.
    pub reason: Box<str>,
    /// Why.
    pub message: Box<str>,
}

impl SandboxFacts {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&ConditionFacts> {
        self.conditions.iter().find(|condition| &*condition.kind == kind)
    }

    /// A label; empty if it is missing.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).unwrap_or_default()
    }

    /// An annotation; empty if it is missing.
    pub fn annotation(&self, name: &str) -> &str {
        self.annotations.get(name).unwrap_or_default()
    }

    /// What of it is kept over a pause.
    pub fn persistent_contents(&self) -> &[String] {
        self.rare.as_ref().map_or(&[], |rare| &rare.persistent_contents)
    }

    /// What another sandbox like this one is made from, but for what [`template_ref`](Self::template_ref)
    /// names.
    pub fn contents(&self) -> SandboxTemplateSpec {
        let rare = self.rare.as_deref().cloned().unwrap_or_default();
        SandboxTemplateSpec {
            template: self.template.clone(),
            volume_claim_templates: rare.volume_claim_templates,
            persistent_contents: rare.persistent_contents,
            runtimes: rare.runtimes,
            pause_strategy: rare.pause_strategy,
            auto_pause_policy: self.auto_pause_policy.clone(),
            probes: rare.probes,
        }
    }
}

impl From<Sandbox> for SandboxFacts {
    fn from(sandbox: Sandbox) -> Self {
        let pool = Kind::pool(&sandbox).map(Box::from);
        let Sandbox { metadata, spec, status } = sandbox;
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.remove(LAST_APPLIED);
        annotations.remove(ANNOTATION_HASH_IMMUTABLE_PART);
        let rare = Rare {
            persistent_contents: spec.persistent_contents,
            runtimes: spec.runtimes,
            volume_claim_templates: spec.volume_claim_templates,
            pause_strategy: spec.pause_strategy,
            probes: spec.probes,
        };
        let SandboxStatus { observed_generation, phase, message, conditions, pod_info, .. } =
            status.unwrap_or_default();
        Self {
            namespace: metadata.namespace.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
            uid: metadata.uid.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            generation: metadata.generation,
            created: metadata.creation_timestamp.map(|time| time.0),
            is_deleting: metadata.deletion_timestamp.is_some(),
            pool,
            labels: metadata.labels.unwrap_or_default().into(),
            annotations: annotations.into(),
            paused: spec.paused == Some(true),
            shutdown_time: spec.shutdown_time.map(|time| time.0),
            pause_time: spec.pause_time.map(|time| time.0),
            template: spec.template.map(without_pod_labels),
            template_ref: spec.template_ref.map(Box::new),
            auto_pause_policy: spec.auto_pause_policy,
            rare: (rare != Rare::default()).then(|| Box::new(rare)),
            observed_generation,
            phase: phase.unwrap_or_default().into(),
            message: message.unwrap_or_default().into(),
            conditions: conditions.into_iter().map(ConditionFacts::from).collect(),
            pod_ip: pod_info.and_then(|pod| pod.pod_ip).unwrap_or_default().into(),
        }
    }
}

impl From<Condition> for ConditionFacts {
    fn from(Condition { type_, status, reason, message, .. }: Condition) -> Self {
        Self { kind: type_.into(), status: status.into(), reason: reason.into(), message: message.into() }
    }
}

/// The template without what a claim writes into it. Only its metadata is parsed. A template that cannot be
/// read stays as it is.
fn without_pod_labels(template: PodTemplate) -> PodTemplate {
    if !POD_LABELS.iter().any(|label| template.get().contains(label)) {
        return template;
    }
    stripped(template.get()).unwrap_or(template)
}

fn stripped(text: &str) -> Option<PodTemplate> {
    let mut parts: BTreeMap<&str, Box<RawValue>> = serde_json::from_str(text).ok()?;
    let metadata = parts.get_mut("metadata")?;
    let mut parsed: Value = serde_json::from_str(metadata.get()).ok()?;
    parsed.get_mut("labels")?.as_object_mut()?.retain(|name, _| !POD_LABELS.contains(&name.as_str()));
    *metadata = serde_json::value::to_raw_value(&parsed).ok()?;
    serde_json::from_str(&serde_json::to_string(&parts).ok()?).ok()
}

impl Kind for SandboxFacts {
    fn identity(&self) -> Result<Identity<'_>, Unreadable> {
        let named = Named {
            namespace: &self.namespace,
            name: &self.name,
            resource_version: &self.resource_version,
            uid: &self.uid,
            is_deleting: self.is_deleting,
        };
        named.identity_in_namespace(NAME, || Ok(self.created.and_then(|time| since_1970(time.into()))))
    }

    fn id_of(&self, identity: &Identity<'_>) -> Result<Id, Unreadable> {
        id_of(identity, self.label(SANDBOX_ID))
    }

    fn pool(&self) -> Option<&str> {
        self.pool.as_deref()
    }

    fn owner(&self) -> Result<&str, Unreadable> {
        owner(Place::Annotation(OWNER), self.annotation(OWNER))
    }

    fn address(&self) -> Result<Address, Unreadable> {
        Ok(Address::read(&self.pod_ip))
    }

    fn token(&self) -> Result<Option<Secret>, Unreadable> {
        token_of(self.annotation(RUNTIME_ACCESS_TOKEN), self.annotation(ENVD_ACCESS_TOKEN))
    }

    fn traffic_token(&self) -> Result<Option<Secret>, Unreadable> {
        annotated_traffic_token(self.annotation(TRAFFIC_ACCESS_TOKEN))
    }

    fn requires_traffic_auth(&self) -> bool {
        self.annotation(ENABLE_JWT_AUTH) == "true"
    }

    fn ends(&self) -> Result<Option<SystemTime>, Unreadable> {
        Ok(self.shutdown_time.map(SystemTime::from))
    }

    fn live_state(&self, address: Address) -> State {
        Facts {
            phase: &self.phase,
            address,
            is_in_pool: self.pool.is_some(),
            is_paused: self.paused,
            is_ready: self.condition(READY).is_some_and(|ready| &*ready.status == "True"),
        }
        .state()
    }
}
