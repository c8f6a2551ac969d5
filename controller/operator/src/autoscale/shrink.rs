//! Whether a pool shrinks, and by how much.
//!
//! An idle pod is *eligible* once it has waited for a claim for `idleTimeoutSeconds`. Every
//! `stabilizationSeconds` the pool gives up a step of its replicas, but not more than there are eligible
//! pods, and not so many that one of these is passed:
//! - the least replicas of the member, and of the group;
//! - the demand: the sandboxes that run, and the claims that wait;
//! - one idle pod, as long as the pool would grow again without being asked if it had none. Without this a
//!   pool at a constant demand would shrink and grow in turns;
//! - what siblings with a higher scale-down priority can give up of what the group can. Nobody waits for
//!   them: a sibling that never shrinks keeps the group above its minimum by its own eligible pods, not by
//!   more.
//!
//! A pool with waiting claims that no pod is on its way for does not shrink.

use jiff::Timestamp;
use sandgate_objects::sandbox_env::resources::{AutoscalingStatus, ScaleUpPolicy, ScalingGroup, Time};

use super::grow::is_claimed_of;
use super::levels::{narrow, step};
use super::now::{Now, later, seconds};
use super::plan::{ScaleEvent, ScaleFloor, ScalePlan, ScaleReason, ScaleVerdict, changed};
use super::session::SessionChange;
use super::snapshot::{ScalePool, ScaleSnapshot};

/// What was found.
enum Shrinking {
    /// The pool gives up so many replicas.
    By(i64),
    /// There is nothing to give up.
    Done,
    /// It goes on later.
    Waits(ScaleVerdict),
    /// A floor ends it.
    Stuck(ScaleFloor),
    /// Claims wait.
    Aborted,
}

/// Looks whether the pool shrinks, and makes the plan. `status` is what is written beside it.
pub(super) fn look(
    snapshot: &ScaleSnapshot,
    group: &ScalingGroup,
    mut status: AutoscalingStatus,
    now: &mut Now,
) -> ScalePlan {
    let (session, at) = (&snapshot.session, snapshot.now);
    let replicas = snapshot.pool.levels.replicas();
    let mut plan = ScalePlan { from: narrow(replicas), ..ScalePlan::default() };
    match measure(snapshot, group, now) {
        Shrinking::By(step) => {
            let to = narrow(replicas - step);
            status.last_scale_down_time = Some(Time(at));
            plan.replicas = Some(to);
            plan.verdict = ScaleVerdict::Shrinks;
            plan.wake_at = later(at, seconds(group.scale_down_policy.stabilization_seconds));
            if session.is_open() {
                plan.session = SessionChange::Stepped(at);
            } else {
                let note = format!("shrinks from {replicas} replicas, first to {to}: pods are idle for long");
                plan.event = Some(ScaleEvent { reason: ScaleReason::ScaleDownStarted, note });
                plan.session = SessionChange::Started(at);
            }
        }
        Shrinking::Done if session.is_open() => {
            let note = format!("has shrunk to {replicas} replicas");
            plan.event = Some(ScaleEvent { reason: ScaleReason::ScaleDownCompleted, note });
            plan.session = SessionChange::Completed;
        }
        Shrinking::Done => {}
        Shrinking::Waits(verdict) => plan.verdict = verdict,
        Shrinking::Stuck(floor) => {
            plan.verdict = ScaleVerdict::Stuck(floor);
            if session.may_tell_stuck(now) {
                let floor = match floor {
                    ScaleFloor::Member => "the minimum of its member",
                    ScaleFloor::Group => "the minimum of its scaling group",
                };
                let note = format!("stays at {replicas} replicas because of {floor}");
                plan.event = Some(ScaleEvent { reason: ScaleReason::ScaleDownStuck, note });
                plan.session = SessionChange::Stuck(at);
            }
        }
        Shrinking::Aborted => plan.session = session.aborted(),
    }
    plan.status = changed(&snapshot.pool.status, status, snapshot.generation);
    plan
}

fn measure(snapshot: &ScaleSnapshot, group: &ScalingGroup, now: &mut Now) -> Shrinking {
    let pool = &snapshot.pool;
    let levels = &pool.levels;
    let replicas = levels.replicas();
    if levels.unmet() > 0 {
        return Shrinking::Aborted;
    }
    let stabilization = seconds(group.scale_down_policy.stabilization_seconds);
    let noted = pool.status.last_scale_down_time.as_ref().map(|time| time.0);
    if noted.max(snapshot.session.last_step()).is_some_and(|last| now.is_within(last, stabilization)) {
        return Shrinking::Waits(ScaleVerdict::Stabilizes);
    }
    if replicas <= 0 {
        return Shrinking::Done;
    }
    let group_room = replicas + snapshot.others_replicas() - i64::from(group.min_replicas.max(0));
    if group_room <= 0 {
        return Shrinking::Stuck(ScaleFloor::Group);
    }
    let eligible = eligible(pool, group, now);
    let unused = replicas - levels.demand();
    if eligible <= 0 || unused <= 0 {
        return Shrinking::Done;
    }
    let member_room = replicas - i64::from(pool.limits.min.max(0));
    if member_room <= 0 {
        return Shrinking::Stuck(ScaleFloor::Member);
    }
    let kept = i64::from(is_kept_warm(pool, &group.scale_up_policy, now));
    if unused <= kept {
        return Shrinking::Waits(ScaleVerdict::KeepsWarm);
    }
    let goes_before = |other: &&ScalePool| other.limits.down_priority > pool.limits.down_priority;
    let theirs: i64 = match group.min_replicas {
        ..=0 => 0,
        _ => snapshot.others().filter(goes_before).map(|other| releasable(other, group, now)).sum(),
    };
    if group_room <= theirs {
        return Shrinking::Waits(ScaleVerdict::LeavesToSiblings);
    }
    let limits = [eligible, member_room, unused - kept, group_room - theirs];
    let step = step(group.scale_up_policy.mode, replicas);
    Shrinking::By(limits.into_iter().fold(step, i64::min))
}

/// How many pods have been idle for the timeout, without those that are about to be deleted.
fn eligible(pool: &ScalePool, group: &ScalingGroup, now: &mut Now) -> i64 {
    let timeout = seconds(group.scale_down_policy.idle_timeout_seconds);
    let mut is_eligible = |since: &&Timestamp| now.has_lasted(**since, timeout);
    let count = pool.idle_since.iter().filter(|since| is_eligible(since)).count();
    i64::try_from(count).unwrap_or(i64::MAX).saturating_sub(pool.levels.surplus())
}

/// Whether a pool without idle pods would grow by the trigger *idle zero*, now or when a claim that waits is
/// served.
fn is_kept_warm(pool: &ScalePool, policy: &ScaleUpPolicy, now: &mut Now) -> bool {
    let ScaleUpPolicy { idle_threshold_seconds, idle_zero_quiet_window_seconds, .. } = *policy;
    let grows = idle_threshold_seconds > 0 && idle_zero_quiet_window_seconds > 0;
    grows && (pool.levels.has_queue() || is_claimed_of(pool, policy, now))
}

/// How many replicas a sibling can give up, in as many steps as it needs.
fn releasable(pool: &ScalePool, group: &ScalingGroup, now: &mut Now) -> i64 {
    let replicas = pool.levels.replicas();
    let kept = i64::from(is_kept_warm(pool, &group.scale_up_policy, now));
    let member_room = replicas - i64::from(pool.limits.min.max(0));
    let unused = replicas - pool.levels.demand() - kept;
    eligible(pool, group, now).min(member_room).min(unused).max(0)
}
