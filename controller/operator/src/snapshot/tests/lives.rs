//! The life of a snapshot, from its creation to its end.

use serde_json::{Value, json};

use crate::batch::tests::server::Fault;
use crate::batch::tests::world::{World, digest, pool, pool_pod, template};
use crate::pool::revision_of;

fn snapshot(name: &str) -> Value {
    json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1",
        "kind": "SandboxSnapshot",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"sandboxName": "b"},
    })
}

fn status(world: &World, name: &str) -> Value {
    world.server.get("sandboxsnapshots", name).unwrap()["status"].clone()
}

/// Phase, and the conditions that are true with their reasons.
fn said(world: &World, name: &str) -> (String, Vec<String>) {
    let status = status(world, name);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = status["conditions"].as_array().into_iter().flatten();
    let conditions = all.map(|it| format!("{}={}", text(&it["type"]), text(&it["reason"])));
    (text(&status["phase"]), conditions.collect())
}

/// A batch whose pod runs.
async fn running() -> World {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "template": template("base")}));
    world.settle().await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_somebody_asks_for_is_made() {
    let mut world = running().await;
    world.server.add("sandboxsnapshots", snapshot("osb-snap-0123456789abcdef0123456789abcdef"));
    world.settle().await;
    let name = "osb-snap-0123456789abcdef0123456789abcdef";
    assert_eq!(said(&world, name), ("Succeed".to_owned(), vec!["Ready=SnapshotReady".to_owned()]));
    let status = status(&world, name);
    assert_eq!(
        status["containers"],
        json!([{
            "containerName": "main",
            "imageUri": "registry/x/b-main:snap-0123456789abcdef0123456789abcdef",
            "imageDigest": digest("registry/x/b-main:snap-0123456789abcdef0123456789abcdef"),
        }])
    );
    assert_eq!(
        [&status["sourcePodName"], &status["sourceNodeName"], &status["observedGeneration"]],
        [&json!("b-0"), &json!("node"), &json!(1)]
    );
    let finalizers = &world.server.get("sandboxsnapshots", name).unwrap()["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["sandboxsnapshot.sandbox.opensandbox.io/cleanup"]));
    assert!(world.server.get("pods", "b-0").is_some(), "the batch goes on");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_has_failed_and_says_why() {
    let mut world = World::new();
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.settle().await;
    assert_eq!(said(&world, "s"), ("Failed".to_owned(), vec!["Failed=BatchSandboxLookupFailed".to_owned()]));
    let told = world.told();
    assert_eq!(told.iter().map(|it| it.reason).collect::<Vec<_>>(), ["BatchSandboxLookupFailed"]);

    let mut world = World::new();
    world.starts = false;
    world.add_batch(json!({"replicas": 1, "template": template("base")}));
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.settle().await;
    assert_eq!(said(&world, "s"), ("Failed".to_owned(), vec!["Failed=SourcePodNotFound".to_owned()]));

    let mut world = running().await;
    world.registry = None;
    world.restart();
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.settle().await;
    assert_eq!(said(&world, "s"), ("Failed".to_owned(), vec!["Failed=RegistryNotConfigured".to_owned()]));

    let mut world = running().await;
    world.commits = false;
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.settle().await;
    assert_eq!(said(&world, "s"), ("Failed".to_owned(), vec!["Failed=CommitJobFailed".to_owned()]));
    assert!(world.server.get("jobs", "s-unpause").is_some(), "its containers go on");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_made_or_has_failed_stays_so() {
    for phase in ["Succeed", "Failed"] {
        let mut world = running().await;
        let mut made = snapshot("s");
        made["status"] = json!({"phase": phase});
        world.server.add("sandboxsnapshots", made);
        world.settle().await;
        assert_eq!(status(&world, "s"), json!({"phase": phase}));
        assert_eq!(world.server.all("jobs"), Vec::<Value>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_before_its_result_was_read_is_made_again() {
    let mut world = running().await;
    let mut lost = snapshot("s");
    lost["status"] = json!({"phase": "Committing", "sourcePodName": "b-0", "sourceNodeName": "node"});
    world.server.add("sandboxsnapshots", lost);
    world.settle().await;
    assert_eq!(said(&world, "s").0, "Succeed");

    // Without a registry there is nowhere to push to.
    let mut world = running().await;
    world.registry = None;
    world.restart();
    let mut lost = snapshot("s");
    lost["status"] = json!({"phase": "Committing", "sourcePodName": "b-0", "sourceNodeName": "node"});
    world.server.add("sandboxsnapshots", lost);
    world.settle().await;
    assert_eq!(said(&world, "s"), ("Failed".to_owned(), vec!["Failed=RegistryNotConfigured".to_owned()]));
    assert_eq!(world.server.all("jobs"), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_first_try_failed_is_waited_for() {
    let mut world = running().await;
    world.stumbles = true;
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.settle().await;
    assert_eq!(said(&world, "s"), ("Committing".to_owned(), Vec::new()));
    assert_eq!(world.server.get("jobs", "s-unpause"), None);
    world.server.change("jobs", "s-commit", |job| job["status"] = json!({"failed": 1, "succeeded": 1}));
    world.settle().await;
    assert_eq!(said(&world, "s").0, "Succeed");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_not_failed_before_its_containers_may_go_on() {
    let mut world = running().await;
    world.commits = false;
    let old = json!({
        "metadata": {
            "name": "s-unpause", "namespace": "n", "finalizers": ["orphan"],
            "labels": {"sandbox.opensandbox.io/sandbox-snapshot-name": "s"},
        },
        "status": {"succeeded": 1},
    });
    world.server.add("jobs", old);
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.settle().await;
    assert_eq!(said(&world, "s"), ("Committing".to_owned(), Vec::new()));
    let job = |world: &World| world.server.get("jobs", "s-unpause").unwrap()["metadata"].clone();
    assert_ne!(job(&world)["deletionTimestamp"], Value::Null, "it is of an earlier snapshot");
    world.server.remove("jobs", "s-unpause");
    world.settle().await;
    assert_eq!(said(&world, "s").0, "Failed");
    let uid = world.server.get("sandboxsnapshots", "s").unwrap()["metadata"]["uid"].clone();
    assert_eq!(job(&world)["ownerReferences"][0]["uid"], uid);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_an_earlier_snapshot_of_the_name_goes_first() {
    let mut world = running().await;
    let old = world.server.add(
        "jobs",
        json!({
            "metadata": {
                "name": "s-commit", "namespace": "n", "finalizers": ["orphan"],
                "labels": {"sandbox.opensandbox.io/sandbox-snapshot-name": "s"},
            },
            "status": {"succeeded": 1},
        }),
    );
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.pass(2).await;
    let job = world.server.get("jobs", "s-commit").unwrap();
    assert_ne!(job["metadata"]["deletionTimestamp"], Value::Null, "its result is another's");
    assert_eq!(old["metadata"]["uid"], job["metadata"]["uid"]);
    world.server.remove("jobs", "s-commit");
    world.settle().await;
    assert_eq!(said(&world, "s").0, "Succeed");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_deleted_takes_its_jobs_with_it() {
    let mut world = running().await;
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.settle().await;
    world.server.delete("sandboxsnapshots", "s");
    world.settle().await;
    assert_eq!(world.server.get("sandboxsnapshots", "s"), None);
    let jobs = world.server.all("jobs");
    assert!(jobs.iter().all(|job| !job["metadata"]["deletionTimestamp"].is_null()), "{jobs:?}");
}

#[tokio::test(start_paused = true)]
async fn of_a_pools_pod_only_the_containers_of_the_pool_are_kept() {
    let mut world = World::new();
    let owner = world.server.add("pools", pool("p"));
    let batch = world.add_batch(json!({"replicas": 1, "poolRef": "p"}));
    let mut pod = pool_pod("p-1", &owner, Some(&batch));
    let of = serde_json::from_value(owner["spec"].clone()).unwrap();
    pod["metadata"]["labels"]["sandbox.opensandbox.io/pool-revision"] = (*revision_of(&of)).into();
    pod["spec"]["containers"] = json!([{"name": "istio-proxy"}, {"name": "main", "image": "base"}]);
    pod["spec"]["initContainers"] = json!([{"name": "istio-init"}]);
    world.server.add("pods", pod);
    world.edit(|batch| {
        batch["metadata"]["annotations"] =
            json!({"sandbox.opensandbox.io/alloc-status": "{\"pods\":[\"p-1\"]}"});
    });
    world.settle().await;
    world.server.add("sandboxsnapshots", snapshot("s"));
    world.settle().await;
    let status = status(&world, "s");
    assert_eq!(status["sourcePodName"], "p-1");
    let kept = status["containers"].as_array().unwrap();
    assert_eq!(kept.iter().map(|it| &it["containerName"]).collect::<Vec<_>>(), ["main"]);

    // What the pool makes by now does not say what the pod was made with.
    world.server.change("pools", "p", |pool| {
        pool["spec"]["template"]["spec"]["containers"] = json!([{"name": "main"}, {"name": "new"}]);
    });
    world.server.add("sandboxsnapshots", snapshot("later"));
    world.settle().await;
    let status = self::status(&world, "later");
    let kept = status["containers"].as_array().unwrap();
    assert_eq!(kept.iter().map(|it| &it["containerName"]).collect::<Vec<_>>(), ["istio-proxy", "main"]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_comes_to_the_same_end_whatever_happens_to_its_writes() {
    for (fault, commits) in Fault::ALL.into_iter().flat_map(|fault| [(fault, true), (fault, false)]) {
        let mut at = 0;
        loop {
            let mut world = running().await;
            world.commits = commits;
            world.server.fault(at, fault);
            world.server.add("sandboxsnapshots", snapshot("s"));
            world.settle().await;
            let phase = if commits { "Succeed" } else { "Failed" };
            assert_eq!(said(&world, "s").0, phase, "{fault:?} at {at}");
            assert_eq!(world.server.get("jobs", "s-unpause").is_some(), !commits, "{fault:?} at {at}");
            if commits {
                let image = &status(&world, "s")["containers"][0];
                assert_eq!(image["imageDigest"], digest(image["imageUri"].as_str().unwrap()));
            }
            world.server.delete("sandboxsnapshots", "s");
            world.settle().await;
            assert_eq!(world.server.get("sandboxsnapshots", "s"), None, "{fault:?} at {at}");
            if !world.server.faulted() {
                break;
            }
            at += 1;
        }
        assert!(at > 3, "{fault:?}");
    }
}
