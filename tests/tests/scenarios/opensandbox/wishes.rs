//! Wishes that change while a sandbox is paused or resumed.

use sandgate_tests::cluster::{Batches, Resource, batch_sandbox, condition, pod_template, pool, pooled};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::{Value, json};

use super::pause_resume::{is_paused, paused, says, with_registry};
use super::{capacity, cued, in_seconds};

/// Nothing of a pause is left: no snapshot, and no Job but those that the garbage collector still takes.
async fn until_nothing_is_left(place: &Batches) {
    place.snapshots.until_all("no snapshot is left", <[_]>::is_empty).await;
    place.jobs.until_all("no job is left", <[_]>::is_empty).await;
}

#[tokio::test]
async fn a_sandbox_that_is_deleted_or_expires_in_a_pause_leaves_nothing() {
    let place = Batches::shared("deletedasleep").await;
    let _operator = with_registry(&place).start().await;
    let slow = cued(pod_template("hollow"), "commit-delay", "2s");
    place.batches.create(&batch_sandbox("committing", 1, &slow)).await;
    for name in ["asleep", "expiring"] {
        place.batches.create(&batch_sandbox(name, 1, &pod_template("hollow"))).await;
    }
    for name in ["committing", "asleep", "expiring"] {
        place.ready(name, 1).await;
        place.batches.patch(name, &paused(true)).await;
    }
    let commit = async || place.jobs.get("committing-pause-commit").await;
    eventually("the commit has begun", DEADLINE, commit).await;
    place.end("committing").await;
    for name in ["asleep", "expiring"] {
        place.batches.until(name, "it is paused", is_paused).await;
    }
    place.end("asleep").await;
    place.batches.patch("expiring", &json!({ "spec": { "expireTime": in_seconds(1) } })).await;
    place.batches.until_gone("expiring").await;
    until_nothing_is_left(&place).await;
    place.settled(0).await;
}

/// A pause that is called off goes through, and then back: what is committed is not lost on the way.
#[tokio::test]
async fn a_pause_that_is_called_off_while_it_runs_ends_in_a_running_sandbox() {
    let place = Batches::shared("calledoff").await;
    let _operator = with_registry(&place).start().await;
    // Long enough for the phase to be seen between two looks at it, on a busy machine too.
    let slow = cued(pod_template("hollow"), "commit-delay", "3s");
    place.pools.create(&pool("p", &slow, [1, 1], [0, 4])).await;
    place.batches.create(&pooled("one", 1, "p")).await;
    place.ready("one", 1).await;
    for _ in 0..2 {
        place.batches.patch("one", &paused(true)).await;
        place.batches.until("one", "the pause has begun", |one| one["status"]["phase"] == "Pausing").await;
        let off = place.batches.patch("one", &paused(false)).await;
        let done = |one: &Value| {
            one["status"]["phase"] == "Succeed"
                && one["status"]["pauseObservedGeneration"].as_i64() >= off["metadata"]["generation"].as_i64()
        };
        place.batches.until("one", "the wish is heard", done).await;
        place.ready("one", 1).await;
    }
    place.levels("p", 1, 0, 1).await;
    place.end("one").await;
    until_nothing_is_left(&place).await;
    place.settled(1).await;
}

#[tokio::test]
async fn a_sandbox_that_has_no_pod_yet_cannot_be_paused_and_starts_when_it_gets_one() {
    let place = Batches::shared("podless").await;
    let _operator = with_registry(&place).start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [0, 0], [0, 0])).await;
    place.batches.create(&pooled("one", 1, "p")).await;
    place.levels("p", 0, 0, 0).await;
    place.batches.patch("one", &paused(true)).await;
    let failed =
        place.batches.until("one", "it says so", |one| condition(one, "PauseFailed").is_some()).await;
    assert_ne!(failed["status"]["phase"], "Paused");
    assert!(!says("Paused", "Paused", &failed));
    place.pools.patch("p", &capacity([0, 1], [0, 2])).await;
    place.ready("one", 1).await;
    let pods = place.cluster.objects(Resource::Pod, &place.namespace);
    assert!(!pods.list().await.is_empty());
}
