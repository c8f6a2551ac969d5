//! An operator that is killed at any moment.

use std::collections::BTreeSet;

use sandgate_tests::cluster::{Environments, env_phase, sandboxes};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::json;

use super::{create, id, manager};

/// How many pods the pool has at most.
const MOST: u32 = 40;

#[tokio::test]
async fn an_operator_that_is_killed_anywhere_makes_no_pod_too_many_and_loses_no_sandbox() {
    let place = Environments::shared("kill").await;
    let mut operator = place.operator().start().await;
    let manager = manager(&place, &[]).await;
    let key = place.cluster.api_key(&place.namespace).await;
    let name = place.template("hollow").await;
    place.templates.patch(&name, &json!({ "spec": { "idleImage": "hollow-idle" } })).await;
    place.env("e", &name, &[("p", 4)]).await;
    place.levels("p", 4, 0).await;

    let mut made = BTreeSet::new();
    let replicas = |count: u32| {
        json!({ "spec": { "clusters": [{
            "clusterID": "local",
            "members": [{ "name": "p", "spec": { "replicas": count }, "config": { "scalingGroup": "" } }],
        }] } })
    };
    // The pool grows, sandboxes are made and ended, and the operator dies at another moment of each round: at
    // once, after the first new pod, after some.
    for (round, count) in [10, 20, 30, MOST].into_iter().enumerate() {
        let before = place.pods_of("p").await.len();
        place.envs.patch("e", &replicas(count)).await;
        eventually("the operator is at it", DEADLINE, async || {
            (place.pods_of("p").await.len() >= before + round * 2).then_some(())
        })
        .await;
        operator.kill();
        let (status, sandbox) = create(
            &manager,
            &key,
            "e",
            &json!({
                "secure": false, "metadata": { "agentbox.scitix.ai/no-wait": "true" },
            }),
        )
        .await
        .expect("an answer");
        assert!(matches!(status, 201 | 429), "{status} {sandbox}\n{}", manager.log());
        if status == 201 {
            made.insert(id(&sandbox).to_owned());
        }
        operator.start_again().await;
    }
    let running = u32::try_from(made.len()).expect("few");
    assert!(running > 0, "nothing was claimed while the operator was away");
    place.levels("p", MOST - running, running).await;
    let pods = place.pods_of("p").await;
    assert_eq!((pods.len(), sandboxes(&pods)), (MOST as usize, made.clone()));

    // It shrinks to fewer than there are sandboxes, killed on the way: no sandbox goes.
    place.envs.patch("e", &replicas(0)).await;
    for _ in 0..3 {
        let fewer = place.pods_of("p").await.len();
        eventually("a pod goes", DEADLINE * 3, async || {
            (place.pods_of("p").await.len() < fewer || fewer == made.len()).then_some(())
        })
        .await;
        operator.kill();
        operator.start_again().await;
    }
    place.levels("p", 0, running).await;
    let pods = place.pods_of("p").await;
    assert!(pods.iter().all(|pod| env_phase(pod) == "running"));
    assert_eq!(sandboxes(&pods), made);

    // The environment goes, and everything with it.
    place.envs.delete("e").await;
    place.pools.until_gone("p").await;
    place.pods.until_all("its pods are gone", <[_]>::is_empty).await;
}
