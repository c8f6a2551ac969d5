//! The same for the controllers of OpenSandbox's kinds, whose rights are others.

use sandgate_tests::cluster::{
    Batches, allocated, batch_sandbox, condition, name, pod_template, pool, pooled, snapshot,
};
use serde_json::json;
use tempfile::TempDir;

use super::{Resource, assert_uses_its_rights, cluster, install};

/// Rights that this scenario cannot be sure to make the operator use, each with what it is for.
const UNUSED: [(&str, &str); 8] = [
    ("create pods/exec.", "asked of whoever comes by a websocket, beside the `get` that stands in the log"),
    ("get pools.sandbox.opensandbox.io", "whether a pool is really gone"),
    ("get sandboxsnapshots.sandbox.opensandbox.io", "whether a snapshot was made whose answer was lost"),
    (
        "update batchsandboxes/finalizers.sandbox.opensandbox.io",
        "asked by admission when a batch owns something, not by a request",
    ),
    ("update pools/finalizers.sandbox.opensandbox.io", "the same for a pool"),
    ("update sandboxsnapshots/finalizers.sandbox.opensandbox.io", "the same for a snapshot"),
    ("get jobs.batch", "whether a Job was made whose answer was lost"),
    ("patch events.events.k8s.io", "an event that is repeated"),
];

/// Makes the operator do everything that it can do.
async fn exercise(place: &Batches) {
    // A pool that restarts what it gets back: filled, rolled, evicted from.
    let mut restarts = pool("p", &pod_template("hollow"), [1, 2], [0, 6]);
    restarts["spec"]["recycleStrategy"] = json!({ "type": "Restart" });
    place.pools.create(&restarts).await;
    place.batches.create(&pooled("one", 2, "p")).await;
    place.ready("one", 2).await;
    place.batches.patch("one", &json!({ "spec": { "replicas": 1 } })).await;
    let one = place.batches.until("one", "it has one", |one| allocated(one).len() == 1).await;
    place.pods.delete_at_once(&allocated(&one)[0]).await;
    let lost = allocated(&one);
    place.batches.until("one", "it has another pod", |one| allocated(one) != lost).await;
    place.end("one").await;
    let evict = json!({ "metadata": { "labels": { "pool.opensandbox.io/evict": "" } } });
    for pod in place.pods_of("p").await {
        place.pods.patch(name(&pod), &evict).await;
    }
    place.event("p", "PodEvicted").await;

    // One that is assigned, and one that has its own pods, expires and is gone.
    let mut any = pooled("any", 1, "*");
    any["spec"]["template"] = pod_template("hollow");
    place.batches.create(&any).await;
    place.ready("any", 1).await;
    place.end("any").await;
    place.batches.create(&batch_sandbox("own", 2, &pod_template("hollow"))).await;
    place.ready("own", 2).await;
    place.batches.patch("own", &json!({ "spec": { "replicas": 1 } })).await;
    place.ready("own", 1).await;

    // Pause, resume, and a snapshot of one's own.
    place.snapshots.create(&snapshot("mine", "own")).await;
    place.snapshots.until("mine", "it is made", |one| one["status"]["phase"] == "Succeed").await;
    place.snapshots.delete("mine").await;
    place.snapshots.until_gone("mine").await;
    place.batches.patch("own", &json!({ "spec": { "pause": true } })).await;
    place.batches.until("own", "it is paused", |own| condition(own, "Paused").is_some()).await;
    place.batches.patch("own", &json!({ "spec": { "pause": false } })).await;
    place.ready("own", 1).await;
    place.snapshots.until_gone("own-pause").await;
    place.batches.patch("own", &json!({ "spec": { "expireTime": "2020-01-01T00:00:00Z" } })).await;
    place.batches.until_gone("own").await;
}

#[tokio::test]
async fn the_operator_of_opensandboxs_kinds_works_with_exactly_the_rights_that_the_chart_gives_it() {
    let files = TempDir::with_prefix("sandgate-rights-").expect("create a folder");
    let (cluster, audit) = cluster(files.path()).await;
    let _node = cluster.node("a").start().await;
    let release = cluster.namespace("chart").await;
    let values = [
        "--set",
        "providers[0].kind=openkruise",
        "--set",
        "operator.controllers={batchsandbox,pool,sandboxsnapshot}",
        "--set",
        "operator.opensandbox.snapshot.registry=registry.test/snapshots",
    ];
    let (mut operator, _place, user) = install(&cluster, &release, files.path(), &values).await;
    let place = Batches::new(&cluster, "tenant").await;
    exercise(&place).await;
    let ended = operator.stop().await;
    assert!(ended.success(), "{ended}");
    assert_uses_its_rights(&audit, &user, "envoy/deploy/rbac/operator-opensandbox.yaml", &UNUSED);
    let lease = cluster.objects(Resource::Lease, &release).get(&format!("{release}-sandgate-operator")).await;
    let holder = &lease.expect("a Lease")["spec"]["holderIdentity"];
    assert!(holder.as_str().is_none_or(str::is_empty), "the lease is given up: {holder}");
}
