//! What has been observed of an environment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::ResourceRequirements;
use super::{known_word, schema};
use crate::openkruise::resources::Condition;
use crate::whole::{Time, or_default};

/// What has been observed of an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxEnvStatus {
    /// What is true of the environment.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What each cluster has observed of its members.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["clusterID"]))]
    pub clusters: Vec<ObservedCluster>,
    /// The sums of each scaling group, in the order of their names.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub scaling_groups: Vec<GroupTotals>,
    /// How many members there are in this cluster.
    #[serde(default, deserialize_with = "or_default")]
    pub member_count: i32,
    /// How many pods they want.
    #[serde(default, deserialize_with = "or_default")]
    pub desired_replicas: i32,
    /// How many of their pods are sandboxes.
    #[serde(default, deserialize_with = "or_default")]
    pub running_replicas: i32,
    /// How many of their pods wait for a claim.
    #[serde(default, deserialize_with = "or_default")]
    pub idle_replicas: i32,
}

/// What one cluster has observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedCluster {
    /// The cluster.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Whether it is the one that this object is in.
    #[serde(default, deserialize_with = "or_default")]
    pub is_local: bool,
    /// Its members.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub observed_members: Vec<ObservedMember>,
    /// When this was last different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_snapshot_time: Option<Time>,
}

/// What has been observed of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedMember {
    /// The name.
    pub name: String,
    /// The size.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub instance_type: String,
    /// How many times that size.
    #[serde(default, deserialize_with = "or_default")]
    pub multiplier: i32,
    /// The resources of the first container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub effective_resources: Option<ResourceRequirements>,
    /// How the member is.
    #[serde(default, deserialize_with = "known_word", skip_serializing_if = "Option::is_none")]
    pub state: Option<MemberState>,
    /// How many pods wait for a claim.
    #[serde(default, deserialize_with = "or_default")]
    pub idle_count: i32,
    /// How many pods are sandboxes.
    #[serde(default, deserialize_with = "or_default")]
    pub running_count: i32,
    /// How many pods the pool wants.
    #[serde(default, deserialize_with = "or_default")]
    pub desired_replicas: i32,
    /// How many pods the pool has.
    #[serde(default, deserialize_with = "or_default")]
    pub current_replicas: i32,
    /// How many claims wait.
    #[serde(default, deserialize_with = "or_default")]
    pub pending_requests: i32,
    /// Until when the pool does not try to grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub saturated_until: Option<Time>,
    /// The scaling group.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub scaling_group: String,
    /// Whether the pool scales by itself.
    #[serde(default, deserialize_with = "or_default")]
    pub autoscaling_enabled: bool,
    /// By how much the pool may still grow by itself: 0 is not at all. Missing where it does not grow by
    /// itself, or has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up_headroom: Option<i32>,
    /// The revision that the pool's spec asks for.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// How many pods are of it.
    #[serde(default, deserialize_with = "or_default")]
    pub updated_replicas: i32,
    /// The version of the template that the pool was rendered from.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub template_version: String,
}

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MemberState {
    /// It has its pool.
    Active,
    /// It cannot grow. Nobody writes it.
    Saturated,
    /// It has no pool.
    Missing,
    /// Its pool is another's, or of another template.
    Inconsistent,
}

/// The sums of a scaling group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupTotals {
    /// The group.
    pub name: String,
    /// How many pods wait for a claim.
    #[serde(default, deserialize_with = "or_default")]
    pub total_idle: i32,
    /// How many pods are sandboxes.
    #[serde(default, deserialize_with = "or_default")]
    pub total_running: i32,
    /// How many pods are wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub total_desired: i32,
}

impl SandboxEnvStatus {
    /// What a cluster has observed of its members.
    pub fn observed_in(&self, cluster: &str) -> &[ObservedMember] {
        let observed = self.clusters.iter().find(|observed| observed.cluster_id == cluster);
        observed.map_or(&[], |observed| &observed.observed_members)
    }
}
