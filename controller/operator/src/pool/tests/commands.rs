//! Commands that restart containers and take their time.

use std::time::Duration;

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::{PODS, Place};
use serde_json::json;

use super::world::{NAMESPACE, World, edit, rest, run};
use crate::Again;
use crate::pool::PoolSettings;

/// A pool that restarts one pod at a time, and a batch that has two of its pods.
async fn served() -> (World, Vec<String>) {
    let mut world = World::with([0, 9, 0, 100], PoolSettings { recycles: 1, ..PoolSettings::default() });
    world.recycle_by("Restart");
    (0..2).for_each(|_| drop(world.ready()));
    world.batch("a", 2);
    world.look().await.unwrap();
    let pods = world.alloc("a");
    assert_eq!(pods.len(), 2);
    (world, pods)
}

#[test]
fn a_pod_is_given_to_nobody_while_a_command_may_still_arrive_in_it() {
    run(async {
        let (mut world, pods) = served().await;
        let end = world.commands_hang();
        world.wish("a", &[&pods[0]]);
        world.look().await.unwrap();
        assert_eq!(world.restarts().await.len(), 1);
        // Whatever it was that restarted the container: the command has not ended.
        world.restarted(&pods[0]);
        let again = world.look().await.unwrap();
        assert!(matches!(again, Again::After(wait) if wait.as_secs() == 1), "{again:?}");
        assert_eq!((world.released("a"), world.mark(&pods[0]).as_str()), (vec![], "a"));
        end.notify_waiters();
        assert!(world.restarts().await.is_empty());
        world.look().await.unwrap();
        assert_eq!((world.released("a"), world.mark(&pods[0]).as_str()), (vec![pods[0].clone()], ""));
    });
}

#[test]
fn a_command_that_has_not_begun_when_the_next_try_is_due_does_not_begin() {
    run(async {
        let (mut world, pods) = served().await;
        let end = world.commands_hang();
        world.wish("a", &[&pods[0], &pods[1]]);
        world.look().await.unwrap();
        let first = world.restarts().await;
        assert_eq!(first.len(), 1, "the other one waits for its turn");
        rest(Duration::from_secs(30)).await;
        end.notify_waiters();
        assert!(world.restarts().await.is_empty());
        // The next try begins anew.
        world.pass(30);
        world.look().await.unwrap();
        assert_eq!(world.restarts().await.len(), 1);
    });
}

#[test]
fn a_command_whose_pod_is_another_batchs_by_now_does_not_begin() {
    run(async {
        let (mut world, pods) = served().await;
        let end = world.commands_hang();
        world.wish("a", &[&pods[0], &pods[1]]);
        world.look().await.unwrap();
        let first = world.restarts().await;
        let other = if first[0].starts_with(&pods[0]) { &pods[1] } else { &pods[0] };
        // Another process leads by now, has freed the pod, and has given it away.
        edit(&mut world.model.lock(), &Place::new(&PODS, NAMESPACE, other), |pod| {
            let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
            drop(annotations.remove(names::ANNOTATION_RESTART_RECORD));
            annotations.insert(names::ANNOTATION_ALLOCATED_TO.to_owned(), json!("uid/b"));
        });
        end.notify_waiters();
        assert_eq!((first.len(), world.restarts().await), (1, vec![]));
    });
}

#[test]
fn a_pod_that_comes_back_is_counted_once_whatever_its_way() {
    run(async {
        let mut world = World::new([0, 9, 0, 100]);
        world.recycle_by("Noop");
        let pod = world.ready();
        world.batch("a", 1);
        world.look().await.unwrap();
        assert_eq!(world.counted("allocations_total"), 1.0);
        assert_eq!(world.counted("allocation_duration_seconds_count"), 1.0);
        assert_eq!(world.counted("allocation_conflicts_total"), 0.0);
        world.wish("a", &[&pod]);
        world.edit_batch("a", |batch| batch["spec"]["replicas"] = json!(0));
        world.meddle("PATCH batchsandboxes/", |model| {
            super::world::edit_batch(model, "a", |batch| batch["metadata"]["labels"]["x"] = json!("y"));
        });
        world.look().await.unwrap();
        assert_eq!(world.mark(&pod), "");
        assert_eq!(world.counted("allocation_conflicts_total"), 1.0);
        for (outcome, expected) in [("Kept", 1.0), ("Deleted", 0.0), ("Restarted", 0.0), ("GivenUp", 0.0)] {
            let metric = format!("recycles_total{{outcome=\"{outcome}\"}}");
            assert_eq!(world.counted(&metric), expected, "{outcome}");
        }
        // The others, each in its way.
        for (strategy, outcome) in [("Delete", "Deleted"), ("Restart", "Restarted"), ("Restart", "GivenUp")] {
            let metric = format!("recycles_total{{outcome=\"{outcome}\"}}");
            world.recycle_by(strategy);
            world.batch(&outcome.to_lowercase(), 1);
            world.settle(true).await;
            let pod = world.alloc(&outcome.to_lowercase())[0].clone();
            world.delete_batch(&outcome.to_lowercase());
            for _ in 0..4 {
                world.look().await.unwrap();
                if outcome == "Restarted" && !world.restarts().await.is_empty() {
                    world.restarted(&pod);
                }
                world.pass(31);
            }
            world.settle(true).await;
            assert_eq!(world.counted(&metric), 1.0, "{outcome}");
        }
        assert_eq!(world.counted("allocations_total"), 4.0);
    });
}
