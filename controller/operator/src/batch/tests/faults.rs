//! A batch comes to the same end whatever happens to its writes: the process dies before or after each of
//! them, an answer is lost, or somebody else writes first.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::server::Fault;
use super::world::{World, pinned, pool, pool_pod, template};

/// Lets a life go on with a fault at each of its writes, until there is no such write any more. `life` says
/// when the fault may happen, and what has to be true.
async fn sweep<F: Future<Output = World>>(life: impl Fn(usize, Fault) -> F) {
    for fault in Fault::ALL {
        let mut at = 0;
        loop {
            let world = life(at, fault).await;
            if !world.server.faulted() {
                break;
            }
            let is_deadly = matches!(fault, Fault::KilledBefore | Fault::KilledAfter);
            assert_eq!(world.deaths, usize::from(is_deadly), "{fault:?} at {at}");
            at += 1;
        }
        assert!(at > 1, "{fault:?}: nothing was tried");
    }
}

fn images(world: &World) -> BTreeSet<String> {
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
    let own = |pod: &&Value| pod["metadata"]["name"].as_str().unwrap().starts_with("b-");
    let is_main = |pod: &&Value| !pod["spec"]["containers"][0].is_null();
    world.server.all("pods").iter().filter(own).filter(is_main).map(image).collect()
}

#[tokio::test(start_paused = true)]
async fn of_pods_that_are_made_and_deleted() {
    sweep(async |at, fault| {
        let mut world = World::new();
        world.server.fault(at, fault);
        world.add_batch(json!({"replicas": 3, "template": template("base")}));
        world.settle().await;
        assert_eq!((world.pods().len(), &world.status()["ready"]), (3, &json!(3)), "{fault:?} at {at}");
        world.edit(|batch| batch["spec"]["replicas"] = 1.into());
        world.settle().await;
        assert_eq!((world.pods(), &world.status()["ready"]), (vec!["b-0".to_owned()], &json!(1)));
        assert_eq!(world.endpoints().unwrap(), format!("[{}]", address(&world, "b-0")));
        world
    })
    .await;
}

fn address(world: &World, pod: &str) -> String {
    world.server.get("pods", pod).unwrap()["status"]["podIP"].to_string()
}

#[tokio::test(start_paused = true)]
async fn of_a_pause_and_a_resume() {
    sweep(async |at, fault| {
        let mut world = World::new();
        world.add_batch(json!({"replicas": 1, "template": template("base")}));
        world.settle().await;
        world.server.fault(at, fault);
        world.edit(|batch| batch["spec"]["pause"] = true.into());
        world.settle().await;
        assert_eq!(world.phase(), "Paused", "{fault:?} at {at}");
        let snapshot = world.server.get("sandboxsnapshots", "b-pause").unwrap();
        assert_eq!(snapshot["status"]["phase"], "Succeed");
        assert!(world.server.get("pods", "b-0").is_none());
        world.edit(|batch| batch["spec"]["pause"] = false.into());
        world.settle().await;
        assert_eq!(
            (world.phase(), world.conditions()),
            ("Succeed".to_owned(), vec!["Ready=PodsReady".to_owned()])
        );
        assert_eq!(images(&world), BTreeSet::from([pinned("registry/x/b-main:snap-gen2")]));
        assert_eq!(world.server.get("sandboxsnapshots", "b-pause"), None);
        world
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn of_a_pause_of_a_pools_pod_and_its_end() {
    let task = json!({"spec": {"process": {"command": ["run"]}}});
    sweep(async |at, fault| {
        let mut world = World::new();
        let owner = world.server.add("pools", pool("p"));
        let batch = world.add_batch(json!({"replicas": 1, "poolRef": "p", "taskTemplate": task}));
        world.server.fault(at, fault);
        world.server.add("pods", pool_pod("p-1", &owner, Some(&batch)));
        world.edit(|batch| {
            batch["metadata"]["annotations"] =
                json!({"sandbox.opensandbox.io/alloc-status": "{\"pods\":[\"p-1\"]}"});
            batch["metadata"]["finalizers"] = json!(["pool.sandbox.opensandbox.io/pool-allocation"]);
        });
        world.settle().await;
        assert_eq!(&world.status()["taskRunning"], 1, "{fault:?} at {at}");
        world.edit(|batch| batch["spec"]["pause"] = true.into());
        world.settle().await;
        assert_eq!(world.phase(), "Paused", "{fault:?} at {at}");
        assert_eq!(world.executors.running(), Vec::<String>::new());
        assert_eq!(
            world.annotation("sandbox.opensandbox.io/alloc-released").as_deref(),
            Some("{\"pods\":[\"p-1\"]}")
        );
        world.edit(|batch| batch["spec"]["pause"] = false.into());
        world.settle().await;
        assert_eq!((world.phase().as_str(), &world.status()["taskRunning"]), ("Succeed", &json!(1)));
        world.server.delete("batchsandboxes", "b");
        world.settle().await;
        assert_eq!(world.server.get("batchsandboxes", "b"), None, "{fault:?} at {at}");
        assert_eq!(world.executors.running(), Vec::<String>::new());
        // Never two at a time, and each life of the pod has run it once.
        assert_eq!(world.executors.started().len(), 2, "{:?}", world.executors.started());
        world
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn of_a_choice_of_a_pool() {
    sweep(async |at, fault| {
        let mut world = World::new();
        world.server.fault(at, fault);
        world.server.add("pools", pool("p"));
        world.add_batch(json!({"replicas": 2, "poolRef": "*", "expireTime": "2026-01-01T00:01:00Z"}));
        world.settle().await;
        assert_eq!(world.batch()["spec"]["poolRef"], "p", "{fault:?} at {at}");
        world.pass(60).await;
        assert_eq!(world.server.get("batchsandboxes", "b"), None);
        world
    })
    .await;
}
