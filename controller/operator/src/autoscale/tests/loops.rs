//! Pools and their autoscalers, over time.

use proptest::prelude::*;

use super::super::levels::ceiling;
use super::*;

const MODES: [ScaleMode; 3] = [ScaleMode::Conservative, ScaleMode::Default, ScaleMode::Aggressive];

fn one(mode: ScaleMode, pool: ModelPool) -> ScaleModel {
    ScaleModel::new(group(mode), [pool])
}

fn fresh() -> ModelPool {
    ModelPool::new("p", ScaleLimits::default())
}

/// The changes of the replicas: when, from, and to.
fn changes(model: &ScaleModel) -> Vec<(i64, i32, i32)> {
    let changed = |row: &&ScaleRow| row.replicas != row.levels.replicas;
    model.rows.iter().filter(changed).map(|row| (row.second, row.levels.replicas, row.replicas)).collect()
}

#[test]
fn thirteen_sandboxes_never_have_more_than_twenty_six_replicas_in_thirty_cycles() {
    for mode in MODES {
        for boot in [1, 20, 95] {
            let mut model = one(mode, fresh().with_times(ModelTimes { boot, ..ModelTimes::default() }));
            for _ in 0..30 {
                model.run(10, |_, _| 13);
                // Somebody always claims.
                model.replace_one();
            }
            let most = model.rows.iter().map(|row| row.replicas).max();
            assert_eq!(model.rows.len(), 30);
            assert!(most >= Some(13) && most <= Some(26), "{mode:?}, boot {boot}: {most:?}");
        }
    }
}

#[test]
fn eight_hundred_idle_pods_are_gone_within_half_an_hour() {
    let mut model = one(ScaleMode::Default, fresh().with_idle(800));
    model.run(1800, |_, _| 0);
    assert_eq!((model.replicas(), model.pools[0].levels()), (0, ScaleLevels::default()));
    assert!(model.rows.iter().all(|row| row.replicas == 800 || row.second >= 300), "not before the timeout");
    let told: Vec<_> = model.rows.iter().filter_map(|row| row.told).collect();
    assert_eq!(told, [ScaleReason::ScaleDownStarted, ScaleReason::ScaleDownCompleted]);
}

#[test]
fn a_demand_of_five_hundred_is_met_at_once() {
    for mode in MODES {
        let mut model = one(mode, fresh());
        model.run(60, |_, _| 500);
        let first = &model.rows[0];
        assert!((500..=502).contains(&first.replicas), "one look is enough: {first:?}");
        assert_eq!(model.pools[0].running, 500, "{mode:?}: looked at, booted and started");
    }
}

#[test]
fn a_demand_that_climbs_to_five_hundred_is_met_within_five_growths() {
    let climbing = |_, second: i64| i32::try_from((second * 5).min(500)).unwrap();
    let mut model = one(ScaleMode::Default, fresh());
    model.run(180, climbing);
    let growths = changes(&model);
    assert!((3..=5).contains(&growths.len()), "{growths:?}");
    assert!(growths.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 30), "the cooldown is kept: {growths:?}");
    assert_eq!(model.pools[0].running, 500);
    let behind = |row: &ScaleRow| row.replicas < row.demand - 5 * 40;
    assert!(!model.rows.iter().any(behind), "never further behind than a cooldown and a cycle");
}

#[test]
fn a_quota_is_taken_in_full_and_asked_for_once_a_minute() {
    let mut model = one(ScaleMode::Default, fresh());
    model.quota = Some(100);
    model.run(600, |_, _| 500);
    assert_eq!((model.replicas(), model.pools[0].running), (100, 100));
    assert_eq!(model.rows[0].told, Some(ScaleReason::ScaleUpPartial));
    let refused: Vec<_> = model
        .rows
        .iter()
        .filter(|row| row.told == Some(ScaleReason::ScaleUpRejected))
        .map(|row| row.second)
        .collect();
    assert_eq!(refused, [70, 130, 190, 250, 310, 370, 430, 490, 550]);
}

#[test]
fn sandboxes_that_come_and_go_at_a_constant_demand_leave_the_replicas_alone() {
    for mode in MODES {
        for every in [3, 10, 25] {
            let mut model = one(mode, fresh());
            for _ in 0..7200 / every {
                model.run(every, |_, _| 20);
                model.replace_one();
            }
            let late: Vec<_> = changes(&model).into_iter().filter(|change| change.0 > 900).collect();
            assert_eq!(late, [], "{mode:?}, one every {every} seconds");
        }
    }
}

#[test]
fn demand_that_falls_is_followed_down_to_the_sandboxes() {
    let mut model = one(ScaleMode::Default, fresh());
    model.run(3600, |_, second| if second < 600 { 200 } else { 10 });
    assert_eq!((model.replicas(), model.pools[0].running), (10, 10));
}

#[test]
fn siblings_share_the_maximum_of_their_group_and_all_get_on() {
    let pool = |name, up_priority| {
        ModelPool::new(name, ScaleLimits { up_priority, max: 30, ..ScaleLimits::default() })
    };
    let mut model = ScaleModel::new(group(ScaleMode::Default), [pool("a", 0), pool("b", 1), pool("c", 2)]);
    model.group.max_replicas = Some(70);
    for _ in 0..60 {
        model.replace_one();
        model.run(10, |_, _| 25);
        assert!(model.replicas() <= 70);
    }
    let running: Vec<_> = model.pools.iter().map(|pool| pool.running + pool.levels().queue).collect();
    assert_eq!(running, [25, 25, 25]);
    assert_eq!(model.replicas(), 70, "nothing is left unused while claims wait");
    assert!(model.pools.iter().all(|pool| pool.running >= 10), "{:?}", model.pools);
}

#[test]
fn pools_that_shrink_stop_at_the_minimum_of_their_group() {
    let pool = |name, down_priority| {
        ModelPool::new(name, ScaleLimits { down_priority, ..ScaleLimits::default() }).with_idle(20)
    };
    let mut model = ScaleModel::new(group(ScaleMode::Default), [pool("a", 0), pool("b", 1)]);
    model.group.min_replicas = 15;
    model.run(3600, |_, _| 0);
    let replicas: Vec<_> = model.pools.iter().map(|pool| pool.replicas).collect();
    assert_eq!(replicas, [15, 0], "the higher priority shrinks first");
}

prop_compose! {
    /// A group with policies of all kinds.
    fn any_group()(
        mode in 0..3_usize,
        up in (0..61, 0..61, 0..601, 0..61),
        down in (0..601, 0..61),
    ) -> ScalingGroup {
        let mut group = group(MODES[mode]);
        let policy = &mut group.scale_up_policy;
        (policy.cooldown_seconds, policy.idle_threshold_seconds) = (up.0, up.1);
        (policy.idle_zero_quiet_window_seconds, policy.saturation_cooldown_seconds) = (up.2, up.3);
        (group.scale_down_policy.idle_timeout_seconds, group.scale_down_policy.stabilization_seconds) = down;
        group
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn at_a_constant_demand_a_pool_comes_to_rest_and_never_grows_after_it_shrank(
        group in any_group(),
        (idle, running) in (0..50, 0..20),
        (demand, max) in (0..60, prop_oneof![Just(0), 1..80]),
        (boot, start, stop, cycle) in (1..120_i64, 1..20_i64, 1..20_i64, 1..20_i64),
    ) {
        let pool = ModelPool::new("p", ScaleLimits { max, ..ScaleLimits::default() });
        let pool = pool.with_idle(idle).with_running(running).with_times(ModelTimes { boot, start, stop });
        let mut model = ScaleModel::new(group, [pool]);
        model.cycle = cycle;
        model.run(7200, |_, _| demand);
        let changes = changes(&model);
        let falls = changes.iter().position(|(_, from, to)| to < from).unwrap_or(changes.len());
        prop_assert!(changes[falls..].iter().all(|(_, from, to)| to < from), "{changes:?}");
        prop_assert!(changes.last().is_none_or(|last| last.0 < 6000), "{changes:?}");
        let served = if max > 0 { demand.min(max.max(idle + running)) } else { demand };
        prop_assert_eq!(model.pools[0].running, served, "{:?}", changes);
    }

    #[test]
    fn whatever_the_demand_does_the_replicas_stay_within_their_limits(
        group in any_group(),
        demands in proptest::collection::vec(0..120, 1..12),
        (member_min, member_max, group_min, group_max) in (0..20, 40..100, 0..30, 60..200),
        quota in proptest::option::of(20..150),
        (boot, cycle) in (1..90_i64, 1..20_i64),
    ) {
        let limits = ScaleLimits { min: member_min, max: member_max, ..ScaleLimits::default() };
        let times = ModelTimes { boot, ..ModelTimes::default() };
        let pool = |name| ModelPool::new(name, limits).with_times(times).with_idle(25);
        let group = ScalingGroup { min_replicas: group_min, max_replicas: Some(group_max), ..group };
        let mode = group.scale_up_policy.mode;
        let mut model = ScaleModel::new(group, [pool("a"), pool("b")]);
        (model.quota, model.cycle) = (quota, cycle);
        model.run(2400, |place, second| {
            let at = usize::try_from(second / 200).unwrap() + place * 3;
            demands[at % demands.len()]
        });
        let mut sum = 50;
        for row in &model.rows {
            let (from, to) = (row.levels.replicas, row.replicas);
            sum += to - from;
            prop_assert!(to >= row.levels.running, "below the sandboxes: {row:?}");
            if row.verdict == ScaleVerdict::RaisesToRunning {
                prop_assert_eq!(to, row.levels.running);
            } else if to > from {
                prop_assert!(to <= member_max && sum <= group_max, "above a maximum: {row:?}");
                prop_assert!(quota.is_none_or(|quota| sum <= quota), "above the quota: {row:?}");
                let demand = row.levels.running + row.levels.queue;
                prop_assert!(i64::from(to) <= ceiling(mode, i64::from(demand)), "{row:?}");
            } else if to < from {
                prop_assert!(to >= member_min && sum >= group_min, "below a minimum: {row:?}");
            }
        }
    }
}
