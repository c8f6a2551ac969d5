//! `SandboxTemplate`: what several sandboxes are made from.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{PauseStrategy, Runtime};
use super::json::{AutoPausePolicy, Probe, VolumeClaimTemplate};
use super::schema;
use crate::whole::{PodTemplate, or_default};

/// What sandboxes are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "agents.kruise.io",
    version = "v1alpha1",
    kind = "SandboxTemplate",
    plural = "sandboxtemplates",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    shortname = "sbt",
    category = "agents",
    doc = "What several sandboxes are made from. A set keeps one for each of its last revisions.",
    printcolumn(
        name = "Image",
        type_ = "string",
        json_path = ".spec.template.spec.containers[0].image",
        description = "The image of the first container"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
pub struct SandboxTemplateSpec {
    /// The pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::template")]
    pub template: Option<PodTemplate>,
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
}
