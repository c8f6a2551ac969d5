//! The operator is killed, and the API server is away: what was begun is finished, nothing is made twice.

use std::collections::BTreeSet;

use sandgate_tests::cluster::{Cluster, pod_template, sandbox, sandbox_set};
use sandgate_tests::kubernetes::{Ask, Fault, Wire};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::json;

use super::{Place, gateway, is_paused, name, runs, served};

/// The operator is killed again and again while a set is filled, rolled and scaled. Each life is as long as
/// it takes to make a few more writes, so the kills come between any two of them.
#[tokio::test]
async fn an_operator_that_is_killed_again_and_again_fills_the_set_and_leaves_nothing_behind() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let place = Place::new(&cluster, "killed").await;
    let mut operator = cluster.operator().start().await;
    place.sets.create(&sandbox_set("base", 12, &pod_template("hollow"))).await;
    for life in 1..=6 {
        let what = format!("life {life} has made something");
        let made = |count: usize| count >= 2 * life;
        eventually(&what, DEADLINE, async || made(place.sandboxes.list().await.len()).then_some(())).await;
        operator.kill();
        operator.start_again().await;
    }
    place.filled("base", 12).await;

    let mut template = pod_template("hollow");
    template["metadata"]["labels"] = json!({ "generation": "two" });
    let old: BTreeSet<String> =
        place.children("base").await.iter().map(|child| name(child).to_owned()).collect();
    place.sets.patch("base", &json!({ "spec": { "template": template, "replicas": 6 } })).await;
    eventually("the roll has begun", DEADLINE, async || {
        place.children("base").await.iter().any(|child| !old.contains(name(child))).then_some(())
    })
    .await;
    operator.kill();
    operator.start_again().await;
    let rolled = eventually("the set is rolled", 3 * DEADLINE, async || {
        let children = place.children("base").await;
        (children.len() == 6 && children.iter().all(|child| !old.contains(name(child)) && runs(child)))
            .then_some(())
    });
    rolled.await;
    place.filled("base", 6).await;
    place.sandboxes.until_all("six sandboxes are left", |all| all.len() == 6).await;
    place.pods.until_all("six pods are left", |all| all.len() == 6).await;
    place.assert_no_pod_is_shared().await;
}

#[tokio::test]
async fn while_the_api_server_is_away_traffic_goes_on_and_work_goes_on_when_it_is_back() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let place = Place::new(&cluster, "away").await;
    let gateway = gateway(&cluster, &place.namespace).await;
    let _operator = cluster.operator().start().await;
    place.sets.create(&sandbox_set("base", 2, &pod_template("hollow"))).await;
    place.sandboxes.create(&sandbox("one", &pod_template("hello"))).await;
    place.sandboxes.until("one", "it runs", runs).await;
    place.filled("base", 2).await;
    served(&gateway, &place, "one").await;

    cluster.api().kill();
    served(&gateway, &place, "one").await;
    cluster.api().start_again().await;
    served(&gateway, &place, "one").await;
    let before = place.sandboxes.get("one").await.expect("it is there");
    assert!(runs(&before), "an outage is not its death: {before:#}");
    place.sandboxes.patch("one", &json!({ "spec": { "paused": true } })).await;
    place.sets.patch("base", &json!({ "spec": { "replicas": 4 } })).await;
    eventually("it is paused", 3 * DEADLINE, async || {
        place.sandboxes.get("one").await.is_some_and(|object| is_paused(&object)).then_some(())
    })
    .await;
    place.filled("base", 4).await;
    place.assert_no_pod_is_shared().await;
}

/// Answers to writes are lost: the server did what was asked, and the operator never learns it by them.
#[tokio::test]
async fn writes_whose_answers_are_lost_are_not_made_twice() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let place = Place::new(&cluster, "unanswered").await;
    let wire = Wire::to(cluster.api()).await;
    let kubeconfig = wire.kubeconfig(wire.admin_token());
    let _operator = cluster.operator().kubeconfig(&kubeconfig).start().await;
    place.sets.create(&sandbox_set("base", 0, &pod_template("hollow"))).await;
    place.filled("base", 0).await;
    for replicas in 1..=5 {
        // Another write each time: a sandbox, a pod, a status.
        wire.once_after(u32::try_from(replicas % 4).expect("small"), Ask::Write, Fault::LoseAnswer);
        place.sets.patch("base", &json!({ "spec": { "replicas": replicas } })).await;
        place.filled("base", replicas).await;
        assert!(wire.is_spent(), "an answer was lost");
    }
    place.sandboxes.until_all("five sandboxes are left", |all| all.len() == 5).await;
    place.pods.until_all("five pods are left", |all| all.len() == 5).await;
    place.assert_no_pod_is_shared().await;
}
