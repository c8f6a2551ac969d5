//! `SandboxSet`: a pool of sandboxes that wait to be claimed.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Condition, PauseStrategy, Runtime, TemplateRef};
use super::json::{AutoPausePolicy, Probe, VolumeClaimTemplate};
use super::schema;
use crate::whole::{PodTemplate, or_default};

/// `updateStrategy.maxUnavailable` of a set that says nothing.
pub const DEFAULT_MAX_UNAVAILABLE: &str = "20%";

/// What is asked of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "agents.kruise.io",
    version = "v1alpha1",
    kind = "SandboxSet",
    plural = "sandboxsets",
    namespaced,
    status = "SandboxSetStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "sbs",
    category = "agents",
    doc = "A pool of sandboxes that wait to be claimed.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.updateRevision", priority = 1),
    printcolumn(
        name = "Template",
        type_ = "string",
        json_path = ".spec.templateRef.name",
        description = "The SandboxTemplate that it refers to",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::one_template()))]
pub struct SandboxSetSpec {
    /// How many sandboxes wait to be claimed. A claimed sandbox leaves the set and is replaced.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// The pod template of the sandboxes, instead of `templateRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::template")]
    pub template: Option<PodTemplate>,
    /// The SandboxTemplate with the pod template, instead of `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
    /// Volume claims that are made for each sandbox.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::claims")]
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// What of a sandbox is kept over a pause: `ip`, `memory`, `filesystem`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::contents")]
    pub persistent_contents: Vec<String>,
    /// Runtimes that OpenKruise injects into the pods. Sandgate keeps the list and injects nothing.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub runtimes: Vec<Runtime>,
    /// How the sandboxes pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_strategy: Option<PauseStrategy>,
    /// When the sandboxes pause and resume by themselves, as newer versions of OpenKruise have it. Sandgate
    /// keeps it and does not act on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::policy")]
    pub auto_pause_policy: Option<AutoPausePolicy>,
    /// Probes of the newer OpenKruise. They are kept and not read.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub probes: Vec<Probe>,
    /// How fast the set grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,
    /// How fast the set replaces sandboxes of an older template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {}))]
    pub update_strategy: Option<UpdateStrategy>,
}

/// How fast a set grows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleStrategy {
    /// How many sandboxes may be in creation at a time: a number, or a share of `replicas` as in `20%`. No
    /// limit if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub max_unavailable: Option<IntOrString>,
}

/// How fast a set replaces sandboxes of an older template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// How many sandboxes may be missing from the pool at a time: a number, or a share of `replicas` as in
    /// `20%`. A share is rounded up. With 0 the set keeps what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share", extend("default" = DEFAULT_MAX_UNAVAILABLE))]
    pub max_unavailable: Option<IntOrString>,
}

/// What has been observed of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSetStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// How many sandboxes are in the set, in creation or available.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// How many can be claimed.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub available_replicas: i32,
    /// The revision of the template that the spec asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// The revision that the set had before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// How many are of the revision that the spec asks for.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub updated_replicas: i32,
    /// How many of these can be claimed.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub updated_available_replicas: i32,
    /// What is true of the set.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The label selector of the sandboxes in the set, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

impl SandboxSetStatus {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }
}
