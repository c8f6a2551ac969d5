//! What is reported against the operator of OpenSandbox, each by the number of its report, and does not
//! happen here.

use sandgate_tests::cluster::{
    Batches, allocated, endpoints, holds, is_ready, name, pod_template, pool, pooled, uid,
};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::{Value, json};

use super::{EVICT, capacity, cued, pod_is_ready};

#[tokio::test]
async fn a_pod_that_is_deleted_outside_is_replaced_in_its_place_954() {
    let place = Batches::shared("lost").await;
    let mut operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [2, 2], [0, 10])).await;
    place.batches.create(&pooled("one", 2, "p")).await;
    let before = place.ready("one", 2).await;
    let held = allocated(&before);
    let replaced = |slot: usize, held: Vec<String>| {
        move |one: &Value| {
            is_ready(one, 2)
                && allocated(one)[slot] != held[slot]
                && allocated(one)[1 - slot] == held[1 - slot]
        }
    };
    place.pods.delete_at_once(&held[0]).await;
    let after = place.batches.until("one", "it has another first pod", replaced(0, held.clone())).await;
    let ip = place.pods.get(&allocated(&after)[0]).await.expect("its pod")["status"]["podIP"].clone();
    assert_eq!(endpoints(&after), [ip.as_str().expect("an address"), &endpoints(&before)[1]]);

    // The same while nobody looks.
    let held = allocated(&after);
    operator.kill();
    place.pods.delete_at_once(&held[1]).await;
    operator.start_again().await;
    place.batches.until("one", "it has another second pod", replaced(1, held)).await;
    place.levels("p", 4, 2, 2).await;
    place.assert_no_pod_is_shared().await;
}

#[tokio::test]
async fn a_sandbox_that_changes_its_pool_keeps_its_pod_until_the_other_has_one_1433() {
    let place = Batches::shared("moves").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("a", &pod_template("hollow"), [1, 1], [0, 10])).await;
    // Nothing to give yet.
    place.pools.create(&pool("b", &pod_template("hollow"), [1, 1], [0, 0])).await;
    place.batches.create(&pooled("one", 1, "a")).await;
    let held = allocated(&place.ready("one", 1).await);
    place.levels("a", 2, 1, 1).await;
    place.batches.patch("one", &json!({ "spec": { "poolRef": "b" } })).await;
    place.batches.create(&pooled("behind", 1, "b")).await;
    // Somebody else's turn comes and goes meanwhile.
    place.batches.create(&pooled("other", 1, "a")).await;
    place.ready("other", 1).await;
    let one = place.ready("one", 1).await;
    assert_eq!(allocated(&one), held, "what it has it keeps");
    let is_alive = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
    assert!(is_alive(&place.pods.get(&held[0]).await.expect("its pod")));

    place.pools.patch("b", &capacity([1, 1], [0, 10])).await;
    let of_b = |one: &Value| {
        assert_eq!(holds(one).len(), 1, "it is never without: {one:#}");
        allocated(one)[0].starts_with("b-") && is_ready(one, 1)
    };
    place.batches.until("one", "it has one of the other pool", of_b).await;
    place.ready("behind", 1).await;
    place.pods.until_gone(&held[0]).await;
    place.levels("a", 2, 1, 1).await;
    place.levels("b", 3, 2, 1).await;
    place.assert_no_pod_is_shared().await;
}

#[tokio::test]
async fn a_pod_is_given_away_only_when_it_is_ready_893() {
    let place = Batches::shared("unready").await;
    let _operator = place.operator().start().await;
    let slow = cued(pod_template("hollow"), "ready-delay", "1s");
    let mut p = pool("p", &slow, [2, 2], [0, 10]);
    p["spec"]["scaleStrategy"] = json!({ "maxUnavailable": 10 });
    place.pools.create(&p).await;
    place.batches.create(&pooled("one", 2, "p")).await;
    eventually("it has its pods", 3 * DEADLINE, async || {
        let one = place.batches.get("one").await.expect("the batch");
        let held = allocated(&one);
        for pod in &held {
            let pod = place.pods.get(pod).await.expect("its pod");
            assert!(pod_is_ready(&pod), "{} was given before it was ready", name(&pod));
        }
        (held.len() == 2).then_some(())
    })
    .await;
    let one = place.ready("one", 2).await;

    // One that ceases to be ready stays its sandbox's, and is offered to nobody when it was idle.
    let held = allocated(&one);
    place.levels("p", 4, 2, 2).await;
    let unready = json!({ "metadata": { "annotations": { "node.sandgate.test/ready": "false" } } });
    for pod in place.pods_of("p").await {
        place.pods.patch(name(&pod), &unready).await;
    }
    place.batches.until("one", "none is ready", |one| one["status"]["ready"] == 0).await;
    let sick: Vec<String> = place.pods_of("p").await.iter().map(|pod| name(pod).to_owned()).collect();
    place.batches.create(&pooled("two", 1, "p")).await;
    let two = place.ready("two", 1).await;
    assert!(!sick.contains(&allocated(&two)[0]), "{:?} of {sick:?}", allocated(&two));
    assert_eq!(allocated(&place.batches.get("one").await.expect("the batch")), held);
}

#[tokio::test]
async fn a_batch_can_go_when_its_pool_is_gone_or_never_was_1657() {
    let place = Batches::shared("poolless").await;
    let _operator = place.operator().start().await;
    place.batches.create(&pooled("nowhere", 1, "none")).await;
    place.pools.create(&pool("empty", &pod_template("hollow"), [0, 0], [0, 0])).await;
    place.batches.create(&pooled("hungry", 1, "empty")).await;
    place.pools.create(&pool("p", &pod_template("hollow"), [1, 1], [0, 10])).await;
    place.batches.create(&pooled("orphan", 1, "p")).await;
    place.ready("orphan", 1).await;
    place.levels("empty", 0, 0, 0).await;
    place.pools.delete("p").await;
    place.pools.until_gone("p").await;
    for batch in ["nowhere", "hungry", "orphan"] {
        place.end(batch).await;
    }
    place.settled(0).await;
    // A pool of the same name starts anew.
    place.pools.create(&pool("p", &pod_template("hollow"), [1, 1], [0, 10])).await;
    place.batches.create(&pooled("again", 1, "p")).await;
    place.ready("again", 1).await;
    place.levels("p", 2, 1, 1).await;
}

/// Their operator looks at evictions before it remembers what it gave away.
#[tokio::test]
async fn a_restart_does_not_evict_what_is_allocated() {
    let place = Batches::shared("evictlater").await;
    let mut operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [1, 1], [0, 10])).await;
    place.batches.create(&pooled("one", 2, "p")).await;
    let held = allocated(&place.ready("one", 2).await);
    let uid_before = uid(&place.pods.get(&held[0]).await.expect("its pod")).to_owned();
    place.levels("p", 3, 2, 1).await;
    operator.kill();
    let label = json!({ "metadata": { "labels": { EVICT: "" } } });
    for pod in place.pods_of("p").await {
        place.pods.patch(name(&pod), &label).await;
    }
    operator.start_again().await;
    place.event("p", "PodEvicted").await;
    place.levels("p", 3, 2, 1).await;
    assert_eq!(allocated(&place.ready("one", 2).await), held);
    assert_eq!(uid(&place.pods.get(&held[0]).await.expect("its pod")), uid_before);
}

/// What was used is not given to the next one because nobody looked when its sandbox went.
#[tokio::test]
async fn a_sandbox_that_goes_while_the_operator_is_down_leaves_no_used_pod_behind_723() {
    let place = Batches::shared("down").await;
    let mut operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [1, 1], [0, 10])).await;
    place.batches.create(&pooled("one", 1, "p")).await;
    let used = allocated(&place.ready("one", 1).await).remove(0);
    operator.kill();
    place.batches.delete("one").await;
    let stays = place.batches.get("one").await.expect("its finalizer keeps it");
    assert!(stays["metadata"]["deletionTimestamp"].is_string());
    place.batches.create(&pooled("two", 2, "p")).await;
    operator.start_again().await;
    place.batches.until_gone("one").await;
    place.pods.until_gone(&used).await;
    let two = place.ready("two", 2).await;
    assert!(!allocated(&two).contains(&used));
}
