//! What holds for every decision, whatever stands in the objects.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use sandgate_objects::sandbox_env::resources::{AttemptResult, AutoscalingStatus};

use super::super::levels::{ceiling, step};
use super::*;

/// Mostly a sensible number, sometimes any.
fn number() -> BoxedStrategy<i32> {
    prop_oneof![8 => 0..60, 1 => -3..300, 1 => any::<i32>()].boxed()
}

/// Mostly around the time of the tests, sometimes any.
fn time() -> BoxedStrategy<Timestamp> {
    let far = (Timestamp::MIN.as_second()..=Timestamp::MAX.as_second()).boxed();
    prop_oneof![30 => NOW - 700..NOW + 1, 3 => NOW..NOW + 700, 1 => far]
        .prop_map(|second| Timestamp::from_second(second).unwrap())
        .boxed()
}

fn mode() -> impl Strategy<Value = ScaleMode> {
    prop_oneof![Just(ScaleMode::Conservative), Just(ScaleMode::Default), Just(ScaleMode::Aggressive)]
}

fn result() -> impl Strategy<Value = AttemptResult> {
    prop_oneof![Just(AttemptResult::Enough), Just(AttemptResult::Insufficient), Just(AttemptResult::Failed)]
}

fn any_group() -> BoxedStrategy<ScalingGroup> {
    let seconds = || prop_oneof![8 => 0..400, 1 => any::<i32>()];
    let times = (seconds(), seconds(), seconds(), seconds(), seconds(), seconds());
    (mode(), number(), option::of(number()), times)
        .prop_map(|(mode, min, max, times)| {
            let mut group = ScalingGroup { min_replicas: min, max_replicas: max, ..group(mode) };
            let (up, down) = (&mut group.scale_up_policy, &mut group.scale_down_policy);
            (up.cooldown_seconds, up.idle_threshold_seconds, up.idle_zero_quiet_window_seconds) =
                (times.0, times.1, times.2);
            (up.saturation_cooldown_seconds, down.idle_timeout_seconds, down.stabilization_seconds) =
                (times.3, times.4, times.5);
            group
        })
        .boxed()
}

fn any_pool(name: &'static str) -> BoxedStrategy<ScalePool> {
    let pods = (number(), number(), number(), number(), number());
    let limits = (number(), number(), -2..3, -2..3);
    let times = (option::of(time()), option::of(time()), option::of(time()), option::of(time()));
    (
        pods,
        0..20,
        option::of(number()),
        limits,
        times,
        option::of(time()),
        option::of(result()),
        vec(time(), 0..20),
    )
        .prop_map(move |(pods, idle, queue, limits, times, last_create, result, idle_since)| ScalePool {
            name: name.to_owned(),
            levels: ScaleLevels {
                replicas: pods.0,
                idle,
                running: pods.1,
                starting: pods.2,
                stopping: pods.3,
                failed: pods.4,
                queue: queue.unwrap_or_default(),
            },
            limits: ScaleLimits {
                min: limits.0,
                max: limits.1,
                up_priority: limits.2,
                down_priority: limits.3,
            },
            status: AutoscalingStatus {
                last_scale_up_time: times.0.map(Time),
                last_scale_down_time: times.1.map(Time),
                idle_zero_since: times.2.map(Time),
                last_scale_up_attempt_time: times.3.map(Time),
                last_scale_up_attempt_result: result,
                ..AutoscalingStatus::default()
            },
            last_create,
            idle_since,
        })
        .boxed()
}

fn any_session() -> impl Strategy<Value = ScaleSession> {
    let change = prop_oneof![
        time().prop_map(SessionChange::Started),
        time().prop_map(SessionChange::Stuck),
        Just(SessionChange::Completed),
    ];
    vec(change, 0..4).prop_map(|changes| {
        let mut session = ScaleSession::default();
        changes.into_iter().for_each(|change| session.apply(change));
        session
    })
}

fn any_snapshot() -> impl Strategy<Value = ScaleSnapshot> {
    let siblings = (option::of(any_pool("a")), option::of(any_pool("z")));
    (any_pool("p"), any_group(), siblings, any_session()).prop_map(|(pool, group, siblings, session)| {
        ScaleSnapshot {
            siblings: siblings.0.into_iter().chain([pool.clone()]).chain(siblings.1).collect(),
            pool,
            group: Some(group),
            session,
            now: ago(0),
            ..ScaleSnapshot::default()
        }
    })
}

/// What a decision does to the replicas.
fn change(snapshot: &ScaleSnapshot) -> (i64, i64) {
    let plan = snapshot.plan();
    (i64::from(plan.from), i64::from(plan.replicas.unwrap_or(plan.from)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_ceiling_and_no_floor_is_passed(snapshot in any_snapshot()) {
        let ScaleSnapshot { pool, group, .. } = &snapshot;
        let group = group.as_ref().unwrap();
        let (mode, count) = (group.scale_up_policy.mode, |number: i32| i64::from(number.max(0)));
        let (from, to) = change(&snapshot);
        let demand = count(pool.levels.running) + count(pool.levels.queue);
        let others: i64 = snapshot.others().map(|other| count(other.levels.replicas)).sum();
        if snapshot.verdict() == ScaleVerdict::RaisesToRunning {
            prop_assert_eq!(to, i64::from(pool.levels.running));
        } else if to > from {
            prop_assert!(pool.limits.max <= 0 || to <= i64::from(pool.limits.max), "above the member's maximum");
            prop_assert!(group.max_replicas.is_none_or(|max| to + others <= i64::from(max)), "above the group's");
            prop_assert!(to <= ceiling(mode, demand), "above the mode's");
        } else if to < from {
            let timeout = i64::from(group.scale_down_policy.idle_timeout_seconds.max(0));
            let old = pool.idle_since.iter().filter(|since| since.as_second() <= NOW - timeout).count();
            prop_assert!(to >= demand, "below the sandboxes and the claims");
            prop_assert!(to >= i64::from(pool.limits.min), "below the member's minimum");
            prop_assert!(to + others >= i64::from(group.min_replicas), "below the group's");
            prop_assert!(from - to <= step(mode, from), "more than a step");
            prop_assert!(from - to <= i64::try_from(old).unwrap(), "more than are idle for long");
        }
        prop_assert!(to >= count(pool.levels.running).min(from), "below the sandboxes");
    }

    #[test]
    fn a_pool_whose_claims_have_no_pods_never_shrinks(snapshot in any_snapshot()) {
        let (from, to) = change(&snapshot);
        prop_assert!(snapshot.pool.levels.unmet() == 0 || to >= from);
    }

    #[test]
    fn until_it_is_time_to_look_again_the_decision_stays(snapshot in any_snapshot(), part in 0.0..1.0_f64) {
        let plan = snapshot.plan();
        if plan.replicas.is_some() {
            return Ok(());
        }
        let until = plan.wake_at.unwrap_or(Timestamp::MAX);
        prop_assert!(until > snapshot.now);
        let wait = until.duration_since(snapshot.now).as_secs_f64() * part;
        let now = snapshot.now.checked_add(SignedDuration::from_secs_f64(wait.floor())).unwrap();
        let later = ScaleSnapshot { now, ..snapshot }.plan();
        prop_assert_eq!((later.replicas, later.verdict), (plan.replicas, plan.verdict));
        prop_assert_eq!(later.event, plan.event);
    }

    #[test]
    fn of_two_ripe_pools_at_most_one_waits_for_the_other(one in any_pool("a"), other in any_pool("z"), group in any_group()) {
        let yields = |pool: &ScalePool, sibling: &ScalePool| {
            let (pool, siblings) = (pool.clone(), vec![sibling.clone()]);
            let group = Some(group.clone());
            let snapshot = ScaleSnapshot { pool, siblings, group, now: ago(0), ..ScaleSnapshot::default() };
            snapshot.verdict()
        };
        let both = (yields(&one, &other), yields(&other, &one));
        prop_assert!(both != (ScaleVerdict::Yields, ScaleVerdict::Yields));
        prop_assert!(both != (ScaleVerdict::LeavesToSiblings, ScaleVerdict::LeavesToSiblings));
    }
}
