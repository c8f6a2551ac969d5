//! Pools by themselves: how many pods they keep, and what makes them give some up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use sandgate_tests::cluster::{Batches, allocated, name, pod_template, pool, pooled, uid};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::{Value, json};

use super::{EVICT, capacity, container, labelled, names, pod_is_ready, recycling};

fn evict() -> Value {
    json!({ "metadata": { "labels": { EVICT: "true" } } })
}

#[tokio::test]
async fn a_pool_keeps_its_buffer_within_its_bounds_and_says_so() {
    let place = Batches::shared("levels").await;
    let _operator = place.operator().start().await;
    // All at once: by a quarter at a time it would stop at the buffer's least.
    let mut p = pool("p", &pod_template("hollow"), [2, 4], [1, 6]);
    p["spec"]["scaleStrategy"] = json!({ "maxUnavailable": "100%" });
    place.pools.create(&p).await;
    let filled = place.levels("p", 3, 0, 3).await;
    let revision = filled["status"]["revision"].as_str().expect("a revision");
    assert_eq!((revision.len(), &filled["status"]["updated"]), (16, &json!(3)), "{filled:#}");
    for pod in place.pods_of("p").await {
        let metadata = &pod["metadata"];
        assert!(name(&pod).starts_with("p-"), "{}", name(&pod));
        assert_eq!(metadata["labels"]["sandbox.opensandbox.io/pool-revision"], revision);
        let owner = &metadata["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Pool"), &json!(true)), "{pod:#}");
    }

    place.pools.patch("p", &capacity([2, 4], [5, 6])).await;
    place.levels("p", 5, 0, 5).await;
    place.pools.patch("p", &capacity([0, 4], [0, 2])).await;
    // More than its most is not thrown away for that, but five are more than the buffer's most.
    place.levels("p", 2, 0, 2).await;
    place.pools.patch("p", &capacity([4, 6], [0, 3])).await;
    place.levels("p", 3, 0, 3).await;
    place.pools.patch("p", &capacity([0, 0], [0, 10])).await;
    place.levels("p", 0, 0, 0).await;
    place.settled(0).await;

    place.pools.patch("p", &capacity([2, 2], [0, 10])).await;
    place.levels("p", 2, 0, 2).await;
    place.pools.delete("p").await;
    place.settled(0).await;
}

#[tokio::test]
async fn evicted_pods_go_unless_they_are_a_sandbox_s() {
    let place = Batches::shared("evicted").await;
    let _operator = place.operator().start().await;
    let three = pool("p", &pod_template("hollow"), [3, 3], [0, 10]);
    place.pools.create(&recycling(three, "Noop")).await;
    place.levels("p", 3, 0, 3).await;
    place.batches.create(&pooled("one", 1, "p")).await;
    let held = allocated(&place.ready("one", 1).await).remove(0);
    place.levels("p", 4, 1, 3).await;
    let before = names(&place.pods_of("p").await);
    let uid_before = uid(&place.pods.get(&held).await.expect("its pod")).to_owned();
    for pod in &before {
        place.pods.patch(pod, &evict()).await;
    }
    let replaced = eventually("the idle ones are replaced", 3 * DEADLINE, async || {
        let now = place.pods_of("p").await;
        let others = names(&now).iter().filter(|pod| !before.contains(*pod)).count();
        (others == 3 && now.len() == 4 && now.iter().all(pod_is_ready)).then_some(now)
    });
    let replaced = names(&replaced.await);
    assert!(replaced.contains(&held), "an allocated pod stays: {replaced:?}");
    let kept = place.pods.get(&held).await.expect("its pod");
    assert_eq!(uid(&kept), uid_before);
    place.event("p", "PodEvicted").await;
    place.levels("p", 4, 1, 3).await;

    // Given back, it goes, although its pool would keep it.
    place.end("one").await;
    place.pods.until_gone(&held).await;
    place.levels("p", 3, 0, 3).await;
}

/// The operator sees label and batch at once, and after its start: nothing tells it which was first.
#[tokio::test]
async fn a_pod_to_be_evicted_is_given_to_nobody() {
    let place = Batches::shared("unfit").await;
    let mut operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [2, 2], [0, 10])).await;
    place.levels("p", 2, 0, 2).await;
    operator.kill();
    let pods = names(&place.pods_of("p").await);
    place.pods.patch(&pods[0], &evict()).await;
    place.batches.create(&pooled("both", 2, "p")).await;
    operator.start_again().await;
    let both = allocated(&place.ready("both", 2).await);
    assert!(both.contains(&pods[1]) && !both.contains(&pods[0]), "{both:?} of {pods:?}");
    place.pods.until_gone(&pods[0]).await;
}

#[tokio::test]
async fn a_new_template_replaces_what_is_idle() {
    let place = Batches::shared("template").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [4, 4], [0, 10])).await;
    let before = place.levels("p", 4, 0, 4).await["status"]["revision"].clone();
    let old = names(&place.pods_of("p").await);
    let template = labelled(pod_template("hollow"), "two");
    place.pools.patch("p", &json!({ "spec": { "template": template } })).await;
    let is_new = |object: &Value| {
        let status = &object["status"];
        status["revision"] != before && status["updated"] == 4 && status["available"] == 4
    };
    place.pools.until("p", "all are of the new template", is_new).await;
    place.levels("p", 4, 0, 4).await;
    let new = place.pods_of("p").await;
    assert!(new.iter().all(|pod| !old.contains(&name(pod).to_owned())), "{old:?} and {:?}", names(&new));
    assert!(new.iter().all(|pod| pod["metadata"]["labels"]["generation"] == "two"));
}

/// Pods that never get ready are in flight: more of them would not help (1423, 1956).
#[tokio::test]
async fn a_pool_whose_image_cannot_be_pulled_does_not_pile_up_pods_and_recovers_with_its_template() {
    let place = Batches::shared("unpulled").await;
    let _operator = place.operator().start().await;
    // How often each pod was seen to begin to wait for another pull.
    let pulls: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let (counted, mut failing) = (Arc::clone(&pulls), BTreeSet::new());
    let pods = place.pods.follow(move |pods| {
        assert!(pods.len() <= 4, "three and one for who waits: {:?}", pods.keys());
        for (name, pod) in pods {
            let fails = container(pod)["state"]["waiting"]["reason"] == "ErrImagePull";
            if !fails {
                failing.remove(name);
            } else if failing.insert(name.clone()) {
                *counted.lock().expect("nobody panics").entry(name.clone()).or_default() += 1;
            }
        }
    });
    let pods = pods.await;
    let mut p = pool("p", &pod_template("nobody-has-this"), [3, 3], [0, 9]);
    p["spec"]["scaleStrategy"] = json!({ "maxUnavailable": "100%" });
    place.pools.create(&p).await;
    place.batches.create(&pooled("waits", 1, "p")).await;
    eventually("four were pulled in vain four times", 3 * DEADLINE, async || {
        let pulls = pulls.lock().expect("nobody panics");
        (pulls.values().filter(|pulls| **pulls >= 4).count() >= 4).then_some(())
    })
    .await;
    pods.finish().await;
    let made = pulls.lock().expect("nobody panics").len();
    assert_eq!(made, 4, "a pod that cannot be pulled is not replaced at once");
    let waits = place.batches.get("waits").await.expect("the batch");
    assert!(allocated(&waits).is_empty(), "nothing that is not ready is given away: {waits:#}");

    place.pools.patch("p", &json!({ "spec": { "template": pod_template("hollow") } })).await;
    place.ready("waits", 1).await;
    place.levels("p", 4, 1, 3).await;
    place.settled(4).await;
}

/// What the operator does not know of a pod is the pod's all the same.
#[tokio::test]
async fn a_runtime_class_reaches_the_pods_of_a_pool() {
    let place = Batches::shared("runtime").await;
    let _operator = place.operator().start().await;
    let class =
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: { name: gvisor }\nhandler: runsc\n";
    place.cluster.api().apply(class).await;
    let mut template = pod_template("hollow");
    template["spec"]["runtimeClassName"] = json!("gvisor");
    template["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "10m" } });
    place.pools.create(&pool("p", &template, [1, 1], [0, 4])).await;
    place.batches.create(&pooled("one", 1, "p")).await;
    let held = allocated(&place.ready("one", 1).await).remove(0);
    let pod = place.pods.get(&held).await.expect("its pod");
    assert_eq!(pod["spec"]["runtimeClassName"], "gvisor");
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "10m");
}
