//! Whether a pool grows, and to what.
//!
//! A pool wants to grow if claims wait that no pod is on its way for (*reactive*), or if no pod has been idle
//! for `idleThresholdSeconds` and a claim was made within `idleZeroQuietWindowSeconds` (*idle zero*). It may
//! if all of this is so:
//! - it did not grow within `cooldownSeconds`, and did not fail to within `saturationCooldownSeconds`. That
//!   holds for waiting claims as well;
//! - no sibling that grows first is *ripe*: out of idle pods for the threshold, and about to grow itself. A
//!   sibling that would not grow (nobody claims of it, it is at its maximum, it was refused) is not waited
//!   for, or its idleness would keep the others small for ever. The first of those that are ripe waits for
//!   nobody, so one always grows;
//! - there is room below the maximum of the member and that of the group.
//!
//! What the pool wants is looked at first, so that one that wants nothing is not looked at again only because
//! a cooldown ends. As all must hold, the order makes no other difference.

use jiff::Timestamp;
use sandgate_objects::sandbox_env::resources::{AutoscalingStatus, ScaleUpPolicy, ScalingGroup};

use super::levels::narrow;
use super::now::{Now, seconds};
use super::plan::{ScaleTrigger, ScaleVerdict};
use super::snapshot::{ScalePool, ScaleSnapshot};

/// What became of it.
pub(super) enum Growing {
    /// The pool is to have so many replicas.
    To(i32, ScaleTrigger),
    /// It does not grow: why, if it wants to.
    Held(Option<ScaleVerdict>),
}

/// Looks whether the pool grows. `status` knows since when no pod is idle.
pub(super) fn look(
    snapshot: &ScaleSnapshot,
    group: &ScalingGroup,
    status: &AutoscalingStatus,
    now: &mut Now,
) -> Growing {
    let (pool, policy) = (&snapshot.pool, &group.scale_up_policy);
    let levels = &pool.levels;
    let idle_zero_since = status.idle_zero_since.as_ref().map(|since| since.0);
    let Some(trigger) = trigger(pool, idle_zero_since, policy, now) else {
        return Growing::Held(None);
    };
    let wanted = levels.target(policy.mode);
    if wanted <= levels.replicas() {
        return Growing::Held(None);
    }
    let last = pool.status.last_scale_up_time.as_ref();
    if last.is_some_and(|last| now.is_within(last.0, seconds(policy.cooldown_seconds))) {
        return Growing::Held(Some(ScaleVerdict::CoolsDown));
    }
    if pool.is_saturated(policy, now) {
        return Growing::Held(Some(ScaleVerdict::Saturated));
    }
    let goes_before = |other: &&ScalePool| other.limits.up_priority < pool.limits.up_priority;
    if snapshot.others().filter(goes_before).any(|other| is_ripe(other, policy, now)) {
        return Growing::Held(Some(ScaleVerdict::Yields));
    }
    let room = group.max_replicas.map(|max| i64::from(max) - snapshot.others_replicas());
    let wanted = pool.cap(wanted).min(room.unwrap_or(i64::MAX));
    if wanted <= levels.replicas() {
        return Growing::Held(Some(ScaleVerdict::AtCeiling));
    }
    Growing::To(narrow(wanted), trigger)
}

/// Why a pool wants to grow.
fn trigger(
    pool: &ScalePool,
    idle_zero_since: Option<Timestamp>,
    policy: &ScaleUpPolicy,
    now: &mut Now,
) -> Option<ScaleTrigger> {
    if pool.levels.unmet() > 0 {
        return Some(ScaleTrigger::Reactive);
    }
    let is_out = is_out_for_long(pool, idle_zero_since, policy, now);
    (is_out && is_claimed_of(pool, policy, now)).then_some(ScaleTrigger::IdleZero)
}

/// Whether no pod has been idle for the threshold.
fn is_out_for_long(
    pool: &ScalePool,
    idle_zero_since: Option<Timestamp>,
    policy: &ScaleUpPolicy,
    now: &mut Now,
) -> bool {
    policy.idle_threshold_seconds > 0
        && pool.levels.is_out_of_idle()
        && idle_zero_since.is_some_and(|since| now.has_lasted(since, seconds(policy.idle_threshold_seconds)))
}

/// Whether a claim was made within the window in which a pool grows without being asked.
pub(super) fn is_claimed_of(pool: &ScalePool, policy: &ScaleUpPolicy, now: &mut Now) -> bool {
    let window = seconds(policy.idle_zero_quiet_window_seconds);
    pool.last_create.is_some_and(|last| now.is_within(last, window))
}

/// Whether a sibling is about to grow because it has been out of idle pods for long.
fn is_ripe(pool: &ScalePool, policy: &ScaleUpPolicy, now: &mut Now) -> bool {
    let since = pool.status.idle_zero_since.as_ref().map(|since| since.0);
    is_out_for_long(pool, since, policy, now)
        && trigger(pool, since, policy, now).is_some()
        && pool.cap(pool.levels.target(policy.mode)) > pool.levels.replicas()
        && !pool.is_saturated(policy, now)
}
