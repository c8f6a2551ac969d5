//! Phases, deadlines and the end of a sandbox.

use std::time::Duration;

use serde_json::json;

use super::fixture::{Case, NOW, at};
use crate::Again;
use crate::sandbox::plan::{Plan, PodStep};
use crate::sandbox::status::notices;

fn in_seconds(seconds: i64) -> serde_json::Value {
    json!(at(NOW + seconds).to_string())
}

/// A case, and the phase, the step and the condition Ready that its plan has.
type Row = (&'static str, Case, &'static str, &'static str, (&'static str, &'static str));

#[test]
fn a_sandbox_and_its_pod_lead_to_a_phase_a_step_and_a_readiness() {
    let own = Case::in_phase;
    let pending = || Case::in_phase("Pending");
    let other = |case: Case| case.pod("/metadata/ownerReferences/0/uid", json!("earlier"));
    let unready = ("False", "PodReady");
    let rows: Vec<Row> = vec![
        ("new", Case::new(), "Pending", "create", ("", "")),
        ("starting", Case::new().with_pod("Pending", false), "Pending", "keep", unready),
        (
            "pulling",
            Case::new().with_pod("Pending", false).waiting("ContainerCreating"),
            "Pending",
            "keep",
            unready,
        ),
        (
            "no image",
            Case::new().with_pod("Pending", false).waiting("ImagePullBackOff"),
            "Pending",
            "keep",
            ("False", "StartContainerFailed"),
        ),
        ("started", Case::new().with_pod("Running", false), "Running", "keep", unready),
        ("up", Case::new().with_pod("Running", true), "Running", "keep", ("True", "PodReady")),
        ("done at once", Case::new().with_pod("Succeeded", false), "Succeeded", "keep", unready),
        ("failed at once", Case::new().with_pod("Failed", false), "Failed", "keep", unready),
        ("lost while pending", pending().without_pod(), "Pending", "create", ("", "")),
        ("leaving while pending", pending().deleting_pod(), "Pending", "keep", unready),
        ("in the way", other(pending()), "Pending", "keep", ("False", "PodNameTaken")),
        ("flapping", own("Running").with_pod("Running", false), "Running", "keep", unready),
        (
            "crashing",
            own("Running").with_pod("Running", false).waiting("CrashLoopBackOff"),
            "Running",
            "keep",
            ("False", "StartContainerFailed"),
        ),
        ("serving", own("Running"), "Running", "keep", ("True", "PodReady")),
        ("lost", own("Running").without_pod(), "Failed", "confirm", unready),
        ("evicted", own("Running").deleting_pod(), "Failed", "keep", unready),
        ("another's", other(own("Running")), "Failed", "confirm", unready),
        ("ended", own("Running").with_pod("Succeeded", false), "Succeeded", "keep", unready),
        ("crashed", own("Running").with_pod("Failed", false), "Failed", "keep", unready),
        ("failed stays", own("Failed"), "Failed", "keep", ("", "")),
        ("failed and paused", own("Failed").paused(), "Failed", "keep", ("", "")),
        ("succeeded stays", own("Succeeded").without_pod(), "Succeeded", "keep", ("", "")),
        ("of OpenKruise's recycler", own("Recycling"), "Running", "keep", ("True", "PodReady")),
    ];
    for (name, case, phase, step, ready) in rows {
        let plan = case.settled();
        assert_eq!((plan.phase(), plan.step(), plan.ready()), (phase, step, ready), "{name}");
    }
}

/// A new leader whose view of pods lags sees the pod that the sandbox had before its last pause.
#[test]
fn a_pod_that_is_not_the_one_of_the_status_decides_nothing_unless_the_api_server_confirms_it() {
    let earlier = |case: Case| case.pod("/metadata/uid", json!("earlier"));
    for phase in ["Pending", "Running", "Resuming", "Upgrading"] {
        let cases = [
            ("runs", earlier(Case::in_phase(phase)), "Running"),
            ("failed", earlier(Case::in_phase(phase).with_pod("Failed", false)), "Failed"),
        ];
        for (name, case, expected) in cases {
            let plan = case.settled();
            assert_eq!((plan.phase(), plan.step()), (expected, "confirm"), "{phase}, the pod {name}");
        }
    }
    let going = earlier(Case::in_phase("Running").deleting_pod()).settled();
    assert_eq!((going.phase(), going.step()), ("Failed", "confirm"));
    let confirmed = earlier(Case::in_phase("Running")).after().settled();
    assert_eq!((confirmed.step(), confirmed.info("podUID")), ("keep", json!("earlier")));
}

#[test]
fn every_status_is_about_the_spec_that_was_seen_and_shows_the_pod() {
    let plan = Case::new().with_pod("Running", true).settled();
    let status = &plan.0.status.status;
    assert_eq!(status.observed_generation, Some(3));
    assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(3)));
    assert_eq!(plan.info("podIP"), "127.0.0.9");
    assert_eq!(plan.info("podUID"), "pod-uid");
    assert_eq!(
        (status.sandbox_ip.as_deref(), status.node_name.as_deref()),
        (Some("127.0.0.9"), Some("node"))
    );
}

#[test]
fn a_plan_of_what_was_planned_changes_nothing() {
    let cases = [
        Case::new().with_pod("Running", true),
        Case::in_phase("Running").with_pod("Running", false),
        Case::in_phase("Running").without_pod(),
        Case::in_phase("Running").paused().without_pod(),
        Case::in_phase("Running").paused().set("/spec/pauseStrategy", json!({"type": "Hibernate"})),
        Case::in_phase("Resuming").pod("/metadata/uid", json!("new")),
    ];
    for case in cases {
        let first = case.clone().after();
        let second = Case { now: NOW + 100, ..first.clone() }.after();
        assert_eq!(first.sandbox["status"], second.sandbox["status"]);
    }
}

#[test]
fn a_deadline_counts_in_every_phase() {
    for phase in
        ["", "Pending", "Running", "Paused", "Resuming", "Upgrading", "Failed", "Succeeded", "Recycling"]
    {
        let case = Case::in_phase(phase);
        let past = case.clone().set("/spec/shutdownTime", in_seconds(-1));
        assert_eq!(past.plan(), Plan::Delete, "{phase}");
        let to_come = case.set("/spec/shutdownTime", in_seconds(30));
        let soon = Again::After(Duration::from_millis(30_001));
        assert_eq!(to_come.settled().again(), soon, "{phase}");
    }
}

#[test]
fn a_sandbox_pauses_by_itself_when_its_time_has_come() {
    let due = Case::in_phase("Running").set("/spec/pauseTime", in_seconds(0));
    assert_eq!(due.plan(), Plan::Patch(json!({"spec": {"paused": true}})));
    assert_eq!(due.paused().settled().again(), Again::Rarely);
    let failed = Case::in_phase("Failed").set("/spec/pauseTime", in_seconds(0));
    assert_eq!(failed.settled().phase(), "Failed");
}

#[test]
fn a_sandbox_that_asks_to_be_recycled_is_deleted() {
    let asks = |cleanup: &str, enabled: &str| {
        Case::in_phase("Running").set(
            "/metadata/annotations",
            json!({"agents.kruise.io/cleanup": cleanup, "agents.kruise.io/cleanup-enabled": enabled}),
        )
    };
    assert_eq!(asks("true", "true").plan(), Plan::Delete);
    assert_eq!(asks("false", "true").settled().phase(), "Running");
    assert_eq!(asks("true", "false").settled().phase(), "Running");
}

#[test]
fn a_sandbox_that_is_deleted_takes_its_pod_first_and_then_its_finalizer() {
    let deleted = Case::in_phase("Paused")
        .set("/metadata/deletionTimestamp", json!("1970-01-12T00:00:00Z"))
        .set("/metadata/finalizers", json!(["other", "agents.kruise.io/sandbox"]));
    assert_eq!(deleted.plan(), Plan::Leave(PodStep::Delete { grace: None }));
    assert_eq!(deleted.clone().deleting_pod().plan(), Plan::Leave(PodStep::Keep));
    let patch = Plan::Patch(json!({"metadata": {"finalizers": ["other"]}}));
    assert_eq!(deleted.clone().without_pod().plan(), patch);
    let none = deleted.without_pod().set("/metadata/finalizers", json!(["other"]));
    assert_eq!(none.plan(), Plan::Leave(PodStep::Keep));
}

#[test]
fn a_deleted_sandbox_leaves_a_strangers_pod_alone() {
    let deleted = Case::in_phase("Running")
        .set("/metadata/deletionTimestamp", json!("1970-01-12T00:00:00Z"))
        .pod("/metadata/ownerReferences/0/uid", json!("later"));
    assert_eq!(deleted.plan(), Plan::Leave(PodStep::Keep));
}

#[test]
fn a_finalizer_that_openkruise_left_is_taken_off_a_sandbox_that_runs() {
    let held = |phase| Case::in_phase(phase).set("/metadata/finalizers", json!(["agents.kruise.io/sandbox"]));
    assert_eq!(held("Running").plan(), Plan::Patch(json!({"metadata": {"finalizers": []}})));
    assert_eq!(held("Running").paused().settled().phase(), "Paused", "the pause goes first");
    assert_eq!(held("Resuming").settled().phase(), "Resuming");
}

#[test]
fn a_pod_in_the_way_is_looked_at_again_soon() {
    let case = Case::new().with_pod("Running", true).pod("/metadata/ownerReferences", json!([]));
    assert_eq!(case.settled().again(), Again::After(Duration::from_secs(10)));
    let near = case.set("/spec/shutdownTime", in_seconds(3));
    assert_eq!(near.settled().again(), Again::After(Duration::from_millis(3001)));
}

#[test]
fn a_template_that_is_missing_is_said_and_makes_no_pod() {
    let case = Case { template: None, ..Case::new() };
    let plan = case.settled();
    assert_eq!((plan.step(), plan.phase(), plan.ready()), ("keep", "Pending", ("False", "TemplateNotFound")));
    let there = Case { template: Some(super::fixture::template()), ..case.after() };
    assert_eq!((there.settled().step(), there.settled().ready()), ("create", ("False", "PodReady")));
    let runs = Case { template: None, ..Case::in_phase("Running") };
    assert_eq!(
        (runs.settled().phase(), runs.settled().ready().0),
        ("Running", "True"),
        "a pod that runs goes on"
    );
}

#[test]
fn events_tell_of_new_phases_and_of_what_went_wrong_once() {
    let tell = |case: &Case| {
        let before = case.seen().status.clone();
        let after = case.settled().0.status.status;
        notices(before.as_ref(), &after)
            .iter()
            .map(|notice| (notice.reason, notice.is_warning))
            .collect::<Vec<_>>()
    };
    assert_eq!(tell(&Case::new()), [("SandboxPending", false)]);
    let up = Case::new().with_pod("Running", true);
    assert_eq!(tell(&up), [("SandboxRunning", false)]);
    assert_eq!(tell(&up.after()), []);
    let stuck = Case::in_phase("Pending").with_pod("Pending", false).waiting("ErrImagePull");
    assert_eq!(tell(&stuck), [("StartContainerFailed", true)]);
    assert_eq!(tell(&stuck.after()), []);
    assert_eq!(tell(&Case::in_phase("Running").without_pod()), [("SandboxFailed", true)]);
}
