//! Several operators, of which one acts.

use sandgate_tests::cluster::{Cluster, Operator, Resource, pod_template, sandbox_set};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::json;

use super::Place;

async fn leads(operator: &Operator) -> bool {
    operator.metrics().await.lines().any(|line| line == "sandgate_operator_leader 1")
}

#[tokio::test]
async fn of_two_operators_one_leads_and_the_other_follows_when_it_is_killed() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let place = Place::new(&cluster, "leaders").await;
    let mut first = cluster.operator().elected(10).start().await;
    eventually("the first leads", DEADLINE, async || leads(&first).await.then_some(())).await;
    let second = cluster.operator().elected(10).start().await;
    place.sets.create(&sandbox_set("base", 3, &pod_template("hollow"))).await;
    place.filled("base", 3).await;
    assert!(leads(&first).await && !leads(&second).await, "one leads; the other is ready and waits");
    let written =
        |metrics: &str| metrics.lines().any(|line| line.starts_with("sandgate_operator_writes_total"));
    assert!(!written(&second.metrics().await), "who does not lead writes nothing");

    first.kill();
    place.sets.patch("base", &json!({ "spec": { "replicas": 5 } })).await;
    eventually("the second leads", 3 * DEADLINE, async || leads(&second).await.then_some(())).await;
    place.filled("base", 5).await;
    first.start_again().await;
    assert!(!leads(&first).await, "who comes back waits");
    place.assert_no_pod_is_shared().await;
}

#[tokio::test]
async fn a_leader_that_is_asked_to_end_hands_over_at_once() {
    let cluster = Cluster::builder().start().await;
    let mut first = cluster.operator().elected(60).start().await;
    eventually("the first leads", DEADLINE, async || leads(&first).await.then_some(())).await;
    let second = cluster.operator().elected(60).start().await;
    assert!(first.stop().await.success());
    // Far sooner than a lease of a minute ends.
    eventually("the second leads", DEADLINE, async || leads(&second).await.then_some(())).await;
    let leases = cluster.objects(Resource::Lease, "default");
    let lease = leases.get("sandgate-operator").await.expect("the lease");
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "{lease:#}");
}
