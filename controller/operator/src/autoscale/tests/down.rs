//! How pools shrink.

use super::*;

fn with_min(min: i32) -> impl FnOnce(&mut ScalingGroup) {
    move |group| group.min_replicas = min
}

#[test]
fn pods_that_are_idle_for_long_are_given_up() {
    assert_eq!(snapshot(4, 1, 3).idle_for(300).to(), Some(3));
    let plan = snapshot(4, 1, 3).idle_for(299).plan();
    assert_eq!((plan.replicas, plan.verdict), (None, ScaleVerdict::Settled));
    assert_eq!(plan.wake_at, Some(ago(-1)));
    assert_eq!(snapshot(4, 1, 3).idle_for(-3600).to(), None, "made ahead of the clock");
}

#[test]
fn a_step_is_a_part_of_the_replicas_by_the_mode_of_growing() {
    let to = |mode| snapshot(100, 0, 100).mode(mode).to();
    assert_eq!(to(ScaleMode::Conservative), Some(99));
    assert_eq!(to(ScaleMode::Default), Some(75));
    assert_eq!(to(ScaleMode::Aggressive), Some(50));
}

#[test]
fn a_step_is_cut_by_each_floor() {
    assert_eq!(snapshot(100, 0, 100).limits(90, 0).to(), Some(90), "the member's");
    assert_eq!(snapshot(100, 90, 10).to(), Some(90), "the sandboxes");
    let quiet = |group: &mut ScalingGroup| group.scale_up_policy.idle_zero_quiet_window_seconds = 0;
    assert_eq!(snapshot(100, 80, 20).queue(10).group(quiet).to(), Some(90), "and the claims");
    assert_eq!(snapshot(100, 80, 20).queue(10).to(), Some(91), "and one for the next claim");
    let siblings = [pool("a", 10, 10, 0)];
    assert_eq!(snapshot(100, 0, 100).group(with_min(100)).siblings(siblings).to(), Some(90), "the group's");
}

#[test]
fn a_step_is_not_larger_than_there_are_eligible_pods() {
    let mut snapshot = snapshot(100, 50, 50).idle_for(10);
    snapshot.pool.idle_since[10..13].fill(ago(400));
    assert_eq!(snapshot.to(), Some(97));
    assert_eq!(snapshot.idle_for(10).to(), None);
}

#[test]
fn pods_that_are_about_to_be_deleted_are_not_given_up_again() {
    let mut shrunk = snapshot(90, 80, 20);
    shrunk.pool.idle_since[12..].fill(ago(10));
    assert_eq!(shrunk.to(), Some(88), "of 12 that are eligible 10 go already");
    shrunk.pool.levels.replicas = 88;
    assert_eq!(shrunk.to(), None);
}

#[test]
fn the_minimum_of_the_group_is_kept() {
    let grouped = |min| snapshot(5, 0, 5).group(with_min(min)).siblings([pool("a", 3, 3, 0)]);
    assert_eq!(grouped(8).verdict(), ScaleVerdict::Stuck(ScaleFloor::Group));
    assert_eq!(grouped(i32::MAX).verdict(), ScaleVerdict::Stuck(ScaleFloor::Group));
    assert_eq!(grouped(7).to(), Some(4));
    assert_eq!(grouped(-7).to(), Some(3));
}

#[test]
fn the_minimum_of_the_member_is_kept() {
    assert_eq!(snapshot(5, 0, 5).limits(5, 0).verdict(), ScaleVerdict::Stuck(ScaleFloor::Member));
    assert_eq!(snapshot(5, 0, 5).limits(i32::MAX, 0).to(), None);
    assert_eq!(snapshot(5, 0, 5).limits(4, 0).to(), Some(4));
    assert_eq!(snapshot(5, 0, 5).limits(i32::MIN, 0).to(), Some(3));
}

#[test]
fn running_sandboxes_are_never_given_up() {
    assert_eq!(snapshot(5, 5, 3).to(), None);
    assert_eq!(snapshot(5, 4, 1).to(), Some(4));
}

#[test]
fn between_two_steps_the_pool_stabilizes() {
    let shrunk = |seconds| {
        let mut snapshot = snapshot(8, 0, 8);
        snapshot.pool.status.last_scale_down_time = Some(Time(ago(seconds)));
        snapshot
    };
    let plan = shrunk(59).plan();
    assert_eq!((plan.replicas, plan.verdict), (None, ScaleVerdict::Stabilizes));
    assert_eq!((plan.event, plan.wake_at), (None, Some(ago(-1))), "nobody is told");
    assert_eq!(shrunk(60).to(), Some(6));
    assert_eq!(shrunk(-3600).to(), Some(6), "a time far ahead of the clock is no good");
}

#[test]
fn a_step_that_the_cache_does_not_show_yet_is_not_made_twice() {
    let stale = snapshot(8, 0, 8);
    let mut session = stale.session.clone();
    session.apply(stale.plan().session);
    let after = |seconds| ScaleSnapshot { session: session.clone(), ..stale.after(seconds) };
    assert_eq!(after(59).verdict(), ScaleVerdict::Stabilizes);
    assert_eq!(after(60).to(), Some(6));
}

#[test]
fn a_pool_with_waiting_claims_does_not_shrink() {
    let mut waiting = snapshot(4, 1, 3).queue(4);
    waiting.pool.status.last_scale_up_time = Some(Time(ago(1)));
    assert_eq!((waiting.to(), waiting.verdict()), (None, ScaleVerdict::CoolsDown));
    waiting.pool.levels.queue = 1;
    assert_eq!(waiting.to(), Some(3), "but one for which there are idle pods does");
}

#[test]
fn the_last_idle_pod_stays_as_long_as_the_pool_would_grow_again() {
    let claimed = |seconds| {
        let mut snapshot = snapshot(3, 1, 2);
        snapshot.pool.last_create = Some(ago(seconds));
        snapshot
    };
    assert_eq!(claimed(299).to(), Some(2));
    let mut kept = claimed(299);
    kept.commit();
    kept.lose(1);
    let kept = ScaleSnapshot {
        pool: ScalePool { last_create: Some(ago(-100)), ..kept.pool.clone() },
        ..kept.after(200)
    };
    let plan = kept.plan();
    assert_eq!((plan.replicas, plan.verdict), (None, ScaleVerdict::KeepsWarm));
    assert_eq!((plan.event, plan.session), (None, SessionChange::None), "the session goes on");
    assert_eq!(plan.wake_at, Some(ago(-400)));
    assert_eq!(kept.after(200).to(), Some(1));
    for off in [
        |group: &mut ScalingGroup| group.scale_up_policy.idle_threshold_seconds = 0,
        |group: &mut ScalingGroup| group.scale_up_policy.idle_zero_quiet_window_seconds = 0,
    ] {
        assert_eq!(kept.clone().group(off).to(), Some(1), "it would not grow");
    }
}

#[test]
fn the_last_idle_pod_stays_while_a_claim_waits_that_will_make_the_pool_used() {
    let booting = snapshot(2, 0, 2).queue(1);
    assert_eq!(booting.verdict(), ScaleVerdict::KeepsWarm);
    let off = |group: &mut ScalingGroup| group.scale_up_policy.idle_zero_quiet_window_seconds = 0;
    assert_eq!(booting.group(off).to(), Some(1));
}

#[test]
fn what_the_group_can_give_up_is_taken_from_the_higher_priority_first() {
    let beside = |sibling: ScalePool| snapshot(6, 0, 6).group(with_min(8)).siblings([sibling]);
    let first = || pool("a", 6, 2, 4).down_priority(1);
    assert_eq!(beside(first()).verdict(), ScaleVerdict::LeavesToSiblings, "4 of 4");
    assert_eq!(beside(first().down_priority(0)).to(), Some(4));
    let mut fresh = first();
    fresh.idle_since[1..].fill(ago(10));
    assert_eq!(beside(fresh).to(), Some(4), "it has one eligible pod, so 3 are left");
    let mut floored = first();
    floored.limits.min = 6;
    assert_eq!(beside(floored).to(), Some(4), "it cannot shrink");
    assert_eq!(beside(first()).group(with_min(0)).to(), Some(4), "there is enough for both");
}

#[test]
fn a_pool_without_a_status_and_pods_is_settled() {
    let empty = ScaleSnapshot { group: Some(group(ScaleMode::Default)), ..ScaleSnapshot::default() };
    assert_eq!((empty.to(), empty.verdict()), (None, ScaleVerdict::Settled));
}
