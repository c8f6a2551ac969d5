//! What people are told of a scale-down.

use super::*;

/// A pool that has made the first step.
fn begun() -> ScaleSnapshot {
    let mut snapshot = snapshot(4, 0, 4).mode(ScaleMode::Conservative);
    assert_eq!(snapshot.commit(), Some(ScaleReason::ScaleDownStarted));
    snapshot.lose(1);
    snapshot
}

#[test]
fn the_first_step_is_told_and_the_others_are_not() {
    let mut snapshot = begun().after(60);
    assert!(snapshot.session.is_open());
    assert_eq!(snapshot.pool.status.last_scale_down_time, Some(Time(ago(0))));
    assert_eq!(snapshot.commit(), None);
    assert_eq!((snapshot.pool.levels.replicas, snapshot.session.is_open()), (2, true));
}

#[test]
fn a_plan_that_was_not_written_starts_nothing() {
    let snapshot = snapshot(4, 0, 4);
    assert_eq!(snapshot.plan(), snapshot.plan());
    assert!(!snapshot.session.is_open());
}

#[test]
fn a_session_is_complete_when_no_pod_is_eligible_or_none_is_left() {
    let mut claimed = begun().after(60).idle_for(0);
    assert_eq!(claimed.commit(), Some(ScaleReason::ScaleDownCompleted));
    assert!(!claimed.session.is_open());
    assert_eq!(claimed.commit(), None, "once");
    let mut empty = begun();
    for round in 1..=3 {
        empty = empty.after(60);
        assert_eq!(empty.commit(), None, "step {round}");
        empty.lose(1);
    }
    assert_eq!(empty.pool.levels.replicas, 0);
    assert_eq!(empty.commit(), None, "it stabilizes");
    assert_eq!(empty.after(60).plan().event.unwrap().reason, ScaleReason::ScaleDownCompleted);
}

#[test]
fn a_session_that_is_stuck_is_told_of_every_five_minutes() {
    for floor in [ScaleFloor::Member, ScaleFloor::Group] {
        let mut stuck = begun().after(60);
        match floor {
            ScaleFloor::Member => stuck.pool.limits.min = 3,
            ScaleFloor::Group => stuck.edit(|group| group.min_replicas = 3),
        }
        assert_eq!(stuck.verdict(), ScaleVerdict::Stuck(floor));
        assert_eq!(stuck.commit(), Some(ScaleReason::ScaleDownStuck));
        assert_eq!(stuck.after(1).commit(), None);
        let mut later = stuck.after(299);
        assert_eq!(later.plan().wake_at, Some(ago(-360)));
        assert_eq!(later.commit(), None);
        assert_eq!(stuck.after(300).commit(), Some(ScaleReason::ScaleDownStuck));
    }
}

#[test]
fn a_pool_that_never_shrank_is_not_said_to_be_stuck() {
    let stuck = snapshot(3, 0, 3).limits(3, 0).plan();
    assert_eq!((stuck.verdict, stuck.event), (ScaleVerdict::Stuck(ScaleFloor::Member), None));
}

#[test]
fn demand_ends_a_session_silently() {
    let mut waiting = begun().queue(9);
    waiting.pool.status.last_scale_up_time = Some(Time(ago(1)));
    let plan = waiting.plan();
    assert_eq!((plan.verdict, plan.event.is_none()), (ScaleVerdict::CoolsDown, true));
    assert_eq!(plan.session, SessionChange::Aborted);
    let mut running = begun();
    running.pool.levels.running = 9;
    assert_eq!(running.plan().session, SessionChange::Aborted);
    let mut disabled = begun();
    disabled.group = None;
    assert_eq!((disabled.commit(), disabled.session.is_open()), (None, false));
}

#[test]
fn a_process_that_starts_anew_tells_of_its_first_step() {
    let mut anew = ScaleSnapshot { session: ScaleSession::default(), ..begun() };
    assert_eq!(anew.verdict(), ScaleVerdict::Stabilizes, "the status knows of the last step");
    anew = anew.after(60);
    assert_eq!(anew.commit(), Some(ScaleReason::ScaleDownStarted));
}
