//! A pod of a pool, as far as anybody of the control plane reads it.
//!
//! The whole object has some kilobytes. What is left out is never written back: whoever changes a pod sends a
//! patch.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::Deserialize;

use crate::sandbox_env::names;

/// A pod of a SandboxPool, trimmed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvPod {
    /// Namespace, name, UID, version, labels, annotations, finalizers, owners.
    pub metadata: ObjectMeta,
    /// The node that it is on.
    pub node: Option<String>,
    /// The phase that the kubelet gives: Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Why it is in that phase, in one word.
    pub reason: Option<String>,
    /// The same for people.
    pub message: Option<String>,
    /// Its address.
    pub ip: Option<String>,
    /// Whether the condition Ready is true.
    pub is_ready: bool,
    /// Since when the condition Ready is as it is.
    pub ready_since: Option<Timestamp>,
    /// The containers, in the order of the spec. Init containers are left out.
    pub containers: Vec<EnvContainer>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvContainer {
    /// The name.
    pub name: String,
    /// The image that the spec asks for.
    pub image: String,
    /// The image that the kubelet says it runs.
    pub running_image: String,
    /// The image that the kubelet says it runs, with its digest.
    pub image_id: String,
    /// The ID of the container; empty before it is made.
    pub id: String,
    /// How often it was restarted.
    pub restarts: u32,
    /// Whether it runs.
    pub is_running: bool,
    /// Whether it is ready.
    pub is_ready: bool,
    /// How it ended, if it has.
    pub ended: Option<ContainerEnd>,
    /// Why it waits, if it does.
    pub waiting: Option<String>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    /// The exit code.
    pub exit_code: i32,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

/// What a pod of a pool is to the control plane: its label [`names::LABEL_PHASE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxPhase {
    /// It waits for a claim. A word that is not known counts as this.
    #[default]
    Idle,
    /// It is claimed, and its images are being changed.
    Starting,
    /// It is a sandbox.
    Running,
    /// It is released, and its images are being changed back.
    Stopping,
    /// It cannot be used.
    Failed,
}

impl SandboxPhase {
    /// Every phase.
    pub const ALL: [Self; 5] = [Self::Idle, Self::Starting, Self::Running, Self::Stopping, Self::Failed];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => names::PHASE_IDLE,
            Self::Starting => names::PHASE_STARTING,
            Self::Running => names::PHASE_RUNNING,
            Self::Stopping => names::PHASE_STOPPING,
            Self::Failed => names::PHASE_FAILED,
        }
    }

    /// The phase of a word.
    pub fn of(word: &str) -> Self {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word).unwrap_or_default()
    }
}

impl fmt::Display for SandboxPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl EnvPod {
    /// A label; empty if it is not there.
    pub fn label(&self, key: &str) -> &str {
        text(&self.metadata.labels, key)
    }

    /// An annotation; empty if it is not there.
    pub fn annotation(&self, key: &str) -> &str {
        text(&self.metadata.annotations, key)
    }

    /// The time in an annotation; none if it is missing or cannot be read.
    pub fn time(&self, key: &str) -> Option<Timestamp> {
        self.annotation(key).parse().ok()
    }

    /// The pool by the label; empty if it has none.
    pub fn pool(&self) -> &str {
        self.label(names::LABEL_POOL)
    }

    /// What it is to the control plane.
    pub fn sandbox_phase(&self) -> SandboxPhase {
        SandboxPhase::of(self.label(names::LABEL_PHASE))
    }

    /// The ID of the sandbox that it is, or was last; empty if it is nobody's.
    pub fn sandbox_id(&self) -> &str {
        let label = self.label(names::SANDBOX_ID);
        if label.is_empty() { self.annotation(names::SANDBOX_ID) } else { label }
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it is about to be deleted, and must not be claimed.
    pub fn is_marked(&self) -> bool {
        !self.annotation(names::ANNOTATION_SCALE_DOWN).is_empty()
    }

    /// When it was made.
    pub fn created(&self) -> Timestamp {
        self.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// The object that controls it.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }

    /// Whether it has the finalizer of a pool's pod.
    pub fn has_finalizer(&self) -> bool {
        self.metadata.finalizers.iter().flatten().any(|name| name == names::FINALIZER_POD)
    }

    /// Whether it can be claimed: idle, ready, running, not marked and not leaving.
    pub fn is_claimable(&self) -> bool {
        self.sandbox_phase() == SandboxPhase::Idle
            && self.phase == "Running"
            && self.is_ready
            && !self.is_marked()
            && !self.is_deleting()
    }
}

fn text<'a>(texts: &'a Option<BTreeMap<String, String>>, key: &str) -> &'a str {
    texts.as_ref().and_then(|texts| texts.get(key)).map_or("", String::as_str)
}

/// A pod as the API server gives it, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawPod {
    metadata: ObjectMeta,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    node_name: Option<String>,
    containers: Vec<RawContainer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContainer {
    name: String,
    image: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    phase: String,
    reason: Option<String>,
    message: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Vec<RawCondition>,
    container_statuses: Vec<RawContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawContainerStatus {
    name: String,
    image: String,
    #[serde(rename = "imageID")]
    image_id: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    restart_count: u32,
    ready: bool,
    state: RawState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawState {
    running: Option<serde::de::IgnoredAny>,
    waiting: Option<RawReason>,
    terminated: Option<RawReason>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawReason {
    exit_code: i32,
    reason: Option<String>,
    message: Option<String>,
}

impl From<RawPod> for EnvPod {
    fn from(RawPod { metadata, spec, status }: RawPod) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
        let mut statuses: BTreeMap<_, _> =
            status.container_statuses.into_iter().map(|status| (status.name.clone(), status)).collect();
        let container = |RawContainer { name, image }| {
            let status = statuses.remove(&name).unwrap_or_default();
            let end = status.state.terminated.map(|end| ContainerEnd {
                exit_code: end.exit_code,
                reason: end.reason.unwrap_or_default(),
                message: end.message.unwrap_or_default(),
            });
            EnvContainer {
                name,
                image,
                running_image: status.image,
                image_id: status.image_id,
                id: status.container_id.unwrap_or_default(),
                restarts: status.restart_count,
                is_running: status.state.running.is_some(),
                is_ready: status.ready,
                ended: end,
                waiting: status.state.waiting.map(|waiting| waiting.reason.unwrap_or_default()),
            }
        };
        Self {
            metadata,
            node: given(spec.node_name),
            phase: status.phase,
            reason: given(status.reason),
            message: given(status.message),
            ip: given(status.pod_ip),
            is_ready: ready.as_ref().is_some_and(|ready| ready.status == "True"),
            ready_since: ready.and_then(|ready| ready.last_transition_time).map(|time| time.0),
            containers: spec.containers.into_iter().map(container).collect(),
        }
    }
}

impl<'de> Deserialize<'de> for EnvPod {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawPod::deserialize(deserializer).map(Self::from)
    }
}
