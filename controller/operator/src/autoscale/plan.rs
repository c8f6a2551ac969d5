//! What was decided, as the commit carries it out.

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::sandbox_env::resources::{AttemptResult, AutoscalingStatus, ScaleUpPolicy, Time};

use super::admission::AdmissionOutcome;
use super::now::{later, seconds};
use super::session::SessionChange;
use crate::EventKind;

/// The longest pause that a refusal may ask for.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub enum ScaleDecision {
    /// A plan that can be written as it is.
    Plan(ScalePlan),
    /// The pool is to grow, if that is admitted.
    Ask(Growth),
}

/// What is to be written. Nothing of it has happened before it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalePlan {
    /// The replicas that were decided on.
    pub from: i32,
    /// The replicas that the pool is to have; none if they stay.
    pub replicas: Option<i32>,
    /// `status.autoscaling` of the pool; none if it stays.
    pub status: Option<AutoscalingStatus>,
    /// What people are told.
    pub event: Option<ScaleEvent>,
    /// What becomes of the session, once the rest is written.
    pub session: SessionChange,
    /// When to look again if nothing happens before; none is never. The same decision is made of the same
    /// values at every time before. For a plan that changes the replicas: when the next change may be due.
    pub wake_at: Option<Timestamp>,
    /// Why it was decided so.
    pub verdict: ScaleVerdict,
}

/// A pool that is to grow. [`Growth::settle`] makes a plan of it and of what was admitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The replicas that it has.
    pub from: i32,
    /// The replicas that it is to have. More than `from`.
    pub to: i32,
    /// Why.
    pub trigger: ScaleTrigger,
    pub(super) status: AutoscalingStatus,
    pub(super) generation: Option<i64>,
    pub(super) policy: ScaleUpPolicy,
    pub(super) session: SessionChange,
    pub(super) now: Timestamp,
}

/// Why a pool grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleTrigger {
    /// Claims wait that no pod is on its way for.
    Reactive,
    /// No pod has been idle for long, and claims were made a short time ago.
    IdleZero,
}

/// A limit that keeps a pool from shrinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleFloor {
    /// The least replicas of the member.
    Member,
    /// The least replicas of the group.
    Group,
}

/// Why it was decided so, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScaleVerdict {
    /// The pool does not scale by itself.
    Disabled,
    /// There are more sandboxes than replicas.
    RaisesToRunning,
    /// The pool grows.
    Grows(ScaleTrigger),
    /// The pool is to grow and may not.
    Rejected(ScaleTrigger),
    /// The pool grew a short time ago.
    CoolsDown,
    /// The pool could not grow a short time ago.
    Saturated,
    /// A sibling grows first.
    Yields,
    /// The pool has as many replicas as it or its group may have.
    AtCeiling,
    /// The pool shrinks.
    Shrinks,
    /// The pool shrank a short time ago.
    Stabilizes,
    /// The last idle pod stays for the next claim.
    KeepsWarm,
    /// What the group can give up is left to siblings.
    LeavesToSiblings,
    /// A floor keeps the pool from shrinking.
    Stuck(ScaleFloor),
    /// There is nothing to do.
    #[default]
    Settled,
}

/// What people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleEvent {
    /// The reason.
    pub reason: ScaleReason,
    /// The sentence.
    pub note: String,
}

/// The reason of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleReason {
    /// The pool grows.
    ScaleUp,
    /// The pool grows less than it is to.
    ScaleUpPartial,
    /// The pool may not grow.
    ScaleUpRejected,
    /// The pool begins to shrink.
    ScaleDownStarted,
    /// The pool has shrunk.
    ScaleDownCompleted,
    /// The pool cannot shrink further.
    ScaleDownStuck,
}

impl ScaleReason {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScaleUp => "AutoscalerScaleUp",
            Self::ScaleUpPartial => "AutoscalerScaleUpPartial",
            Self::ScaleUpRejected => "AutoscalerScaleUpRejected",
            Self::ScaleDownStarted => "AutoscalerScaleDownStarted",
            Self::ScaleDownCompleted => "AutoscalerScaleDownCompleted",
            Self::ScaleDownStuck => "AutoscalerScaleDownStuck",
        }
    }

    /// What was done, or tried.
    pub fn action(self) -> &'static str {
        match self {
            Self::ScaleUp | Self::ScaleUpPartial | Self::ScaleUpRejected => "ScaleUp",
            Self::ScaleDownStarted | Self::ScaleDownCompleted | Self::ScaleDownStuck => "ScaleDown",
        }
    }

    /// Whether it is good news.
    pub fn kind(self) -> EventKind {
        match self {
            Self::ScaleUpRejected => EventKind::Warning,
            _ => EventKind::Normal,
        }
    }
}

impl ScaleTrigger {
    fn why(self) -> &'static str {
        match self {
            Self::Reactive => "claims wait for pods",
            Self::IdleZero => "no pod was idle for some time",
        }
    }
}

/// `status`, if it is not `old`. The generation alone is no reason to write: every step of a sibling raises
/// that of the environment.
pub(super) fn changed(
    old: &AutoscalingStatus,
    mut status: AutoscalingStatus,
    generation: Option<i64>,
) -> Option<AutoscalingStatus> {
    if status == *old {
        return None;
    }
    status.observed_generation = generation.or(status.observed_generation);
    Some(status)
}

impl Growth {
    /// The plan. Whatever was admitted between `from` and `to` is taken.
    pub fn settle(self, outcome: &AdmissionOutcome) -> ScalePlan {
        let Self { from, to, trigger, mut status, generation, policy, session, now } = self;
        let AdmissionOutcome { accepted, result, message, retry_after } = outcome;
        let accepted = (*accepted).min(to);
        let has_grown = accepted > from;
        let result = match result {
            AttemptResult::Enough if accepted < to => AttemptResult::Insufficient,
            result => *result,
        };
        status.last_scale_up_attempt_time = Some(Time(now));
        status.last_scale_up_attempt_result = Some(result);
        status.scale_up_error_message = message.clone();
        if has_grown {
            status.last_scale_up_time = Some(Time(now));
        }
        status.observed_generation = generation.or(status.observed_generation);
        let why = trigger.why();
        let event = if accepted >= to {
            let note = format!("grows from {from} to {to} replicas: {why}");
            ScaleEvent { reason: ScaleReason::ScaleUp, note }
        } else if has_grown {
            let note = format!("grows from {from} to {accepted} replicas of {to}: {why}; {message}");
            ScaleEvent { reason: ScaleReason::ScaleUpPartial, note }
        } else {
            let note = format!("stays at {from} replicas of {to}: {why}; {message}");
            ScaleEvent { reason: ScaleReason::ScaleUpRejected, note }
        };
        let pause = match result {
            AttemptResult::Enough => seconds(policy.cooldown_seconds),
            _ => {
                let asked = retry_after.and_then(|after| SignedDuration::try_from(after).ok());
                seconds(policy.saturation_cooldown_seconds).max(asked.unwrap_or_default().min(LONGEST_PAUSE))
            }
        };
        let verdict = if has_grown { ScaleVerdict::Grows(trigger) } else { ScaleVerdict::Rejected(trigger) };
        ScalePlan {
            from,
            replicas: has_grown.then_some(accepted),
            status: Some(status),
            event: Some(event),
            session,
            wake_at: later(now, pause),
            verdict,
        }
    }
}
