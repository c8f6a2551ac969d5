//! The life of a batch that makes its own pods.

use serde_json::{Value, json};

use super::world::{BAD_IMAGE, World, template};

#[tokio::test(start_paused = true)]
async fn a_batch_makes_its_pods_and_says_what_it_has() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 2, "template": template("base")}));
    world.settle().await;
    assert_eq!(world.pods(), ["b-0", "b-1"]);
    let status = world.status();
    assert_eq!(status["phase"], "Succeed");
    assert_eq!(
        [&status["replicas"], &status["allocated"], &status["ready"], &status["observedGeneration"]],
        [2, 2, 2, 1].map(|it| json!(it)).each_ref(),
    );
    assert_eq!(world.conditions(), ["Ready=PodsReady"]);
    assert_eq!(world.endpoints().unwrap(), "[\"10.0.0.1\",\"10.0.0.2\"]");
    let pod = world.server.get("pods", "b-1").unwrap();
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "x",
            "batch-sandbox.sandbox.opensandbox.io/pod-index": "1",
            "batch-sandbox.sandbox.opensandbox.io/name": "b",
        })
    );
    assert_eq!(pod["metadata"]["annotations"], json!({"note": "y"}));
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("BatchSandbox"), &world.batch()["metadata"]["uid"]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_at_rest_writes_nothing() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 3, "template": template("base")}));
    world.settle().await;
    world.server.take_asked();
    world.look_at_batch().await;
    world.pass(3600).await;
    assert_eq!(world.server.take_asked(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_status_counts_a_pod_as_soon_as_it_is_ready() {
    let mut world = World::new();
    world.starts = false;
    world.add_batch(json!({"replicas": 2, "template": template("base")}));
    world.pass(0).await;
    assert_eq!(world.pods(), ["b-0", "b-1"]);
    assert_eq!(world.status(), Value::Null, "as a rule they start at once");
    world.pass(3).await;
    assert_eq!((world.phase().as_str(), &world.status()["replicas"]), ("Pending", &json!(2)));
    assert_eq!(world.conditions(), ["Progressing=Creating"]);
    assert_eq!(world.endpoints(), None, "nothing has an address");
    world.starts = true;
    let before = crate::Clock::now(&*world.clock);
    world.pass(0).await;
    assert_eq!(crate::Clock::now(&*world.clock), before, "nothing was waited for");
    assert_eq!((world.phase().as_str(), &world.status()["ready"]), ("Succeed", &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_scaled_out_and_in_and_the_highest_go_first() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 2, "template": template("base")}));
    world.settle().await;
    world.edit(|batch| batch["spec"]["replicas"] = 5.into());
    world.settle().await;
    assert_eq!(world.pods(), ["b-0", "b-1", "b-2", "b-3", "b-4"]);
    world.server.take_asked();
    world.edit(|batch| batch["spec"]["replicas"] = 1.into());
    world.settle().await;
    assert_eq!((world.pods(), &world.status()["replicas"]), (vec!["b-0".to_owned()], &json!(1)));
    let asked = world.server.take_asked();
    let deletes: Vec<_> = asked.iter().filter_map(|line| line.strip_prefix("DELETE ")).collect();
    let expected = ["b-4", "b-3", "b-2", "b-1"].map(|name| format!("/api/v1/namespaces/n/pods/{name}"));
    assert_eq!(deletes, expected);
    assert_eq!(world.endpoints().unwrap(), "[\"10.0.0.1\"]");
    world.edit(|batch| batch["spec"]["replicas"] = 0.into());
    world.settle().await;
    assert_eq!((world.pods().len(), world.endpoints().unwrap().as_str()), (0, "[]"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_is_made_again() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 2, "template": template("base")}));
    world.settle().await;
    let uid = world.server.get("pods", "b-0").unwrap()["metadata"]["uid"].clone();
    world.server.delete("pods", "b-0");
    world.settle().await;
    let pod = world.server.get("pods", "b-0").unwrap();
    assert_ne!(pod["metadata"]["uid"], uid);
    assert_eq!(world.endpoints().unwrap(), "[\"10.0.0.3\",\"10.0.0.2\"]");
}

#[tokio::test(start_paused = true)]
async fn each_pod_has_the_patch_of_its_index_deletions_included() {
    let mut world = World::new();
    world.add_batch(json!({
        "replicas": 3,
        "template": template("base"),
        "shardPatches": [
            {"metadata": {"labels": {"app": null, "shard": "0"}}},
            {"spec": {"containers": [{"name": "main", "image": "other"}]}, "metadata": {"name": "stolen"}},
        ],
    }));
    world.settle().await;
    let pod = |name| world.server.get("pods", name).unwrap();
    assert_eq!(pod("b-0")["metadata"]["labels"]["shard"], "0");
    assert!(pod("b-0")["metadata"]["labels"]["app"].is_null());
    assert_eq!(pod("b-1")["spec"]["containers"][0]["image"], "other");
    assert_eq!(pod("b-2")["spec"]["containers"][0]["image"], "base");
}

#[tokio::test(start_paused = true)]
async fn a_patch_without_a_meaning_is_said_and_makes_no_pod() {
    let mut world = World::new();
    world.add_batch(json!({
        "replicas": 1, "template": template("base"), "shardPatches": [{"spec": {"$patch": "paint"}}],
    }));
    world.settle().await;
    assert_eq!(world.pods(), Vec::<String>::new());
    let told = world.told();
    assert!(
        told.iter().any(|it| it.reason == "FailedCreate" && it.note.contains("shardPatches[0]")),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_start_are_said_and_forgiven_when_they_do() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 2, "template": template(BAD_IMAGE)}));
    world.settle().await;
    assert_eq!(
        (world.phase(), world.conditions()),
        ("Failed".to_owned(), vec!["PodFailed=ImagePullBackOff".to_owned()])
    );
    let message = &world.status()["conditions"][0]["message"];
    assert_eq!(message, "2/2 observed pods failed; primary reason=ImagePullBackOff; sample pod=b-0");
    assert_eq!(world.told().iter().filter(|it| it.reason == "PodFailed").count(), 1);
    world.edit(|batch| batch["spec"]["template"] = template("base"));
    world.server.delete("pods", "b-0");
    world.server.delete("pods", "b-1");
    world.settle().await;
    assert_eq!(
        (world.phase(), world.conditions()),
        ("Succeed".to_owned(), vec!["Ready=PodsReady".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_by_itself_stays_and_is_said() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "template": template("base")}));
    world.settle().await;
    world.server.change("pods", "b-0", |pod| {
        pod["status"]["phase"] = "Failed".into();
        pod["status"]["reason"] = "Evicted".into();
    });
    world.settle().await;
    assert_eq!((world.pods(), world.phase()), (vec!["b-0".to_owned()], "Failed".to_owned()));
    assert_eq!(world.conditions(), ["PodFailed=Evicted"]);
    assert_eq!(world.endpoints().unwrap(), "[\"\"]", "its address may be another's by now");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_deleted_when_its_time_has_come() {
    let mut world = World::new();
    world.add_batch(json!({
        "replicas": 1, "template": template("base"), "expireTime": "2026-01-01T00:01:00Z",
    }));
    world.pass(59).await;
    assert_eq!(world.phase(), "Succeed");
    world.pass(5).await;
    assert_eq!(world.server.get("batchsandboxes", "b"), None);
    assert_eq!(world.pods(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_strangers_pod_is_never_touched_and_waited_for() {
    let mut world = World::new();
    world.server.add(
        "pods",
        json!({
            "metadata": {"name": "b-0", "namespace": "n"},
            "spec": {"nodeName": "node"}, "status": {"phase": "Running"},
        }),
    );
    world.add_batch(json!({"replicas": 1, "template": template("base")}));
    world.pass(5).await;
    assert_eq!(world.server.get("pods", "b-0").unwrap()["metadata"]["ownerReferences"], json!(null));
    world.server.remove("pods", "b-0");
    world.settle().await;
    assert_eq!(world.phase(), "Succeed");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_label_was_taken_off_is_found_again() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "template": template("base")}));
    world.settle().await;
    let uid = world.server.get("pods", "b-0").unwrap()["metadata"]["uid"].clone();
    world.server.change("pods", "b-0", |pod| {
        pod["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove("batch-sandbox.sandbox.opensandbox.io/pod-index");
    });
    world.restart();
    world.settle().await;
    let pod = world.server.get("pods", "b-0").unwrap();
    assert_eq!(pod["metadata"]["uid"], uid);
    assert_eq!(pod["metadata"]["labels"]["batch-sandbox.sandbox.opensandbox.io/pod-index"], "0");
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_made_in_batches() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 100, "template": template("base")}));
    world.settle().await;
    assert_eq!((world.pods().len(), &world.status()["ready"]), (100, &json!(100)));
    let told = world.told();
    let notes: Vec<_> =
        told.iter().filter(|it| it.reason == "SuccessfulCreate").map(|it| &*it.note).collect();
    assert_eq!(
        notes,
        ["created 16 pods, b-0 to b-15", "created 32 pods, b-16 to b-47", "created 52 pods, b-48 to b-99",]
    );
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_does_not_do_what_it_says_is_told_once() {
    let mut world = World::new();
    world.add_batch(json!({
        "replicas": 1, "template": template("base"), "shardTaskPatches": [{}],
    }));
    world.settle().await;
    let warnings = |world: &World| world.told().iter().filter(|it| it.reason == "SpecWarning").count();
    assert_eq!(warnings(&world), 1);
    world.server.delete("pods", "b-0");
    world.settle().await;
    assert_eq!(warnings(&world), 0);
    world.edit(|batch| batch["spec"]["replicas"] = 2.into());
    world.settle().await;
    assert_eq!(warnings(&world), 1, "of each generation");
    // The status says that the generation has been observed, as it does where another operator wrote it.
    world.restart();
    world.look_at_batch().await;
    world.settle().await;
    assert_eq!(warnings(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn annotations_that_cannot_be_read_take_the_batch_out() {
    let mut world = World::new();
    let mut batch = super::world::batch("b", json!({"replicas": 1, "template": template("base")}));
    batch["metadata"]["annotations"] = json!({"sandbox.opensandbox.io/alloc-status": "no list"});
    world.server.add("batchsandboxes", batch);
    world.settle().await;
    assert_eq!(world.pods(), Vec::<String>::new());
    let told = world.told();
    assert_eq!(told.iter().map(|it| it.reason).collect::<Vec<_>>(), ["MalformedAnnotation"]);
    world.edit(|batch| batch["metadata"]["annotations"] = json!({}));
    world.settle().await;
    assert_eq!(world.phase(), "Succeed");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_deleted_when_its_time_has_come_whatever_its_annotations_say() {
    let mut world = World::new();
    let spec = json!({"replicas": 1, "template": template("base"), "expireTime": "2026-01-01T00:01:00Z"});
    let mut batch = super::world::batch("b", spec);
    batch["metadata"]["annotations"] = json!({"sandbox.opensandbox.io/alloc-status": "no list"});
    batch["metadata"]["finalizers"] = json!(["example.com/kept"]);
    world.server.add("batchsandboxes", batch);
    world.pass(59).await;
    assert_eq!(world.batch()["metadata"]["deletionTimestamp"], Value::Null);
    world.pass(5).await;
    assert_ne!(world.batch()["metadata"]["deletionTimestamp"], Value::Null);
    world.server.take_asked();
    world.pass(60).await;
    assert_eq!(world.server.take_asked(), Vec::<String>::new(), "it is deleted once");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_its_time_is_a_deadline_until_it_has_come() {
    let mut world = World::new();
    world.add_batch(json!({"replicas": 1, "poolRef": "*", "expireTime": "2026-01-01T00:01:00Z"}));
    world.pass(0).await;
    assert_eq!(world.deadline(), Some(std::time::Duration::from_secs(60)));
    world.edit(|batch| batch["spec"]["expireTime"] = "2026-01-01T00:00:00Z".into());
    world.edit(|batch| batch["metadata"]["finalizers"] = json!(["example.com/kept"]));
    world.pass(0).await;
    assert_ne!(world.batch()["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(world.deadline(), None);
}
