//! What becomes of a pod that is given back.

use std::collections::BTreeMap;

use sandgate_tests::cluster::{Batches, allocated, name, pod_template, pool, pooled, uid};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::{Value, json};

use super::{RECYCLE_BY, container, names, pod_is_ready, recycling, uids};

/// Whether nothing on a pod says that it was anybody's. That goes last, when its batch may be gone already.
fn is_free(pod: &Value) -> bool {
    let annotations = &pod["metadata"]["annotations"];
    annotations["sandgate.dev/allocated-to"].is_null()
        && annotations["sandbox.opensandbox.io/restart-record"].is_null()
        && pod["metadata"]["labels"]["batch-sandbox.sandbox.opensandbox.io/name"].is_null()
}

#[tokio::test]
async fn by_noop_the_pod_itself_is_the_next_one_s() {
    let place = Batches::shared("noop").await;
    let _operator = place.operator().start().await;
    let two = pool("p", &pod_template("hollow"), [0, 2], [2, 2]);
    place.pools.create(&recycling(two, "Noop")).await;
    place.levels("p", 2, 0, 2).await;
    place.batches.create(&pooled("first", 2, "p")).await;
    let mut held = allocated(&place.ready("first", 2).await);
    let before = uids(&place, &held).await;
    place.end("first").await;
    let free = place.levels("p", 2, 0, 2).await;
    assert_eq!(free["status"]["updated"], 2);
    for pod in &held {
        place.pods.until(pod, "it is nobody's", is_free).await;
    }
    place.batches.create(&pooled("second", 2, "p")).await;
    let mut again = allocated(&place.ready("second", 2).await);
    assert_eq!(uids(&place, &held).await, before);
    held.sort();
    again.sort();
    assert_eq!(again, held);
}

#[tokio::test]
async fn by_delete_and_by_default_another_pod_comes() {
    let place = Batches::shared("deletes").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("d", &pod_template("hollow"), [1, 1], [0, 4])).await;
    let explicit = recycling(pool("e", &pod_template("hollow"), [1, 1], [0, 4]), "Delete");
    place.pools.create(&explicit).await;
    // A batch may ask for it in a pool that would keep its pods.
    let noop = recycling(pool("n", &pod_template("hollow"), [1, 1], [0, 4]), "Noop");
    place.pools.create(&noop).await;
    for pool in ["d", "e", "n"] {
        let mut one = pooled(pool, 1, pool);
        one["metadata"]["annotations"] = json!({ "sandgate.dev/recycle": "Delete" });
        place.batches.create(&one).await;
    }
    for pool in ["d", "e", "n"] {
        let held = allocated(&place.ready(pool, 1).await).remove(0);
        let before = uid(&place.pods.get(&held).await.expect("its pod")).to_owned();
        place.end(pool).await;
        place.pods.until_gone(&held).await;
        place.levels(pool, 1, 0, 1).await;
        place.batches.create(&pooled(&format!("next-{pool}"), 1, pool)).await;
        let next = allocated(&place.ready(&format!("next-{pool}"), 1).await);
        assert!(!uids(&place, &next).await.contains(&before), "{pool}");
    }
}

#[tokio::test]
async fn by_restart_its_containers_are_new_before_the_next_one_has_it() {
    let place = Batches::shared("restarts").await;
    let _operator = place.operator().start().await;
    let mut template = pod_template("sleep");
    let second = json!({ "name": "second", "image": "sleep" });
    template["spec"]["containers"].as_array_mut().expect("containers").push(second);
    place.pools.create(&recycling(pool("p", &template, [0, 1], [1, 1]), "Restart")).await;
    place.levels("p", 1, 0, 1).await;
    let mut last = 0;
    for round in 1..=2 {
        let one = format!("one-{round}");
        place.batches.create(&pooled(&one, 1, "p")).await;
        let held = allocated(&place.ready(&one, 1).await).remove(0);
        let before = place.pods.get(&held).await.expect("its pod");
        place.end(&one).await;
        place.levels("p", 1, 0, 1).await;
        let after = place.pods.until(&held, "it is nobody's", is_free).await;
        assert_eq!(uid(&after), uid(&before));
        for index in 0..2 {
            let of = |pod: &Value| pod["status"]["containerStatuses"][index].clone();
            assert_ne!(of(&after)["containerID"], of(&before)["containerID"], "{after:#}");
        }
        assert!(pod_is_ready(&after));
        let count = container(&after)["restartCount"].as_u64().expect("a count");
        assert!(count > last, "{count} after {last}");
        last = count;
    }
}

/// A container that does not end for a signal has the pod deleted in the end.
#[tokio::test]
async fn a_pod_that_cannot_be_restarted_is_deleted() {
    let place = Batches::shared("stubborn").await;
    let _operator = place.operator().start().await;
    let mut template = pod_template("sleep");
    let script = "trap : TERM; while :; do sleep 0.05; done";
    template["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    let mut stubborn = recycling(pool("p", &template, [0, 1], [1, 1]), "Restart");
    let config = json!({ "retryInterval": "1s", "maxRetries": 1, "restartCommand": ["kill", "1"] });
    stubborn["metadata"]["annotations"] =
        json!({ "sandbox.opensandbox.io/restart-config": config.to_string() });
    place.pools.create(&stubborn).await;
    place.batches.create(&pooled("one", 1, "p")).await;
    let held = allocated(&place.ready("one", 1).await).remove(0);
    place.end("one").await;
    place.pods.until_gone(&held).await;
    place.levels("p", 1, 0, 1).await;
}

#[tokio::test]
async fn pools_that_recycle_differently_do_not_mind_each_other() {
    let place = Batches::shared("mixed").await;
    let _operator = place.operator().start().await;
    for kind in RECYCLE_BY {
        let name = kind.to_lowercase();
        let template = pod_template(if kind == "Restart" { "sleep" } else { "hollow" });
        place.pools.create(&recycling(pool(&name, &template, [0, 3], [3, 3]), kind)).await;
        place.batches.create(&pooled(&format!("held-{name}"), 1, &name)).await;
    }
    // One sandbox of each pool stays while the others come and go.
    let mut held = BTreeMap::new();
    let mut before = BTreeMap::new();
    for kind in RECYCLE_BY.map(str::to_lowercase) {
        let pod = allocated(&place.ready(&format!("held-{kind}"), 1).await).remove(0);
        held.insert(kind.clone(), place.pods.get(&pod).await.expect("its pod"));
        place.levels(&kind, 3, 1, 2).await;
        before.insert(kind.clone(), names(&place.pods_of(&kind).await));
    }
    let mut deleted = Vec::new();
    for round in 0..3 {
        for kind in RECYCLE_BY {
            let name = format!("{}-{round}", kind.to_lowercase());
            place.batches.create(&pooled(&name, 1, &kind.to_lowercase())).await;
        }
        for kind in RECYCLE_BY {
            let name = format!("{}-{round}", kind.to_lowercase());
            let held = allocated(&place.ready(&name, 1).await).remove(0);
            assert!(held.starts_with(&kind.to_lowercase()), "{held} of {kind}");
            place.batches.delete(&name).await;
            if kind == "Delete" {
                deleted.push(held);
            }
        }
        place.assert_no_pod_is_shared().await;
    }
    eventually("the others are gone", 3 * DEADLINE, async || {
        (place.batches.list().await.len() == held.len()).then_some(())
    })
    .await;
    for kind in RECYCLE_BY.map(str::to_lowercase) {
        place.levels(&kind, 3, 1, 2).await;
        let now = names(&place.pods_of(&kind).await);
        match kind.as_str() {
            "delete" => assert!(deleted.iter().all(|pod| !now.contains(pod)), "{deleted:?} and {now:?}"),
            _ => assert_eq!(now, before[&kind], "the same pods are used again"),
        }
        let (then, pod) = (&held[&kind], place.pods.get(name(&held[&kind])).await.expect("its pod"));
        assert_eq!(uid(&pod), uid(then));
        assert_eq!(container(&pod)["containerID"], container(then)["containerID"], "what is held goes on");
        let batch = place.ready(&format!("held-{kind}"), 1).await;
        assert_eq!(allocated(&batch), [name(then)]);
    }
    let restarts = |pods: &[Value]| -> u64 {
        pods.iter().map(|pod| container(pod)["restartCount"].as_u64().expect("a count")).sum()
    };
    assert_eq!(restarts(&place.pods_of("noop").await), 0);
    assert_eq!(restarts(&place.pods_of("delete").await), 0);
    assert!(restarts(&place.pods_of("restart").await) >= 3);
}
