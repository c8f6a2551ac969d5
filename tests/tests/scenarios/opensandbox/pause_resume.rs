//! Pause, resume, and the snapshots between them. The commit is played by the node: the image that it makes
//! has the files of the container.

use sandgate_tests::cluster::{
    Batches, OperatorBuilder, Resource, allocated, annotation, batch_sandbox, condition, name, pod_template,
    pool, pooled, snapshot, uid,
};
use sandgate_tests::{DEADLINE, eventually, locations};
use serde_json::{Value, json};

use super::{POOL_FINALIZER, TASK_FINALIZER, cued, has_finalizer};

/// The name of an image has the batch's name in it and not its namespace: each scenario has a registry of its
/// own.
fn registry(place: &Batches) -> String {
    format!("registry.test/{}", place.namespace)
}

pub(super) fn with_registry(place: &Batches) -> OperatorBuilder {
    place.operator().flag(&format!("--snapshot-registry={}", registry(place)))
}

/// One that commits in vain: the Job gives up soon.
fn with_bad_registry(place: &Batches) -> OperatorBuilder {
    place.operator().flag("--snapshot-registry=registry.invalid/snapshots").flag("--commit-job-timeout=2s")
}

pub(super) fn paused(pause: bool) -> Value {
    json!({ "spec": { "pause": pause } })
}

pub(super) fn is_paused(batch: &Value) -> bool {
    batch["status"]["phase"] == "Paused" && condition(batch, "Paused").is_some()
}

/// Whether the batch has failed at this and says why, and is otherwise in this phase.
pub(super) fn says(kind: &str, phase: &str, batch: &Value) -> bool {
    batch["status"]["phase"] == phase && condition(batch, kind).is_some_and(|one| one["status"] == "True")
}

/// Runs a script in a pod.
async fn inside(place: &Batches, pod: &str, script: &str) -> String {
    let done = place.cluster.kubectl(&["-n", &place.namespace, "exec", pod, "--", "sh", "-c", script]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.stdout
}

#[tokio::test]
async fn a_sandbox_is_paused_into_an_image_and_comes_back_with_its_files() {
    let place = Batches::shared("pause").await;
    let _operator = with_registry(&place).start().await;
    place.batches.create(&batch_sandbox("one", 1, &pod_template("sleep"))).await;
    let before = place.ready("one", 1).await;
    inside(&place, "one-0", "mkdir home; echo kept >home/marker").await;
    place.batches.patch("one", &paused(true)).await;
    let asleep = place.batches.until("one", "it is paused", is_paused).await;
    assert_eq!(asleep["status"]["pauseObservedGeneration"], asleep["metadata"]["generation"]);
    assert!(
        condition(&asleep, "Ready").is_none() && condition(&asleep, "Progressing").is_none(),
        "{asleep:#}"
    );
    place.pods.until_gone("one-0").await;
    let made = place.snapshots.get("one-pause").await.expect("a snapshot");
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], before["metadata"]["uid"]);
    assert_eq!(
        (&made["status"]["phase"], &made["status"]["sourcePodName"]),
        (&json!("Succeed"), &json!("one-0"))
    );
    let image = made["status"]["containers"][0].clone();
    let uri = image["imageUri"].as_str().expect("an image").to_owned();
    assert!(uri.starts_with(&format!("{}/one-sandbox:snap-gen", registry(&place))), "{uri}");
    assert_eq!(image["containerName"], "sandbox");
    assert!(image["imageDigest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")), "{image}");

    // The Job is theirs, word for word.
    let job = place.jobs.get("one-pause-commit").await.expect("a Job");
    assert_eq!(job["spec"]["backoffLimit"], 3);
    assert_eq!(job["spec"]["ttlSecondsAfterFinished"], 300);
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 600);
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!((&pod["nodeName"], &pod["restartPolicy"]), (&json!("a"), &json!("Never")));
    let commit = &pod["containers"][0];
    assert_eq!((&commit["name"], &commit["image"]), (&json!("commit"), &json!("image-committer:dev")));
    assert_eq!(commit["command"], json!(["/usr/local/bin/image-committer"]));
    assert_eq!(commit["args"], json!(["one-0", place.namespace, format!("sandbox:{uri}")]));

    place.batches.patch("one", &paused(false)).await;
    let awake = place.ready("one", 1).await;
    assert_eq!(awake["status"]["phase"], "Succeed");
    let pod = place.pods.get("one-0").await.expect("its pod");
    // By its digest: the next batch of the name pushes to the same tags.
    let digest = image["imageDigest"].as_str().expect("a digest");
    let pinned = format!("{}/one-sandbox@{digest}", registry(&place));
    assert_eq!(pod["spec"]["containers"][0]["image"], pinned.as_str());
    assert_eq!(inside(&place, "one-0", "cat home/marker").await, "kept\n");
    place.snapshots.until_gone("one-pause").await;

    // And once more.
    place.batches.patch("one", &paused(true)).await;
    place.batches.until("one", "it is paused", is_paused).await;
    place.batches.patch("one", &paused(false)).await;
    place.ready("one", 1).await;
    let again = place.pods.get("one-0").await.expect("its pod")["spec"]["containers"][0]["image"].clone();
    assert_ne!(again, pinned.as_str(), "another pause, another image");
    assert_eq!(inside(&place, "one-0", "cat home/marker").await, "kept\n");
    place.end("one").await;
    place.settled(0).await;
}

#[tokio::test]
async fn a_sandbox_of_a_pool_leaves_it_by_a_pause_and_its_pod_is_recycled() {
    let place = Batches::shared("pausepool").await;
    let _operator = with_registry(&place).start().await;
    place.pools.create(&pool("p", &pod_template("sleep"), [1, 1], [0, 4])).await;
    place.batches.create(&pooled("one", 1, "p")).await;
    let pod = allocated(&place.ready("one", 1).await).remove(0);
    place.levels("p", 2, 1, 1).await;
    inside(&place, &pod, "echo kept >marker").await;
    place.batches.patch("one", &paused(true)).await;
    let asleep = place.batches.until("one", "it is paused", is_paused).await;
    assert_eq!(asleep["spec"]["poolRef"].as_str().unwrap_or_default(), "", "{asleep:#}");
    let template = &asleep["spec"]["template"];
    assert_eq!(template["spec"]["containers"][0]["name"], "sandbox");
    assert!(template["spec"]["nodeName"].as_str().unwrap_or_default().is_empty(), "{template:#}");
    assert!(template["metadata"]["labels"]["sandbox.opensandbox.io/pool-name"].is_null(), "{template:#}");
    assert!(template["metadata"]["annotations"]["sandgate.dev/allocated-to"].is_null(), "{template:#}");
    assert!(!has_finalizer(&asleep, POOL_FINALIZER), "{asleep:#}");
    assert!(annotation(&asleep, "sandbox.opensandbox.io/alloc-release").is_none());
    place.pods.until_gone(&pod).await;
    place.levels("p", 1, 0, 1).await;

    place.batches.patch("one", &paused(false)).await;
    place.ready("one", 1).await;
    assert_eq!(inside(&place, "one-0", "cat marker").await, "kept\n");
    place.levels("p", 1, 0, 1).await;
    place.end("one").await;
    place.settled(1).await;
}

#[tokio::test]
async fn a_task_ends_with_a_pause_and_begins_again_after_it() {
    let place = Batches::shared("pausetask").await;
    locations::task_executor();
    let _operator = with_registry(&place).start().await;
    place.pools.create(&pool("p", &pod_template("task-executor:dev"), [1, 1], [0, 4])).await;
    let mut one = pooled("one", 1, "p");
    one["spec"]["taskTemplate"] = json!({ "spec": { "process": { "command": ["sleep", "1000"] } } });
    place.batches.create(&one).await;
    let runs = |one: &Value| one["status"]["taskRunning"] == 1;
    let awake = place.batches.until("one", "its task runs", runs).await;
    inside(&place, &allocated(&awake)[0], "echo kept >marker").await;
    place.batches.patch("one", &paused(true)).await;
    let asleep = place.batches.until("one", "it is paused", is_paused).await;
    assert_eq!(asleep["spec"]["poolRef"].as_str().unwrap_or_default(), "", "{asleep:#}");
    assert!(!has_finalizer(&asleep, POOL_FINALIZER), "{asleep:#}");
    let made = place.snapshots.get("one-pause").await.expect("a snapshot");
    let image = &made["status"]["containers"][0];
    assert!(image["imageDigest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")), "{made:#}");
    place.pods.until_gone(&allocated(&awake)[0]).await;
    place.batches.patch("one", &paused(false)).await;
    place.ready("one", 1).await;
    assert_eq!(inside(&place, "one-0", "cat marker").await, "kept\n");
    let one = place.batches.until("one", "its task runs again", runs).await;
    assert!(has_finalizer(&one, TASK_FINALIZER), "{one:#}");
    place.end("one").await;
    place.settled(1).await;
}

#[tokio::test]
async fn a_pause_that_fails_leaves_the_sandbox_as_it_was_and_can_be_tried_again() {
    let place = Batches::shared("badregistry").await;
    let operator = with_bad_registry(&place).start().await;
    place.batches.create(&batch_sandbox("one", 1, &pod_template("sleep"))).await;
    let before = uid(&{
        place.ready("one", 1).await;
        place.pods.get("one-0").await.expect("its pod")
    })
    .to_owned();
    place.batches.patch("one", &paused(true)).await;
    let failed = place.batches.until("one", "it says so", |one| says("PauseFailed", "Succeed", one)).await;
    assert_eq!(condition(&failed, "PauseFailed").expect("why")["reason"], "SnapshotFailed");
    let snapshot = place.snapshots.get("one-pause").await.expect("the snapshot");
    assert_eq!(snapshot["status"]["phase"], "Failed");
    assert_eq!(condition(&snapshot, "Failed").expect("why")["reason"], "CommitJobFailed");
    // What was stopped for the commit is told to go on.
    place.jobs.until("one-pause-unpause", "it has run", |job| job["status"]["succeeded"] == 1).await;
    let job = place.jobs.get("one-pause-unpause").await.expect("a Job");
    let args = &job["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(*args, json!(["unpause", "one-0", place.namespace, "sandbox"]));
    assert_eq!(uid(&place.pods.get("one-0").await.expect("its pod")), before);
    place.ready("one", 1).await;
    drop(operator);

    // The registry is mended, and the wish is said anew.
    let _operator = with_registry(&place).start().await;
    place.batches.patch("one", &paused(false)).await;
    place.batches.patch("one", &paused(true)).await;
    let asleep = place.batches.until("one", "it is paused", is_paused).await;
    assert!(condition(&asleep, "PauseFailed").is_none(), "{asleep:#}");
    place.batches.patch("one", &paused(false)).await;
    place.ready("one", 1).await;
}

#[tokio::test]
async fn a_resume_from_an_image_that_is_not_there_fails_and_says_so() {
    let place = Batches::shared("badimage").await;
    let _operator = with_registry(&place).start().await;
    place.batches.create(&batch_sandbox("one", 1, &pod_template("sleep"))).await;
    place.ready("one", 1).await;
    place.batches.patch("one", &paused(true)).await;
    place.batches.until("one", "it is paused", is_paused).await;
    let broken = json!({ "status": { "containers": [
        { "containerName": "sandbox", "imageUri": "registry.test/nobody-has-this:1" },
    ] } });
    place.snapshots.patch_status("one-pause", &broken).await;
    place.batches.patch("one", &paused(false)).await;
    let failed = place.batches.until("one", "it says so", |one| says("ResumeFailed", "Failed", one)).await;
    assert!(condition(&failed, "PodFailed").is_some(), "{failed:#}");
    // What it cannot be resumed from now it may be resumed from once the image is there.
    let kept = place.snapshots.get("one-pause").await.expect("the snapshot is kept");
    assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept:#}");

    // Without its snapshot a resume has nothing to begin with.
    place.batches.create(&batch_sandbox("two", 1, &pod_template("hollow"))).await;
    place.ready("two", 1).await;
    place.batches.patch("two", &paused(true)).await;
    place.batches.until("two", "it is paused", is_paused).await;
    place.snapshots.delete("two-pause").await;
    place.snapshots.until_gone("two-pause").await;
    place.batches.patch("two", &paused(false)).await;
    let failed = place.batches.until("two", "it says so", |two| says("ResumeFailed", "Paused", two)).await;
    assert_eq!(condition(&failed, "ResumeFailed").expect("why")["reason"], "SnapshotNotFound");
}

#[tokio::test]
async fn what_cannot_be_snapshotted_says_why() {
    let place = Batches::shared("unfit").await;
    let operator = with_registry(&place).start().await;
    let failed = async |name: &str, reason: &str| {
        let what = format!("it has failed: {reason}");
        let has = |object: &Value| {
            object["status"]["phase"] == "Failed"
                && condition(object, "Failed").is_some_and(|one| one["reason"] == reason)
        };
        place.snapshots.until(name, &what, has).await;
    };
    place.snapshots.create(&snapshot("nobody", "nobody")).await;
    failed("nobody", "BatchSandboxLookupFailed").await;
    place.pools.create(&pool("p", &pod_template("hollow"), [0, 0], [0, 0])).await;
    place.batches.create(&pooled("podless", 1, "p")).await;
    place.snapshots.create(&snapshot("podless", "podless")).await;
    failed("podless", "SourcePodNotFound").await;
    place.batches.create(&batch_sandbox("two", 2, &pod_template("hollow"))).await;
    place.ready("two", 2).await;
    place.batches.patch("two", &paused(true)).await;
    let refused = place.batches.until("two", "it says so", |two| says("PauseFailed", "Succeed", two)).await;
    assert_eq!(condition(&refused, "PauseFailed").expect("why")["reason"], "UnsupportedReplicas");
    place.ready("two", 2).await;

    let jobs = place.jobs.list().await;
    assert!(jobs.is_empty(), "nothing is committed that cannot be: {jobs:#?}");

    // A snapshot of one's own, by the name of any object.
    place.batches.create(&batch_sandbox("one", 1, &pod_template("hollow"))).await;
    place.ready("one", 1).await;
    let named = "osb-snap-0123456789abcdef0123456789abcdef";
    place.snapshots.create(&snapshot(named, "one")).await;
    let made = place.snapshots.until(named, "it is made", |one| one["status"]["phase"] == "Succeed").await;
    let uri = format!("{}/one-sandbox:snap-0123456789abcdef0123456789abcdef", registry(&place));
    assert_eq!(made["status"]["containers"][0]["imageUri"], uri.as_str());
    place.snapshots.delete(named).await;
    place.snapshots.until_gone(named).await;
    place.jobs.until_gone(&format!("{named}-commit")).await;
    drop(operator);

    let _operator = place.operator().start().await;
    place.snapshots.create(&snapshot("nowhere", "one")).await;
    failed("nowhere", "RegistryNotConfigured").await;
}

/// The operator is killed while the commit runs, and again while the sandbox comes back.
#[tokio::test]
async fn a_pause_and_a_resume_go_on_after_a_kill() {
    let place = Batches::shared("killpause").await;
    let mut operator = with_registry(&place).start().await;
    let slow = cued(pod_template("sleep"), "commit-delay", "500ms");
    place.pools.create(&pool("p", &slow, [1, 1], [0, 4])).await;
    place.batches.create(&pooled("one", 1, "p")).await;
    let pod = allocated(&place.ready("one", 1).await).remove(0);
    inside(&place, &pod, "echo kept >marker").await;
    place.batches.patch("one", &paused(true)).await;
    eventually("the commit has begun", DEADLINE, async || place.jobs.get("one-pause-commit").await).await;
    operator.kill();
    place.jobs.until("one-pause-commit", "it has ended", |job| job["status"]["succeeded"] == 1).await;
    operator.start_again().await;
    place.batches.until("one", "it is paused", is_paused).await;
    place.pods.until_gone(&pod).await;
    place.levels("p", 1, 0, 1).await;

    // A wish to go on that is said while nobody looks.
    operator.kill();
    place.batches.patch("one", &paused(false)).await;
    operator.start_again().await;
    eventually("it resumes", DEADLINE, async || {
        let one = place.batches.get("one").await.expect("the batch");
        (one["status"]["phase"] != "Paused").then_some(())
    })
    .await;
    operator.kill();
    operator.start_again().await;
    place.ready("one", 1).await;
    assert_eq!(inside(&place, "one-0", "cat marker").await, "kept\n");
    let snapshots = place.cluster.objects(Resource::SandboxSnapshot, &place.namespace);
    snapshots.until_all("no snapshot is left", <[Value]>::is_empty).await;
    assert_eq!(name(&place.batches.get("one").await.expect("the batch")), "one");
}
