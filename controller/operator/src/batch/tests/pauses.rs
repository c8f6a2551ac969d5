//! Pause and resume, from the wish to the pod that is back.

use serde_json::{Value, json};

use super::world::{BAD_IMAGE, World, digest, pinned, pool, pool_pod, template};

/// A batch of one pod that runs.
async fn running() -> World {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "template": template("base")}));
    world.settle().await;
    world
}

/// A batch that is paused.
async fn paused() -> World {
    let mut world = running().await;
    pause(&world, true);
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    world
}

fn pause(world: &World, wish: bool) {
    world.edit(|batch| batch["spec"]["pause"] = wish.into());
}

fn image(world: &World) -> String {
    let batch = world.batch();
    batch["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

fn heard(world: &World) -> Value {
    world.status()["pauseObservedGeneration"].clone()
}

fn snapshot(world: &World) -> Option<Value> {
    world.server.get("sandboxsnapshots", "b-pause")
}

#[tokio::test(start_paused = true)]
async fn a_pause_keeps_the_pod_as_images_and_deletes_it() {
    let mut world = running().await;
    pause(&world, true);
    world.settle().await;
    assert_eq!((world.phase(), world.conditions()), ("Paused".to_owned(), vec!["Paused=Paused".to_owned()]));
    assert!(world.server.get("pods", "b-0").is_none());
    assert_eq!((heard(&world), &world.status()["replicas"]), (json!(2), &json!(0)));
    assert_eq!(world.endpoints().unwrap(), "[]");
    let status = &snapshot(&world).unwrap()["status"];
    assert_eq!((&status["phase"], &status["sourcePodName"]), (&json!("Succeed"), &json!("b-0")));
    assert_eq!(
        status["containers"],
        json!([{
            "containerName": "main", "imageUri": "registry/x/b-main:snap-gen2",
            "imageDigest": digest("registry/x/b-main:snap-gen2"),
        }])
    );
    assert_eq!(world.told().iter().filter(|it| it.reason == "Paused").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resume_brings_the_pod_back_from_its_images() {
    let mut world = paused().await;
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.phase(), "Succeed");
    assert_eq!(world.conditions(), ["Ready=PodsReady"]);
    let pod = world.server.get("pods", "b-0").unwrap();
    // By the digest: a later batch of the name pushes to the same tag.
    assert_eq!(pod["spec"]["containers"][0]["image"], pinned("registry/x/b-main:snap-gen2"));
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(snapshot(&world), None, "it is not needed any more");
    assert_eq!(heard(&world), world.batch()["metadata"]["generation"]);
    assert_eq!(world.told().iter().filter(|it| it.reason == "Resumed").count(), 1);
    // And once more.
    pause(&world, true);
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.phase(), "Succeed");
}

#[tokio::test(start_paused = true)]
async fn a_resume_without_a_digest_takes_the_image_by_its_tag() {
    for digest in [json!(null), json!("sha256:short"), json!("pushed")] {
        let mut world = paused().await;
        world.server.change("sandboxsnapshots", "b-pause", |snapshot| {
            snapshot["status"]["containers"][0]["imageDigest"] = digest.clone();
        });
        pause(&world, false);
        world.settle().await;
        assert_eq!(image(&world), "registry/x/b-main:snap-gen2", "{digest}");
    }
    // With the name before it, as some tools say it; and a registry with a port and no tag.
    let mut world = paused().await;
    world.server.change("sandboxsnapshots", "b-pause", |snapshot| {
        let said = format!("r:5000/x@{}", digest("x"));
        snapshot["status"]["containers"][0] =
            json!({"containerName": "main", "imageUri": "r:5000/x", "imageDigest": said});
    });
    pause(&world, false);
    world.settle().await;
    assert_eq!(image(&world), format!("r:5000/x@{}", digest("x")));
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_the_first_pod_does_not_undo_a_resume() {
    let mut world = World::new();
    let patches = json!([
        {
            "metadata": {"labels": {"app": null, "shard": "0"}},
            "spec": {"containers": [{"name": "main", "image": "patched"}, {"name": "side", "image": "other"}]},
        },
        {"metadata": {"labels": {"shard": "1"}}},
    ]);
    world.add_batch(json!({"replicas": 1, "template": template("base"), "shardPatches": patches}));
    world.settle().await;
    pause(&world, true);
    world.settle().await;
    let kept = snapshot(&world).unwrap()["status"]["containers"].clone();
    let kept: Vec<_> = kept.as_array().unwrap().iter().map(|it| it["containerName"].clone()).collect();
    assert_eq!(kept, ["main", "side"], "what only the patch adds is kept as well");
    assert_eq!(world.batch()["spec"]["shardPatches"], patches, "a batch that is paused is as it was");
    pause(&world, false);
    world.settle().await;
    assert_eq!((world.phase(), snapshot(&world)), ("Succeed".to_owned(), None));
    let pod = world.server.get("pods", "b-0").unwrap();
    let images: Vec<_> =
        pod["spec"]["containers"].as_array().unwrap().iter().map(|it| it["image"].clone()).collect();
    assert_eq!(images, ["registry/x/b-main:snap-gen2", "registry/x/b-side:snap-gen2"].map(pinned));
    let labels = &pod["metadata"]["labels"];
    assert_eq!((&labels["shard"], &labels["app"]), (&json!("0"), &Value::Null));
    let spec = &world.batch()["spec"];
    let mut expected = patches.clone();
    for (number, image) in images.iter().enumerate() {
        expected[0]["spec"]["containers"][number]["image"] = image.clone();
    }
    assert_eq!(spec["shardPatches"], expected, "the patch is as it was, but for the images");
    assert_eq!(spec["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
    // And once more.
    pause(&world, true);
    world.settle().await;
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.phase(), "Succeed");
    assert_ne!(world.server.get("pods", "b-0").unwrap()["spec"]["containers"][0]["image"], images[0]);
}

#[tokio::test(start_paused = true)]
async fn a_resume_with_a_patch_that_has_no_meaning_says_so() {
    let mut world = paused().await;
    world.edit(|batch| batch["spec"]["shardPatches"] = json!([{"spec": {"$patch": "paint"}}]));
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    assert_eq!(world.conditions(), ["ResumeFailed=ShardPatchInvalid", "Paused=Paused"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_not_paused_before_its_pod_is_deleted() {
    let mut world = running().await;
    world.server.hold(Some("not now"));
    pause(&world, true);
    world.settle().await;
    assert_eq!((world.phase().as_str(), world.pods().contains(&"b-0".to_owned())), ("Pausing", true));
    world.server.hold(None);
    world.settle().await;
    assert_eq!((world.phase().as_str(), world.pods().contains(&"b-0".to_owned())), ("Paused", false));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_scaled_while_it_was_paused_comes_back_with_as_many_pods() {
    let mut world = paused().await;
    world.edit(|batch| batch["spec"]["replicas"] = 2.into());
    pause(&world, false);
    world.settle().await;
    assert_eq!((world.phase().as_str(), &world.status()["ready"]), ("Succeed", &json!(2)));
    assert_eq!(world.batch()["spec"]["replicas"], 2);
    let image = |pod: &str| world.server.get("pods", pod).unwrap()["spec"]["containers"][0]["image"].clone();
    assert_eq!(["b-0", "b-1"].map(image), [0, 1].map(|_| pinned("registry/x/b-main:snap-gen2")));
}

#[tokio::test(start_paused = true)]
async fn only_a_batch_of_one_can_be_paused() {
    for replicas in [0, 2] {
        let mut world = World::new();
        world.add_batch(json!({"replicas": replicas, "template": template("base")}));
        world.settle().await;
        pause(&world, true);
        world.settle().await;
        assert!(world.conditions().contains(&"PauseFailed=UnsupportedReplicas".to_owned()), "{replicas}");
        assert_eq!(heard(&world), 2);
        assert_eq!((snapshot(&world), world.pods().len()), (None, replicas));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_fails_leaves_the_batch_as_it_was_and_can_be_asked_for_again() {
    for is_registry in [true, false] {
        let mut world = running().await;
        world.commits = is_registry;
        if is_registry {
            world.registry = None;
            world.restart();
        }
        pause(&world, true);
        world.settle().await;
        assert_eq!((world.phase().as_str(), world.pods().len()), ("Succeed", 1));
        assert_eq!(world.conditions(), ["PauseFailed=SnapshotFailed", "Ready=PodsReady"]);
        let why = if is_registry { "RegistryNotConfigured" } else { "CommitJobFailed" };
        let status = world.status();
        let message = status["conditions"][0]["message"].as_str().unwrap();
        assert!(message.starts_with(why), "{message}");
        assert_eq!(world.server.get("jobs", "b-pause-unpause").is_some(), !is_registry);
        // It is mended, and asked for again.
        world.registry = Some("registry/x".to_owned());
        world.commits = true;
        world.restart();
        pause(&world, false);
        world.settle().await;
        assert_eq!(world.phase(), "Succeed");
        pause(&world, true);
        world.settle().await;
        assert_eq!(
            (world.phase(), world.conditions()),
            ("Paused".to_owned(), vec!["Paused=Paused".to_owned()])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_without_a_pod_is_said() {
    let mut world = World::new();
    world.starts = false;
    world.add_batch(json!({"replicas": 1, "pause": true, "poolRef": "p"}));
    world.settle().await;
    assert_eq!(world.phase(), "Pending");
    let said = world.told();
    let is_it = |reason: &str, note: &str| reason == "PauseFailed" && note.starts_with("PodNotFound");
    assert!(said.iter().any(|it| is_it(it.reason, &it.note)), "{said:?}");
    assert_eq!(world.conditions(), ["PauseFailed=PodNotFound", "Progressing=Creating"]);
}

#[tokio::test(start_paused = true)]
async fn a_resume_that_is_asked_for_during_the_pause_follows_it() {
    let mut world = running().await;
    world.pass(0).await;
    pause(&world, true);
    // The pause has begun, and nothing else has happened.
    for _ in 0..2 {
        world.look_at_batch().await;
    }
    assert_eq!(world.phase(), "Pausing");
    pause(&world, false);
    world.settle().await;
    assert_eq!((world.phase(), image(&world)), ("Succeed".to_owned(), pinned("registry/x/b-main:snap-gen3")));
    assert_eq!(snapshot(&world), None);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_asked_for_during_the_resume_follows_it() {
    let mut world = paused().await;
    world.starts = false;
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.phase(), "Resuming");
    pause(&world, true);
    world.settle().await;
    assert_eq!(world.phase(), "Resuming", "first the one, then the other");
    world.starts = true;
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    assert!(world.server.get("pods", "b-0").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_resume_needs_a_snapshot_that_is_made() {
    let mut world = paused().await;
    world.server.remove("sandboxsnapshots", "b-pause");
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    assert_eq!(world.conditions(), ["ResumeFailed=SnapshotNotFound", "Paused=Paused"]);

    let mut world = paused().await;
    world
        .server
        .change("sandboxsnapshots", "b-pause", |snapshot| snapshot["status"]["phase"] = "Failed".into());
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.conditions(), ["ResumeFailed=SnapshotNotReady", "Paused=Paused"]);
    assert!(world.server.get("pods", "b-0").is_none());
    // It is mended, and asked for again.
    world
        .server
        .change("sandboxsnapshots", "b-pause", |snapshot| snapshot["status"]["phase"] = "Succeed".into());
    pause(&world, true);
    world.settle().await;
    assert_eq!(world.phase(), "Paused", "it is paused, and its snapshot is still there");
    pause(&world, false);
    world.settle().await;
    assert_eq!(
        (world.phase(), world.conditions()),
        ("Succeed".to_owned(), vec!["Ready=PodsReady".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_resume_whose_pod_cannot_start_has_failed_and_goes_on_when_it_can() {
    let mut world = paused().await;
    world.server.change("sandboxsnapshots", "b-pause", |snapshot| {
        snapshot["status"]["containers"][0] = json!({"containerName": "main", "imageUri": BAD_IMAGE});
    });
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.phase(), "Failed");
    assert_eq!(world.conditions(), ["PodFailed=ImagePullBackOff", "ResumeFailed=ImagePullBackOff"]);
    assert!(snapshot(&world).is_some(), "it is not back yet");
    world.edit(|batch| batch["spec"]["template"] = template("base"));
    world.server.delete("pods", "b-0");
    world.settle().await;
    assert_eq!(
        (world.phase(), world.conditions()),
        ("Succeed".to_owned(), vec!["Ready=PodsReady".to_owned()])
    );
    assert_eq!(snapshot(&world), None);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_paused_neither_scales_nor_loses_its_snapshot() {
    let mut world = paused().await;
    world.edit(|batch| batch["spec"]["replicas"] = 3.into());
    world.settle().await;
    assert_eq!((world.phase().as_str(), world.server.get("pods", "b-0")), ("Paused", None));
    assert_eq!(heard(&world), 3);
    assert!(snapshot(&world).is_some());
    world.edit(|batch| drop(batch["spec"].as_object_mut().unwrap().remove("pause")));
    world.settle().await;
    assert_eq!(world.phase(), "Paused", "no wish is no resume");
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_resume_what_runs_is_heard_and_changes_nothing() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "pause": false, "template": template("base")}));
    world.settle().await;
    assert_eq!((world.phase().as_str(), heard(&world)), ("Succeed", json!(1)));
    assert_eq!(world.conditions(), ["Ready=PodsReady"]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_an_earlier_batch_of_the_name_is_waited_for() {
    let mut world = running().await;
    let mut old = json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "SandboxSnapshot",
        "metadata": {"name": "b-pause", "namespace": "n", "finalizers": ["x"], "ownerReferences": [{
            "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox", "name": "b",
            "uid": "earlier", "controller": true,
        }]},
        "spec": {"sandboxName": "b"},
    });
    old["status"] = json!({
        "phase": "Succeed", "containers": [{"containerName": "main", "imageUri": "somebody-else"}],
    });
    world.server.add("sandboxsnapshots", old);
    pause(&world, true);
    world.settle().await;
    assert_eq!((world.phase().as_str(), world.pods().len()), ("Succeed", 1));
    assert_eq!(heard(&world), 1, "it is still to be heard");
    // Until then the batch goes on as any other.
    world.server.delete("pods", "b-0");
    world.settle().await;
    assert_eq!((world.phase().as_str(), world.pods().len()), ("Succeed", 1));
    assert_eq!((world.endpoints().unwrap().as_str(), heard(&world)), ("[\"10.0.0.2\"]", json!(1)));
    world.server.remove("sandboxsnapshots", "b-pause");
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    let image = snapshot(&world).unwrap()["status"]["containers"][0]["imageUri"].clone();
    assert_eq!(image, "registry/x/b-main:snap-gen2");
}

/// A batch that has a pod of a pool.
async fn pooled(spec: Value) -> World {
    let mut world = World::new();
    let owner = world.server.add("pools", pool("p"));
    let batch = world.add_batch(spec);
    world.server.add("pods", pool_pod("p-1", &owner, Some(&batch)));
    world.edit(|batch| {
        batch["metadata"]["annotations"] =
            json!({"sandbox.opensandbox.io/alloc-status": "{\"pods\":[\"p-1\"]}"});
        let mut finalizers = batch["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.push("pool.sandbox.opensandbox.io/pool-allocation".into());
        batch["metadata"]["finalizers"] = finalizers.into();
    });
    world.settle().await;
    assert_eq!((world.phase().as_str(), world.endpoints().unwrap().as_str()), ("Succeed", "[\"10.0.0.1\"]"));
    world
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_a_pool_takes_the_pods_template_with_it_and_gives_the_pod_back() {
    let mut world = pooled(json!({"replicas": 1, "poolRef": "p"})).await;
    pause(&world, true);
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    let batch = world.batch();
    assert_eq!(batch["spec"]["poolRef"], Value::Null);
    assert_eq!(
        batch["spec"]["template"],
        json!({
            "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
            "spec": {"containers": [{"name": "main", "image": "base"}]},
        })
    );
    assert_eq!(batch["metadata"]["finalizers"], json!([]));
    let annotation = |name: &str| world.annotation(&format!("sandbox.opensandbox.io/{name}"));
    assert_eq!((annotation("alloc-status"), annotation("alloc-release")), (None, None));
    assert_eq!(annotation("alloc-released").as_deref(), Some("{\"pods\":[\"p-1\"]}"));
    assert!(world.server.get("pods", "p-1").is_some(), "it is the pool's to recycle");
    assert_eq!(heard(&world), batch["metadata"]["generation"]);
    pause(&world, false);
    world.settle().await;
    assert_eq!(world.phase(), "Succeed");
    let pod = world.server.get("pods", "b-0").unwrap();
    assert_eq!(pod["spec"]["containers"][0]["image"], pinned("registry/x/b-main:snap-gen2"));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_a_pool_comes_back_as_its_pod_was_and_not_as_its_own_spec_says() {
    let mut old = template("old");
    old["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let patch = json!({"spec": {"containers": [{"name": "main", "image": "patched"}]}});
    let mut world =
        pooled(json!({"replicas": 1, "poolRef": "p", "template": old, "shardPatches": [patch]})).await;
    pause(&world, true);
    world.settle().await;
    assert_eq!((world.phase(), image(&world)), ("Paused".to_owned(), "base".to_owned()));
    let spec = world.batch()["spec"].clone();
    assert_eq!(
        (&spec["template"]["spec"]["nodeSelector"], &spec["shardPatches"]),
        (&Value::Null, &json!([{}]))
    );
    pause(&world, false);
    world.settle().await;
    let pod = world.server.get("pods", "b-0").unwrap();
    assert_eq!(pod["spec"]["containers"][0]["image"], pinned("registry/x/b-main:snap-gen2"));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_a_pool_whose_pod_is_lost_after_the_snapshot_takes_the_pools_template() {
    let mut world = pooled(json!({"replicas": 1, "poolRef": "p"})).await;
    pause(&world, true);
    world.look_at_batch().await;
    world.look_at_batch().await;
    world.server.change("sandboxsnapshots", "b-pause", |snapshot| {
        snapshot["status"] = json!({"phase": "Succeed", "sourcePodName": "p-1"});
    });
    world.server.remove("pods", "p-1");
    world.settle().await;
    assert_eq!((world.phase(), image(&world)), ("Paused".to_owned(), "base".to_owned()));

    let mut world = pooled(json!({"replicas": 1, "poolRef": "p"})).await;
    pause(&world, true);
    world.look_at_batch().await;
    world.look_at_batch().await;
    world.server.change("sandboxsnapshots", "b-pause", |snapshot| {
        snapshot["status"] = json!({"phase": "Succeed", "sourcePodName": "p-1"});
    });
    world.server.remove("pods", "p-1");
    world.server.remove("pools", "p");
    world.settle().await;
    assert!(world.conditions().contains(&"PauseFailed=PodNotFound".to_owned()), "{:?}", world.conditions());
}

#[tokio::test(start_paused = true)]
async fn tasks_are_stopped_before_the_snapshot_is_begun() {
    let task = json!({"spec": {"process": {"command": ["run"]}}});
    let mut world = pooled(json!({"replicas": 1, "poolRef": "p", "taskTemplate": task})).await;
    assert_eq!(world.executors.running(), ["b-0 at 10.0.0.1"]);
    pause(&world, true);
    world.look_at_batch().await;
    world.look_at_batch().await;
    assert_eq!(world.executors.running(), Vec::<String>::new());
    world.settle().await;
    assert_eq!(world.phase(), "Paused");
    pause(&world, false);
    world.settle().await;
    assert_eq!((world.phase().as_str(), &world.status()["taskRunning"]), ("Succeed", &json!(1)));
    assert_eq!(world.executors.running().len(), 1);
    assert!(world.executors.running()[0].starts_with("b-0 at "));
}
