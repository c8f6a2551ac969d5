//! `BatchSandbox`: some pods of one template or of one pool, and a task in each of them.

use std::fmt;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::Condition;
use super::schema;
use super::task::TaskTemplate;
use crate::whole::{PodTemplate, Time, or_default};

/// What is asked of a batch.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "sandbox.opensandbox.io",
    version = "v1alpha1",
    kind = "BatchSandbox",
    plural = "batchsandboxes",
    namespaced,
    status = "BatchSandboxStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "bsbx",
    doc = "Some pods of one template or of one pool, and a task in each of them.",
    printcolumn(
        name = "DESIRED",
        type_ = "integer",
        json_path = ".spec.replicas",
        description = "How many pods are asked for"
    ),
    printcolumn(
        name = "TOTAL",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "How many pods there are"
    ),
    printcolumn(
        name = "ALLOCATED",
        type_ = "integer",
        json_path = ".status.allocated",
        description = "How many pods have a node"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.ready",
        description = "How many pods are ready"
    ),
    printcolumn(
        name = "TASK_RUNNING",
        type_ = "integer",
        json_path = ".status.taskRunning",
        description = "How many tasks run",
        priority = 1
    ),
    printcolumn(
        name = "TASK_SUCCEED",
        type_ = "integer",
        json_path = ".status.taskSucceed",
        description = "How many tasks have succeeded",
        priority = 1
    ),
    printcolumn(
        name = "TASK_FAILED",
        type_ = "integer",
        json_path = ".status.taskFailed",
        description = "How many tasks have failed",
        priority = 1
    ),
    printcolumn(
        name = "TASK_UNKNOWN",
        type_ = "integer",
        json_path = ".status.taskUnknown",
        description = "How many tasks nothing is known of",
        priority = 1
    ),
    printcolumn(
        name = "EXPIRE",
        type_ = "string",
        json_path = ".spec.expireTime",
        description = "When it is deleted"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::pods()))]
pub struct BatchSandboxSpec {
    /// How many pods there are to be. One if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 1))]
    pub replicas: Option<i32>,
    /// The pool in the same namespace that the pods are taken from, instead of `template`. `*` leaves the
    /// choice to the operator, which writes the name of the pool in its place. A batch without both, from
    /// before there was a rule, gets no pods and an event that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<String>,
    /// The pod template of the pods, instead of `poolRef`. Beside the `poolRef` `*` it says what the pool has
    /// to offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::template")]
    pub template: Option<PodTemplate>,
    /// What is different in the pod of each slot: strategic merge patches of the pod. The first is for the
    /// first slot. Only the pods of a template are patched.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::patches")]
    pub shard_patches: Vec<Value>,
    /// What is different in the task of each slot: strategic merge patches of `taskTemplate`. The first is
    /// for the first slot.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::patches")]
    pub shard_task_patches: Vec<Value>,
    /// When the batch ends: it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub expire_time: Option<Time>,
    /// Whether the batch is to be paused: true pauses it, false resumes it. Nothing happens if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<bool>,
    /// The task that runs in each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_template: Option<TaskTemplate>,
    /// What happens to a pod whose task is done: Retain keeps it until the batch is deleted, Release gives it
    /// back at once. Retain if it is missing. Another word counts as Retain, and an event says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_policy")]
    pub task_resource_policy_when_completed: Option<ResourcePolicy>,
}

/// What happens to a pod whose task is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourcePolicy {
    /// The pod is kept until the batch is deleted.
    #[default]
    Retain,
    /// The pod is given back at once.
    Release,
    /// Another word, which counts as Retain.
    #[serde(untagged)]
    Other(String),
}

/// What has been observed of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchSandboxStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods there are.
    #[serde(default, deserialize_with = "or_default")]
    pub replicas: i32,
    /// How many of them have a node.
    #[serde(default, deserialize_with = "or_default")]
    pub allocated: i32,
    /// How many of them are ready.
    #[serde(default, deserialize_with = "or_default")]
    pub ready: i32,
    /// How many tasks run.
    #[serde(default, deserialize_with = "or_default")]
    pub task_running: i32,
    /// How many tasks have succeeded.
    #[serde(default, deserialize_with = "or_default")]
    pub task_succeed: i32,
    /// How many tasks have failed.
    #[serde(default, deserialize_with = "or_default")]
    pub task_failed: i32,
    /// How many tasks have no pod yet.
    #[serde(default, deserialize_with = "or_default")]
    pub task_pending: i32,
    /// How many tasks nothing is known of.
    #[serde(default, deserialize_with = "or_default")]
    pub task_unknown: i32,
    /// Why a task failed, the newest word of OpenSandbox's operator. Ours keeps it and writes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_last_error_message: Option<String>,
    /// Where the batch is in its life: Pending, Succeed, Pausing, Paused, Resuming or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The UIDs of the pods for which OpenSandbox's operator called the batch Failed. Ours keeps them and
    /// writes none.
    #[serde(
        default,
        rename = "failedPodUIDs",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub failed_pod_uids: Vec<String>,
    /// The generation whose `pause` has been acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_observed_generation: Option<i64>,
    /// What is true of the batch: Ready, Progressing, Paused, PauseFailed, ResumeFailed, PodFailed. What is
    /// not true is left out.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Without patches, which may contain secrets.
impl fmt::Debug for BatchSandboxSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            replicas,
            pool_ref,
            template,
            shard_patches,
            shard_task_patches,
            expire_time,
            pause,
            task_template,
            task_resource_policy_when_completed,
        } = self;
        f.debug_struct("BatchSandboxSpec")
            .field("replicas", replicas)
            .field("pool_ref", pool_ref)
            .field("template", template)
            .field("shard_patches", &shard_patches.len())
            .field("shard_task_patches", &shard_task_patches.len())
            .field("expire_time", expire_time)
            .field("pause", pause)
            .field("task_template", task_template)
            .field("task_resource_policy_when_completed", task_resource_policy_when_completed)
            .finish()
    }
}

impl BatchSandboxSpec {
    /// How many pods there are to be.
    pub fn replicas(&self) -> usize {
        usize::try_from(self.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// The pool; `None` if the batch makes its pods itself.
    pub fn pool(&self) -> Option<&str> {
        self.pool_ref.as_deref().filter(|pool| !pool.is_empty())
    }

    /// Whether a pod is given back as soon as its task is done.
    pub fn releases_completed(&self) -> bool {
        self.task_resource_policy_when_completed == Some(ResourcePolicy::Release)
    }
}

impl BatchSandboxStatus {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }
}
