//! Pausing and resuming.

use std::time::Duration;

use sandgate_objects::openkruise::resources::Sandbox;
use serde_json::json;

use super::fixture::{Case, NOW, at, template};
use crate::Again;
use crate::sandbox::pause::{PauseStrategy, Pauses, Pausing, Refusal};
use crate::sandbox::plan::{Plan, plan};
use crate::view::{PodFacts, Seen};

#[test]
fn a_pause_works_in_every_phase_that_lives() {
    for phase in ["", "Pending", "Running", "Resuming", "Upgrading", "Paused"] {
        for is_ready in [true, false] {
            let case = Case::in_phase(phase).with_pod("Running", is_ready).paused();
            let plan = case.settled();
            let step = if phase == "Paused" { "stop" } else { "keep" };
            assert_eq!((plan.phase(), plan.step()), ("Paused", step), "{phase}: first the status says so");
            assert_eq!(plan.condition("SandboxPaused"), ("False", "Pending"), "{phase}");
            assert_eq!(plan.ready().0, "False", "{phase}");
            let said = case.after();
            assert_eq!((said.settled().phase(), said.settled().step()), ("Paused", "stop"), "{phase}");
            let ending = said.deleting_pod();
            assert_eq!((ending.settled().phase(), ending.settled().step()), ("Paused", "keep"), "{phase}");
            let gone = ending.without_pod().settled();
            assert_eq!(gone.condition("SandboxPaused"), ("True", "StopPauseSucceed"), "{phase}");
            assert_eq!((gone.phase(), gone.step()), ("Paused", "confirm"), "{phase}");
        }
    }
}

#[test]
fn a_paused_sandbox_keeps_the_address_it_had() {
    let plan = Case::in_phase("Running").paused().after().without_pod().settled();
    assert_eq!(plan.info("podIP"), "127.0.0.9");
}

#[test]
fn a_pod_that_is_lost_while_the_pause_is_asked_for_is_paused_and_not_failed() {
    let plan = Case::in_phase("Running").paused().without_pod().settled();
    assert_eq!((plan.phase(), plan.step()), ("Paused", "confirm"));
    assert_eq!(plan.condition("SandboxPaused"), ("True", "StopPauseSucceed"));
}

#[test]
fn a_sandbox_that_never_had_a_pod_is_paused_without_one() {
    let plan = Case::new().paused().settled();
    assert_eq!((plan.phase(), plan.step(), plan.condition("SandboxPaused").0), ("Paused", "confirm", "True"));
}

/// The answer to the create of a pod may have been lost, and the watch may not have shown it yet.
#[test]
fn that_the_pod_is_gone_is_asked_once_before_it_is_said() {
    let case = Case::in_phase("Running").paused().without_pod();
    assert_eq!(case.settled().step(), "confirm");
    assert_eq!(case.after().settled().step(), "keep", "it is not asked at every look");
    let resuming = Case::in_phase("Resuming").condition("SandboxPaused", "True", "StopPauseSucceed");
    assert_eq!(resuming.paused().without_pod().settled().step(), "confirm", "that is the pause of before");
}

/// The gateway does not route to a sandbox that is asked to pause.
#[test]
fn a_sandbox_that_cannot_pause_is_not_asked_to_by_its_time() {
    let case = Case::in_phase("Running").set("/spec/pauseStrategy", json!({"type": "Hibernate"}));
    let due = case.clone().set("/spec/pauseTime", json!(at(NOW).to_string())).settled();
    assert_eq!((due.step(), due.phase(), due.ready().0), ("keep", "Running", "True"));
    assert_eq!(due.condition("SandboxPaused"), ("False", "HibernateUnsupported"));
    let later = case.set("/spec/pauseTime", json!(at(NOW + 30).to_string())).settled();
    assert_eq!(later.condition("SandboxPaused"), ("", ""));
    assert_eq!(later.again(), Again::After(Duration::from_millis(30_001)));
}

#[test]
fn hibernate_without_a_runtime_is_refused_and_the_pod_is_left_alone() {
    let hibernate =
        |phase| Case::in_phase(phase).paused().set("/spec/pauseStrategy", json!({"type": "Hibernate"}));
    let plan = hibernate("Running").settled();
    assert_eq!((plan.phase(), plan.step()), ("Running", "keep"));
    assert_eq!(plan.condition("SandboxPaused"), ("False", "HibernateUnsupported"));
    assert_eq!(plan.ready().0, "True");
    let given_up = hibernate("Running").after().set("/spec/paused", json!(false));
    assert_eq!(given_up.settled().condition("SandboxPaused"), ("", ""));
    let begun = hibernate("Paused").condition("SandboxPaused", "False", "Pending").deleting_pod();
    assert_eq!(begun.settled().phase(), "Paused", "a pause that began as Stop ends as Stop");
}

#[test]
fn a_resume_waits_for_the_pause_to_end_and_then_makes_a_new_pod() {
    let pausing = Case::in_phase("Running").paused().after();
    let called_off = pausing.set("/spec/paused", json!(false));
    let plan = called_off.settled();
    assert_eq!((plan.phase(), plan.step()), ("Paused", "stop"), "the delete may not have been sent");
    let ending = called_off.clone().deleting_pod().settled();
    assert_eq!((ending.phase(), ending.step()), ("Paused", "keep"));
    let gone = called_off.without_pod();
    let plan = gone.settled();
    assert_eq!((plan.phase(), plan.step()), ("Resuming", "create"));
    assert_eq!(plan.condition("SandboxResumed"), ("False", "CreatePod"));

    let coming = gone.after().with_pod("Pending", false).pod("/metadata/uid", json!("new"));
    assert_eq!((coming.settled().phase(), coming.settled().step()), ("Resuming", "keep"));
    assert_eq!(
        coming.settled().info("podUID"),
        "pod-uid",
        "the old pod is remembered until the new one runs"
    );
    let up = coming.after().with_pod("Running", false).pod("/metadata/uid", json!("new"));
    let plan = up.settled();
    assert_eq!((plan.phase(), plan.ready().0), ("Running", "False"), "ready is what the new pod is");
    assert_eq!(plan.condition("SandboxResumed"), ("True", "ResumePod"));
    assert_eq!(plan.condition("SandboxPaused"), ("", ""));
    assert_eq!(plan.info("podUID"), "new");
    let ready = up.after().with_pod("Running", true).pod("/metadata/uid", json!("new"));
    assert_eq!(ready.settled().ready(), ("True", "PodReady"));
}

#[test]
fn the_old_pod_in_a_view_that_lags_is_not_taken_for_the_new_one() {
    let resuming = Case::in_phase("Resuming").condition("SandboxPaused", "True", "StopPauseSucceed");
    let plan = resuming.settled();
    assert_eq!((plan.phase(), plan.step()), ("Resuming", "delete"));
    let plan = resuming.deleting_pod().settled();
    assert_eq!((plan.phase(), plan.step()), ("Resuming", "keep"));
}

#[test]
fn a_new_pod_in_a_view_that_lags_behind_its_resume_is_kept() {
    let resumed = Case::in_phase("Paused")
        .condition("SandboxPaused", "True", "StopPauseSucceed")
        .pod("/metadata/uid", json!("new"));
    let plan = resumed.settled();
    assert_eq!((plan.phase(), plan.step(), plan.info("podUID")), ("Running", "confirm", json!("new")));
    let unfinished = Case::in_phase("Paused")
        .condition("SandboxPaused", "False", "Pending")
        .pod("/metadata/uid", json!("new"));
    assert_eq!((unfinished.settled().phase(), unfinished.settled().step()), ("Running", "confirm"));
}

#[test]
fn the_old_pod_in_a_view_that_lags_does_not_take_a_pause_back() {
    let paused = Case::in_phase("Paused").paused().condition("SandboxPaused", "True", "StopPauseSucceed");
    let plan = paused.settled();
    assert_eq!((plan.step(), plan.condition("SandboxPaused").0), ("stop", "True"));
    let late = paused.pod("/metadata/uid", json!("late")).settled();
    assert_eq!((late.step(), late.condition("SandboxPaused").0), ("keep", "False"), "it was made too late");
}

#[test]
fn a_pause_while_resuming_stops_the_new_pod_and_remembers_it() {
    let resuming = Case::in_phase("Resuming").pod("/metadata/uid", json!("second")).paused();
    let plan = resuming.settled();
    assert_eq!((plan.phase(), plan.step()), ("Paused", "keep"));
    assert_eq!(plan.condition("SandboxResumed"), ("", ""));
    assert_eq!(plan.info("podUID"), "second");
    assert_eq!(resuming.clone().after().settled().step(), "stop");
    let again = resuming.after().set("/spec/paused", json!(false)).without_pod();
    assert_eq!((again.settled().phase(), again.settled().step()), ("Resuming", "create"));
}

#[test]
fn a_sandbox_that_was_paused_while_its_template_changed_resumes_with_the_new_one() {
    let paused =
        Case::in_phase("Paused").condition("SandboxPaused", "True", "StopPauseSucceed").without_pod();
    let old = paused.read_template().revision;
    let changed = paused.templated("/spec/containers/0/image", json!("base:2"));
    assert_eq!(changed.clone().paused().settled().0.status.status.update_revision, Some(old));
    let plan = changed.settled();
    assert_eq!(plan.0.status.status.update_revision, Some(changed.read_template().revision));
    assert_ne!(changed.template, Some(template()));
}

/// Keeps the pod, as a runtime that freezes it would.
struct Freeze;

impl PauseStrategy for Freeze {
    fn accept(&self, _: &Sandbox) -> Result<(), Refusal> {
        Ok(())
    }

    fn pause(&self, _: Option<&Seen<PodFacts>>) -> Pausing {
        Pausing::Done("SnapshotPauseSucceed")
    }

    fn keeps_pod(&self) -> bool {
        true
    }

    fn needs_finalizer(&self) -> bool {
        true
    }
}

#[test]
fn a_runtime_brings_its_own_strategy_and_may_ask_for_the_finalizer() {
    let pauses = Pauses { hibernate: Some(Box::new(Freeze)) };
    let case = Case::in_phase("Running").paused().set("/spec/pauseStrategy", json!({"type": "Hibernate"}));
    let finalizer = json!({"metadata": {"finalizers": ["agents.kruise.io/sandbox"]}});
    assert_eq!(plan(&case.observed(), &pauses), Plan::Patch(finalizer));
    let held = case.set("/metadata/finalizers", json!(["agents.kruise.io/sandbox"]));
    let Plan::Settle(settle) = plan(&held.observed(), &pauses) else { panic!() };
    let plan = super::fixture::Settled(*settle);
    assert_eq!((plan.phase(), plan.step()), ("Paused", "keep"));
    assert_eq!(plan.condition("SandboxPaused"), ("True", "SnapshotPauseSucceed"));
    let called_back = Case { sandbox: held.clone().sandbox, ..Case::in_phase("Paused") }
        .set("/spec/paused", json!(false))
        .set("/status", json!(plan.0.status.status));
    let Plan::Settle(settle) = crate::sandbox::plan::plan(&called_back.observed(), &pauses) else { panic!() };
    let plan = super::fixture::Settled(*settle);
    assert_eq!((plan.phase(), plan.step()), ("Running", "keep"), "it resumes with the pod that it kept");
}
