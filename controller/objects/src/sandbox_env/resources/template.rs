//! `SandboxTemplate`: what the pools of several environments are made from. It has no namespace.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::{ProbeSpec, RuntimeConfig};
use super::schema;
use crate::whole::{PodTemplate, or_default};

/// What pools are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "agents.navix.sh",
    version = "v1alpha1",
    kind = "SandboxTemplate",
    plural = "sandboxtemplates",
    derive = "Default",
    derive = "PartialEq",
    shortname = "sbt",
    doc = "What the pools of several environments are made from.",
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
pub struct SandboxTemplateSpec {
    /// The version of the template, for people. Environments always take the template as it is.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What the template is for.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Who may use the template; everybody if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// The pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::template")]
    pub template: Option<PodTemplate>,
    /// The image of the first container while a pod waits for a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_image: Option<String>,
    /// What listens in a sandbox, each with a name.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub runtimes: Vec<RuntimePort>,
}

/// Who may use a template: whoever fits one of the rules, and everybody if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Visibility {
    /// The rules.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<VisibilityRule>,
}

/// A team, and its users; all of them if none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VisibilityRule {
    /// The team; any if it is empty.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub team: String,
    /// The users; all of the team if none is named.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
}

/// Something that listens in a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePort {
    /// Its name, such as `e2b`.
    pub name: String,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Its protocol; TCP if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// What it is for.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where it logs.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub log_dir: String,
    /// When it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub readiness_probe: Option<ProbeSpec>,
    /// What it is configured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub config: Option<RuntimeConfig>,
}

/// What a template and a pool have in common: what pods are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedTemplate {
    /// The pod template.
    pub template: Option<PodTemplate>,
    /// The image of the first container while a pod waits for a claim.
    pub idle_image: Option<String>,
    /// What listens in a sandbox.
    pub runtimes: Vec<RuntimePort>,
}

impl SandboxTemplateSpec {
    /// What pods are made from.
    pub fn embedded(&self) -> EmbeddedTemplate {
        EmbeddedTemplate {
            template: self.template.clone(),
            idle_image: self.idle_image.clone(),
            runtimes: self.runtimes.clone(),
        }
    }

    /// Whether a user of a team may use the template.
    pub fn is_visible_to(&self, team: &str, user: &str) -> bool {
        let rules = self.visibility.as_ref().map_or(&[][..], |visibility| &visibility.rules);
        let fits = |rule: &VisibilityRule| {
            (rule.team.is_empty() || rule.team == team)
                && (rule.users.is_empty() || rule.users.iter().any(|known| known == user))
        };
        rules.is_empty() || rules.iter().any(fits)
    }
}

/// Labels or annotations of an object of these kinds.
pub(crate) fn text<'a>(texts: &'a Option<BTreeMap<String, String>>, key: &str) -> &'a str {
    texts.as_ref().and_then(|texts| texts.get(key)).map_or("", String::as_str)
}
