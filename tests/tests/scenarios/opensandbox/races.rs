//! Others write at the same time, and answers are lost: every write has the version that it was decided on.

use sandgate_tests::cluster::{Batches, Cluster, holds, is_ready, name, pod_template, pool, pooled};
use sandgate_tests::kubernetes::{Ask, Fault, Wire};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::{Value, json};

use super::{POOL_FINALIZER, has_finalizer, recycling, replicas};

/// The lease is what keeps two from working at once, not what keeps a pod from being given away twice.
#[tokio::test]
async fn two_operators_that_both_believe_to_lead_share_no_pod() {
    let place = Batches::shared("both").await;
    let mut first = place.operator().start().await;
    let _second = place.operator().start().await;
    let noop = recycling(pool("p", &pod_template("hollow"), [4, 4], [0, 40]), "Noop");
    place.pools.create(&noop).await;
    let name = |index: u32| format!("one-{index}");
    for index in 0..8 {
        place.batches.create(&pooled(&name(index), 2, "p")).await;
    }
    let ready = |all: &[Value], count: usize| all.iter().filter(|one| is_ready(one, 2)).count() == count;
    place.watch_apart("eight are ready", |all| ready(all, 8)).await;
    for index in 0..4 {
        place.batches.patch(&name(index), &replicas(1)).await;
        place.batches.delete(&name(index + 4)).await;
        place.batches.create(&pooled(&name(index + 8), 2, "p")).await;
    }
    place
        .watch_apart("four have one and four have two", |all| {
            let ones = all.iter().filter(|one| is_ready(one, 1)).count();
            all.len() == 8 && ones == 4 && ready(all, 4)
        })
        .await;
    first.kill();
    place.levels("p", 16, 12, 4).await;
    place.settled(16).await;
}

/// Answers to writes are lost: the server did what was asked, and the operator never learns it by them.
#[tokio::test]
async fn writes_whose_answers_are_lost_share_and_lose_no_pod() {
    let place = Batches::shared("unanswered").await;
    let wire = Wire::to(place.cluster.api()).await;
    let kubeconfig = wire.kubeconfig(wire.admin_token());
    let _operator = place.operator().kubeconfig(&kubeconfig).start().await;
    let noop = recycling(pool("p", &pod_template("hollow"), [0, 4], [4, 4]), "Noop");
    place.pools.create(&noop).await;
    place.levels("p", 4, 0, 4).await;
    for round in 0..6_u32 {
        let name = format!("one-{round}");
        // Another write each time: the pod's claim, the batch's allocation, a status, an event.
        wire.once_after(round % 4, Ask::Write, Fault::LoseAnswer);
        place.batches.create(&pooled(&name, 2, "p")).await;
        place.ready(&name, 2).await;
        place.assert_no_pod_is_shared().await;
        wire.once_after(round % 3, Ask::Write, Fault::LoseAnswer);
        place.end(&name).await;
        place.levels("p", 4, 0, 4).await;
    }
    place.settled(4).await;
}

/// The whole list is written, so it must be the newest one.
#[tokio::test]
async fn a_finalizer_and_an_annotation_of_somebody_else_are_left_alone() {
    let place = Batches::shared("theirs").await;
    let _operator = place.operator().start().await;
    const THEIRS: &str = "example.test/theirs";
    place.pools.create(&pool("p", &pod_template("hollow"), [2, 2], [0, 8])).await;
    for index in 0..4 {
        let name = format!("one-{index}");
        place.batches.create(&pooled(&name, 1, "p")).await;
        // Beside the allocation, whose own finalizer may be there already or not.
        eventually("theirs is there", DEADLINE, async || {
            let one = place.batches.get(&name).await.expect("the batch");
            let mut all = one["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            all.push(json!(THEIRS));
            let version = &one["metadata"]["resourceVersion"];
            let patch = json!({ "metadata": {
                "resourceVersion": version, "finalizers": all, "annotations": { THEIRS: "kept" },
            } });
            place.batches.try_patch(&name, &patch).await.ok()
        })
        .await;
    }
    for index in 0..4 {
        let one = place.ready(&format!("one-{index}"), 1).await;
        assert!(has_finalizer(&one, THEIRS) && has_finalizer(&one, POOL_FINALIZER), "{one:#}");
        assert_eq!(one["metadata"]["annotations"][THEIRS], "kept");
        place.batches.delete(name(&one)).await;
    }
    for index in 0..4 {
        let given_back = |one: &Value| holds(one).is_empty() && !has_finalizer(one, POOL_FINALIZER);
        let name = format!("one-{index}");
        let one = place.batches.until(&name, "only theirs is left", given_back).await;
        assert_eq!(one["metadata"]["finalizers"], json!([THEIRS]));
        place.batches.patch(&name, &json!({ "metadata": { "finalizers": null } })).await;
        place.batches.until_gone(&name).await;
    }
    place.levels("p", 2, 0, 2).await;
}

#[tokio::test]
async fn work_goes_on_when_the_api_server_is_back() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let place = Batches::new(&cluster, "away").await;
    let mut operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [2, 2], [0, 20])).await;
    place.batches.create(&pooled("one", 2, "p")).await;
    let held = holds(&place.ready("one", 2).await);
    place.levels("p", 4, 2, 2).await;
    for index in 0..4 {
        place.batches.create(&pooled(&format!("more-{index}"), 2, "p")).await;
    }
    // In the middle of giving them theirs, or right after.
    cluster.api().kill();
    cluster.api().start_again().await;
    operator.assert_alive();
    let ready = |all: &[Value]| all.iter().filter(|one| is_ready(one, 2)).count();
    place.watch_apart("all have theirs", |all| ready(all) == 5).await;
    assert_eq!(holds(&place.ready("one", 2).await), held);
    place.levels("p", 12, 10, 2).await;
    place.end("one").await;
    place.levels("p", 10, 8, 2).await;
    place.settled(10).await;
}
