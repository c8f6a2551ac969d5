//! A batch whose pods come from a pool.

use serde_json::{Value, json};

use super::world::{World, pool, pool_pod, template};

const RELEASE: &str = "sandbox.opensandbox.io/alloc-release";
const RELEASED: &str = "sandbox.opensandbox.io/alloc-released";
pub(super) const STATUS: &str = "sandbox.opensandbox.io/alloc-status";

pub(super) fn task() -> Value {
    json!({"spec": {"process": {"command": ["run"]}}})
}

pub(super) fn list(pods: &[&str]) -> String {
    json!({"pods": pods}).to_string()
}

/// The pool gives these pods.
pub(super) async fn given(spec: Value, pods: &[&str]) -> World {
    let mut world = World::new();
    let owner = world.server.add("pools", pool("p"));
    let batch = world.add_batch(spec);
    for name in pods {
        world.server.add("pods", pool_pod(name, &owner, Some(&batch)));
    }
    world.edit(|batch| {
        batch["metadata"]["annotations"] = json!({STATUS: list(pods)});
        batch["metadata"]["finalizers"] = json!(["pool.sandbox.opensandbox.io/pool-allocation"]);
    });
    world.settle().await;
    world
}

/// The pool takes back what the batch does not need.
fn recycle(world: &World) {
    let released: Vec<Value> = match world.annotation(RELEASE) {
        Some(text) => serde_json::from_str::<Value>(&text).unwrap()["pods"].as_array().unwrap().clone(),
        None => Vec::new(),
    };
    world.edit(|batch| {
        batch["metadata"]["annotations"][RELEASED] = json!({"pods": released}).to_string().into();
    });
}

#[tokio::test(start_paused = true)]
async fn the_status_counts_the_pods_of_the_slots() {
    let mut world = given(json!({"replicas": 2, "poolRef": "p"}), &["p-2", "p-1"]).await;
    assert_eq!((world.phase().as_str(), &world.status()["ready"]), ("Succeed", &json!(2)));
    let ip = |name: &str| world.server.get("pods", name).unwrap()["status"]["podIP"].to_string();
    assert_eq!(world.endpoints().unwrap(), format!("[{},{}]", ip("p-2"), ip("p-1")));
    assert_eq!(world.pods().len(), 2, "it makes none itself");
    // Another batch's pod is not counted, whatever the list says.
    world.server.change("pods", "p-1", |pod| {
        pod["metadata"]["annotations"]["sandgate.dev/allocated-to"] = "else/else".into();
    });
    world.settle().await;
    assert_eq!(&world.status()["replicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_waits_for_a_pod_says_so_after_some_seconds() {
    let mut world = World::new();
    world.server.add("pools", pool("p"));
    world.add_batch(json!({"replicas": 1, "poolRef": "p"}));
    world.pass(4).await;
    assert_eq!((world.status(), world.endpoints()), (Value::Null, None), "as a rule it gets one at once");
    world.pass(2).await;
    assert_eq!(
        (world.phase(), world.conditions()),
        ("Pending".to_owned(), vec!["Progressing=Creating".to_owned()])
    );
    let message = world.status()["conditions"][0]["message"].clone();
    assert_eq!(message, "the pool p has not given 1 of the pods yet");
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_a_pool_that_is_full_says_so() {
    let mut world = World::new();
    let pool = world.server.add("pools", pool("p"));
    world.server.change("pools", "p", |pool| pool["spec"]["capacitySpec"]["poolMax"] = 1.into());
    world.server.add("pods", pool_pod("p-1", &pool, None));
    world.server.change("pods", "p-1", |pod| {
        pod["metadata"]["annotations"]["sandgate.dev/allocated-to"] = "else/else".into();
    });
    world.add_batch(json!({"replicas": 1, "poolRef": "p"}));
    world.pass(6).await;
    let message = world.status()["conditions"][0]["message"].clone();
    assert_eq!(message, "the pool p has not given 1 of the pods yet: its poolMax is reached");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_shrinks_gives_the_last_slots_back() {
    let mut world = given(json!({"replicas": 3, "poolRef": "p"}), &["p-3", "p-1", "p-2"]).await;
    world.edit(|batch| batch["spec"]["replicas"] = 1.into());
    world.settle().await;
    assert_eq!(world.annotation(RELEASE).unwrap(), list(&["p-1", "p-2"]));
    assert_eq!(world.annotation(STATUS).unwrap(), list(&["p-3", "p-1", "p-2"]), "the pool cuts it");
    assert_eq!((&world.status()["replicas"], world.pods().len()), (&json!(1), 3));
    recycle(&world);
    world.server.take_asked();
    world.settle().await;
    assert_eq!(world.server.take_asked(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_shrinks_first_stops_the_tasks_of_what_it_gives_back() {
    let spec = json!({"replicas": 2, "poolRef": "p", "taskTemplate": task()});
    let mut world = given(spec, &["p-1", "p-2"]).await;
    assert_eq!((&world.status()["taskRunning"], world.executors.running().len()), (&json!(2), 2));
    world.edit(|batch| batch["spec"]["replicas"] = 1.into());
    world.settle().await;
    assert_eq!(world.annotation(RELEASE).unwrap(), list(&["p-2"]));
    assert_eq!((&world.status()["taskRunning"], world.executors.running().len()), (&json!(1), 1));
    // An executor that does not answer may still run it, so its pod is not given to anybody.
    let spec = json!({"replicas": 2, "poolRef": "p", "taskTemplate": task()});
    let mut world = given(spec, &["p-1", "p-2"]).await;
    let ip = world.server.get("pods", "p-2").unwrap()["status"]["podIP"].as_str().unwrap().to_owned();
    world.executors.silence(&ip);
    world.edit(|batch| batch["spec"]["replicas"] = 1.into());
    world.pass(300).await;
    assert_eq!(world.annotation(RELEASE), None);
}

#[tokio::test(start_paused = true)]
async fn tasks_run_are_counted_and_end() {
    let spec = json!({"replicas": 2, "poolRef": "p", "taskTemplate": task()});
    let mut world = given(spec.clone(), &["p-1"]).await;
    let status = world.status();
    assert_eq!((&status["taskRunning"], &status["taskPending"]), (&json!(1), &json!(1)));
    world.executors.finish(0);
    world.pass(60).await;
    assert_eq!((&world.status()["taskSucceed"], world.annotation(RELEASE)), (&json!(1), None), "Retain");
    let mut world = given(spec, &["p-1", "p-2"]).await;
    world.executors.finish(3);
    world.pass(60).await;
    assert_eq!(&world.status()["taskFailed"], 2);
}

#[tokio::test(start_paused = true)]
async fn pods_of_tasks_that_ended_are_given_back_if_the_batch_says_so() {
    let spec = json!({
        "replicas": 2, "poolRef": "p", "taskTemplate": task(), "taskResourcePolicyWhenCompleted": "Release",
    });
    let mut world = given(spec, &["p-1", "p-2"]).await;
    world.executors.finish(0);
    world.pass(60).await;
    assert_eq!(world.annotation(RELEASE).unwrap(), list(&["p-1", "p-2"]));
    assert_eq!(&world.status()["taskSucceed"], 2);
    assert_eq!(world.executors.running(), Vec::<String>::new());
    recycle(&world);
    // A restart does not run them again.
    world.restart();
    world.pass(60).await;
    assert_eq!((&world.status()["taskSucceed"], world.executors.started().len()), (&json!(2), 2));
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_pod_is_lost_runs_on_the_next() {
    let spec = json!({"replicas": 1, "poolRef": "p", "taskTemplate": task()});
    let mut world = given(spec, &["p-1"]).await;
    world.server.delete("pods", "p-1");
    world.settle().await;
    let owner = world.server.get("pools", "p").unwrap();
    world.server.add("pods", pool_pod("p-2", &owner, Some(&world.batch())));
    world.edit(|batch| batch["metadata"]["annotations"][STATUS] = list(&["p-2"]).into());
    world.pass(60).await;
    assert_eq!((&world.status()["taskRunning"], world.executors.started().len()), (&json!(1), 2));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_batch_stops_its_tasks_before_its_pods_go_back() {
    let spec = json!({"replicas": 1, "poolRef": "p", "taskTemplate": task()});
    let mut world = given(spec, &["p-1"]).await;
    assert!(world.batch()["metadata"]["finalizers"].as_array().unwrap().len() == 2);
    world.server.delete("batchsandboxes", "b");
    world.settle().await;
    let finalizers = world.batch()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["pool.sandbox.opensandbox.io/pool-allocation"]));
    assert_eq!(world.executors.running(), Vec::<String>::new());
    assert_eq!(world.annotation("sandgate.dev/recycle"), None);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_batch_whose_executor_is_silent_has_its_pods_deleted() {
    let spec = json!({"replicas": 1, "poolRef": "p", "taskTemplate": task()});
    let mut world = given(spec, &["p-1"]).await;
    world.executors.silence("10.0.0.1");
    world.server.delete("batchsandboxes", "b");
    world.pass(30).await;
    assert_eq!(world.batch()["metadata"]["finalizers"].as_array().unwrap().len(), 2, "it is waited for");
    world.pass(60).await;
    let batch = world.batch();
    assert_eq!(batch["metadata"]["finalizers"], json!(["pool.sandbox.opensandbox.io/pool-allocation"]));
    assert_eq!(world.annotation("sandgate.dev/recycle").as_deref(), Some("Delete"));
    assert!(world.told().iter().any(|it| it.reason == "TasksNotStopped"));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_leaves_its_pool_makes_its_own_pods_and_forgets_the_pools_when_they_are_gone() {
    let mut world =
        given(json!({"replicas": 1, "poolRef": "p", "template": template("own")}), &["p-1"]).await;
    world.edit(|batch| batch["spec"]["poolRef"] = "".into());
    world.settle().await;
    assert_eq!(world.pods(), ["b-0", "p-1"]);
    assert_eq!(world.annotation(STATUS).unwrap(), list(&["p-1"]), "the pool has to recycle it first");
    let finalizers = |world: &World| world.batch()["metadata"]["finalizers"].clone();
    assert_ne!(finalizers(&world), json!([]));
    world.server.delete("pods", "p-1");
    world.settle().await;
    assert_eq!((finalizers(&world), world.annotation(STATUS)), (json!([]), None));
    assert_eq!(world.phase(), "Succeed");
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_chosen_by_the_profile_of_the_config_map() {
    let pools = |world: &World| {
        for (name, image, allocated) in [("p-base", "base", 5), ("p-idle", "idle", 0)] {
            let mut pool = pool(name);
            pool["spec"]["template"] = template(image);
            pool["status"] = json!({"total": 10, "allocated": allocated});
            world.server.add("pools", pool);
        }
    };
    for (template_of, profile, expected) in [
        (None, None, json!("p-idle")),
        (Some("base"), None, json!("p-base")),
        (Some("nowhere"), None, json!("*")),
        (
            Some("base"),
            Some(
                json!([{"name": "default", "plugins": {"predicate": [], "score": [{"name": "resbalance", "weight": 100}]}}]),
            ),
            json!("p-idle"),
        ),
    ] {
        let mut world = World::new();
        pools(&world);
        if let Some(profile) = profile {
            world.server.add(
                "configmaps",
                json!({
                    "metadata": {"name": "pool-assign-profiles", "namespace": "n"},
                    "data": {"profiles": profile.to_string()},
                }),
            );
        }
        let mut spec = json!({"replicas": 1, "poolRef": "*"});
        if let Some(image) = template_of {
            spec["template"] = template(image);
        }
        world.add_batch(spec);
        world.settle().await;
        assert_eq!(world.batch()["spec"]["poolRef"], expected, "{template_of:?}");
        assert_eq!(world.pods(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_no_pool_fits_gets_the_next_one_that_does() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "poolRef": "*"}));
    world.settle().await;
    assert_eq!(world.batch()["spec"]["poolRef"], "*");
    world.server.add("pools", pool("late"));
    world.pass(0).await;
    assert_eq!(world.batch()["spec"]["poolRef"], "late");
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_task_template_is_gone_is_not_held_by_the_finalizer() {
    let spec = json!({"replicas": 1, "poolRef": "p", "taskTemplate": task()});
    let mut world = given(spec, &["p-1"]).await;
    world.edit(|batch| drop(batch["spec"].as_object_mut().unwrap().remove("taskTemplate")));
    world.settle().await;
    assert_eq!(&world.status()["taskRunning"], 0);
    // Nobody stops the task: no other batch may get the pod, whatever the pool does with pods that come back.
    assert_eq!(world.executors.running().len(), 1);
    assert_eq!(world.annotation("sandgate.dev/recycle").as_deref(), Some("Delete"));
    world.server.delete("batchsandboxes", "b");
    world.settle().await;
    let finalizers = world.batch()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["pool.sandbox.opensandbox.io/pool-allocation"]));
}
