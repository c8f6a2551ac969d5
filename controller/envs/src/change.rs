//! What becomes of a pod that is claimed, runs a sandbox and is given back.
//!
//! ```text
//! idle ─ claim ─▶ starting ─ progress ─▶ running ─ release ─▶ stopping ─ progress ─▶ idle
//! ```
//!
//! # Protocol
//! - Each change is a strategic merge patch that is sent with the version of the pod that it was made of. So
//!   of two claims of one pod one fails, and a pod that changed in between is looked at again.
//! - A claim writes whose the pod is, the images to be, and in [`names::ANNOTATION_INPLACE_STATE`] the
//!   containers as they were ([`InPlace`]). Where the images are those that run already, the pod is a sandbox
//!   at once.
//! - An image has changed when another container than the one written down runs it: the kubelet gives its
//!   name, or its digest, or an image that is not the one from before. No registry is asked, so none can keep
//!   a sandbox from starting or from ending.
//! - A release writes the idle image and why. The ID stays until the pod is idle: the one write that makes it
//!   idle takes everything of the sandbox off.
//! - A pod is given back only if nothing of the sandbox can be left in it ([`renewal`]). Others are deleted.
//!
//! Everything here is a function of values.

mod claim;
mod inplace;
mod release;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvContainer, ImagePolicy, SandboxPoolSpec};
use serde_json::{Value, json};

pub use claim::{Claim, Unclaimable, claim, is_reserved};
pub use inplace::{InPlace, KnownContainer, Progress, progress, unexpected_end};
pub use release::{Released, Stop, release, renewal};

/// The images that a pool's pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// That of each container of the pod template.
    pub template: BTreeMap<String, String>,
    /// The container whose image changes: the first one.
    pub first: String,
    /// That of the first container while a pod waits.
    pub idle: String,
}

impl Images {
    /// The images that a pool's spec asks for; none if its template has no container.
    pub fn of(spec: &SandboxPoolSpec) -> Option<Self> {
        let template = spec.template.as_ref()?.parse().ok()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let containers = template["spec"]["containers"].as_array()?;
        let first = text(&containers.first()?["name"]);
        let images: BTreeMap<_, _> = containers
            .iter()
            .map(|container| (text(&container["name"]), text(&container["image"])))
            .collect();
        let of_template = images.get(&first).cloned().unwrap_or_default();
        let idle = match spec.image_policy() {
            ImagePolicy::IdleImage => spec.idle_image.clone().filter(|image| !image.is_empty()),
            ImagePolicy::PoolDefaultImage => None,
        };
        Some(Self { template: images, first, idle: idle.unwrap_or(of_template) })
    }

    /// That of the first container of a sandbox whose creator did not ask for another.
    pub fn of_sandbox(&self) -> &str {
        self.template.get(&self.first).map_or("", String::as_str)
    }
}

/// Whether the kubelet gives what a container runs this name. It may write the name of an image in full.
fn is_named(container: &EnvContainer, image: &str) -> bool {
    fn plain(image: &str) -> &str {
        let image = image.strip_prefix("docker.io/").unwrap_or(image);
        let image = image.strip_prefix("library/").unwrap_or(image);
        let has_tag = image.rsplit('/').next().is_some_and(|last| last.contains([':', '@']));
        if has_tag { image.strip_suffix(":latest").unwrap_or(image) } else { image }
    }
    plain(&container.running_image) == plain(image)
}

/// A time as it stands in an annotation: whole milliseconds, so that equal ones are equal texts.
pub fn written(at: Timestamp) -> String {
    let millis = Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at);
    format!("{millis:.3}")
}

/// The part of a patch that changes images.
fn containers(images: &BTreeMap<String, String>) -> Value {
    images.iter().map(|(name, image)| json!({"name": name, "image": image})).collect()
}

/// The part of a patch that takes everything of a sandbox off, but for what its labels and annotations were
/// added by name.
fn without_sandbox(managed_labels: &[String], managed_annotations: &[String]) -> Value {
    const OF_A_SANDBOX: [&str; 23] = [
        names::SANDBOX_ID,
        names::ANNOTATION_CLAIMED_AT,
        names::ANNOTATION_STARTED_AT,
        names::ANNOTATION_IDLE_TIMEOUT,
        names::ANNOTATION_STARTUP_TIMEOUT,
        names::ANNOTATION_LAST_ACTIVE,
        names::ANNOTATION_METADATA,
        names::ANNOTATION_MANAGED_LABELS,
        names::ANNOTATION_MANAGED_ANNOTATIONS,
        names::ANNOTATION_STOP_REASON,
        names::ANNOTATION_FAILURE_REASON,
        names::ANNOTATION_FAILURE_MESSAGE,
        names::ANNOTATION_EXIT_CODE,
        names::ANNOTATION_RUNNING_IMAGES,
        names::ANNOTATION_CONTAINER_ID,
        names::ANNOTATION_ARMED,
        names::ANNOTATION_ARM_ERROR,
        names::ANNOTATION_EGRESS_POLICY,
        names::ANNOTATION_EGRESS_INJECT,
        names::ANNOTATION_POST_START_HOOKS,
        names::ANNOTATION_OWNER,
        names::ANNOTATION_ACCESS_TOKEN,
        names::ANNOTATION_TRAFFIC_ACCESS_TOKEN,
    ];
    let nothing = |keys: &mut dyn Iterator<Item = &str>| -> BTreeMap<String, Value> {
        keys.filter(|key| !key.is_empty()).map(|key| (key.to_owned(), Value::Null)).collect()
    };
    let own = managed_labels.iter().map(String::as_str).filter(|key| !is_reserved(key));
    let labels = nothing(&mut own.chain([names::SANDBOX_ID]));
    let own = managed_annotations.iter().map(String::as_str).filter(|key| !is_reserved(key));
    let annotations = nothing(&mut own.chain(OF_A_SANDBOX).chain([names::ANNOTATION_INPLACE_STATE]));
    json!({"metadata": {"labels": labels, "annotations": annotations}})
}
