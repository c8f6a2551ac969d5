//! What one pod of a pool needs, apart from its number.
//!
//! A chore is one write. What follows from it is the next chore, decided from the pod as it is then: so a
//! process that dies between two of them leaves nothing behind. In particular, a sandbox whose pod cannot be
//! given back is first written to be stopping, with why, and a stopping pod without a change under way is
//! deleted.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sandgate_envs::change::{Progress, Released, Stop, progress, release, renewal, unexpected_end, written};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPhase, SandboxPoolSpec};
use serde_json::{Value, json};

use super::revision_of;
use crate::view::EnvPodClass;
use crate::writes::Merge;

/// How long a sandbox may take to start, where neither its creator nor the pool says.
const STARTUP: Duration = Duration::from_secs(120);
/// How long a released pod may take to be idle again.
pub(super) const STOPPING: SignedDuration = SignedDuration::from_secs(120);

/// The failure of a sandbox that did not start in time.
const STARTUP_TIMEOUT: &str = "StartupTimeout";

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Chore {
    /// This patch, and what it is for.
    Patch(Value, Merge, Why),
    /// The pod goes.
    Delete(Why),
}

/// What a chore is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Why {
    /// The pod has no finalizer, so it could go unseen.
    Protect,
    /// The pod goes, and was seen.
    LetGo,
    /// The pod has ended by itself.
    Ended,
    /// The sandbox runs.
    Started,
    /// The pod waits for a claim again.
    Returned,
    /// The sandbox did not start in time.
    StartupTimeout,
    /// The sandbox ended by itself.
    UnexpectedEnd,
    /// The released pod has to go: something of the sandbox could be left in it.
    NotRenewed,
    /// The released pod was not idle in time.
    StuckStopping,
}

impl Why {
    /// The word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Protect => "Protect",
            Self::LetGo => "LetGo",
            Self::Ended => "Ended",
            Self::Started => "Started",
            Self::Returned => "Returned",
            Self::StartupTimeout => "StartupTimeout",
            Self::UnexpectedEnd => "UnexpectedEnd",
            Self::NotRenewed => "NotRenewed",
            Self::StuckStopping => "StuckStopping",
        }
    }

    /// Whether a sandbox is over for good once this is written.
    pub(super) fn ends_a_sandbox(self) -> bool {
        matches!(self, Self::LetGo | Self::Returned)
    }
}

/// What a pod needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Need {
    /// Now.
    pub(super) chore: Option<Chore>,
    /// When it has to be looked at even if it does not change.
    pub(super) again: Option<Timestamp>,
}

impl Need {
    fn now(chore: Chore) -> Self {
        Self { chore: Some(chore), again: None }
    }

    fn at(again: Timestamp) -> Self {
        Self { chore: None, again: Some(again) }
    }
}

/// What a pod needs. `is_ours` is false for a pod that another object controls: of that one only the
/// finalizer is this controller's.
pub(super) fn need(pod: &EnvPod, spec: &SandboxPoolSpec, is_ours: bool, now: Timestamp) -> Need {
    let class = EnvPodClass::of(pod);
    if class == EnvPodClass::Deleting {
        if !pod.has_finalizer() {
            return Need::default();
        }
        return Need::now(Chore::Patch(without_finalizer(pod), Merge::Plain, Why::LetGo));
    }
    if !is_ours {
        return Need::default();
    }
    if !pod.has_finalizer() {
        let all = pod.metadata.finalizers.iter().flatten().map(String::as_str);
        let all: Vec<_> = all.chain([names::FINALIZER_POD]).collect();
        return Need::now(Chore::Patch(json!({"metadata": {"finalizers": all}}), Merge::Plain, Why::Protect));
    }
    match class {
        EnvPodClass::Ended => Need::now(Chore::Delete(Why::Ended)),
        EnvPodClass::Starting => starting(pod, spec, now),
        EnvPodClass::Stopping => stopping(pod, spec, now),
        EnvPodClass::Running => running(pod, spec, now),
        _ => Need::default(),
    }
}

fn starting(pod: &EnvPod, spec: &SandboxPoolSpec, now: Timestamp) -> Need {
    let began = match progress(pod, now) {
        Progress::Done(_, patch) => {
            return Need::now(Chore::Patch(patch, Merge::Strategic, Why::Started));
        }
        Progress::Underway(began) => began,
        Progress::None => None,
    };
    let began = began.or_else(|| pod.time(names::ANNOTATION_CLAIMED_AT)).unwrap_or(pod.created());
    let asked = pod.annotation(names::ANNOTATION_STARTUP_TIMEOUT).parse().ok().map(Duration::from_secs);
    let some = |timeout: &Duration| !timeout.is_zero();
    let patience = asked.filter(some).or(spec.startup_timeout().filter(some)).unwrap_or(STARTUP);
    let Some(until) = after(began, patience) else { return Need::default() };
    if now < until {
        return Need::at(until);
    }
    let waits = pod.containers.iter().find_map(|container| container.waiting.as_deref());
    let why = waits.filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default();
    let stop = Stop {
        reason: names::STOP_FAILED,
        failure: Some(STARTUP_TIMEOUT.to_owned()),
        message: format!("it did not start within {} s{why}", patience.as_secs()),
        end: None,
    };
    stopped(pod, spec, &stop, Why::StartupTimeout, now)
}

/// A pod of an older template goes, though its image could be changed back: it may have what the template of
/// today has not, a volume or another container, and with it what the sandbox left there.
fn stopping(pod: &EnvPod, spec: &SandboxPoolSpec, now: Timestamp) -> Need {
    match progress(pod, now) {
        Progress::Done(..) if !is_renewed(pod, spec) => Need::now(Chore::Delete(Why::NotRenewed)),
        Progress::Done(_, patch) => Need::now(Chore::Patch(patch, Merge::Strategic, Why::Returned)),
        Progress::None => Need::now(Chore::Delete(Why::NotRenewed)),
        Progress::Underway(began) => {
            let began = began.or_else(|| pod.time(names::ANNOTATION_TERMINATED_AT));
            match began.unwrap_or(pod.created()).checked_add(STOPPING) {
                Ok(until) if now < until => Need::at(until),
                _ => Need::now(Chore::Delete(Why::StuckStopping)),
            }
        }
    }
}

/// Whether nothing of its sandbox can be left in a pod whose image has been changed back.
fn is_renewed(pod: &EnvPod, spec: &SandboxPoolSpec) -> bool {
    renewal(spec).is_none()
        // Somebody may have added one to the pod.
        && pod.containers.len() == 1
        && *revision_of(spec) == *pod.label(names::LABEL_TEMPLATE_HASH)
}

fn running(pod: &EnvPod, spec: &SandboxPoolSpec, now: Timestamp) -> Need {
    let Some(end) = unexpected_end(pod) else { return Need::default() };
    let reason = if end.reason.is_empty() { "ContainerEnded".to_owned() } else { end.reason.clone() };
    let message = if end.message.is_empty() {
        format!("its container ended with {}", end.exit_code)
    } else {
        end.message.clone()
    };
    let stop = Stop { reason: names::STOP_FAILED, failure: Some(reason), message, end: Some(end) };
    stopped(pod, spec, &stop, Why::UnexpectedEnd, now)
}

fn stopped(pod: &EnvPod, spec: &SandboxPoolSpec, stop: &Stop, why: Why, now: Timestamp) -> Need {
    release_patch(pod, spec, stop, now)
        .map_or_else(Need::default, |patch| Need::now(Chore::Patch(patch, Merge::Strategic, why)))
}

/// The patch that releases a sandbox, whether its pod can be given back or not; none if there is nothing to
/// release.
pub(super) fn release_patch(
    pod: &EnvPod,
    spec: &SandboxPoolSpec,
    stop: &Stop,
    now: Timestamp,
) -> Option<Value> {
    match release(pod, spec, stop, now) {
        Released::Nothing => None,
        Released::Patch(patch) => Some(patch),
        Released::Delete(_) => Some(last_words(stop, now)),
    }
}

/// The patch of a released pod that is deleted next: it is stopping, and no change of it is under way.
fn last_words(stop: &Stop, now: Timestamp) -> Value {
    let mut annotations = json!({
        (names::ANNOTATION_STOP_REASON): stop.reason,
        (names::ANNOTATION_TERMINATED_AT): written(now),
        (names::ANNOTATION_INPLACE_STATE): null,
        (names::ANNOTATION_ACCESS_TOKEN): null,
        (names::ANNOTATION_TRAFFIC_ACCESS_TOKEN): null,
    });
    if let Some(failure) = &stop.failure {
        annotations[names::ANNOTATION_FAILURE_REASON] = json!(failure);
        annotations[names::ANNOTATION_FAILURE_MESSAGE] = json!(stop.message);
    }
    if let Some(end) = &stop.end {
        annotations[names::ANNOTATION_EXIT_CODE] = json!(end.exit_code.to_string());
    }
    let labels = json!({(names::LABEL_PHASE): SandboxPhase::Stopping.as_str()});
    json!({"metadata": {"labels": labels, "annotations": annotations}})
}

/// The patch that takes this controller's finalizer off.
pub(super) fn without_finalizer(pod: &EnvPod) -> Value {
    let rest = pod.metadata.finalizers.iter().flatten().filter(|name| *name != names::FINALIZER_POD);
    json!({"metadata": {"finalizers": rest.collect::<Vec<_>>()}})
}

/// So much later; none if that is beyond all time.
pub(super) fn after(at: Timestamp, duration: Duration) -> Option<Timestamp> {
    at.checked_add(SignedDuration::try_from(duration).ok()?).ok()
}
