//! A new template while sandboxes live, come and go.

use sandgate_tests::cluster::{Batches, allocated, is_ready, name, pod_template, pool, pooled};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::{Value, json};

use super::{cued, labelled, names, pod_is_ready, recycling, uids};

#[tokio::test]
async fn a_roll_leaves_no_more_than_its_budget_unavailable() {
    let place = Batches::shared("rolls").await;
    let _operator = place.operator().start().await;
    let mut six = pool("p", &pod_template("hollow"), [6, 6], [0, 12]);
    six["spec"]["updateStrategy"] = json!({ "maxUnavailable": "34%" });
    place.pools.create(&six).await;
    place.levels("p", 6, 0, 6).await;
    place.batches.create(&pooled("kept", 2, "p")).await;
    let kept = allocated(&place.ready("kept", 2).await);
    let kept_uids = uids(&place, &kept).await;
    place.levels("p", 8, 2, 6).await;
    let mut old = names(&place.pods_of("p").await);
    old.retain(|pod| !kept.contains(pod));

    // Slow enough to be seen.
    let template = cued(labelled(pod_template("hollow"), "two"), "ready-delay", "300ms");
    place.pools.patch("p", &json!({ "spec": { "template": template } })).await;
    let mut least = usize::MAX;
    eventually("the pool is rolled", 3 * DEADLINE, async || {
        let mut pods = place.pods_of("p").await;
        pods.retain(|pod| !kept.contains(&name(pod).to_owned()));
        let ready = pods.iter().filter(|pod| pod_is_ready(pod)).count();
        least = least.min(ready);
        let one = place.batches.get("kept").await.expect("the batch");
        assert!(is_ready(&one, 2) && allocated(&one) == kept, "a roll does not touch what is held: {one:#}");
        let is_new = pods.iter().all(|pod| !old.contains(&name(pod).to_owned()));
        (is_new && ready == 6 && pods.len() == 6).then_some(())
    })
    .await;
    // A third of six, rounded up, may be missing.
    assert!((3..6).contains(&least), "{least} were ready at the least");
    place.levels("p", 8, 2, 6).await;
    assert_eq!(uids(&place, &kept).await, kept_uids);
    // Who comes now gets what is new.
    place.batches.create(&pooled("late", 2, "p")).await;
    let late = allocated(&place.ready("late", 2).await);
    assert!(late.iter().all(|pod| !old.contains(pod) && !kept.contains(pod)), "{late:?} of {old:?}");
}

#[tokio::test]
async fn sandboxes_keep_their_pods_and_new_ones_come_while_the_pool_is_rolled() {
    let place = Batches::shared("loaded").await;
    let _operator = place.operator().start().await;
    let mut four = recycling(pool("p", &pod_template("hollow"), [4, 4], [0, 20]), "Noop");
    four["spec"]["updateStrategy"] = json!({ "maxUnavailable": 1 });
    place.pools.create(&four).await;
    place.levels("p", 4, 0, 4).await;
    place.batches.create(&pooled("kept", 2, "p")).await;
    let kept = allocated(&place.ready("kept", 2).await);
    let kept_uids = uids(&place, &kept).await;

    for generation in 0..3 {
        let template = labelled(pod_template("hollow"), &format!("g{generation}"));
        place.pools.patch("p", &json!({ "spec": { "template": template } })).await;
        for round in 0..3 {
            let name = format!("load-{generation}-{round}");
            place.batches.create(&pooled(&name, 2, "p")).await;
            place.ready(&name, 2).await;
            place.assert_no_pod_is_shared().await;
            // The oldest goes when two newer ones are there.
            if round == 2 {
                place.batches.delete(&format!("load-{generation}-0")).await;
            }
        }
    }
    let live = |batch: &Value| batch["metadata"]["deletionTimestamp"].is_null();
    place.watch_apart("seven are left", |all| all.iter().filter(|one| live(one)).count() == 7).await;
    assert_eq!(allocated(&place.ready("kept", 2).await), kept, "who had a pod keeps it");
    assert_eq!(uids(&place, &kept).await, kept_uids);
    // Those of old templates that came back are not offered again, whatever the recycling.
    let current = place.levels("p", 18, 14, 4).await["status"]["revision"].clone();
    let held: Vec<String> = place.batches.list().await.iter().flat_map(allocated).collect();
    let idle = place.pods_of("p").await.into_iter().filter(|pod| !held.contains(&name(pod).to_owned()));
    for pod in idle {
        assert_eq!(
            pod["metadata"]["labels"]["sandbox.opensandbox.io/pool-revision"],
            current,
            "{}",
            name(&pod)
        );
    }
}
