//! The status of a sandbox, and the events that tell of its changes.

use jiff::Timestamp;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{PodInfo, SandboxStatus};

use super::observe::Observed;
use super::pause::REASON_HIBERNATE_UNSUPPORTED;
use crate::conditions::{self, Verdict};
use crate::view::{ContainerFacts, PodFacts, Seen};

/// The pod cannot be created, because a pod of another owner has its name.
pub(super) const REASON_POD_NAME_TAKEN: &str = "PodNameTaken";
/// The template that the sandbox names does not exist.
pub(super) const REASON_TEMPLATE_NOT_FOUND: &str = "TemplateNotFound";
/// No pod can be made from the template.
pub(super) const REASON_TEMPLATE_INVALID: &str = "TemplateInvalid";
/// The template changed in a way that a running pod cannot follow.
pub(super) const REASON_INPLACE_FORBIDDEN: &str = "InplaceUpdateForbidden";
/// The condition of a sandbox whose pod is replaced by one of another revision.
pub(super) const CONDITION_UPGRADING: &str = "Upgrading";
/// [`CONDITION_UPGRADING`] and Ready: the pod is being replaced.
pub(super) const REASON_UPGRADE_POD: &str = "UpgradePod";
/// Ready: the pod is being replaced.
pub(super) const REASON_UPGRADING: &str = "Upgrading";
/// [`CONDITION_UPGRADING`]: what has to run before the upgrade cannot run.
pub(super) const REASON_PRE_UPGRADE_FAILED: &str = "PreUpgradeFailed";
/// [`CONDITION_UPGRADING`]: there is nothing that could make a checkpoint.
pub(super) const REASON_CHECKPOINT_FAILED: &str = "CheckpointFailed";

/// Why a container waits if it does not come up by itself. Other reasons are part of every start.
const START_FAILURES: [&str; 13] = [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "PostStartHookError",
    "PreCreateHookError",
    "RegistryUnavailable",
    "RunContainerError",
    "StartError",
];

/// A status to be: what it is now, and what a plan changes in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    /// The status.
    pub(super) status: SandboxStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Draft {
    /// The status as it is, about the spec as it is.
    pub(super) fn of(observed: &Observed) -> Self {
        let generation = observed.sandbox.metadata.generation;
        let mut status = observed.sandbox.status.clone().unwrap_or_default();
        status.observed_generation = generation;
        Self { status, generation, now: observed.now }
    }

    /// The phase; empty if there is none.
    pub(super) fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or_default()
    }

    pub(super) fn enter(&mut self, phase: &str) {
        if self.status.phase.as_deref() != Some(phase) {
            self.status.phase = Some(phase.to_owned());
            self.status.message = None;
        }
    }

    pub(super) fn put(&mut self, kind: &'static str, holds: bool, reason: &'static str, message: &str) {
        let verdict = Verdict { kind, holds, reason, message: message.to_owned() };
        conditions::put(&mut self.status.conditions, verdict, self.generation, self.now);
    }

    pub(super) fn not_ready(&mut self, reason: &'static str, message: &str) {
        self.put(names::CONDITION_READY, false, reason, message);
    }

    pub(super) fn drop(&mut self, kind: &str) {
        conditions::remove(&mut self.status.conditions, kind);
    }

    pub(super) fn reason(&self, kind: &str) -> &str {
        conditions::reason(&self.status.conditions, kind)
    }

    /// The UID of the pod that was last shown or deleted.
    pub(super) fn last_pod(&self) -> Option<&str> {
        self.status.pod_info.as_ref()?.pod_uid.as_deref()
    }

    /// Shows the pod: where it is, and whether it is ready.
    pub(super) fn show(&mut self, pod: &Seen<PodFacts>) {
        self.status.pod_info = Some(PodInfo {
            node_name: pod.node.clone(),
            pod_ip: pod.ip.clone(),
            pod_uid: Some(pod.uid.to_string()),
            ..self.status.pod_info.take().unwrap_or_default()
        });
        self.status.node_name.clone_from(&pod.node);
        self.status.sandbox_ip.clone_from(&pod.ip);
        self.show_readiness(pod);
    }

    /// Shows whether the pod is ready, and not where it is.
    pub(super) fn show_readiness(&mut self, pod: &PodFacts) {
        if pod.is_ready && !pod.is_deleting {
            self.put(names::CONDITION_READY, true, names::REASON_POD_READY, "");
            return;
        }
        match pod.init_containers.iter().chain(&pod.containers).find_map(start_failure) {
            Some(failure) => self.not_ready(names::REASON_START_CONTAINER_FAILED, &failure),
            None => self.not_ready(names::REASON_POD_READY, "the pod is not ready"),
        }
    }

    /// Remembers which pod is on its way out, and keeps its address: a paused sandbox is found by it.
    pub(super) fn leaves(&mut self, pod: &Seen<PodFacts>) {
        let info = self.status.pod_info.get_or_insert_default();
        info.pod_uid = Some(pod.uid.to_string());
    }

    /// The pod has ended by itself, and the sandbox with it.
    pub(super) fn ends(&mut self, pod: &Seen<PodFacts>) {
        self.show(pod);
        self.enter(&pod.phase);
        let parts = [pod.reason.as_deref(), pod.message.as_deref()];
        let message: Vec<_> = parts.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        self.status.message = (!message.is_empty()).then(|| message.join(": "));
        self.not_ready(names::REASON_POD_READY, "the pod has ended");
    }

    /// The pod is lost, and the sandbox with it.
    pub(super) fn fails(&mut self, message: &str) {
        self.enter(names::PHASE_FAILED);
        self.status.message = Some(message.to_owned());
        self.not_ready(names::REASON_POD_READY, message);
    }

    /// A pod of the name is in the way.
    pub(super) fn taken(&mut self) {
        let message = "a pod of this name belongs to somebody else; the sandbox waits until it is gone";
        self.not_ready(REASON_POD_NAME_TAKEN, message);
    }

    /// The API server refused the pod. `before` is the status as it was: a message that differs in numbers
    /// and names of requests alone stays, or every try would be a change that brings the next one about.
    pub(super) fn create_failed(&mut self, before: Option<&SandboxStatus>, message: &str) {
        let known = before.and_then(|status| conditions::find(&status.conditions, names::CONDITION_READY));
        let known = known.filter(|known| {
            known.reason == names::REASON_POD_CREATE_FAILED
                && conditions::says_the_same(&known.message, message)
        });
        let message = known.map_or(message, |known| &known.message).to_owned();
        self.not_ready(names::REASON_POD_CREATE_FAILED, &message);
    }

    /// The API server refused an update in place.
    pub(super) fn update_failed(&mut self, message: &str) {
        self.put(names::CONDITION_INPLACE_UPDATE, false, names::REASON_FAILED, message);
    }
}

fn start_failure(container: &ContainerFacts) -> Option<String> {
    let reason = container.waiting.as_deref().filter(|reason| START_FAILURES.contains(reason))?;
    let message = container.waiting_message.as_deref().unwrap_or_default();
    Some(format!("container {}: {reason}: {message}", container.name))
}

/// Something that people are told by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// Whether something is wrong.
    pub(super) is_warning: bool,
    /// In one word.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: String,
}

/// The event of each phase.
const PHASES: [(&str, &str); 7] = [
    (names::PHASE_PENDING, "SandboxPending"),
    (names::PHASE_RUNNING, "SandboxRunning"),
    (names::PHASE_PAUSED, "SandboxPaused"),
    (names::PHASE_RESUMING, "SandboxResuming"),
    (names::PHASE_UPGRADING, "SandboxUpgrading"),
    (names::PHASE_SUCCEEDED, "SandboxSucceeded"),
    (names::PHASE_FAILED, "SandboxFailed"),
];

/// The reasons of conditions that are worth an event.
const WARNINGS: [&str; 10] = [
    names::REASON_POD_CREATE_FAILED,
    names::REASON_START_CONTAINER_FAILED,
    names::REASON_FAILED,
    REASON_POD_NAME_TAKEN,
    REASON_TEMPLATE_NOT_FOUND,
    REASON_TEMPLATE_INVALID,
    REASON_INPLACE_FORBIDDEN,
    REASON_PRE_UPGRADE_FAILED,
    REASON_CHECKPOINT_FAILED,
    REASON_HIBERNATE_UNSUPPORTED,
];

/// What a change of the status is worth telling: a new phase, and what has gone wrong.
pub(super) fn notices(before: Option<&SandboxStatus>, after: &SandboxStatus) -> Vec<Notice> {
    let mut notices = Vec::new();
    let phase_before = before.and_then(|status| status.phase.as_deref());
    let phase = after.phase.as_deref().filter(|phase| phase_before != Some(phase));
    if let Some((phase, reason)) = PHASES.iter().find(|(of, _)| phase == Some(of)) {
        notices.push(Notice {
            is_warning: *phase == names::PHASE_FAILED,
            reason,
            message: after.message.clone().unwrap_or_else(|| format!("the sandbox is {phase}")),
        });
    }
    let known = before.map(|status| status.conditions.as_slice()).unwrap_or_default();
    for condition in &after.conditions {
        let Some(reason) = WARNINGS.iter().find(|reason| **reason == condition.reason) else { continue };
        if conditions::reason(known, &condition.type_) != *reason {
            notices.push(Notice { is_warning: true, reason, message: condition.message.clone() });
        }
    }
    notices
}
