//! What each action waits for, and what can be done to a sandbox in which state.

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts};
use serde_json::{Value, json};

use super::LONG;
use crate::predicates::{self, is_pausing, is_ready, is_resumable};
use crate::testing::{EPOCH, TestCache, condition, paused, pausing, running, stock};
use crate::{Action, Check, PvcFacts, Viewed as _, WaitError};

fn sandbox(object: &Value) -> SandboxFacts {
    let mut object = object.clone();
    let metadata = &mut object["metadata"];
    metadata["namespace"] = "default".into();
    metadata["uid"] = "u".into();
    metadata["resourceVersion"] = "1".into();
    SandboxFacts::read(object.to_string().as_bytes()).unwrap().object
}

fn now() -> Timestamp {
    EPOCH.parse().unwrap()
}

fn with(object: Value, path: &str, value: Value) -> Value {
    let mut object = object;
    *object.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
    object
}

/// Half way: the phase has changed, the pod is not gone.
fn half_paused() -> Value {
    let conditions =
        json!([condition("Ready", false, "PodReady"), condition("SandboxPaused", false, "Pending")]);
    with(paused(running("s")), "/status/conditions", conditions)
}

#[test]
fn each_state_can_be_resumed_or_is_pausing_or_neither() {
    let not_ready = with(running("s"), "/status/conditions/0/status", "False".into());
    let resuming = with(running("s"), "/status/phase", "Resuming".into());
    let mut expired = running("s");
    expired["spec"]["shutdownTime"] = "2025-12-31T00:00:00Z".into();
    let mut deleting = running("s");
    deleting["metadata"]["deletionTimestamp"] = EPOCH.into();
    for (what, object, expected) in [
        ("running", running("s"), (true, false)),
        ("not ready", not_ready, (true, false)),
        ("asked to pause", pausing(running("s")), (false, true)),
        ("half paused", half_paused(), (false, true)),
        ("paused", paused(running("s")), (true, false)),
        ("resuming", resuming, (true, false)),
        ("in a pool", stock("s", "p"), (true, false)),
        ("failed", with(running("s"), "/status/phase", "Failed".into()), (false, false)),
        ("upgrading", with(running("s"), "/status/phase", "Upgrading".into()), (false, false)),
        ("new", with(running("s"), "/status", json!({})), (false, false)),
        ("expired", expired, (false, false)),
        ("being deleted", deleting, (false, false)),
    ] {
        let it = sandbox(&object);
        let found = (is_resumable(&it, now()), is_pausing(&it, now()));
        assert_eq!(found, expected, "{what}: resumable, pausing");
    }
}

#[test]
fn a_sandbox_is_ready_when_its_present_spec_runs_and_can_be_reached() {
    assert!(is_ready(&sandbox(&running("s")), now()));
    let updating =
        json!([condition("Ready", true, "PodReady"), condition("InplaceUpdate", false, "InplaceUpdating"),]);
    for (what, object) in [
        ("an older spec", with(running("s"), "/metadata/generation", 2.into())),
        ("no status of a generation", with(running("s"), "/status/observedGeneration", Value::Null)),
        ("an update in place", with(running("s"), "/status/conditions", updating)),
        ("no address", with(running("s"), "/status/podInfo/podIP", "".into())),
        ("paused", paused(running("s"))),
        ("a pool's", stock("s", "p")),
        ("pending", with(running("s"), "/status/phase", "Pending".into())),
    ] {
        assert!(!is_ready(&sandbox(&object), now()), "{what}");
        assert_eq!(predicates::ready(&sandbox(&object), now()), Check::Not, "{what}");
    }
    let failed = json!([condition("Ready", false, "StartContainerFailed")]);
    let failed = predicates::ready(&sandbox(&with(running("s"), "/status/conditions", failed)), now());
    assert!(matches!(&failed, Check::Failed(why) if why.contains("cannot start")), "{failed:?}");
    let mut ends = running("s");
    ends["spec"]["shutdownTime"] = EPOCH.into();
    let later = now() + SignedDuration::from_secs(1);
    assert!(matches!(predicates::ready(&sandbox(&ends), later), Check::Failed(_)));
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_complete_when_the_pod_is_gone_and_not_when_the_phase_changes() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let turn = test.turn(&seen, Action::Pause).unwrap();
    assert_eq!(turn.action(), Action::Pause);
    test.answer::<SandboxFacts>(&pausing(running("s")));
    let steps = async {
        tokio::task::yield_now().await;
        test.show::<SandboxFacts>(&half_paused());
        tokio::task::yield_now().await;
        test.show::<SandboxFacts>(&paused(running("s")))
    };
    let (waited, last) = tokio::join!(turn.wait(LONG), steps);
    assert_eq!(waited.unwrap().version, last.version);
}

#[tokio::test(start_paused = true)]
async fn a_resume_is_complete_when_the_new_spec_is_ready_and_not_by_what_was_ready_before() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&pausing(running("s")));
    let turn = test.turn(&seen, Action::Resume).unwrap();
    // Resumed before the controller noticed the pause: what it says is about an older spec.
    test.answer::<SandboxFacts>(&with(running("s"), "/metadata/generation", 3.into()));
    let ready =
        with(with(running("s"), "/metadata/generation", 3.into()), "/status/observedGeneration", 3.into());
    let steps = async {
        tokio::task::yield_now().await;
        test.show::<SandboxFacts>(&ready)
    };
    let (waited, last) = tokio::join!(turn.wait(LONG), steps);
    assert_eq!(waited.unwrap().version, last.version);
}

#[tokio::test(start_paused = true)]
async fn an_action_that_somebody_else_undoes_fails_and_says_so() {
    for (action, first, undone) in [
        (Action::Pause, pausing(running("s")), running("s")),
        (Action::Resume, with(running("s"), "/status/phase", "Resuming".into()), paused(running("s"))),
    ] {
        let test = TestCache::new();
        let seen = test.show::<SandboxFacts>(&running("s"));
        let turn = test.turn(&seen, action).unwrap();
        test.answer::<SandboxFacts>(&first);
        let steps = async {
            tokio::task::yield_now().await;
            test.show::<SandboxFacts>(&undone);
        };
        let (waited, ()) = tokio::join!(turn.wait(LONG), steps);
        assert_eq!(waited.unwrap_err(), WaitError::Failed(format!("somebody else has undone the {action}")));
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_on_what_has_ended_fails_and_says_why() {
    let test = TestCache::new();
    for (phase, word) in [("Failed", "failed"), ("Succeeded", "ended"), ("Terminating", "being ended")] {
        let seen = test.show::<SandboxFacts>(&with(running("s"), "/status/phase", phase.into()));
        for action in [Action::Pause, Action::Resume, Action::Ready] {
            let ended = test.turn(&seen, action).unwrap().wait(LONG).await.unwrap_err();
            assert!(matches!(&ended, WaitError::Failed(why) if why.contains(word)), "{action}: {ended}");
        }
    }
    let running = test.show::<SandboxFacts>(&running("s"));
    let unwritten = test.turn(&running, Action::Pause).unwrap().wait(LONG).await.unwrap_err();
    assert!(matches!(&unwritten, WaitError::Failed(why) if why.contains("undone")), "{unwritten}");
    let nonsense = test.turn(&running, Action::Bind).unwrap();
    assert!(matches!(nonsense.wait(LONG).await, Err(WaitError::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_done_with_an_id_and_fails_without_one() {
    let checkpoint =
        |status: Value| json!({"metadata": {"name": "c"}, "spec": {"podName": "s"}, "status": status});
    let test = TestCache::new();
    let seen = test.show::<Checkpoint>(&checkpoint(json!({"phase": "Creating"})));
    let wait = || test.checkpoint_done(&seen.key, &seen.uid);
    assert_eq!(wait().within(LONG).await.unwrap_err(), WaitError::Timeout);
    let steps = async {
        tokio::task::yield_now().await;
        test.show::<Checkpoint>(&checkpoint(json!({"phase": "Succeeded", "checkpointId": "i"})));
        // Deleted at once: the predicate has seen what was between.
        test.end(&seen);
    };
    let (waited, ()) = tokio::join!(wait().within(LONG), steps);
    assert_eq!(waited.unwrap().status.as_ref().unwrap().checkpoint_id.as_deref(), Some("i"));
    let lost = test.show::<Checkpoint>(&checkpoint(json!({"phase": "Creating"})));
    let end = async {
        tokio::task::yield_now().await;
        test.end(&lost);
    };
    let (waited, ()) = tokio::join!(test.checkpoint_done(&lost.key, &lost.uid).within(LONG), end);
    assert_eq!(waited.unwrap_err(), WaitError::Gone, "it was deleted before it was done");
    for status in [json!({"phase": "Succeeded"}), json!({"phase": "Failed"}), json!({"phase": "Terminating"})]
    {
        let test = TestCache::new();
        let seen = test.show::<Checkpoint>(&checkpoint(status.clone()));
        let failed = test.checkpoint_done(&seen.key, &seen.uid).within(LONG).await;
        assert!(matches!(failed, Err(WaitError::Failed(_))), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_claim_is_bound_with_a_volume_and_fails_when_that_is_lost() {
    let pvc = |phase: &str, volume: &str| json!({"metadata": {"name": "v"}, "spec": {"volumeName": volume}, "status": {"phase": phase}});
    let test = TestCache::new();
    let seen = test.show::<PvcFacts>(&pvc("Pending", ""));
    let wait = || test.pvc_bound(&seen.key, &seen.uid);
    assert_eq!(wait().within(LONG).await.unwrap_err(), WaitError::Timeout);
    test.show::<PvcFacts>(&pvc("Bound", ""));
    assert_eq!(wait().within(LONG).await.unwrap_err(), WaitError::Timeout);
    test.show::<PvcFacts>(&pvc("Bound", "pv"));
    assert!(wait().within(LONG).await.is_ok());
    test.show::<PvcFacts>(&pvc("Lost", "pv"));
    assert!(matches!(wait().within(LONG).await, Err(WaitError::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn each_wait_is_bound_to_its_action_and_only_pause_and_resume_take_turns() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let (key, uid) = (&seen.key, &seen.uid);
    assert_eq!(test.ready(key, uid).action(), Action::Ready);
    assert_eq!(test.pvc_bound(key, uid).action(), Action::Bind);
    assert_eq!(test.checkpoint_done(key, uid).action(), Action::Checkpoint);
    for action in [Action::Pause, Action::Resume, Action::Ready, Action::Checkpoint, Action::Bind] {
        let wait = super::labelled(&test, &seen, action, "never");
        assert_eq!(wait.action(), action);
        let look = async {
            tokio::task::yield_now().await;
            test.under_way(uid)
        };
        let (ended, under_way) = tokio::join!(wait.within(std::time::Duration::from_secs(1)), look);
        assert_eq!(ended.unwrap_err(), WaitError::Timeout);
        let is_turn = [Action::Pause, Action::Resume].contains(&action);
        assert_eq!(under_way, is_turn.then_some((action, 1)), "{action}");
    }
}
