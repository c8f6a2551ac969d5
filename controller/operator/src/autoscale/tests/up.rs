//! How pools grow.

use sandgate_objects::sandbox_env::resources::AttemptResult;

use super::*;

const GROWS_REACTIVE: ScaleVerdict = ScaleVerdict::Grows(ScaleTrigger::Reactive);
const GROWS_IDLE_ZERO: ScaleVerdict = ScaleVerdict::Grows(ScaleTrigger::IdleZero);

/// A pool of 10 sandboxes without an idle pod, for so long, and with a claim so long ago.
fn used_up(since: i64, last_create: i64) -> ScaleSnapshot {
    snapshot(10, 10, 0).out_of_idle(since, last_create)
}

#[test]
fn since_when_no_pod_is_idle_is_noted_and_kept_and_forgotten() {
    let since = |snapshot: &ScaleSnapshot| snapshot.plan().status.map(|status| status.idle_zero_since);
    assert_eq!(since(&snapshot(0, 0, 0)), Some(Some(Time(ago(0)))));
    let noted = snapshot(0, 0, 0).out_of_idle(7, 9);
    assert_eq!(since(&noted), None, "it stays, and nothing is written");
    let mut idle = snapshot(1, 0, 1).out_of_idle(7, 9).idle_for(0);
    assert_eq!(since(&idle), Some(None));
    idle.pool.status.idle_zero_since = None;
    assert_eq!(since(&idle), None);
    let ahead = snapshot(0, 0, 0).out_of_idle(-60, 9);
    assert_eq!(since(&ahead), Some(Some(Time(ago(0)))), "a time ahead of the clock is no good");
}

#[test]
fn a_pool_that_does_not_scale_by_itself_is_left_alone() {
    let disabled = |edit: fn(&mut ScaleSnapshot)| {
        let mut snapshot = snapshot(2, 5, 0).queue(9);
        edit(&mut snapshot);
        let plan = snapshot.plan();
        assert_eq!((plan.replicas, plan.verdict, plan.wake_at), (None, ScaleVerdict::Disabled, None));
        assert_eq!(plan.status.unwrap().idle_zero_since, Some(Time(ago(0))), "noted nevertheless");
    };
    disabled(|snapshot| snapshot.group = None);
    disabled(|snapshot| snapshot.edit(|group| group.enabled = false));
    assert_eq!(ScaleSnapshot::default().verdict(), ScaleVerdict::Disabled, "nothing at all");
}

#[test]
fn three_claims_of_an_empty_pool_make_four_pods() {
    let snapshot = snapshot(0, 0, 0).queue(3);
    assert_eq!((snapshot.to(), snapshot.verdict()), (Some(4), GROWS_REACTIVE));
}

#[test]
fn a_demand_of_ten_is_given_thirteen_pods() {
    assert_eq!(used_up(30, 60).to(), Some(13));
    assert_eq!(used_up(30, 60).mode(ScaleMode::Conservative).to(), Some(11));
    assert_eq!(used_up(30, 60).mode(ScaleMode::Aggressive).to(), Some(15));
}

#[test]
fn a_burst_of_a_hundred_is_given_a_hundred_and_two_pods() {
    assert_eq!(snapshot(2, 0, 0).queue(100).to(), Some(102), "the buffer grows by the replicas at most");
}

#[test]
fn pods_on_their_way_are_enough_for_who_waits() {
    assert_eq!(snapshot(10, 4, 0).queue(6).to(), None);
    assert_eq!(snapshot(10, 4, 2).queue(6).idle_for(0).to(), None);
    assert_eq!(snapshot(10, 4, 0).queue(7).to(), Some(14), "one is missing, and the buffer of 3");
}

#[test]
fn after_it_grew_a_pool_cools_down_also_if_claims_wait() {
    let grew = |seconds| {
        let mut snapshot = snapshot(0, 0, 0).queue(3);
        snapshot.pool.status.last_scale_up_time = Some(Time(ago(seconds)));
        snapshot
    };
    let plan = grew(29).plan();
    assert_eq!((plan.replicas, plan.verdict), (None, ScaleVerdict::CoolsDown));
    assert_eq!(plan.wake_at, Some(ago(-1)));
    assert_eq!(grew(30).to(), Some(4));
    assert_eq!(grew(29).group(|group| group.scale_up_policy.cooldown_seconds = 0).to(), Some(4));
    assert_eq!(grew(-3600).to(), Some(4), "a time far ahead of the clock is no good");
}

#[test]
fn after_it_could_not_grow_a_pool_is_saturated() {
    let tried = |result, seconds| {
        let mut snapshot = snapshot(0, 0, 0).queue(3);
        snapshot.pool.status.last_scale_up_attempt_time = Some(Time(ago(seconds)));
        snapshot.pool.status.last_scale_up_attempt_result = result;
        snapshot
    };
    for result in [AttemptResult::Insufficient, AttemptResult::JustRight, AttemptResult::Failed] {
        assert_eq!(tried(Some(result), 59).verdict(), ScaleVerdict::Saturated, "{result:?}");
        assert_eq!(tried(Some(result), 60).to(), Some(4), "{result:?}");
    }
    assert_eq!(tried(Some(AttemptResult::Enough), 0).to(), Some(4));
    assert_eq!(tried(None, 0).to(), Some(4), "a result of another version says nothing");
    let snapshot = tried(Some(AttemptResult::Failed), 59);
    let policy = snapshot.group.as_ref().unwrap().scale_up_policy;
    assert_eq!(saturated_until(&snapshot.pool.status, &policy), Some(ago(-1)));
    assert_eq!(snapshot.plan().wake_at, Some(ago(-1)));
    let enough = tried(Some(AttemptResult::Enough), 0);
    assert_eq!(saturated_until(&enough.pool.status, &policy), None);
}

#[test]
fn a_pool_that_is_in_use_and_has_no_idle_pod_for_long_grows_without_being_asked() {
    assert_eq!(used_up(30, 299).verdict(), GROWS_IDLE_ZERO);
    assert_eq!(used_up(29, 60).plan().wake_at, Some(ago(-1)), "below the threshold");
    assert_eq!(used_up(29, 60).to(), None);
    assert_eq!(used_up(30, 300).to(), None, "quiet for long");
    let mut never = used_up(30, 60);
    never.pool.last_create = None;
    assert_eq!(never.to(), None, "never claimed of");
    let off = |edit: fn(&mut ScalingGroup)| used_up(30, 60).group(edit).to();
    assert_eq!(off(|group| group.scale_up_policy.idle_zero_quiet_window_seconds = 0), None, "no window");
    assert_eq!(off(|group| group.scale_up_policy.idle_threshold_seconds = 0), None, "no threshold");
    assert_eq!(used_up(30, -3600).to(), None, "a claim far ahead of the clock is none");
}

#[test]
fn a_buffer_on_its_way_is_not_asked_for_again() {
    assert_eq!(snapshot(13, 10, 0).out_of_idle(30, 60).to(), None);
    assert_eq!(snapshot(12, 10, 0).out_of_idle(30, 60).to(), Some(13));
}

#[test]
fn the_member_s_maximum_is_kept() {
    assert_eq!(snapshot(2, 0, 0).queue(100).limits(0, 50).to(), Some(50));
    assert_eq!(snapshot(2, 0, 0).queue(100).limits(0, 0).to(), Some(102), "0 is no limit");
    assert_eq!(snapshot(2, 0, 0).queue(100).limits(0, -5).to(), Some(102));
    assert_eq!(snapshot(50, 50, 0).queue(9).limits(0, 50).verdict(), ScaleVerdict::AtCeiling);
    assert_eq!(snapshot(60, 50, 0).queue(90).limits(0, 50).to(), None, "nothing is taken away for it");
}

#[test]
fn the_group_s_maximum_is_kept() {
    let grouped = |queue, max| {
        let group = move |group: &mut ScalingGroup| group.max_replicas = Some(max);
        snapshot(2, 0, 0).queue(queue).group(group).siblings([pool("a", 1, 1, 0), pool("z", 2, 2, 0)])
    };
    assert_eq!(grouped(100, 12).to(), Some(9), "12 without the 3 of the siblings");
    assert_eq!(grouped(100, 5).verdict(), ScaleVerdict::AtCeiling);
    assert_eq!(grouped(100, 0).to(), None);
    assert_eq!(grouped(100, i32::MAX).to(), Some(102));
}

#[test]
fn a_pool_yields_to_a_ripe_sibling_that_grows_first() {
    let ripe = || pool("a", 2, 2, 0).out_of_idle(30, 60).up_priority(-1);
    let beside = |sibling: ScalePool| used_up(30, 60).siblings([sibling]).verdict();
    assert_eq!(beside(ripe()), ScaleVerdict::Yields);
    let asked = snapshot(0, 0, 0).queue(3).siblings([ripe()]);
    assert_eq!(asked.verdict(), ScaleVerdict::Yields, "also if claims wait");
    assert_eq!(beside(ripe().up_priority(0)), GROWS_IDLE_ZERO, "an equal goes beside");
    assert_eq!(beside(ripe().up_priority(1)), GROWS_IDLE_ZERO);
    assert_eq!(beside(ripe().out_of_idle(29, 60)), GROWS_IDLE_ZERO, "not for long enough");
    let mut idle = ripe();
    idle.levels.idle = 1;
    assert_eq!(beside(idle), GROWS_IDLE_ZERO);
}

#[test]
fn a_pool_does_not_wait_for_a_sibling_that_would_not_grow() {
    let ripe = || pool("a", 2, 2, 0).out_of_idle(30, 60).up_priority(-1);
    let beside = |sibling: ScalePool| used_up(30, 60).siblings([sibling]).verdict();
    assert_eq!(beside(ripe().out_of_idle(30, 300)), GROWS_IDLE_ZERO, "nobody claims of it");
    let mut full = ripe();
    full.limits.max = 2;
    assert_eq!(beside(full), GROWS_IDLE_ZERO);
    let mut refused = ripe();
    refused.status.last_scale_up_attempt_time = Some(Time(ago(10)));
    refused.status.last_scale_up_attempt_result = Some(AttemptResult::Insufficient);
    assert_eq!(beside(refused), GROWS_IDLE_ZERO);
    let mut growing = ripe();
    growing.levels.replicas = 3;
    assert_eq!(beside(growing), GROWS_IDLE_ZERO, "its pods are on their way");
}

#[test]
fn a_pool_with_more_sandboxes_than_replicas_is_raised_to_them_and_no_further() {
    let raised = snapshot(2, 5, 0).queue(9).limits(0, 3).group(|group| group.max_replicas = Some(1));
    let plan = raised.plan();
    assert_eq!((plan.replicas, plan.verdict), (Some(5), ScaleVerdict::RaisesToRunning));
    let status = plan.status.unwrap();
    assert_eq!((status.last_scale_up_time, status.last_scale_up_attempt_time), (None, None));
    assert_eq!(plan.event, None);
    assert_eq!(snapshot(2, 3, 7).to(), Some(3), "idle pods for long, but it does not shrink");
}

#[test]
fn a_pool_that_grows_does_not_shrink_and_ends_its_session() {
    let mut session = snapshot(10, 2, 8).mode(ScaleMode::Conservative);
    assert_eq!(session.commit(), Some(ScaleReason::ScaleDownStarted));
    let mut growing = session.queue(20);
    assert_eq!(growing.commit(), Some(ScaleReason::ScaleUp));
    assert!(!growing.session.is_open());
}
