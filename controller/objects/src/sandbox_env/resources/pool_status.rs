//! What has been observed of a pool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{known_word, schema};
use crate::openkruise::resources::Condition;
use crate::whole::{Time, or_default};

/// What has been observed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxPoolStatus {
    /// How the pool is.
    #[serde(default, deserialize_with = "known_word", skip_serializing_if = "Option::is_none")]
    pub phase: Option<PoolPhase>,
    /// How many pods wait for a claim.
    #[serde(default, deserialize_with = "or_default")]
    pub idle_replicas: i32,
    /// How many of them are not ready.
    #[serde(default, deserialize_with = "or_default")]
    pub unavailable_idle_replicas: i32,
    /// How many pods are sandboxes.
    #[serde(default, deserialize_with = "or_default")]
    pub running_replicas: i32,
    /// How many pods are claimed and not yet sandboxes.
    #[serde(default, deserialize_with = "or_default")]
    pub starting_replicas: i32,
    /// How many pods are released and not yet idle.
    #[serde(default, deserialize_with = "or_default")]
    pub stopping_replicas: i32,
    /// How many pods cannot be used.
    #[serde(default, deserialize_with = "or_default")]
    pub failed_replicas: i32,
    /// The revision of the template that the spec asks for.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// The revision that all pods have, or had last.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// How many pods are of `updateRevision`.
    #[serde(default, deserialize_with = "or_default")]
    pub updated_replicas: i32,
    /// How many claims wait for a pod.
    #[serde(default, deserialize_with = "or_default")]
    pub pending_requests: i32,
    /// The label selector of the running pods, for the scale subresource.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// The label selector of all pods.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// The label selectors of the pods in each phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_selectors: Option<PhaseSelectors>,
    /// What is true of the pool.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What the autoscaler has done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<AutoscalingStatus>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PoolPhase {
    /// It wants no pod and has none.
    Pending,
    /// It has as many pods as it wants, and they are well.
    Ready,
    /// It makes pods.
    ScalingUp,
    /// It has more pods than it wants.
    ScalingDown,
    /// Pods are not ready, or have failed.
    Degraded,
    /// It is being deleted.
    Terminating,
}

/// The label selectors of the pods in each phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseSelectors {
    /// All pods.
    #[serde(default, deserialize_with = "or_default")]
    pub all: String,
    /// Those that wait for a claim.
    #[serde(default, deserialize_with = "or_default")]
    pub idle: String,
    /// Those that are sandboxes.
    #[serde(default, deserialize_with = "or_default")]
    pub running: String,
    /// Those that are claimed and not yet sandboxes.
    #[serde(default, deserialize_with = "or_default")]
    pub starting: String,
    /// Those that are released and not yet idle.
    #[serde(default, deserialize_with = "or_default")]
    pub stopping: String,
    /// Those that cannot be used.
    #[serde(default, deserialize_with = "or_default")]
    pub failed: String,
}

/// What the autoscaler has done with a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalingStatus {
    /// When it last raised `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scale_up_time: Option<Time>,
    /// When it last lowered `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scale_down_time: Option<Time>,
    /// Since when no pod waits for a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub idle_zero_since: Option<Time>,
    /// When it last tried to raise `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scale_up_attempt_time: Option<Time>,
    /// What became of that.
    #[serde(default, deserialize_with = "known_word", skip_serializing_if = "Option::is_none")]
    pub last_scale_up_attempt_result: Option<AttemptResult>,
    /// Why it could not, for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub scale_up_error_message: String,
    /// The generation of the environment that was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What became of an attempt to raise `replicas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttemptResult {
    /// All that was asked for was admitted.
    Enough,
    /// All that is there was taken, and no more is to be had. Nobody writes it yet.
    JustRight,
    /// Not all that was asked for was admitted.
    Insufficient,
    /// It could not be asked for.
    Failed,
}
