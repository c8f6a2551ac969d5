//! What is written of a growth, by what was admitted.

use std::time::Duration;

use sandgate_objects::sandbox_env::resources::{AttemptResult, AutoscalingStatus};

use super::*;

/// A growth from 2 to 12, of an environment of generation 7.
fn growth() -> Growth {
    let snapshot = ScaleSnapshot { generation: Some(7), ..snapshot(2, 0, 0).queue(10) };
    match snapshot.decide() {
        ScaleDecision::Ask(growth) => growth,
        ScaleDecision::Plan(plan) => panic!("{plan:?}"),
    }
}

fn settle(accepted: i32, result: AttemptResult, message: &str) -> ScalePlan {
    let (message, retry_after) = (message.to_owned(), None);
    growth().settle(&AdmissionOutcome { accepted, result, message, retry_after })
}

fn tried(result: AttemptResult, has_grown: bool, message: &str) -> Option<AutoscalingStatus> {
    Some(AutoscalingStatus {
        last_scale_up_time: has_grown.then(|| Time(ago(0))),
        last_scale_up_attempt_time: Some(Time(ago(0))),
        last_scale_up_attempt_result: Some(result),
        scale_up_error_message: message.to_owned(),
        idle_zero_since: Some(Time(ago(0))),
        observed_generation: Some(7),
        ..AutoscalingStatus::default()
    })
}

#[test]
fn a_growth_that_is_admitted_is_written_and_cools_down() {
    let plan = settle(12, AttemptResult::Enough, "");
    assert_eq!((plan.from, plan.replicas), (2, Some(12)));
    assert_eq!(plan.verdict, ScaleVerdict::Grows(ScaleTrigger::Reactive));
    assert_eq!(plan.status, tried(AttemptResult::Enough, true, ""));
    assert_eq!(plan.wake_at, Some(ago(-30)));
    let event = plan.event.unwrap();
    assert_eq!(event.reason, ScaleReason::ScaleUp);
    assert_eq!(event.note, "grows from 2 to 12 replicas: claims wait for pods");
}

#[test]
fn a_part_of_a_growth_is_taken_and_not_enough() {
    for result in [AttemptResult::Insufficient, AttemptResult::Enough] {
        let plan = settle(5, result, "no room");
        assert_eq!(plan.replicas, Some(5));
        assert_eq!(plan.status, tried(AttemptResult::Insufficient, true, "no room"));
        assert_eq!(plan.wake_at, Some(ago(-60)));
        let event = plan.event.unwrap();
        assert_eq!(event.reason, ScaleReason::ScaleUpPartial);
        assert_eq!(event.note, "grows from 2 to 5 replicas of 12: claims wait for pods; no room");
    }
}

#[test]
fn a_growth_that_is_refused_leaves_the_replicas_and_warns() {
    for (accepted, result) in
        [(2, AttemptResult::Insufficient), (2, AttemptResult::Failed), (i32::MIN, AttemptResult::Failed)]
    {
        let plan = settle(accepted, result, "no room");
        assert_eq!((plan.replicas, plan.verdict), (None, ScaleVerdict::Rejected(ScaleTrigger::Reactive)));
        assert_eq!(plan.status, tried(result, false, "no room"));
        let event = plan.event.unwrap();
        assert_eq!(
            (event.reason, event.reason.kind()),
            (ScaleReason::ScaleUpRejected, crate::EventKind::Warning)
        );
        assert_eq!(event.note, "stays at 2 replicas of 12: claims wait for pods; no room");
    }
}

#[test]
fn more_than_was_asked_for_is_not_taken() {
    assert_eq!(settle(i32::MAX, AttemptResult::Enough, "").replicas, Some(12));
}

#[test]
fn a_refusal_may_ask_for_a_longer_pause() {
    let outcome = |seconds| AdmissionOutcome {
        accepted: 2,
        result: AttemptResult::Insufficient,
        message: String::new(),
        retry_after: Some(Duration::from_secs(seconds)),
    };
    assert_eq!(growth().settle(&outcome(90)).wake_at, Some(ago(-90)));
    assert_eq!(growth().settle(&outcome(9)).wake_at, Some(ago(-60)));
    assert_eq!(growth().settle(&outcome(1 << 62)).wake_at, Some(ago(-3600)), "within reason");
    assert!(growth().settle(&outcome(u64::MAX)).wake_at.is_some());
}

#[test]
fn the_generation_is_written_beside_something_else_and_never_alone() {
    let mut settled = ScaleSnapshot { generation: Some(7), ..snapshot(0, 0, 0) };
    assert_eq!(settled.plan().status.unwrap().observed_generation, Some(7));
    settled.commit();
    settled.generation = Some(8);
    assert_eq!(settled.plan().status, None);
}

#[test]
fn every_reason_is_a_word_of_its_own() {
    use ScaleReason::*;
    let reasons =
        [ScaleUp, ScaleUpPartial, ScaleUpRejected, ScaleDownStarted, ScaleDownCompleted, ScaleDownStuck];
    for reason in reasons {
        assert_eq!(reason.as_str(), format!("Autoscaler{reason:?}"));
        assert!(format!("{reason:?}").starts_with(reason.action()));
        assert_eq!(reason.kind() == crate::EventKind::Warning, reason == ScaleUpRejected);
    }
}
