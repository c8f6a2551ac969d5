//! Statuses as a table: what the pods come to, and what a pause and a resume leave.

use std::sync::Arc;

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, BatchSandboxStatus};
use serde_json::json;

use super::case::{Case, NOW, at, own_pod};
use crate::batch::plan::Turn;
use crate::batch::status::{notices, status};
use crate::batch::tally::{Tally, endpoints};
use crate::tasks::TaskCounts;
use crate::view::{BatchPod, OwnPod, SeenPod, Viewed as _};
use crate::{Key, Seen};

/// A pod in words: `ready`, `waiting`, `ending`, `lost`, or a reason why it cannot start.
fn pod_of(index: u32, state: &str) -> BatchPod {
    let name = format!("b-{index}");
    let mut pod = own_pod(&name, state == "ready" || state == "ending");
    match state {
        "ready" | "waiting" | "lost" => {}
        "ending" => pod["metadata"]["deletionTimestamp"] = json!(at(NOW).to_string()),
        "failed" => pod["status"] = json!({"phase": "Failed"}),
        "unplaced" => (pod["spec"], pod["status"]) = (json!({}), json!({"phase": "Pending"})),
        reason => {
            let waits = json!({"waiting": {"reason": reason}});
            pod["status"]["phase"] = json!("Pending");
            pod["status"]["containerStatuses"] = json!([{"name": "main", "state": waits}]);
        }
    }
    let seen = Arc::new(OwnPod::read(pod.to_string().as_bytes()).unwrap());
    let pod = (state != "lost").then_some(SeenPod::Own(seen));
    BatchPod { index: Some(index), key: Key::new("n", &name), pod }
}

fn pods(states: &[&str]) -> Vec<BatchPod> {
    (0..).zip(states).map(|(index, state)| pod_of(index, state)).collect()
}

fn written(case: &Case, turn: &Turn, states: &[&str]) -> Option<BatchSandboxStatus> {
    let batch: Seen<BatchSandbox> = BatchSandbox::read(case.batch.to_string().as_bytes()).unwrap();
    let is_pooled = batch.spec.pool().is_some();
    status(&batch, turn, &Tally::of(&pods(states)), is_pooled, TaskCounts::default(), at(NOW))
}

fn said(status: &BatchSandboxStatus) -> (&str, Vec<String>) {
    let conditions = status.conditions.iter().map(|it| format!("{}={}", it.type_, it.reason));
    (status.phase.as_deref().unwrap_or_default(), conditions.collect())
}

#[test]
fn phase_and_conditions_are_what_the_pods_come_to() {
    let phase = Case::in_phase;
    let failed = "PodFailed=CrashLoopBackOff";
    let rows = [
        ("none yet", phase("Pending"), vec![], "Pending", vec!["Progressing=Creating"]),
        ("starting", phase("Pending"), vec!["waiting"], "Pending", vec!["Progressing=Creating"]),
        ("one of two", phase("Pending"), vec!["ready", "waiting"], "Succeed", vec!["Ready=PodsReady"]),
        ("not ready any more", phase("Succeed"), vec!["waiting"], "Pending", vec!["Progressing=Creating"]),
        ("ends", phase("Succeed"), vec!["ending"], "Pending", vec!["Progressing=Creating"]),
        ("in a loop", phase("Pending"), vec!["CrashLoopBackOff"], "Failed", vec![failed]),
        ("one in a loop", phase("Succeed"), vec!["ready", "CrashLoopBackOff"], "Failed", vec![failed]),
        ("pulling", phase("Pending"), vec!["ContainerCreating"], "Pending", vec!["Progressing=Creating"]),
        ("ended", phase("Succeed"), vec!["failed"], "Failed", vec!["PodFailed=PodFailed"]),
        ("recovers", phase("Failed"), vec!["ready"], "Succeed", vec!["Ready=PodsReady"]),
        ("resumes", phase("Resuming"), vec!["waiting"], "Resuming", vec!["Progressing=ResumeInProgress"]),
        ("is back", phase("Resuming"), vec!["ready"], "Succeed", vec!["Ready=PodsReady"]),
        (
            "cannot come back",
            phase("Resuming"),
            vec!["ErrImagePull"],
            "Failed",
            vec!["PodFailed=ErrImagePull", "ResumeFailed=ErrImagePull"],
        ),
    ];
    for (name, case, states, phase, conditions) in rows {
        let status = written(&case, &Turn::Steady, &states).unwrap();
        let conditions: Vec<_> = conditions.into_iter().map(str::to_owned).collect();
        assert_eq!(said(&status), (phase, conditions), "{name}");
        assert_eq!(status.observed_generation, Some(3), "{name}");
        assert!(status.conditions.iter().all(|it| it.status == "True"), "{name}");
    }
}

#[test]
fn turns_lead_to_phases_and_hear_the_wish() {
    let phase = |name: &str| Case::in_phase(name).set("metadata.generation", json!(5));
    let failed = |kind: &str| json!([{"type": kind, "status": "True", "reason": "Old"}]);
    let wish = |case: Case, wish: bool| case.set("spec.pause", json!(wish));
    let refused = Turn::PauseRefused { reason: names::REASON_UNSUPPORTED_REPLICAS, message: String::new() };
    let lost = Turn::ResumeFailed { reason: names::REASON_SNAPSHOT_NOT_FOUND, message: String::new() };
    let lost_pause = Turn::PauseFailed("why".to_owned());
    let with = |case: Case, kind: &str| case.set("status.conditions", failed(kind));
    let rows = [
        (
            with(phase("Succeed"), "PauseFailed"),
            Turn::Pausing,
            vec!["ready"],
            "Pausing",
            vec!["Progressing=PauseInProgress"],
            5,
        ),
        (
            phase("Succeed"),
            refused.clone(),
            vec!["ready"],
            "Succeed",
            vec!["PauseFailed=UnsupportedReplicas"],
            5,
        ),
        (
            Case::in_phase(""),
            refused,
            vec![],
            "Succeed",
            vec!["PauseFailed=UnsupportedReplicas", "Ready=PodsReady"],
            3,
        ),
        (
            phase("Pausing"),
            lost_pause.clone(),
            vec!["ready"],
            "Succeed",
            vec!["PauseFailed=SnapshotFailed", "Ready=PodsReady"],
            3,
        ),
        (phase("Pausing"), lost_pause, vec![], "Failed", vec!["PauseFailed=PodNotFound"], 3),
        (wish(phase("Pausing"), true), Turn::Paused, vec![], "Paused", vec!["Paused=Paused"], 5),
        (wish(phase("Pausing"), false), Turn::Paused, vec![], "Paused", vec!["Paused=Paused"], 3),
        (
            with(phase("Paused"), "ResumeFailed"),
            Turn::Resuming,
            vec![],
            "Resuming",
            vec!["Progressing=ResumeInProgress"],
            5,
        ),
        (
            phase("Resuming"),
            lost,
            vec![],
            "Paused",
            vec!["ResumeFailed=SnapshotNotFound", "Paused=Paused"],
            3,
        ),
        (
            with(phase("Succeed"), "PauseFailed"),
            Turn::Steady,
            vec!["ready"],
            "Succeed",
            vec!["PauseFailed=Old", "Ready=PodsReady"],
            5,
        ),
        (wish(phase("Succeed"), true), Turn::Waiting, vec!["ready"], "Succeed", vec!["Ready=PodsReady"], 3),
        (wish(phase("Resuming"), true), Turn::Steady, vec!["ready"], "Succeed", vec!["Ready=PodsReady"], 3),
        (wish(phase("Resuming"), false), Turn::Steady, vec!["ready"], "Succeed", vec!["Ready=PodsReady"], 5),
    ];
    for (case, turn, states, phase, conditions, heard) in rows {
        let status = written(&case, &turn, &states).unwrap();
        let conditions: Vec<_> = conditions.into_iter().map(str::to_owned).collect();
        assert_eq!(said(&status), (phase, conditions), "{turn:?}");
        assert_eq!(status.pause_observed_generation, Some(heard), "{turn:?}");
    }
    assert_eq!(written(&phase("Succeed"), &Turn::Hold, &["ready"]), None);
}

#[test]
fn a_first_status_says_something() {
    let created =
        |second| Case::in_phase("").set("metadata.creationTimestamp", json!(at(second).to_string()));
    let pooled = |case: Case| case.set("spec.poolRef", json!("p"));
    assert_eq!(written(&pooled(created(NOW)), &Turn::Steady, &[]), None, "it will get a pod in a moment");
    let waits = written(&pooled(created(NOW - 5)), &Turn::Steady, &[]).unwrap();
    assert_eq!(waits.conditions[0].message, "the pool p has not given 1 of the pods yet");
    assert!(written(&created(NOW).set("spec.replicas", json!(0)), &Turn::Steady, &[]).is_some());
    let wrong = created(NOW).set("spec.template", json!(null));
    assert!(written(&wrong, &Turn::Steady, &[]).is_some(), "it will get none");
    // Pods of its own have to start first, which takes less than a pool that is empty.
    for states in [&["waiting"][..], &["unplaced"]] {
        assert!(written(&created(NOW - 1), &Turn::Steady, states).is_none(), "{states:?}");
        assert!(written(&created(NOW - 2), &Turn::Steady, states).is_some(), "{states:?}");
    }
    for states in [&["ready", "waiting"][..], &["waiting", "CrashLoopBackOff"]] {
        assert!(written(&created(NOW), &Turn::Steady, states).is_some(), "{states:?}");
    }
}

#[test]
fn the_reason_that_is_met_most_often_is_named_and_the_first_of_several() {
    for (states, expected) in [
        (vec!["ErrImagePull", "CrashLoopBackOff", "CrashLoopBackOff"], "3/3 CrashLoopBackOff b-1"),
        (vec!["ErrImagePull", "CrashLoopBackOff", "ready"], "2/3 ErrImagePull b-0"),
        (vec!["ready", "CreateContainerConfigError"], "1/2 CreateContainerConfigError b-1"),
    ] {
        let failure = Tally::of(&pods(&states)).failure.unwrap();
        let parts: Vec<_> = expected.split(' ').collect();
        let [share, reason, sample] = parts[..] else { panic!("{expected}") };
        let message = format!("{share} observed pods failed; primary reason={reason}; sample pod={sample}");
        assert_eq!((&*failure.reason, failure.message), (reason, message));
    }
}

#[test]
fn pods_are_counted_by_what_they_are() {
    let tally = |states: &[&str]| {
        let tally = Tally::of(&pods(states));
        (tally.replicas, tally.allocated, tally.ready)
    };
    assert_eq!(tally(&[]), (0, 0, 0));
    assert_eq!(tally(&["ready", "waiting", "unplaced", "ending", "lost"]), (4, 3, 1));
    assert_eq!(
        endpoints(&pods(&["ready", "unplaced", "ending", "lost", "ready"])),
        ["10.0.0.1", "", "", "", "10.0.0.1"]
    );
}

#[test]
fn events_tell_of_what_went_wrong_and_of_the_end_of_a_pause() {
    let told = |before: &str, turn: &Turn, states: &[&str]| {
        let case = Case::in_phase(before);
        let batch: Seen<BatchSandbox> = BatchSandbox::read(case.batch.to_string().as_bytes()).unwrap();
        let after = written(&case, turn, states).unwrap();
        let again = notices(Some(&after), &after);
        assert_eq!(again, [], "nothing is told twice");
        notices(batch.status.as_ref(), &after).iter().map(|it| (it.reason, it.is_warning)).collect::<Vec<_>>()
    };
    assert_eq!(told("Pending", &Turn::Steady, &["ready"]), []);
    assert_eq!(told("Pending", &Turn::Steady, &["ErrImagePull"]), [("PodFailed", true)]);
    assert_eq!(told("Pausing", &Turn::Paused, &[]), [("Paused", false)]);
    assert_eq!(told("Paused", &Turn::Paused, &[]), []);
    assert_eq!(told("Resuming", &Turn::Steady, &["ready"]), [("Resumed", false)]);
    let failed = Turn::PauseFailed("why".to_owned());
    assert_eq!(told("Pausing", &failed, &["ready"]), [("PauseFailed", true)]);
}
