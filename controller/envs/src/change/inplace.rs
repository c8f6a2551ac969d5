//! A change of images that is under way.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{ContainerEnd, EnvContainer, EnvPod, SandboxPhase};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{is_named, without_sandbox, written};

/// What [`names::ANNOTATION_INPLACE_STATE`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InPlace {
    /// The phase that the pod has with it.
    pub phase: String,
    /// The image to be, by container.
    pub target_images: BTreeMap<String, String>,
    /// The phase that the pod has once the images are there.
    pub target_pod_phase: String,
    /// When it began.
    pub update_timestamp: String,
    /// The containers as they were before.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub last_container_statuses: BTreeMap<String, KnownContainer>,
    /// The containers of the sandbox that runs. One that is another now has been restarted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stable_container_statuses: BTreeMap<String, KnownContainer>,
}

/// A container as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KnownContainer {
    /// Its ID.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// The image that it ran, as the kubelet says with its digest.
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// How often it had been restarted.
    pub restart_count: u32,
}

/// How far a change of images is.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// There is none, or none that can be read.
    None,
    /// The kubelet works on it, since this time.
    Underway(Option<Timestamp>),
    /// It is done: the patch that says so, and the phase that the pod has then.
    Done(SandboxPhase, Value),
}

impl InPlace {
    /// The change that a pod's annotation says.
    pub fn of(pod: &EnvPod) -> Option<Self> {
        serde_json::from_str(pod.annotation(names::ANNOTATION_INPLACE_STATE)).ok()
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The containers of a pod as they are.
pub(super) fn known(pod: &EnvPod) -> BTreeMap<String, KnownContainer> {
    let known = pod.containers.iter().map(|container| {
        let is = KnownContainer {
            container_id: container.id.clone(),
            image_id: container.image_id.clone(),
            restart_count: container.restarts,
        };
        (container.name.clone(), is)
    });
    known.collect()
}

/// How far the change of a pod's images is.
pub fn progress(pod: &EnvPod, now: Timestamp) -> Progress {
    let (Some(state), phase) = (InPlace::of(pod), pod.sandbox_phase()) else { return Progress::None };
    if state.phase != phase.as_str() || !matches!(phase, SandboxPhase::Starting | SandboxPhase::Stopping) {
        return Progress::None;
    }
    let began = state.update_timestamp.parse().ok();
    let is_there = |(name, image): (&String, &String)| {
        let last = state.last_container_statuses.get(name);
        pod.containers.iter().any(|container| {
            container.name == *name
                && container.image == *image
                && container.is_running
                && last.is_none_or(|last| last.container_id != container.id)
                && is_image(container, image, last)
        })
    };
    let all_there = !state.target_images.is_empty() && state.target_images.iter().all(is_there);
    if !all_there || pod.phase != "Running" {
        return Progress::Underway(began);
    }
    match phase {
        SandboxPhase::Starting => Progress::Done(SandboxPhase::Running, started(pod, state, now)),
        _ => Progress::Done(SandboxPhase::Idle, returned(pod)),
    }
}

/// Whether a container that is another than before runs this image. A kubelet may know an image by another
/// name than the spec, or by its digest alone.
fn is_image(container: &EnvContainer, image: &str, last: Option<&KnownContainer>) -> bool {
    let is_another = |last: &KnownContainer| !last.image_id.is_empty() && last.image_id != container.image_id;
    let digest = image.split_once('@').map(|(_, digest)| digest);
    is_named(container, image)
        || (!container.image_id.is_empty() && last.is_some_and(is_another))
        || digest.is_some_and(|digest| container.image_id.ends_with(digest))
}

fn started(pod: &EnvPod, state: InPlace, now: Timestamp) -> Value {
    let first = state.target_images.keys().next();
    let first = pod.containers.iter().find(|container| Some(&container.name) == first);
    let state = InPlace {
        phase: SandboxPhase::Running.to_string(),
        stable_container_statuses: known(pod),
        last_container_statuses: BTreeMap::new(),
        ..state
    };
    let at = written(now);
    json!({"metadata": {
        "labels": {(names::LABEL_PHASE): SandboxPhase::Running.as_str()},
        "annotations": {
            (names::ANNOTATION_STARTED_AT): at,
            (names::ANNOTATION_LAST_ACTIVE): at,
            (names::ANNOTATION_CONTAINER_ID): first.map_or("", |container| &container.id),
            (names::ANNOTATION_INPLACE_STATE): state.text(),
        },
    }})
}

fn returned(pod: &EnvPod) -> Value {
    let keys = |key: &str| serde_json::from_str::<Vec<String>>(pod.annotation(key)).unwrap_or_default();
    let labels = keys(names::ANNOTATION_MANAGED_LABELS);
    let annotations = keys(names::ANNOTATION_MANAGED_ANNOTATIONS);
    let mut patch = without_sandbox(&labels, &annotations);
    patch["metadata"]["labels"][names::LABEL_PHASE] = json!(SandboxPhase::Idle.as_str());
    patch
}

/// How a container of a sandbox that runs ended, if one did and the sandbox was not asked to: it is not the
/// container that the sandbox began with.
pub fn unexpected_end(pod: &EnvPod) -> Option<ContainerEnd> {
    if pod.sandbox_phase() != SandboxPhase::Running {
        return None;
    }
    let state = InPlace::of(pod)?;
    let ended = pod.containers.iter().find(|container| {
        let began = state.stable_container_statuses.get(&container.name);
        began.is_some_and(|began| {
            container.ended.is_some()
                || (!container.id.is_empty() && container.id != began.container_id)
                || container.restarts > began.restart_count
        })
    })?;
    Some(ended.ended.clone().unwrap_or_else(|| ContainerEnd {
        reason: "Restarted".to_owned(),
        message: format!("the container {} was restarted", ended.name),
        ..ContainerEnd::default()
    }))
}
