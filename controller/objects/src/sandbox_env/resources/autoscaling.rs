//! How an autoscaler moves the replicas of an environment's pools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
use crate::whole::or_default;

/// The scaling groups of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Autoscaling {
    /// The groups, one for each name that a member has.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub groups: Vec<ScalingGroup>,
}

/// Members that scale together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::aggressive_has_a_ceiling()))]
pub struct ScalingGroup {
    /// The name, as members have it.
    pub name: String,
    /// Whether the group scales by itself.
    #[serde(default, deserialize_with = "or_default")]
    pub enabled: bool,
    /// The least sum of the members' replicas.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub min_replicas: i32,
    /// The greatest sum of the members' replicas; no limit if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_replicas: Option<i32>,
    /// How the group grows.
    #[serde(default, deserialize_with = "or_default")]
    pub scale_up_policy: ScaleUpPolicy,
    /// How the group shrinks.
    #[serde(default, deserialize_with = "or_default")]
    pub scale_down_policy: ScaleDownPolicy,
}

/// How fast a group grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// One at a time.
    Conservative,
    /// By a quarter of the demand.
    #[default]
    Default,
    /// By half of the demand. The group needs `maxReplicas`.
    Aggressive,
}

/// How a group grows. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleUpPolicy {
    /// How fast.
    pub mode: Mode,
    /// How long after it grew a pool does not grow again.
    #[schemars(range(min = 0))]
    pub cooldown_seconds: i32,
    /// How long no pod may wait for a claim before the pool grows without being asked. 0 is for ever.
    #[schemars(range(min = 0))]
    pub idle_threshold_seconds: i32,
    /// How long after the last claim a pool does not grow without being asked. 0 is never.
    #[schemars(range(min = 0))]
    pub idle_zero_quiet_window_seconds: i32,
    /// How long after it could not grow a pool does not try again.
    #[schemars(range(min = 0))]
    pub saturation_cooldown_seconds: i32,
}

impl Default for ScaleUpPolicy {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            cooldown_seconds: 30,
            idle_threshold_seconds: 30,
            idle_zero_quiet_window_seconds: 300,
            saturation_cooldown_seconds: 60,
        }
    }
}

/// How a group shrinks. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleDownPolicy {
    /// How long a pod waits for a claim before it counts as too many.
    #[schemars(range(min = 0))]
    pub idle_timeout_seconds: i32,
    /// How long after it shrank a pool does not shrink again.
    #[schemars(range(min = 0))]
    pub stabilization_seconds: i32,
    /// How long a pod that is about to go is marked before it goes.
    #[schemars(range(min = 0))]
    pub protection_window_seconds: i32,
}

impl Default for ScaleDownPolicy {
    fn default() -> Self {
        Self { idle_timeout_seconds: 300, stabilization_seconds: 60, protection_window_seconds: 10 }
    }
}
