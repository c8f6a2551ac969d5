//! What the operator needs to know of a pod.
//!
//! The whole object has some kilobytes, most of which nobody reads here.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use serde_json::Value;

/// A pod, trimmed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// UID of the Sandbox that controls it.
    pub owner_uid: Option<String>,
    /// Name of the Sandbox that controls it.
    pub owner_name: Option<String>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The phase: Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Why the pod is in this phase.
    pub reason: Option<String>,
    /// The same in words.
    pub message: Option<String>,
    /// Its address.
    pub ip: Option<String>,
    /// Where it runs.
    pub node: Option<String>,
    /// Whether it serves.
    pub is_ready: bool,
    /// How far a change of its resources is.
    pub resize: Resize,
    /// The containers.
    pub containers: Vec<ContainerFacts>,
    /// The init containers.
    pub init_containers: Vec<ContainerFacts>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerFacts {
    /// The name.
    pub name: String,
    /// The image that the spec asks for.
    pub image: String,
    /// The resources that the spec asks for.
    pub resources: Value,
    /// The image that it runs.
    pub running_image: Option<String>,
    /// The resources that it has, where the node says so.
    pub running_resources: Option<Value>,
    /// Why it waits, if it does.
    pub waiting: Option<String>,
    /// The same in words.
    pub waiting_message: Option<String>,
    /// Why it ended, if it did.
    pub terminated: Option<String>,
}

/// How far a change of a pod's resources is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Resize {
    /// There is none, or it is done.
    #[default]
    Settled,
    /// The node works on it, or will when it has room.
    Underway,
    /// The node will never have room for it.
    Infeasible(String),
}

impl PodFacts {
    /// Whether the pod has ended by itself.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct RawPod {
    pub(super) metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    node_name: Option<String>,
    containers: Vec<RawContainer>,
    init_containers: Vec<RawContainer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContainer {
    name: String,
    image: String,
    resources: Value,
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
    init_container_statuses: Vec<RawContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContainerStatus {
    name: String,
    image: String,
    resources: Option<Value>,
    state: RawContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContainerState {
    waiting: Option<RawReason>,
    terminated: Option<RawReason>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawReason {
    reason: Option<String>,
    message: Option<String>,
}

impl From<RawPod> for PodFacts {
    fn from(raw: RawPod) -> Self {
        let RawPod { metadata, spec, status } = raw;
        let owner = metadata.owner_references.into_iter().flatten().find(is_sandbox);
        let is_ready = status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
        let resize = resize_of(&status.conditions);
        let (owner_uid, owner_name) = owner.map(|owner| (owner.uid, owner.name)).unzip();
        Self {
            owner_uid,
            owner_name,
            is_deleting: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            phase: status.phase,
            reason: status.reason,
            message: status.message,
            ip: status.pod_ip.filter(|ip| !ip.is_empty()),
            node: spec.node_name.filter(|node| !node.is_empty()),
            is_ready,
            resize,
            containers: join(spec.containers, &status.container_statuses),
            init_containers: join(spec.init_containers, &status.init_container_statuses),
        }
    }
}

fn is_sandbox(owner: &OwnerReference) -> bool {
    owner.controller == Some(true)
        && owner.kind == "Sandbox"
        && owner.api_version.starts_with("agents.kruise.io/")
}

fn resize_of(conditions: &[RawCondition]) -> Resize {
    let now = |kind: &str| conditions.iter().find(|it| it.type_ == kind && it.status == "True");
    match (now("PodResizePending"), now("PodResizeInProgress")) {
        (Some(pending), _) if pending.reason.as_deref() == Some("Infeasible") => {
            Resize::Infeasible(pending.message.clone().unwrap_or_default())
        }
        (None, None) => Resize::Settled,
        _ => Resize::Underway,
    }
}

fn join(containers: Vec<RawContainer>, statuses: &[RawContainerStatus]) -> Vec<ContainerFacts> {
    let one = |RawContainer { name, image, resources }: RawContainer| {
        let status = statuses.iter().find(|status| status.name == name);
        let waiting = status.and_then(|status| status.state.waiting.as_ref());
        let terminated = status.and_then(|status| status.state.terminated.as_ref());
        ContainerFacts {
            running_image: status.map(|status| status.image.clone()).filter(|image| !image.is_empty()),
            running_resources: status.and_then(|status| status.resources.clone()),
            waiting: waiting.map(|waiting| waiting.reason.clone().unwrap_or_default()),
            waiting_message: waiting.and_then(|waiting| waiting.message.clone()),
            terminated: terminated.map(|terminated| terminated.reason.clone().unwrap_or_default()),
            name,
            image,
            resources,
        }
    };
    containers.into_iter().map(one).collect()
}
