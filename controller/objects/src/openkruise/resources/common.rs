//! What several kinds have.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// How a sandbox pauses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseStrategy {
    /// What happens to the pod.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<PauseType>,
    /// How the state of the pod is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernate_strategy: Option<HibernateStrategy>,
}

/// What a pause does to the pod: Stop deletes it, so that its memory and its files are lost and its volume
/// claims survive; Hibernate keeps its state by a checkpoint. Stop if it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PauseType {
    /// The pod is deleted. Its memory and its file system are lost; volume claims survive.
    Stop,
    /// The pod's state is kept by a checkpoint.
    Hibernate,
}

/// How hibernation keeps the state of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HibernateStrategy {
    /// How the state is kept.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<HibernateType>,
}

/// How the state of a hibernated pod is kept: Snapshot is the only way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HibernateType {
    /// By a snapshot.
    Snapshot,
}

/// A runtime that OpenKruise injects into the pod. Sandgate keeps the list and injects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Runtime {
    /// The name of the runtime: `csi`, `agent-runtime` or `traffic-proxy`.
    #[schemars(extend("enum" = ["csi", "agent-runtime", "traffic-proxy"]))]
    pub name: String,
}

/// Where a pod template is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::known_template_kind()))]
pub struct TemplateRef {
    /// The name of the SandboxTemplate in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The kind; SandboxTemplate if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
    /// Group and version of the kind; `agents.kruise.io/v1alpha1` if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub api_version: Option<String>,
}
