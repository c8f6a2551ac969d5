use std::time::Duration;

use jiff::Timestamp;
use sandgate_objects::sandbox_env::resources::{
    AttemptResult, AutoscalingStatus, PoolPhase, SandboxPoolStatus,
};
use serde_json::json;

use super::world::{World, run};
use crate::conditions::{find, reason};
use crate::env_pool::admission::Admitted;
use crate::env_pool::status::{Facts, status};
use crate::view::EnvPodCounts;

fn facts(desired: usize, counts: EnvPodCounts) -> Facts<'static> {
    Facts {
        name: "p",
        generation: Some(3),
        desired,
        counts,
        revision: "r2",
        pending: 4,
        admitted: None,
        is_leaving: false,
        now: Timestamp::from_second(100).unwrap(),
    }
}

fn idle(ready: usize, unready: usize) -> EnvPodCounts {
    EnvPodCounts {
        idle: ready + unready,
        idle_ready: ready,
        idle_unready: unready,
        ..EnvPodCounts::default()
    }
}

#[test]
fn the_phase_and_the_conditions_follow_the_counts() {
    let failed = EnvPodCounts { failed: 1, ..idle(2, 0) };
    let both = EnvPodCounts { ended: 1, ..idle(1, 1) };
    for (desired, counts, phase, available, scaling, degraded) in [
        (0, idle(0, 0), PoolPhase::Pending, "NoIdlePodsAvailable", "ReplicasReady", "AllPodsHealthy"),
        (3, idle(2, 0), PoolPhase::ScalingUp, "ScalingUp", "ScalingUp", "AllPodsHealthy"),
        (1, idle(2, 0), PoolPhase::ScalingDown, "IdlePodsAvailable", "ScalingDown", "AllPodsHealthy"),
        (2, idle(1, 1), PoolPhase::Degraded, "IdlePodsAvailable", "ReplicasReady", "UnhealthyIdlePods"),
        (2, failed, PoolPhase::Degraded, "IdlePodsAvailable", "ReplicasReady", "FailedPodsPresent"),
        (2, both, PoolPhase::Degraded, "IdlePodsAvailable", "ReplicasReady", "UnhealthyAndFailedPods"),
        (2, idle(2, 0), PoolPhase::Ready, "IdlePodsAvailable", "ReplicasReady", "AllPodsHealthy"),
    ] {
        let is = status(None, &facts(desired, counts));
        assert_eq!(is.phase, Some(phase), "{desired} {counts:?}");
        let of = |kind| reason(&is.conditions, kind);
        assert_eq!((of("Available"), of("Scaling"), of("Degraded")), (available, scaling, degraded));
        assert!(find(&is.conditions, "Admitted").is_none());
    }
    let mut leaving = facts(2, idle(2, 0));
    leaving.is_leaving = true;
    assert_eq!(status(None, &leaving).phase, Some(PoolPhase::Terminating));
}

#[test]
fn what_others_write_stays() {
    let autoscaling = AutoscalingStatus {
        last_scale_up_attempt_result: Some(AttemptResult::Insufficient),
        scale_up_error_message: "no more".to_owned(),
        ..AutoscalingStatus::default()
    };
    let known = SandboxPoolStatus {
        autoscaling: Some(autoscaling.clone()),
        current_revision: "r1".to_owned(),
        ..SandboxPoolStatus::default()
    };
    let counts = EnvPodCounts { updated: 1, ..idle(2, 0) };
    let mixed = status(Some(&known), &facts(2, counts));
    assert_eq!(mixed.autoscaling, Some(autoscaling));
    assert_eq!((mixed.current_revision.as_str(), mixed.update_revision.as_str()), ("r1", "r2"));
    assert_eq!((mixed.pending_requests, mixed.updated_replicas, mixed.observed_generation), (4, 1, Some(3)));
    assert_eq!(mixed.selector, "agentbox.navix.sh/sandbox-pool=p,agentbox.navix.sh/sandbox-phase=running");
    let whole = status(Some(&mixed), &facts(2, EnvPodCounts { updated: 2, ..idle(2, 0) }));
    assert_eq!(whole.current_revision, "r2");
    assert_eq!(status(Some(&whole), &facts(2, EnvPodCounts { updated: 2, ..idle(2, 0) })), whole);
}

#[test]
fn what_plugins_say_is_a_condition() {
    let wait = Some(Duration::from_secs(60));
    let capped = |replicas| Admitted::Capped { replicas, message: "quota".to_owned(), retry_after: wait };
    let exhausted = Admitted::Exhausted { message: "none left".to_owned(), retry_after: wait };
    for (admitted, holds, why, cap) in [
        (Admitted::All, "True", "AdmissionGranted", None),
        (capped(5), "True", "AdmissionGranted", Some(5)),
        (capped(2), "False", "ResourceQuotaExhausted", Some(2)),
        (exhausted.clone(), "False", "ResourceQuotaExhausted", Some(0)),
        (Admitted::Rejected("bad".to_owned()), "False", "AdmissionRejected", Some(0)),
        (Admitted::Unknown("down".to_owned()), "False", "AdmissionError", Some(0)),
    ] {
        let mut facts = facts(5, idle(5, 0));
        facts.admitted = Some(&admitted);
        let is = status(None, &facts);
        let condition = find(&is.conditions, "Admitted").unwrap();
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), (holds, why));
        assert_eq!(admitted.cap(), cap);
    }
    assert_eq!(exhausted.retry_after(), Some(Duration::from_secs(61)));
}

#[test]
fn a_status_is_written_when_it_changes_and_keeps_what_the_autoscaler_wrote() {
    run(async {
        let mut world = World::ready(2).await;
        assert_eq!(world.pool()["status"]["phase"], "Ready");
        world.look().await.unwrap();
        assert_eq!(world.asked(), Vec::<String>::new(), "nothing has changed");
        let fresh = world.model.lock().now().to_string();
        world.edit_pool(|pool| {
            pool["status"]["autoscaling"] = json!({"lastScaleUpTime": "2026-01-01T00:00:00Z"});
            pool["metadata"]["annotations"] = json!({
                "sandgate.dev/pending-a": format!("3@{fresh}"),
                "sandgate.dev/pending-old": "9@1970-01-01T00:00:00Z",
            });
            pool["spec"]["replicas"] = json!(3);
        });
        world.look().await.unwrap();
        let pool = world.pool();
        assert_eq!(pool["status"]["pendingRequests"], 3);
        assert_eq!(pool["status"]["autoscaling"]["lastScaleUpTime"], "2026-01-01T00:00:00Z");
        let annotations = pool["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations.keys().collect::<Vec<_>>(), ["sandgate.dev/pending-a"]);
        // What is not said anew is not true for long.
        world.pass(31);
        world.look().await.unwrap();
        assert_eq!(world.pool()["status"]["pendingRequests"], 0);
    });
}
