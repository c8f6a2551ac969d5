//! What an object's fields say about it: the questions that waits and actions ask.
//!
//! Every question is a function of an object and, where it depends on it, of the time.

use std::collections::BTreeMap;
use std::time::SystemTime;

use jiff::Timestamp;
use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts};
use sandgate_objects::sandbox_env::names::ANNOTATION_ARMED;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPhase};
use sandgate_routes::State;

use crate::{Check, PvcFacts};

/// The annotation of a sandbox that may go back to its pool.
const CLEANUP_ENABLED: &str = "agents.kruise.io/cleanup-enabled";
/// The annotation that sends a sandbox back to its pool.
const CLEANUP: &str = "agents.kruise.io/cleanup";

/// The value of a label; empty if there is none.
pub fn label<'a>(sandbox: &'a SandboxFacts, name: &str) -> &'a str {
    sandbox.label(name)
}

/// The value of an annotation; empty if there is none.
pub fn annotation<'a>(sandbox: &'a SandboxFacts, name: &str) -> &'a str {
    sandbox.annotation(name)
}

pub(crate) fn text<'a>(texts: Option<&'a BTreeMap<String, String>>, name: &str) -> &'a str {
    texts.and_then(|texts| texts.get(name)).map_or("", String::as_str)
}

/// The phase; empty if there is none yet.
pub fn phase(sandbox: &SandboxFacts) -> &str {
    &sandbox.phase
}

/// Whether the condition of this type is there and true.
pub fn is_true(sandbox: &SandboxFacts, condition: &str) -> bool {
    sandbox.condition(condition).is_some_and(|it| &*it.status == "True")
}

fn reason<'a>(sandbox: &'a SandboxFacts, condition: &str) -> &'a str {
    sandbox.condition(condition).map_or("", |it| &it.reason)
}

/// The address of the pod; empty if there is none yet.
pub fn pod_ip(sandbox: &SandboxFacts) -> &str {
    &sandbox.pod_ip
}

/// The state at this time, by the one table of all of Sandgate. What cannot be read is [`State::Unknown`].
pub fn state(sandbox: &SandboxFacts, now: Timestamp) -> State {
    sandbox.state(SystemTime::from(now)).unwrap_or(State::Unknown)
}

/// Whether the time of `spec.shutdownTime` is over.
pub fn has_expired(sandbox: &SandboxFacts, now: Timestamp) -> bool {
    sandbox.shutdown_time.is_some_and(|ends| ends < now)
}

/// Whether it is being deleted, has expired, or has ended by itself.
pub fn has_ended(sandbox: &SandboxFacts, now: Timestamp) -> bool {
    let ended = [names::PHASE_SUCCEEDED, names::PHASE_FAILED, names::PHASE_TERMINATING];
    sandbox.is_deleting || has_expired(sandbox, now) || ended.contains(&phase(sandbox))
}

/// Whether somebody has claimed it.
pub fn is_claimed(sandbox: &SandboxFacts) -> bool {
    label(sandbox, names::LABEL_SANDBOX_CLAIMED) == "true"
}

/// Whether its create failed and it is kept for inspection.
pub fn is_reserved_failed(sandbox: &SandboxFacts) -> bool {
    label(sandbox, names::LABEL_RESERVED_FAILED) == "true"
}

/// Whether it is to be paused.
pub fn wants_pause(sandbox: &SandboxFacts) -> bool {
    sandbox.paused
}

/// Whether it can be resumed at once: it runs, or resumes, or its pause is complete. One that
/// [is pausing](is_pausing) can be resumed when that is over.
pub fn is_resumable(sandbox: &SandboxFacts, now: Timestamp) -> bool {
    if has_ended(sandbox, now) {
        return false;
    }
    match phase(sandbox) {
        names::PHASE_RUNNING => !wants_pause(sandbox),
        names::PHASE_RESUMING => true,
        names::PHASE_PAUSED => is_true(sandbox, names::CONDITION_PAUSED),
        _ => false,
    }
}

/// Whether a pause is under way: asked for and not complete.
pub fn is_pausing(sandbox: &SandboxFacts, now: Timestamp) -> bool {
    if has_ended(sandbox, now) {
        return false;
    }
    match phase(sandbox) {
        names::PHASE_RUNNING => wants_pause(sandbox),
        names::PHASE_PAUSED => !is_true(sandbox, names::CONDITION_PAUSED),
        _ => false,
    }
}

/// Whether a pause is complete: its pod is gone.
pub fn is_paused(sandbox: &SandboxFacts) -> bool {
    is_true(sandbox, names::CONDITION_PAUSED)
}

/// Whether it runs, as its present spec asks, and can be reached.
pub fn is_ready(sandbox: &SandboxFacts, now: Timestamp) -> bool {
    let is_updating = reason(sandbox, names::CONDITION_INPLACE_UPDATE) == names::REASON_INPLACE_UPDATING;
    is_observed(sandbox)
        && !is_updating
        && state(sandbox, now) == State::Running
        && !pod_ip(sandbox).is_empty()
}

/// Whether the status is about the present spec.
fn is_observed(sandbox: &SandboxFacts) -> bool {
    match (sandbox.generation, sandbox.observed_generation) {
        (Some(generation), observed) => observed.is_some_and(|observed| observed >= generation),
        (None, _) => true,
    }
}

/// Whether it is live for a quota: it holds resources, or will again.
pub fn is_live_for_quota(sandbox: &SandboxFacts) -> bool {
    let is_leaving = [names::PHASE_TERMINATING, names::PHASE_RECYCLING].contains(&phase(sandbox));
    let is_cleaned = annotation(sandbox, CLEANUP) == "true" && annotation(sandbox, CLEANUP_ENABLED) == "true";
    !sandbox.is_deleting && !is_leaving && !is_cleaned
}

/// The wait for readiness: see [`is_ready`]. It fails where a container cannot start, and where the sandbox
/// has ended.
pub fn ready(sandbox: &SandboxFacts, now: Timestamp) -> Check {
    if reason(sandbox, names::CONDITION_READY) == names::REASON_START_CONTAINER_FAILED {
        return Check::Failed(format!("a container cannot start: {}", message_of_ready(sandbox)));
    }
    ended(sandbox, now).unwrap_or_else(|| Check::holds(is_ready(sandbox, now)))
}

fn message_of_ready(sandbox: &SandboxFacts) -> &str {
    sandbox.condition(names::CONDITION_READY).map_or("", |it| &it.message)
}

/// A failure, if the sandbox has ended.
pub(crate) fn ended(sandbox: &SandboxFacts, now: Timestamp) -> Option<Check> {
    let failed = |why: &str| Some(Check::Failed(format!("the sandbox {why}")));
    match phase(sandbox) {
        _ if sandbox.is_deleting => failed("is being deleted"),
        _ if has_expired(sandbox, now) => failed("is past its time"),
        names::PHASE_SUCCEEDED => failed("has ended"),
        names::PHASE_FAILED => {
            let given = Some(&*sandbox.message).filter(|message| !message.is_empty());
            Some(Check::Failed(format!("the sandbox has failed: {}", given.unwrap_or("no reason is given"))))
        }
        names::PHASE_TERMINATING => failed("is being ended"),
        _ => None,
    }
}

/// The wait for a checkpoint.
pub fn checkpoint_done(checkpoint: &Checkpoint) -> Check {
    let status = checkpoint.status.as_ref();
    let id = status.and_then(|status| status.checkpoint_id.as_deref()).unwrap_or_default();
    let message = status.and_then(|status| status.message.as_deref()).unwrap_or("no reason is given");
    match status.and_then(|status| status.phase.as_deref()).unwrap_or_default() {
        "Succeeded" if id.is_empty() => Check::Failed("the checkpoint is done and has no ID".to_owned()),
        "Succeeded" => Check::Done,
        "Failed" => Check::Failed(format!("the checkpoint failed: {message}")),
        "Terminating" => Check::Failed("the checkpoint is being deleted".to_owned()),
        _ => Check::Not,
    }
}

/// The wait for the sandbox of this ID, which has claimed a pod of a pool: until the pod runs it, with an
/// address, and armed if it must be. It fails where the sandbox has lost the pod, or the pod cannot run.
pub fn env_running(pod: &EnvPod, id: &str) -> Check {
    let failed = |why: &str| Check::Failed(format!("the pod of the sandbox {why}"));
    if pod.sandbox_id() != id {
        return failed("is not the sandbox's any more");
    }
    let message = pod.message.as_deref().unwrap_or("no reason is given");
    match (pod.sandbox_phase(), pod.phase.as_str()) {
        _ if pod.is_deleting() => failed("is being deleted"),
        (_, "Failed" | "Succeeded") => failed(&format!("has ended: {message}")),
        (SandboxPhase::Stopping | SandboxPhase::Idle, _) => failed("is on its way back to the pool"),
        (SandboxPhase::Failed, _) => failed("cannot be used"),
        (SandboxPhase::Starting, _) => Check::Not,
        (SandboxPhase::Running, phase) => {
            let armed = pod.annotation(ANNOTATION_ARMED);
            let is_armed = armed.is_empty() || armed == id;
            Check::holds(phase == "Running" && is_armed && pod.ip.is_some())
        }
    }
}

/// The wait for a volume.
pub fn pvc_bound(pvc: &PvcFacts) -> Check {
    match pvc.phase.as_str() {
        "Lost" => Check::Failed("the volume of the claim is lost".to_owned()),
        "Bound" => Check::holds(!pvc.volume.is_empty()),
        _ => Check::Not,
    }
}
