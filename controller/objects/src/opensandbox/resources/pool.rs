//! `Pool`: pods of one template that wait for a batch.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
use crate::whole::{PodTemplate, or_default};

/// `maxUnavailable` of a strategy that says nothing.
pub const DEFAULT_MAX_UNAVAILABLE: &str = "25%";

/// What is asked of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "sandbox.opensandbox.io",
    version = "v1alpha1",
    kind = "Pool",
    plural = "pools",
    namespaced,
    status = "PoolStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Pods of one template that wait for a batch.",
    printcolumn(
        name = "TOTAL",
        type_ = "integer",
        json_path = ".status.total",
        description = "How many pods there are"
    ),
    printcolumn(
        name = "ALLOCATED",
        type_ = "integer",
        json_path = ".status.allocated",
        description = "How many pods a batch has"
    ),
    printcolumn(
        name = "AVAILABLE",
        type_ = "integer",
        json_path = ".status.available",
        description = "How many pods are ready and wait"
    ),
    printcolumn(
        name = "UPDATED",
        type_ = "integer",
        json_path = ".status.updated",
        description = "How many pods are of the latest template"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    /// The pod template of the pods. A pool without one makes no pods, and an event says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::template")]
    pub template: Option<PodTemplate>,
    /// How many pods there are.
    pub capacity_spec: CapacitySpec,
    /// How fast the pool grows and shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,
    /// How fast the pool replaces pods of an older template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// What happens to a pod that a batch gives back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recycle_strategy: Option<RecycleStrategy>,
}

/// How many pods a pool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::capacity()))]
pub struct CapacitySpec {
    /// How many pods wait at most.
    #[schemars(range(min = 0))]
    pub buffer_max: i32,
    /// How many pods wait at least; at most `bufferMax`. In a pool from before there was a rule it may be
    /// more: `bufferMax` counts then, and an event says so.
    #[schemars(range(min = 0))]
    pub buffer_min: i32,
    /// How many pods there are at most.
    #[schemars(range(min = 0))]
    pub pool_max: i32,
    /// How many pods there are at least; at most `poolMax`. In a pool from before there was a rule it may be
    /// more: `poolMax` counts then, and an event says so.
    #[schemars(range(min = 0))]
    pub pool_min: i32,
}

/// How fast a pool grows and shrinks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleStrategy {
    /// How many pods may be in creation at a time: a number, or a share of the pods as in `25%`. 25% if it is
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub max_unavailable: Option<IntOrString>,
}

/// How fast a pool replaces pods of an older template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// How many pods may be missing from the pool at a time: a number, or a share of the pods as in `25%`.
    /// 25% if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub max_unavailable: Option<IntOrString>,
}

/// What happens to a pod that a batch gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecycleStrategy {
    /// What happens to it: Delete deletes it, Restart restarts its containers, Noop leaves it as it is.
    /// Delete if it is missing.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::recycle_type")]
    pub type_: Option<RecycleType>,
}

/// What happens to a pod that a batch gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecycleType {
    /// The pod is deleted.
    #[default]
    Delete,
    /// The containers of the pod are restarted.
    Restart,
    /// The pod is left as it is.
    Noop,
    /// Another word, which counts as Delete.
    #[serde(untagged)]
    Other(String),
}

/// What has been observed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The revision of the template that the spec asks for.
    #[serde(default, deserialize_with = "or_default")]
    pub revision: String,
    /// How many pods there are.
    #[serde(default, deserialize_with = "or_default")]
    pub total: i32,
    /// How many of them a batch has.
    #[serde(default, deserialize_with = "or_default")]
    pub allocated: i32,
    /// How many of them are ready and wait.
    #[serde(default, deserialize_with = "or_default")]
    pub available: i32,
    /// How many of them are of the latest template.
    #[serde(default, deserialize_with = "or_default")]
    pub updated: i32,
}

impl PoolSpec {
    /// What happens to a pod that a batch gives back: never [`RecycleType::Other`].
    pub fn recycle(&self) -> RecycleType {
        match self.recycle_strategy.as_ref().and_then(|strategy| strategy.type_.as_ref()) {
            Some(RecycleType::Restart) => RecycleType::Restart,
            Some(RecycleType::Noop) => RecycleType::Noop,
            Some(RecycleType::Delete | RecycleType::Other(_)) | None => RecycleType::Delete,
        }
    }
}
