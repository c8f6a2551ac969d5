//! `Checkpoint`: the state of a sandbox, kept to start another one from.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::PodTemplateDelta;
use super::schema;
use crate::whole::{Time, or_default};

/// What is asked of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "agents.kruise.io",
    version = "v1alpha1",
    kind = "Checkpoint",
    plural = "checkpoints",
    namespaced,
    status = "CheckpointStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "cp",
    category = "agents",
    doc = "The state of a sandbox, kept to start another one from.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Sandbox", type_ = "string", json_path = ".spec.sandboxName"),
    printcolumn(name = "Pod", type_ = "string", json_path = ".spec.podName", priority = 1),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.checkpointId"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::some_source()))]
pub struct CheckpointSpec {
    /// The sandbox in the same namespace that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub sandbox_name: Option<String>,
    /// The pod in the same namespace that is kept, where there is no sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub pod_name: Option<String>,
    /// Whether the sandbox goes on running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub keep_running: Option<bool>,
    /// What is kept: `podInfo`, `memory`, `filesystem`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::kept_contents")]
    pub persistent_contents: Vec<String>,
    /// How long after its end the checkpoint is deleted, as in `30s`, `30m` or `30d`. Never if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^([0-9]+(ms|s|m|h|d))+$"), length(max = 64))]
    pub ttl_after_finished: Option<String>,
}

/// What has been observed of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Where the checkpoint is in its life: Pending, Creating, Succeeded, Failed or Terminating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why it is in this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The ID to start a sandbox from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<String>,
    /// When the checkpoint was done or given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub completion_time: Option<Time>,
    /// What changes in the pod template of a sandbox that starts from this checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub pod_template_delta: Option<PodTemplateDelta>,
}
