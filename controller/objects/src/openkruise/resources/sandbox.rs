//! `Sandbox`: one pod that is created, paused, resumed and ended as its spec says.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Condition, PauseStrategy, Runtime, TemplateRef};
use super::json::{AutoPausePolicy, Probe, Schedule, VolumeClaimTemplate};
use super::schema;
use crate::whole::{PodTemplate, Time, or_default};

/// What is asked of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "agents.kruise.io",
    version = "v1alpha1",
    kind = "Sandbox",
    plural = "sandboxes",
    namespaced,
    status = "SandboxStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "sbx",
    category = "agents",
    doc = "A pod that is created, paused, resumed and ended as its spec says.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Pool",
        type_ = "string",
        json_path = ".metadata.labels.agents\\.kruise\\.io/sandbox-pool",
        description = "The set that made it"
    ),
    printcolumn(
        name = "Claimed",
        type_ = "string",
        json_path = ".metadata.labels.agents\\.kruise\\.io/sandbox-claimed"
    ),
    printcolumn(name = "Paused", type_ = "boolean", json_path = ".spec.paused"),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.podInfo.podIP", priority = 1),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName", priority = 1),
    printcolumn(
        name = "Shutdown",
        type_ = "string",
        json_path = ".spec.shutdownTime",
        description = "When it ends",
        priority = 1
    ),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::one_template()))]
pub struct SandboxSpec {
    /// Whether the sandbox is to be paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// How the sandbox pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_strategy: Option<PauseStrategy>,
    /// What of the sandbox is kept over a pause: `ip`, `memory`, `filesystem`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::contents")]
    pub persistent_contents: Vec<String>,
    /// When the sandbox ends: it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub shutdown_time: Option<Time>,
    /// When the sandbox is paused by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub pause_time: Option<Time>,
    /// Runtimes that OpenKruise injects into the pod. Sandgate keeps the list and injects nothing.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub runtimes: Vec<Runtime>,
    /// What runs in the sandbox before and after an upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// What a change of the template does to a running sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_policy: Option<UpgradePolicy>,
    /// The SandboxTemplate with the pod template, instead of `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
    /// The pod template, instead of `templateRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::template")]
    pub template: Option<PodTemplate>,
    /// Volume claims that are made for the sandbox and deleted with it. They survive a pause.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::claims")]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// When the sandbox pauses and resumes by itself, as newer versions of OpenKruise have it. Sandgate keeps
    /// it and does not act on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::policy")]
    pub auto_pause_policy: Option<AutoPausePolicy>,
    /// Probes of the newer OpenKruise. They are kept and not read.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub probes: Vec<Probe>,
}

/// What runs in a sandbox around an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// What runs before the pod is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_upgrade: Option<Hook>,
    /// What runs in the new pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_upgrade: Option<Hook>,
}

/// Something that runs in a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// A command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// How long it may take, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 60))]
    pub timeout_seconds: Option<i32>,
}

/// A command that runs in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecAction {
    /// The program and its arguments. No shell is involved.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1024))]
    pub command: Vec<String>,
}

/// What a change of the template does to a running sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpgradePolicy {
    /// What happens to the pod.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<UpgradeType>,
}

/// What an upgrade does to the pod: Recreate makes it anew; CheckpointRestore makes it anew from a checkpoint
/// of the old one. If it is empty or missing, what can be changed in place is, and the rest waits for the
/// next pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeType {
    /// What can be changed in place is; the rest waits for the next pod.
    #[serde(rename = "")]
    InPlace,
    /// The pod is deleted and made anew.
    Recreate,
    /// The pod is made anew from a checkpoint of the old one.
    CheckpointRestore,
}

/// What has been observed of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Where the sandbox is in its life: Pending, Running, Paused, Resuming, Upgrading, Recycling, Succeeded,
    /// Failed or Terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why it is in this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is true of the sandbox: Ready, SandboxPaused, SandboxResumed and others.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The pod of the sandbox. A paused sandbox keeps what was known of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_info: Option<PodInfo>,
    /// The node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The address of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_ip: Option<String>,
    /// The revision of the template that the spec asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// How often the sandbox went back to its pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub recycled_count: Option<i64>,
    /// Schedules of the newer OpenKruise. They are kept and not read.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub schedules: Vec<Schedule>,
}

impl SandboxStatus {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }
}

/// The pod of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodInfo {
    /// Annotations of the pod.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the pod.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The address of the pod.
    #[serde(rename = "podIP", default, skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<String>,
    /// Which pod of that name it is.
    #[serde(rename = "podUID", default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
}
