//! Batches: those that make their own pods, and those of a pool.

use futures_util::future::join_all;
use k8s_openapi::jiff::Timestamp;
use sandgate_tests::cluster::{
    Batches, allocated, batch_sandbox, condition, endpoints, is_ready, name, pod_template, pool, pooled, uid,
};
use serde_json::{Value, json};

use super::{POOL_FINALIZER, container, has_finalizer, in_seconds, names, recycling, replicas, uids};

fn ips(pods: &[Value]) -> Vec<String> {
    pods.iter().map(|pod| pod["status"]["podIP"].as_str().expect("an address").to_owned()).collect()
}

#[tokio::test]
async fn a_batch_makes_its_pods_tells_of_them_and_scales_both_ways() {
    let place = Batches::shared("own").await;
    let _operator = place.operator().start().await;
    place.batches.create(&batch_sandbox("one", 3, &pod_template("hollow"))).await;
    let ready = place.ready("one", 3).await;
    assert_eq!(ready["status"]["phase"], "Succeed");
    assert_eq!(ready["status"]["observedGeneration"], ready["metadata"]["generation"]);
    assert_eq!(condition(&ready, "Ready").expect("it is ready")["reason"], "PodsReady");
    assert!(condition(&ready, "Progressing").is_none(), "{ready:#}");
    let pods = place.pods.list().await;
    assert_eq!(names(&pods), ["one-0", "one-1", "one-2"]);
    assert_eq!(endpoints(&ready), ips(&pods));
    for (index, pod) in pods.iter().enumerate() {
        let labels = &pod["metadata"]["labels"];
        assert_eq!(labels["batch-sandbox.sandbox.opensandbox.io/pod-index"], index.to_string());
        assert_eq!(labels["batch-sandbox.sandbox.opensandbox.io/name"], "one");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], ready["metadata"]["uid"]);
    }

    // One that is deleted is made again under its name.
    place.pods.delete_at_once("one-1").await;
    let before = uid(&pods[1]).to_owned();
    place.pods.until("one-1", "it is there again", |pod| uid(pod) != before).await;
    let again = place.ready("one", 3).await;
    assert_eq!(endpoints(&again)[0], endpoints(&ready)[0]);

    place.batches.patch("one", &replicas(1)).await;
    place.ready("one", 1).await;
    place.settled(1).await;
    assert_eq!(names(&place.pods.list().await), ["one-0"], "the last go first");
    place.batches.patch("one", &replicas(2)).await;
    place.ready("one", 2).await;
    place.batches.patch("one", &replicas(0)).await;
    place.settled(0).await;
    place.batches.until("one", "it has none", |one| one["status"]["replicas"] == 0).await;
    place.end("one").await;
}

#[tokio::test]
async fn shards_differ_as_their_patches_say_deletions_too() {
    let place = Batches::shared("shards").await;
    let _operator = place.operator().start().await;
    let mut template = pod_template("hollow");
    template["metadata"]["labels"] = json!({ "kept": "yes", "dropped": "no" });
    template["spec"]["containers"][0]["env"] =
        json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }]);
    let mut batch = batch_sandbox("one", 3, &template);
    batch["spec"]["shardPatches"] = json!([
        { "metadata": { "labels": { "shard": "zero", "dropped": null } } },
        { "spec": { "containers": [{ "name": "sandbox", "env": [
            { "name": "A", "value": "changed" },
            { "name": "B", "$patch": "delete" },
        ] }] } },
    ]);
    place.batches.create(&batch).await;
    place.ready("one", 3).await;
    let pods = place.pods.list().await;
    let env = |pod: &Value| pod["spec"]["containers"][0]["env"].clone();
    let both = json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }]);
    let labels = |pod: &Value| pod["metadata"]["labels"].clone();
    assert_eq!((&labels(&pods[0])["shard"], env(&pods[0])), (&json!("zero"), both.clone()));
    assert!(labels(&pods[0])["dropped"].is_null() && labels(&pods[0])["kept"] == "yes", "{:#}", pods[0]);
    assert_eq!(env(&pods[1]), json!([{ "name": "A", "value": "changed" }]));
    assert_eq!((&labels(&pods[2])["dropped"], env(&pods[2])), (&json!("no"), both));
}

#[tokio::test]
async fn a_batch_of_a_pool_has_ready_pods_that_say_whose_they_are() {
    let place = Batches::shared("pooled").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [3, 3], [0, 10])).await;
    place.levels("p", 3, 0, 3).await;
    let known = names(&place.pods_of("p").await);
    place.batches.create(&pooled("one", 2, "p")).await;
    let ready = place.ready("one", 2).await;
    let held = allocated(&ready);
    assert!(held.iter().all(|pod| known.contains(pod)), "pods that were ready are taken: {held:?}");
    assert!(has_finalizer(&ready, POOL_FINALIZER), "{ready:#}");
    let mut pods = Vec::new();
    for pod in &held {
        pods.push(place.pods.get(pod).await.expect("its pod"));
    }
    assert_eq!(endpoints(&ready), ips(&pods), "in the order of the allocation");
    for pod in &pods {
        let metadata = &pod["metadata"];
        assert_eq!(metadata["labels"]["batch-sandbox.sandbox.opensandbox.io/name"], "one");
        let owner = format!("{}/one", uid(&ready));
        assert_eq!(metadata["annotations"]["sandgate.dev/allocated-to"], owner.as_str());
    }
    place.levels("p", 5, 2, 3).await;

    // The last ones go first, and what is kept is not touched.
    place.batches.patch("one", &replicas(1)).await;
    let fewer = place.batches.until("one", "it has one", |one| allocated(one).len() == 1).await;
    assert_eq!(allocated(&fewer), held[..1]);
    place.ready("one", 1).await;
    place.pods.until_gone(&held[1]).await;
    place.levels("p", 4, 1, 3).await;
    place.batches.patch("one", &replicas(3)).await;
    let more = place.ready("one", 3).await;
    assert_eq!(allocated(&more)[0], held[0]);

    place.end("one").await;
    place.levels("p", 3, 0, 3).await;
    place.settled(3).await;
}

#[tokio::test]
async fn what_expires_goes_and_gives_its_pods_back() {
    let place = Batches::shared("expires").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [2, 2], [0, 10])).await;
    place.levels("p", 2, 0, 2).await;
    place.batches.create(&batch_sandbox("own", 2, &pod_template("hollow"))).await;
    place.batches.create(&pooled("pooled", 2, "p")).await;
    place.batches.create(&pooled("stays", 1, "p")).await;
    tokio::join!(place.ready("own", 2), place.ready("pooled", 2), place.ready("stays", 1));
    // The time is given when everything is ready: however slow the start was, enough of it is left.
    let expire = async |name: &str, seconds: u64| {
        place.batches.patch(name, &json!({ "spec": { "expireTime": in_seconds(seconds) } })).await;
    };
    // Put off in time, it stays. The others expire no earlier than it would have.
    expire("stays", 5).await;
    expire("stays", 600).await;
    expire("own", 5).await;
    expire("pooled", 5).await;
    place.batches.until_gone("own").await;
    place.batches.until_gone("pooled").await;
    place.levels("p", 3, 1, 2).await;
    place.settled(3).await;
    place.ready("stays", 1).await;

    let mut late = batch_sandbox("late", 1, &pod_template("hollow"));
    late["spec"]["expireTime"] = json!("2020-01-01T00:00:00Z");
    place.batches.create(&late).await;
    place.batches.until_gone("late").await;
    place.settled(3).await;
}

#[tokio::test]
async fn a_batch_whose_pods_fail_says_why() {
    let place = Batches::shared("fails").await;
    let _operator = place.operator().start().await;
    place.batches.create(&batch_sandbox("one", 2, &pod_template("nobody-has-this:1"))).await;
    let has_failed =
        |one: &Value| one["status"]["phase"] == "Failed" && condition(one, "PodFailed").is_some();
    let failed = place.batches.until("one", "it has failed", has_failed).await;
    let why = condition(&failed, "PodFailed").expect("a reason");
    let reason = why["reason"].as_str().expect("a reason");
    assert!(["ErrImagePull", "ImagePullBackOff"].contains(&reason), "{why}");
    assert!(
        condition(&failed, "Ready").is_none() && condition(&failed, "Progressing").is_none(),
        "{failed:#}"
    );
    let pods = place.pods.list().await;
    assert_eq!(names(&pods), ["one-0", "one-1"]);
    assert!(container(&pods[0])["state"]["waiting"].is_object());
    // Nothing of it is left, and its name can be used again.
    place.end("one").await;
    place.settled(0).await;
    place.batches.create(&batch_sandbox("one", 1, &pod_template("hollow"))).await;
    place.ready("one", 1).await;
}

/// When an object became ready, as it says itself.
fn ready_since(object: &Value) -> Timestamp {
    let since = condition(object, "Ready").and_then(|one| one["lastTransitionTime"].as_str());
    since.unwrap_or_else(|| panic!("it is not ready: {object:#}")).parse().expect("a time")
}

/// Theirs took 26 to 40 seconds from a pod that is ready to its batch, for 128 at once.
#[tokio::test]
async fn many_at_once_are_ready_soon_after_their_pods_969() {
    let place = Batches::shared("many").await;
    let _operator = place.operator().start().await;
    let batches: Vec<Value> =
        (0..128).map(|index| batch_sandbox(&format!("one-{index}"), 1, &pod_template("hollow"))).collect();
    join_all(batches.iter().map(|one| place.batches.create(one))).await;
    let all =
        place.watch_apart("128 are ready", |all| all.iter().filter(|one| is_ready(one, 1)).count() == 128);
    let (all, pods) = (all.await, place.pods.list().await);
    for one in &all {
        let pod = format!("{}-0", name(one));
        let pod = pods.iter().find(|it| name(it) == pod).unwrap_or_else(|| panic!("{pod} is there"));
        let lag = ready_since(one).duration_since(ready_since(pod)).as_secs();
        assert!(lag <= 10, "{} was ready {lag} s after its pod", name(one));
    }
}

/// Nobody else's pod is where a batch says that it is, from the moment that it has left its pool.
#[tokio::test]
async fn a_batch_that_leaves_its_pool_gives_its_pods_back_and_has_pods_of_its_own() {
    let place = Batches::shared("detaches").await;
    let _operator = place.operator().start().await;
    let noop = recycling(pool("p", &pod_template("hollow"), [0, 2], [2, 2]), "Noop");
    place.pools.create(&noop).await;
    place.batches.create(&pooled("one", 2, "p")).await;
    let before = place.ready("one", 2).await;
    let held = allocated(&before);
    let kept = uids(&place, &held).await;
    // It waits for what the first one has.
    place.batches.create(&pooled("next", 2, "p")).await;
    let own = json!({ "spec": { "poolRef": null, "template": pod_template("hollow") } });
    place.batches.patch("one", &own).await;
    place.ready("next", 2).await;
    let has_left =
        |one: &Value| is_ready(one, 2) && allocated(one).is_empty() && !has_finalizer(one, POOL_FINALIZER);
    let after = place.batches.until("one", "it has pods of its own", has_left).await;
    let mut own = Vec::new();
    for pod in ["one-0", "one-1"] {
        own.push(place.pods.get(pod).await.expect("its own pod"));
    }
    assert_eq!(endpoints(&after), ips(&own));
    let next = allocated(&place.ready("next", 2).await);
    assert!(next.iter().all(|pod| held.contains(pod)), "{next:?} of {held:?}");
    assert_eq!(uids(&place, &held).await, kept, "the pool keeps its pods");
    place.levels("p", 2, 2, 0).await;
    place.end("one").await;
    place.end("next").await;
    place.levels("p", 2, 0, 2).await;
    place.settled(2).await;
}
