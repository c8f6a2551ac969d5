//! `SandboxSnapshot`: the file systems of a batch's containers, kept as images.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::Condition;
use super::schema;
use crate::whole::or_default;

/// What is asked of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "sandbox.opensandbox.io",
    version = "v1alpha1",
    kind = "SandboxSnapshot",
    plural = "sandboxsnapshots",
    namespaced,
    status = "SandboxSnapshotStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "sbxsnap",
    doc = "The file systems of a batch's containers, kept as images.",
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "SANDBOX", type_ = "string", json_path = ".spec.sandboxName"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "::kube_core", k8s_openapi = "::k8s_openapi")
)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSnapshotSpec {
    /// The BatchSandbox in the same namespace that is kept.
    pub sandbox_name: String,
}

/// What has been observed of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSnapshotStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the snapshot is in its life: Pending, Committing, Succeed or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The images, one a container.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerSnapshot>,
    /// What is true of the snapshot: Ready or Failed. What is not true is left out.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The pod that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_pod_name: Option<String>,
    /// The node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_node_name: Option<String>,
}

/// The image of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSnapshot {
    /// The name of the container.
    pub container_name: String,
    /// The image.
    pub image_uri: String,
    /// The digest of the image, once it has been pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
}

impl SandboxSnapshotStatus {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }
}
