//! Pods whose nodes cannot pull their images.

use serde_json::{Value, json};

use super::world::{World, pool, template};

async fn begun(bad: usize, spec: Value) -> World {
    let mut world = World::new();
    world.on_bad_nodes = bad;
    world.add_batch(spec);
    world.settle().await;
    world
}

fn uid(world: &World, pod: &str) -> Value {
    world.server.get("pods", pod).unwrap()["metadata"]["uid"].clone()
}

fn replaced(world: &World) -> usize {
    world.told().iter().filter(|it| it.reason == "PodReplaced").count()
}

/// What the node says of the image of a pod.
fn says(world: &World, pod: &str, reason: &str, message: &str) {
    world.server.change("pods", pod, |pod| {
        pod["status"]["containerStatuses"][0]["state"] =
            json!({"waiting": {"reason": reason, "message": message}});
    });
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_node_cannot_pull_its_image_is_replaced_after_a_minute_1956() {
    let mut world = begun(1, json!({"replicas": 2, "template": template("base")})).await;
    let (bad, good) = (uid(&world, "b-0"), uid(&world, "b-1"));
    assert_eq!(world.conditions(), ["PodFailed=ImagePullBackOff"]);
    world.pass(25).await;
    assert_eq!(uid(&world, "b-0"), bad, "the registry may be back in a moment");
    world.pass(10).await;
    assert_ne!(uid(&world, "b-0"), bad);
    assert_eq!(uid(&world, "b-1"), good);
    assert_eq!((world.phase().as_str(), &world.status()["ready"]), ("Succeed", &json!(2)));
    assert_eq!(replaced(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_gets_three_new_pods_at_most_each_later_than_the_one_before() {
    let mut world = begun(usize::MAX, json!({"replicas": 1, "template": template("base")})).await;
    // After 60, 120 and 240 s, of which 30 have passed.
    for (seconds, expected) in [(29, 0), (2, 1), (118, 0), (3, 1), (237, 0), (4, 1), (3600, 0)] {
        world.pass(seconds).await;
        assert_eq!(replaced(&world), expected, "after another {seconds} s");
    }
    assert_eq!(world.conditions(), ["PodFailed=ImagePullBackOff"]);
    // Another generation may be of another mind.
    world.edit(|batch| batch["spec"]["template"] = template("other"));
    world.pass(70).await;
    assert_eq!(replaced(&world), 1);
    // Nothing of it is remembered by the next process.
    world.restart();
    world.pass(70).await;
    assert_eq!(replaced(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_stays_whose_image_is_to_blame_even_if_the_kubelet_says_so_only_once() {
    for message in
        ["failed to resolve reference \"base\": base: Not Found", "pull access denied", "401 Unauthorized"]
    {
        let mut world = begun(1, json!({"replicas": 1, "template": template("base")})).await;
        says(&world, "b-0", "ErrImagePull", message);
        world.pass(5).await;
        says(&world, "b-0", "ImagePullBackOff", "Back-off pulling image \"base\"");
        world.pass(600).await;
        assert_eq!(replaced(&world), 0, "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_stays_that_has_run_or_waits_for_something_else() {
    type Change = fn(&mut Value);
    let change: [(&str, Change); 4] = [
        ("it has run", |pod| pod["status"]["phase"] = "Running".into()),
        ("it crashes", |pod| {
            pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] = "CrashLoopBackOff".into();
        }),
        ("it is pulled at last", |pod| {
            pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] = "ContainerCreating".into();
        }),
        ("it has no node", |pod| pod["spec"]["nodeName"] = "".into()),
    ];
    for (name, change) in change {
        let mut world = begun(1, json!({"replicas": 1, "template": template("base")})).await;
        world.server.change("pods", "b-0", change);
        world.pass(600).await;
        assert_eq!(replaced(&world), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_stays_in_which_a_task_may_run() {
    let spec = json!({
        "replicas": 1, "template": template("base"), "taskTemplate": {"spec": {"process": {"command": ["run"]}}},
    });
    let mut world = begun(1, spec.clone()).await;
    world.server.change("pods", "b-0", |pod| {
        let beside = json!({"name": "beside", "state": {"running": {}}});
        pod["status"]["containerStatuses"].as_array_mut().unwrap().push(beside);
    });
    world.pass(600).await;
    assert_eq!(replaced(&world), 0);

    let mut world = begun(1, spec).await;
    world.pass(60).await;
    assert_eq!((replaced(&world), world.executors.running().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_resume_is_not_lost_to_a_node_that_cannot_pull_its_images() {
    let mut world = begun(0, json!({"replicas": 1, "template": template("base")})).await;
    world.edit(|batch| batch["spec"]["pause"] = true.into());
    world.settle().await;
    world.on_bad_nodes = 1;
    world.edit(|batch| batch["spec"]["pause"] = false.into());
    world.settle().await;
    assert_eq!(world.conditions(), ["PodFailed=ImagePullBackOff", "ResumeFailed=ImagePullBackOff"]);
    world.pass(60).await;
    assert_eq!(
        (world.phase(), world.conditions()),
        ("Succeed".to_owned(), vec!["Ready=PodsReady".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_pool_is_the_pools_to_replace() {
    let mut world = World::new();
    let owner = world.server.add("pools", pool("p"));
    let batch = world.add_batch(json!({"replicas": 1, "poolRef": "p"}));
    world.on_bad_nodes = 1;
    world.server.add("pods", super::world::pool_pod("p-1", &owner, Some(&batch)));
    world.edit(|batch| {
        batch["metadata"]["annotations"] =
            json!({"sandbox.opensandbox.io/alloc-status": "{\"pods\":[\"p-1\"]}"});
    });
    world.pass(600).await;
    assert_eq!((world.pods(), replaced(&world)), (vec!["p-1".to_owned()], 0));
}
