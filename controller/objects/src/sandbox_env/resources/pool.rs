//! `SandboxPool`: pods of one template that wait for a claim, and those that were claimed.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::env::GatewaySwitch;
use super::pool_status::SandboxPoolStatus;
use super::schema;
use super::template::{EmbeddedTemplate, RuntimePort, text};
use crate::duration::go_duration;
use crate::sandbox_env::names;
use crate::whole::{PodTemplate, or_default};

/// `maxUnavailable` of a pool that says nothing.
pub const DEFAULT_MAX_UNAVAILABLE: &str = "20%";

/// What is asked of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "agents.navix.sh",
    version = "v1alpha1",
    kind = "SandboxPool",
    plural = "sandboxpools",
    namespaced,
    status = "SandboxPoolStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "sbp",
    doc = "Pods of one template that wait for a claim, and those that were claimed.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.runningReplicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Idle", type_ = "integer", json_path = ".status.idleReplicas"),
    printcolumn(name = "Unavail", type_ = "integer", json_path = ".status.unavailableIdleReplicas"),
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.runningReplicas"),
    printcolumn(name = "Starting", type_ = "integer", json_path = ".status.startingReplicas"),
    printcolumn(name = "Stopping", type_ = "integer", json_path = ".status.stoppingReplicas"),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.failedReplicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
pub struct SandboxPoolSpec {
    /// How many pods there are, claimed ones included.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// The name of the template that the pool was rendered from.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub template_name: String,
    /// How long a sandbox may take to start, as in `2m`, where its creator does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub default_startup_timeout: Option<String>,
    /// The silence after which a sandbox is released, as in `1h`, where its creator does not say. `0s` is
    /// never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub default_idle_timeout: Option<String>,
    /// The image of the first container of a pod that waits: IdleImage is `idleImage`, PoolDefaultImage that
    /// of the pod template. IdleImage if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_creation_image_policy: Option<ImagePolicy>,
    /// Whether the sandboxes are reached through a gateway. Sandgate keeps it and does not act on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySwitch>,
    /// How many idle pods may be missing while old ones are replaced: a number, or a share of `replicas`,
    /// rounded down and at least 1. 20% if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub max_unavailable: Option<IntOrString>,
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

/// The image of the first container of a pod that waits for a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePolicy {
    /// That of the pod template: a claim changes nothing.
    PoolDefaultImage,
    /// `idleImage`.
    #[default]
    IdleImage,
}

impl SandboxPoolSpec {
    /// What pods are made from.
    pub fn embedded(&self) -> EmbeddedTemplate {
        EmbeddedTemplate {
            template: self.template.clone(),
            idle_image: self.idle_image.clone(),
            runtimes: self.runtimes.clone(),
        }
    }

    /// Takes over what pods are made from.
    pub fn embed(&mut self, embedded: EmbeddedTemplate) {
        let EmbeddedTemplate { template, idle_image, runtimes } = embedded;
        (self.template, self.idle_image, self.runtimes) = (template, idle_image, runtimes);
    }

    /// The image policy, or what a missing one means.
    pub fn image_policy(&self) -> ImagePolicy {
        self.pod_creation_image_policy.unwrap_or_default()
    }

    /// How long a sandbox may take to start; none if the pool does not say, or not in words of Go.
    pub fn startup_timeout(&self) -> Option<Duration> {
        go_duration(self.default_startup_timeout.as_deref()?)
    }

    /// The silence after which a sandbox is released; none if the pool does not say. Zero is never.
    pub fn idle_timeout(&self) -> Option<Duration> {
        go_duration(self.default_idle_timeout.as_deref()?)
    }
}

impl SandboxPool {
    /// The environment by the pool's label; empty if it has none.
    pub fn env(&self) -> &str {
        text(&self.metadata.labels, names::LABEL_ENV)
    }
}
