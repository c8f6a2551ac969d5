//! A member of an environment: one pool of it, in one cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::ResourceRequirements;
use super::pool::SandboxPoolSpec;
use super::schema;
use crate::whole::or_default;

/// The scaling group of a member that does not say, as the API server fills it in.
const DEFAULT_GROUP: &str = "default";

/// A member of an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// The name, which is that of the pool.
    pub name: String,
    /// Labels and annotations of the pool.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: MemberMetadata,
    /// The pool as it was admitted. The control plane writes it.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: SandboxPoolSpec,
    /// What its user asked for.
    #[serde(default, deserialize_with = "or_default")]
    pub config: MemberConfig,
}

/// Labels and annotations of a member's pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberMetadata {
    /// The labels.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What the user of a member asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberConfig {
    /// Labels of the pool, which go before those of the template.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pool, which go before those of the template.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The name of a size from the catalog.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub instance_type: String,
    /// How many times that size.
    #[serde(deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub multiplier: i32,
    /// The resources of the first container, instead of a size from the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub inline_resources: Option<ResourceRequirements>,
    /// The scaling group; without one the member does not scale by itself.
    pub scaling_group: String,
    /// The least replicas.
    #[serde(deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub min_replicas: i32,
    /// The greatest replicas; 0 is no limit.
    #[serde(deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub max_replicas: i32,
    /// Which member is taken first: the lower goes before.
    #[serde(deserialize_with = "or_default")]
    pub priority: i32,
    /// Which member grows first: the lower goes before. `priority` if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up_priority: Option<i32>,
    /// Which member shrinks first: the higher goes before. `priority` if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_priority: Option<i32>,
    /// How a change of the template reaches the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<MemberUpdateStrategy>,
}

impl Default for MemberConfig {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            instance_type: String::new(),
            multiplier: 0,
            inline_resources: None,
            scaling_group: DEFAULT_GROUP.to_owned(),
            min_replicas: 0,
            max_replicas: 0,
            priority: 0,
            scale_up_priority: None,
            scale_down_priority: None,
            update_strategy: None,
        }
    }
}

/// How a change of the template reaches a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberUpdateStrategy {
    /// Whether it reaches the pool by itself. What the environment says if it is missing, and true if that
    /// says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_update: Option<bool>,
    /// `maxUnavailable` of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub max_unavailable: Option<IntOrString>,
}

impl MemberConfig {
    /// Which member grows first: the lower goes before.
    pub fn up_priority(&self) -> i32 {
        self.scale_up_priority.unwrap_or(self.priority)
    }

    /// Which member shrinks first: the higher goes before.
    pub fn down_priority(&self) -> i32 {
        self.scale_down_priority.unwrap_or(self.priority)
    }
}
