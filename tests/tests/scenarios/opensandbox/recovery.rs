//! The operator is killed: what it gave away is given away, and what it began is finished.

use sandgate_tests::cluster::{
    Batches, allocated, batch_sandbox, holds, is_ready, name, pod_template, pool, pooled, released,
};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::{Value, json};

use super::{EVICT, container, cued, labelled, names, recycling, replicas, uids};

#[tokio::test]
async fn an_operator_that_is_killed_remembers_what_is_whose() {
    let place = Batches::shared("remembers").await;
    let mut operator = place.operator().start().await;
    let noop = recycling(pool("p", &pod_template("hollow"), [2, 2], [0, 20]), "Noop");
    place.pools.create(&noop).await;
    for (name, count) in [("one", 1), ("two", 2), ("three", 3)] {
        place.batches.create(&pooled(name, count, "p")).await;
        place.ready(name, usize::try_from(count).expect("small")).await;
    }
    // A pod that was one's and is another's by now: the memory of the first must not free it.
    place.batches.patch("three", &replicas(1)).await;
    place.levels("p", 6, 4, 2).await;
    place.batches.create(&pooled("next", 2, "p")).await;
    place.ready("next", 2).await;
    place.levels("p", 8, 6, 2).await;
    let known = place.batches.list().await;
    let before: Vec<Vec<String>> = known.iter().filter(|one| name(one) != "one").map(holds).collect();
    let pods: Vec<String> = before.iter().flatten().cloned().collect();
    let before_uids = uids(&place, &pods).await;

    operator.kill();
    // What comes and goes meanwhile is seen afterwards.
    place.batches.create(&pooled("later", 2, "p")).await;
    place.batches.delete("one").await;
    operator.start_again().await;
    place.ready("later", 2).await;
    place.batches.until_gone("one").await;
    place.assert_no_pod_is_shared().await;
    place.levels("p", 9, 7, 2).await;
    let after = place.batches.list().await;
    for held in &before {
        assert!(after.iter().any(|one| holds(one) == *held), "{held:?} is still one's");
    }
    assert_eq!(uids(&place, &pods).await, before_uids);
}

/// Each life is as long as a few steps of the work take, so the kills come at many moments of it. The
/// simulation cuts it off at every one.
#[tokio::test]
async fn an_operator_that_is_killed_in_every_phase_shares_and_loses_no_pod() {
    let place = Batches::shared("phases").await;
    let mut operator = place.operator().start().await;
    let six = recycling(pool("p", &pod_template("hollow"), [6, 6], [0, 40]), "Noop");
    place.pools.create(&six).await;
    let again = async |operator: &mut sandgate_tests::cluster::Operator| {
        operator.kill();
        operator.start_again().await;
        place.assert_no_pod_is_shared().await;
    };
    // While the pool fills.
    eventually("a pod is there", DEADLINE, async || (!place.pods_of("p").await.is_empty()).then_some(()))
        .await;
    again(&mut operator).await;
    // While it allocates: some have theirs, others not.
    for index in 0..6 {
        place.batches.create(&pooled(&format!("one-{index}"), 2, "p")).await;
    }
    for some in [1, 3, 5] {
        let enough = |all: &[Value]| all.iter().filter(|one| holds(one).len() == 2).count() >= some;
        place.watch_apart("some have theirs", enough).await;
        again(&mut operator).await;
    }
    for index in 0..6 {
        place.ready(&format!("one-{index}"), 2).await;
    }
    // While it takes back, by deletion and by scaling down.
    for index in 0..3 {
        place.batches.delete(&format!("one-{index}")).await;
        place.batches.patch(&format!("one-{}", index + 3), &replicas(1)).await;
        again(&mut operator).await;
    }
    for index in 0..3 {
        place.batches.until_gone(&format!("one-{index}")).await;
        place.ready(&format!("one-{}", index + 3), 1).await;
    }
    // While it rolls.
    let template = labelled(pod_template("hollow"), "two");
    place.pools.patch("p", &json!({ "spec": { "template": template } })).await;
    let rolled =
        |pods: &[Value]| pods.iter().filter(|pod| pod["metadata"]["labels"]["generation"] == "two").count();
    for some in [1, 4] {
        eventually("the roll goes on", DEADLINE, async || {
            (rolled(&place.pods_of("p").await) >= some).then_some(())
        })
        .await;
        again(&mut operator).await;
    }
    place.levels("p", 9, 3, 6).await;
    place.settled(9).await;
    // And while everything goes.
    for index in 3..6 {
        place.batches.delete(&format!("one-{index}")).await;
    }
    again(&mut operator).await;
    for index in 3..6 {
        place.batches.until_gone(&format!("one-{index}")).await;
    }
    place.levels("p", 6, 0, 6).await;
    place.settled(6).await;
}

/// The operator is killed while containers are restarted, while a sandbox moves to another pool and while
/// pods are evicted.
#[tokio::test]
async fn an_operator_that_is_killed_goes_on_with_a_restart_a_move_and_an_eviction() {
    let place = Batches::shared("midway").await;
    let mut operator = place.operator().start().await;
    // It ends a second after the signal: long enough to be killed meanwhile.
    let mut slow = pod_template("sleep");
    let script = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.05; done";
    slow["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    place.pools.create(&recycling(pool("r", &slow, [0, 1], [1, 1]), "Restart")).await;
    place.batches.create(&pooled("restarts", 1, "r")).await;
    let held = allocated(&place.ready("restarts", 1).await).remove(0);
    let before = place.pods.get(&held).await.expect("its pod");
    place.batches.delete("restarts").await;
    let record =
        |pod: &Value| pod["metadata"]["annotations"]["sandbox.opensandbox.io/restart-record"].is_string();
    place.pods.until(&held, "its containers are being restarted", record).await;
    operator.kill();
    operator.start_again().await;
    place.batches.until_gone("restarts").await;
    place.levels("r", 1, 0, 1).await;
    place.batches.create(&pooled("next", 1, "r")).await;
    assert_eq!(allocated(&place.ready("next", 1).await)[0], held);
    let after = place.pods.get(&held).await.expect("its pod");
    assert_ne!(container(&after)["containerID"], container(&before)["containerID"], "{after:#}");

    // A move: what the sandbox has it keeps until the other pool has a pod for it.
    let late = cued(pod_template("hollow"), "ready-delay", "1s");
    place.pools.create(&pool("a", &pod_template("hollow"), [1, 1], [0, 10])).await;
    place.pools.create(&pool("b", &late, [0, 0], [0, 10])).await;
    place.batches.create(&pooled("moves", 1, "a")).await;
    let held = allocated(&place.ready("moves", 1).await);
    place.levels("a", 2, 1, 1).await;
    place.batches.patch("moves", &json!({ "spec": { "poolRef": "b" } })).await;
    let begun = async || (!place.pods_of("b").await.is_empty()).then_some(());
    eventually("the other pool makes a pod", 3 * DEADLINE, begun).await;
    operator.kill();
    let moves = place.batches.get("moves").await.expect("the batch");
    assert_eq!(holds(&moves), held, "it keeps its pod: {moves:#}");
    operator.start_again().await;
    let is_there = |one: &Value| {
        assert_eq!(holds(one).len(), 1, "it is never without: {one:#}");
        allocated(one)[0].starts_with("b-") && is_ready(one, 1)
    };
    let moved = place.batches.until("moves", "it has a pod of the other pool", is_there).await;
    place.pods.until_gone(&held[0]).await;

    // An eviction, of idle pods and of one that is held.
    place.pools.create(&pool("e", &pod_template("hollow"), [4, 4], [0, 10])).await;
    place.batches.create(&pooled("stays", 1, "e")).await;
    let held = allocated(&place.ready("stays", 1).await);
    place.levels("e", 5, 1, 4).await;
    let old = names(&place.pods_of("e").await);
    for pod in &old {
        place.pods.patch(pod, &json!({ "metadata": { "labels": { EVICT: "" } } })).await;
    }
    let begun = async || {
        let pods = names(&place.pods_of("e").await);
        old.iter().any(|pod| !pods.contains(pod)).then_some(())
    };
    eventually("one is evicted", 3 * DEADLINE, begun).await;
    operator.kill();
    operator.start_again().await;
    let others = |pods: &[Value]| {
        let of_e = pods.iter().filter(|pod| name(pod).starts_with("e-"));
        let of_e: Vec<&str> = of_e.map(name).collect();
        of_e.len() == 5 && of_e.iter().filter(|pod| old.iter().any(|old| old == *pod)).count() == 1
    };
    place.pods.until_all("the idle ones are others", others).await;
    place.levels("e", 5, 1, 4).await;
    assert_eq!(allocated(&place.ready("stays", 1).await), held);
    assert_eq!(allocated(&place.ready("moves", 1).await), allocated(&moved));
    place.assert_no_pod_is_shared().await;
}

#[tokio::test]
async fn of_two_operators_one_acts_and_the_other_follows_it() {
    let place = Batches::shared("leads").await;
    let lease = format!("--lease-namespace={}", place.namespace);
    let mut first = place.operator().flag(&lease).elected(4).start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [2, 2], [0, 20])).await;
    place.batches.create(&pooled("one", 2, "p")).await;
    let held = allocated(&place.ready("one", 2).await);
    let _second = place.operator().flag(&lease).elected(4).start().await;
    place.batches.create(&pooled("two", 2, "p")).await;
    first.kill();
    place.batches.create(&pooled("three", 2, "p")).await;
    place.watch_apart("all have theirs", |all| all.iter().filter(|one| is_ready(one, 2)).count() == 3).await;
    assert_eq!(allocated(&place.ready("one", 2).await), held);
    place.levels("p", 8, 6, 2).await;
}

fn malformed(mut batch: Value, text: &str) -> Value {
    batch["metadata"]["annotations"] = json!({ "sandbox.opensandbox.io/alloc-status": text });
    batch
}

#[tokio::test]
async fn a_malformed_annotation_takes_its_own_batch_out_and_no_other() {
    let place = Batches::shared("malformed").await;
    let mut operator = place.operator().start().await;
    let noop = recycling(pool("p", &pod_template("hollow"), [0, 4], [4, 4]), "Noop");
    place.pools.create(&noop).await;
    place.batches.create(&pooled("good", 2, "p")).await;
    let held = allocated(&place.ready("good", 2).await);
    place.levels("p", 4, 2, 2).await;
    operator.kill();
    // It may have had this one: who knows.
    let idle =
        names(&place.pods_of("p").await).into_iter().find(|pod| !held.contains(pod)).expect("an idle one");
    let bad = malformed(pooled("bad", 1, "p"), &format!(r#"{{"pods":["{idle}""#));
    place.batches.create(&bad).await;
    place.batches.create(&pooled("late", 2, "p")).await;
    operator.start_again().await;
    place.event("bad", "MalformedAnnotation").await;
    let late = |late: &Value| holds(late).len() == 1;
    let late = place.batches.until("late", "it has what is left", late).await;
    assert!(!allocated(&late).contains(&idle), "{:?}", allocated(&late));
    let good = place.ready("good", 2).await;
    assert_eq!(allocated(&good), held);
    let metrics = operator.metrics().await;
    let mut gauge = metrics.lines().filter(|line| line.contains("malformed") && !line.starts_with('#'));
    assert!(gauge.any(|line| line.ends_with(" 1")), "{metrics}");

    // Mended, it takes part again; deleted, it goes.
    let mended = json!({ "metadata": { "annotations": { "sandbox.opensandbox.io/alloc-status": null } } });
    place.batches.patch("bad", &mended).await;
    place.end("good").await;
    place.ready("late", 2).await;
    place.ready("bad", 1).await;
    place.assert_no_pod_is_shared().await;
}

#[tokio::test]
async fn a_strict_operator_ends_at_a_malformed_annotation() {
    let place = Batches::shared("strict").await;
    place.pools.create(&pool("p", &pod_template("hollow"), [1, 1], [0, 4])).await;
    place.batches.create(&malformed(pooled("bad", 1, "p"), "{not json")).await;
    let mut operator = place.operator().flag("--strict-recovery").spawn();
    let status = eventually("it ends", 3 * DEADLINE, async || operator.status()).await;
    assert_eq!(status.code(), Some(1), "{}", operator.log());
    assert!(operator.log().contains("bad"), "it says which: {}", operator.log());
    place.batches.delete("bad").await;
    let mut operator = place.operator().flag("--strict-recovery").start().await;
    place.batches.create(&pooled("good", 1, "p")).await;
    place.ready("good", 1).await;
    operator.assert_alive();
}

/// Requests of both are under way when they are killed. What is released stays released.
#[tokio::test]
async fn released_pods_and_own_pods_are_known_after_a_kill() {
    let place = Batches::shared("released").await;
    let mut operator = place.operator().start().await;
    let noop = recycling(pool("p", &pod_template("hollow"), [0, 6], [6, 6]), "Noop");
    place.pools.create(&noop).await;
    place.batches.create(&pooled("one", 4, "p")).await;
    place.batches.create(&batch_sandbox("own", 3, &pod_template("hollow"))).await;
    place.ready("one", 4).await;
    place.ready("own", 3).await;
    place.batches.patch("one", &replicas(2)).await;
    place.batches.until("one", "it has two", |one| holds(one).len() == 2).await;
    operator.kill();
    place.batches.patch("own", &replicas(5)).await;
    operator.start_again().await;
    place.ready("own", 5).await;
    let one = place.ready("one", 2).await;
    assert!(holds(&one).iter().all(|pod| !released(&one).contains(pod)));
    place.batches.create(&pooled("two", 4, "p")).await;
    place.ready("two", 4).await;
    place.assert_no_pod_is_shared().await;
    place.levels("p", 6, 6, 0).await;
    let pods = place.pods.list().await;
    assert_eq!(pods.len(), 11, "{:?}", names(&pods));
    assert!(operator.stop().await.success(), "asked to end, it ends well");
}
