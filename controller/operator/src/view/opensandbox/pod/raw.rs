//! A pod as the API server gives it, as far as it is read.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use sandgate_objects::opensandbox::names;
use serde::Deserialize;

use super::{ContainerState, Owner, PodPhase, PodState, pod_index};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawPod {
    pub(super) metadata: ObjectMeta,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    phase: String,
    reason: Option<String>,
    message: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Vec<RawCondition>,
    container_statuses: Vec<RawContainerStatus>,
    init_container_statuses: Vec<RawContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    restart_count: u32,
    state: RawContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContainerState {
    running: Option<serde::de::IgnoredAny>,
    waiting: Option<RawReason>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawReason {
    reason: Option<String>,
    message: Option<String>,
}

fn text(value: Option<String>) -> Option<Arc<str>> {
    value.filter(|value| !value.is_empty()).map(Arc::from)
}

impl RawPod {
    pub(super) fn state(self, name: &str) -> PodState {
        let Self { metadata, spec, status } = self;
        let mut labels = metadata.labels.unwrap_or_default();
        let mut annotations = metadata.annotations.unwrap_or_default();
        let owner = metadata
            .owner_references
            .into_iter()
            .flatten()
            .find(|owner| owner.controller == Some(true) && owner.api_version.starts_with(names::GROUP));
        let phase = match status.phase.as_str() {
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Unknown" => PodPhase::Unknown,
            _ => PodPhase::Pending,
        };
        let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
        let is_ready = ready.as_ref().is_some_and(|ready| ready.status == "True");
        let of_label = labels.remove(names::LABEL_POD_INDEX);
        let index = pod_index(of_label.as_deref(), name);
        let (init, main) = (status.init_container_statuses, status.container_statuses);
        let container = |is_init| move |status| ContainerState::of(status, is_init);
        PodState {
            owner: owner.map(|owner| Owner {
                kind: owner.kind.into(),
                uid: owner.uid.into(),
                name: owner.name.into(),
            }),
            pool: labels.remove(names::LABEL_POOL_NAME).map(Arc::from),
            revision: labels.remove(names::LABEL_POOL_REVISION).unwrap_or_default().into(),
            batch: text(labels.remove(names::LABEL_BATCH_NAME)),
            has_index: of_label.is_some(),
            index,
            allocated_to: text(annotations.remove(names::ANNOTATION_ALLOCATED_TO)),
            restart_record: text(annotations.remove(names::ANNOTATION_RESTART_RECORD)),
            wants_eviction: labels.contains_key(names::LABEL_EVICT),
            is_deleting: metadata.deletion_timestamp.is_some(),
            phase,
            is_ready: is_ready && phase == PodPhase::Running,
            ready_since: ready.and_then(|ready| ready.last_transition_time).map(|time| time.0),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            ip: text(status.pod_ip),
            node: text(spec.node_name),
            containers: init
                .into_iter()
                .map(container(true))
                .chain(main.into_iter().map(container(false)))
                .collect(),
            reason: text(status.reason),
            message: text(status.message),
        }
    }
}

impl ContainerState {
    fn of(status: RawContainerStatus, is_init: bool) -> Self {
        let RawContainerStatus { name, container_id, restart_count, state } = status;
        let waiting = state.waiting;
        Self {
            name: name.into(),
            is_init,
            id: text(container_id),
            is_running: state.running.is_some(),
            waiting_message: waiting.as_ref().and_then(|it| it.message.as_deref()).map(Arc::from),
            waiting: waiting.map(|it| it.reason.unwrap_or_default().into()),
            restarts: restart_count,
        }
    }
}
