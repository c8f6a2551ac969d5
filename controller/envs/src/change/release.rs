//! The release of a pod that was claimed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{ContainerEnd, EnvPod, SandboxPhase, SandboxPoolSpec};
use serde_json::{Value, json};

use super::inplace::{InPlace, known};
use super::{Images, containers, written};

/// Why a sandbox ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// One of the `STOP_` words.
    pub reason: &'static str,
    /// The reason of a failure, in one word.
    pub failure: Option<String>,
    /// For people.
    pub message: String,
    /// How its container ended, if that is why.
    pub end: Option<ContainerEnd>,
}

/// What a release does.
#[derive(Clone, Debug, PartialEq)]
pub enum Released {
    /// There is nothing to release: the pod is nobody's, or is being released.
    Nothing,
    /// The patch that gives the pod back.
    Patch(Value),
    /// The pod must be deleted: something of the sandbox could be left in it. Why, for people.
    Delete(String),
}

/// Why a pod of a pool cannot be given back, because a change of its first image would leave something of the
/// sandbox in it. None if nothing can be left.
///
/// A change of image makes the one container anew, with its file system. What would stay are the other
/// containers, volumes that live as long as the pod, and a container whose image does not change.
pub fn renewal(spec: &SandboxPoolSpec) -> Option<&'static str> {
    let Some(images) = Images::of(spec) else { return Some("the pool's template has no container") };
    if images.template.len() != 1 {
        return Some("only the first of its containers is made anew");
    }
    if images.idle == images.of_sandbox() {
        return Some("it has no image of its own to wait with, so its container is not made anew");
    }
    let template = spec.template.as_ref().and_then(|template| template.parse().ok()).unwrap_or_default();
    if template["spec"]["shareProcessNamespace"] == json!(true) {
        return Some("its processes outlive the container");
    }
    let volumes = template["spec"]["volumes"].as_array().map_or(&[][..], Vec::as_slice);
    let lives_with_the_pod = |volume: &Value| {
        let harmless = ["configMap", "secret", "downwardAPI", "projected", "persistentVolumeClaim", "image"];
        !harmless.iter().any(|kind| !volume[*kind].is_null())
    };
    if volumes.iter().any(lives_with_the_pod) {
        return Some("it has a volume that lives as long as the pod");
    }
    None
}

/// What gives a claimed pod back.
pub fn release(pod: &EnvPod, spec: &SandboxPoolSpec, stop: &Stop, now: Timestamp) -> Released {
    if !matches!(pod.sandbox_phase(), SandboxPhase::Starting | SandboxPhase::Running) || pod.is_deleting() {
        return Released::Nothing;
    }
    if let Some(why) = renewal(spec) {
        return Released::Delete(why.to_owned());
    }
    let Some(images) = Images::of(spec) else { return Released::Nothing };
    let Some(first) = pod.containers.iter().find(|container| container.name == images.first) else {
        return Released::Delete("it is not of the pool's template".to_owned());
    };
    if first.image == images.idle {
        // Its creator asked for the idle image.
        return Released::Delete("its container runs the idle image, so it is not made anew".to_owned());
    }
    let targets = BTreeMap::from([(images.first.clone(), images.idle.clone())]);
    let at = written(now);
    let state = InPlace {
        phase: SandboxPhase::Stopping.to_string(),
        target_images: targets.clone(),
        target_pod_phase: SandboxPhase::Idle.to_string(),
        update_timestamp: at.clone(),
        last_container_statuses: known(pod),
        stable_container_statuses: BTreeMap::new(),
    };
    let mut annotations = BTreeMap::from([
        (names::ANNOTATION_STOP_REASON, json!(stop.reason)),
        (names::ANNOTATION_TERMINATED_AT, json!(at)),
        (names::ANNOTATION_INPLACE_STATE, json!(state.text())),
        (names::ANNOTATION_ACCESS_TOKEN, Value::Null),
        (names::ANNOTATION_TRAFFIC_ACCESS_TOKEN, Value::Null),
    ]);
    if let Some(failure) = &stop.failure {
        annotations.insert(names::ANNOTATION_FAILURE_REASON, json!(failure));
        annotations.insert(names::ANNOTATION_FAILURE_MESSAGE, json!(stop.message));
    }
    if let Some(end) = &stop.end {
        annotations.insert(names::ANNOTATION_EXIT_CODE, json!(end.exit_code.to_string()));
    }
    Released::Patch(json!({
        "metadata": {
            "labels": {(names::LABEL_PHASE): SandboxPhase::Stopping.as_str()},
            "annotations": annotations,
        },
        "spec": {"containers": containers(&targets)},
    }))
}
