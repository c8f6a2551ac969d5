//! `SandboxEnv`: an environment, which names a template, clusters and the pools in each of them.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::autoscaling::Autoscaling;
use super::env_status::SandboxEnvStatus;
use super::json::NetworkPolicy;
use super::member::{Member, MemberUpdateStrategy};
use super::pool::ImagePolicy;
use super::schema;
use crate::whole::or_default;

/// What is asked of an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "agents.navix.sh",
    version = "v1alpha1",
    kind = "SandboxEnv",
    plural = "sandboxenvs",
    namespaced,
    status = "SandboxEnvStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "sbe",
    doc = "An environment: a template, and the pools that are made of it in each cluster.",
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Template", type_ = "string", json_path = ".spec.templateRef.name"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".status.memberCount"),
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.runningReplicas"),
    printcolumn(name = "Idle", type_ = "integer", json_path = ".status.idleReplicas"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
pub struct SandboxEnvSpec {
    /// The template.
    pub template_ref: EnvTemplateRef,
    /// How sandboxes are made: WarmPool keeps pods that wait. OnDemandJob is known and does nothing.
    #[serde(default, deserialize_with = "or_default")]
    pub mode: EnvMode,
    /// What members have that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<EnvDefaults>,
    /// The members of each cluster.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["clusterID"]))]
    pub clusters: Vec<ClusterSegment>,
    /// How the members scale by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// What pools have instead of what the template says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<EnvOverrides>,
}

/// The template of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvTemplateRef {
    /// The name of the SandboxTemplate.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// A version, for people. The template is always taken as it is.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// How the sandboxes of an environment are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EnvMode {
    /// Pods wait for a claim.
    #[default]
    WarmPool,
    /// A job for each sandbox. Nobody does it.
    OnDemandJob,
}

/// What members have that do not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvDefaults {
    /// The name of a size from the catalog.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub instance_type: String,
    /// How many times that size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub multiplier: Option<i32>,
}

/// The members of one cluster. Only the control plane of that cluster acts on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterSegment {
    /// The cluster.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Its members.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<Member>,
}

/// What pools have instead of what the template says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvOverrides {
    /// The image of the first container.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The image of pods that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_creation_image_policy: Option<ImagePolicy>,
    /// How long a sandbox may take to start, as in `2m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub default_startup_timeout: Option<String>,
    /// The silence after which a sandbox is released, as in `1h`. `0s` is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub default_idle_timeout: Option<String>,
    /// How a change of the template reaches the pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<MemberUpdateStrategy>,
    /// Volume claims that every pod mounts.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub volumes: Vec<EnvVolume>,
    /// Kept, and not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub network_policy: Option<NetworkPolicy>,
    /// Whether the sandboxes are reached through a gateway. Kept, and not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySwitch>,
}

/// A volume claim that every pod mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVolume {
    /// The name of the PersistentVolumeClaim.
    pub claim_name: String,
    /// Where it is mounted.
    pub mount_path: String,
    /// The folder of it that is mounted.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub sub_path: String,
    /// Whether it can be read only; true if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}

/// Whether something goes through a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewaySwitch {
    /// Whether it does.
    #[serde(default, deserialize_with = "or_default")]
    pub enabled: bool,
}

impl SandboxEnvSpec {
    /// The members in a cluster.
    pub fn members_in(&self, cluster: &str) -> &[Member] {
        let segment = self.clusters.iter().find(|segment| segment.cluster_id == cluster);
        segment.map_or(&[], |segment| &segment.members)
    }
}
