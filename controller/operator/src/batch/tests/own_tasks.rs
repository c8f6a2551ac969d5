//! Tasks in pods that a batch makes itself, and pods that are not admitted.

use serde_json::{Value, json};

use super::world::{World, template};

async fn with_tasks(replicas: usize) -> World {
    let mut world = World::new();
    let task = json!({"spec": {"process": {"command": ["run"]}, "timeoutSeconds": 9}});
    world.add_batch(json!({
        "replicas": replicas, "template": template("base"), "taskTemplate": task,
        "shardTaskPatches": [{"spec": {"process": {"args": ["first"]}}}],
    }));
    world.settle().await;
    world
}

fn counts(world: &World) -> [Value; 3] {
    let status = world.status();
    [status["taskPending"].clone(), status["taskRunning"].clone(), status["taskSucceed"].clone()]
}

#[tokio::test(start_paused = true)]
async fn each_pod_runs_the_task_of_its_index() {
    let world = with_tasks(2).await;
    assert_eq!(world.executors.running(), ["b-0 at 10.0.0.1", "b-1 at 10.0.0.2"]);
    assert_eq!(counts(&world), [0, 2, 0].map(Value::from));
    let finalizers = world.batch()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["batch-sandbox.sandbox.opensandbox.io/task-cleanup"]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_shrinks_stops_a_task_before_its_pod_and_waits_for_a_silent_one_a_minute() {
    let mut world = with_tasks(2).await;
    world.edit(|batch| batch["spec"]["replicas"] = 1.into());
    world.settle().await;
    assert_eq!((world.pods(), counts(&world)), (vec!["b-0".to_owned()], [0, 1, 0].map(Value::from)));

    let mut world = with_tasks(2).await;
    world.executors.silence("10.0.0.2");
    world.edit(|batch| batch["spec"]["replicas"] = 1.into());
    world.settle().await;
    assert_eq!(world.pods(), ["b-0", "b-1"]);
    world.pass(90).await;
    assert_eq!(world.pods(), ["b-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_pod_is_deleted_runs_again_in_the_new_one() {
    let mut world = with_tasks(1).await;
    world.server.delete("pods", "b-0");
    world.pass(60).await;
    assert_eq!(world.executors.started(), ["b-0 at 10.0.0.1", "b-0 at 10.0.0.2"]);
    assert_eq!(counts(&world), [0, 1, 0].map(Value::from));
    world.executors.finish(0);
    world.pass(60).await;
    assert_eq!(counts(&world), [0, 0, 1].map(Value::from));
}

#[tokio::test(start_paused = true)]
async fn a_restart_runs_no_task_again() {
    let mut world = with_tasks(3).await;
    for _ in 0..3 {
        world.restart();
        world.settle().await;
    }
    assert_eq!((world.executors.started().len(), counts(&world)), (3, [0, 3, 0].map(Value::from)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_pause_says_so_and_leaves_the_counts() {
    let mut world = with_tasks(2).await;
    world.edit(|batch| batch["spec"]["pause"] = true.into());
    world.look_at_batch().await;
    assert_eq!(counts(&world), [0, 2, 0].map(Value::from));
    assert!(world.conditions().contains(&"PauseFailed=UnsupportedReplicas".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_pause_goes_on_without_an_executor_that_is_silent_for_a_minute() {
    let mut world = with_tasks(1).await;
    world.executors.silence("10.0.0.1");
    world.edit(|batch| batch["spec"]["pause"] = true.into());
    world.settle().await;
    assert_eq!(world.phase(), "Pausing");
    world.pass(90).await;
    assert_eq!(world.phase(), "Paused");
    assert!(world.told().iter().any(|it| it.reason == "TasksNotStopped"));
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_admitted_are_told_of_and_made_when_they_are() {
    let mut world = World::new();
    world.server.quota(Some("exceeded quota"));
    world.add_batch(json!({"replicas": 20, "template": template("base")}));
    world.pass(3).await;
    let told = world.told();
    assert!(
        told.iter().any(|it| it.reason == "FailedCreate" && it.note.contains("exceeded quota")),
        "{told:?}"
    );
    let asked = world.server.take_asked();
    let creates = asked.iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!(creates % 16, 0, "the first batch is the last");
    world.server.quota(None);
    world.settle().await;
    assert_eq!((world.phase().as_str(), world.pods().len()), ("Succeed", 20));
}
