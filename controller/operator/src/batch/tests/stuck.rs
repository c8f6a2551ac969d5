//! Tasks that cannot be asked or do not end, and pods that are not what a batch's list says.

use serde_json::{Value, json};

use super::pooled::{STATUS, given, list, task};
use super::world::{World, template};

const POOL: &str = "pool.sandbox.opensandbox.io/pool-allocation";

async fn of_pool(pods: &[&str]) -> World {
    given(json!({"replicas": pods.len(), "poolRef": "p", "taskTemplate": task()}), pods).await
}

fn ip(world: &World, pod: &str) -> String {
    world.server.get("pods", pod).unwrap()["status"]["podIP"].as_str().unwrap().to_owned()
}

fn finalizers(world: &World) -> Value {
    world.batch()["metadata"]["finalizers"].clone()
}

/// Another batch has got the pod as well, and it says that it is that one's.
fn give_to_another(world: &World, pod: &str) {
    world.server.change("pods", pod, |pod| {
        pod["metadata"]["annotations"]["sandgate.dev/allocated-to"] = "else/else".into();
    });
}

/// Somebody takes off the label by which the watch selects the pod.
fn hide(world: &World, pod: &str) {
    world.server.change("pods", pod, |pod| {
        pod["metadata"]["labels"].as_object_mut().unwrap().remove("sandbox.opensandbox.io/pool-name");
    });
}

#[tokio::test(start_paused = true)]
async fn a_deleted_batch_does_not_wait_for_a_pod_that_is_another_batchs() {
    let mut world = of_pool(&["p-1", "p-2"]).await;
    give_to_another(&world, "p-2");
    world.restart();
    world.server.delete("batchsandboxes", "b");
    world.pass(30).await;
    assert_eq!(finalizers(&world), json!([POOL]));
    assert_eq!(world.annotation("sandgate.dev/recycle"), None, "nothing was given up");
}

#[tokio::test(start_paused = true)]
async fn a_batch_gives_out_tasks_after_a_restart_though_one_of_its_pods_is_another_batchs() {
    let mut world = of_pool(&["p-1", "p-2"]).await;
    give_to_another(&world, "p-2");
    world.executors.gone(&ip(&world, "p-1"));
    world.restart();
    world.settle().await;
    assert_eq!(&world.status()["taskRunning"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_batch_waits_a_minute_for_a_pod_that_is_not_seen_and_has_it_deleted() {
    for restarts in [true, false] {
        let mut world = of_pool(&["p-1", "p-2"]).await;
        hide(&world, "p-2");
        if restarts {
            world.restart();
        }
        world.server.delete("batchsandboxes", "b");
        world.pass(30).await;
        assert_eq!(finalizers(&world).as_array().unwrap().len(), 2, "it is waited for");
        world.pass(60).await;
        assert_eq!(finalizers(&world), json!([POOL]));
        assert_eq!(world.annotation("sandgate.dev/recycle").as_deref(), Some("Delete"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_batch_waits_a_minute_for_a_task_that_does_not_end() {
    let mut world = of_pool(&["p-1", "p-2"]).await;
    world.executors.harden(&ip(&world, "p-2"));
    world.server.delete("batchsandboxes", "b");
    world.pass(30).await;
    assert_eq!(finalizers(&world).as_array().unwrap().len(), 2, "it is waited for");
    world.pass(60).await;
    assert_eq!(finalizers(&world), json!([POOL]));
    assert!(world.told().iter().any(|it| it.reason == "TasksNotStopped"));
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_was_silent_before_the_batch_is_deleted_has_its_minute_too() {
    let mut world = of_pool(&["p-1", "p-2"]).await;
    world.executors.silence(&ip(&world, "p-2"));
    world.pass(200).await;
    world.server.delete("batchsandboxes", "b");
    world.pass(30).await;
    assert_eq!(finalizers(&world).as_array().unwrap().len(), 2, "it is waited for");
    world.pass(60).await;
    assert_eq!(finalizers(&world), json!([POOL]));
}

#[tokio::test(start_paused = true)]
async fn a_pause_goes_on_without_a_task_that_does_not_end_within_a_minute() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "template": template("base"), "taskTemplate": task()}));
    world.settle().await;
    world.executors.harden(&ip(&world, "b-0"));
    world.edit(|batch| batch["spec"]["pause"] = true.into());
    world.settle().await;
    assert_eq!(world.phase(), "Pausing");
    world.pass(90).await;
    assert_eq!(world.phase(), "Paused");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_shrinks_waits_a_minute_for_each_task_that_does_not_end() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 3, "template": template("base"), "taskTemplate": task()}));
    world.settle().await;
    for (replicas, pod, before) in [(2, "b-2", 3), (1, "b-1", 2)] {
        world.executors.harden(&ip(&world, pod));
        world.edit(|batch| batch["spec"]["replicas"] = replicas.into());
        world.pass(30).await;
        assert_eq!(world.pods().len(), before, "it is waited for");
        world.pass(60).await;
        assert_eq!(world.pods().len(), before - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_of_a_task_that_ended_just_before_the_pause_is_kept() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "template": template("base"), "taskTemplate": task()}));
    world.settle().await;
    world.executors.finish(0);
    world.edit(|batch| batch["spec"]["pause"] = true.into());
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    world.edit(|batch| batch["spec"]["pause"] = false.into());
    world.settle().await;
    assert_eq!((&world.status()["taskSucceed"], world.executors.started().len()), (&json!(1), 1));
}

#[tokio::test(start_paused = true)]
async fn the_empty_slots_of_a_batch_are_asked_for_after_a_restart_and_not_later() {
    let mut world = of_pool(&["p-1"]).await;
    world.edit(|batch| {
        batch["spec"]["replicas"] = 3.into();
        batch["metadata"]["annotations"][STATUS] = list(&["p-1", "p-2", "p-3"]).into();
    });
    let lost = |asked: Vec<String>| {
        let is_lost = |line: &&String| line.ends_with("/pods/p-2") || line.ends_with("/pods/p-3");
        asked.iter().filter(is_lost).count()
    };
    world.server.take_asked();
    world.pass(60).await;
    assert_eq!(lost(world.server.take_asked()), 0, "what this process gave out it knows");
    world.restart();
    world.pass(60).await;
    assert_eq!(lost(world.server.take_asked()), 2, "once each");
    assert_eq!(&world.status()["taskRunning"], 1);
}
