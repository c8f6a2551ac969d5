//! A pool that scales by itself between nothing and what is asked for.

use futures_util::future::join_all;
use sandgate_tests::cluster::Environments;
use serde_json::{Value, json};

use super::{LOCAL, create, hollow, id, manager};

/// How many sandboxes are asked for at once.
const DEMAND: usize = 30;
/// How many the group has at most.
const MOST: u32 = 40;

/// An environment whose one pool scales by itself, fast.
fn scaling(template: &str) -> Value {
    json!({
        "apiVersion": "agents.navix.sh/v1alpha1",
        "kind": "SandboxEnv",
        "metadata": { "name": "e" },
        "spec": {
            "templateRef": { "name": template },
            "clusters": [{ "clusterID": LOCAL, "members": [
                { "name": "p", "spec": { "replicas": 1 }, "config": { "scalingGroup": "g" } },
            ] }],
            "autoscaling": { "groups": [{
                "name": "g", "enabled": true, "minReplicas": 1, "maxReplicas": MOST,
                "scaleUpPolicy": { "mode": "Aggressive", "cooldownSeconds": 1, "saturationCooldownSeconds": 1 },
                "scaleDownPolicy": {
                    "idleTimeoutSeconds": 5, "stabilizationSeconds": 1, "protectionWindowSeconds": 1,
                },
            }] },
        },
    })
}

#[tokio::test]
async fn a_pool_grows_with_its_demand_stays_below_its_ceiling_and_shrinks_again() {
    let place = Environments::shared("burst").await;
    let _operator = place.operator().start().await;
    let manager = manager(&place, &[]).await;
    let key = place.cluster.api_key(&place.namespace).await;
    let name = place.template("hollow").await;
    place.templates.patch(&name, &json!({ "spec": { "idleImage": "hollow-idle" } })).await;
    place.envs.create(&scaling(&name)).await;
    place.levels("p", 1, 0).await;

    // Nobody is refused: who comes before there is a pod waits for it.
    let more = hollow();
    let asks = (0..DEMAND).map(|_| create(&manager, &key, "e", &more));
    let made: Vec<String> = join_all(asks)
        .await
        .into_iter()
        .map(|answer| {
            let (status, made) = answer.expect("an answer");
            assert_eq!(status, 201, "{made}\n{}", manager.log());
            id(&made).to_owned()
        })
        .collect();
    let pool =
        place.pools.until("p", "all of them run", |pool| pool["status"]["runningReplicas"] == DEMAND).await;
    let replicas = pool["spec"]["replicas"].as_u64().expect("replicas");
    assert!(replicas >= DEMAND as u64 && replicas <= u64::from(MOST), "{replicas}");
    assert!(pool["status"]["autoscaling"]["lastScaleUpTime"].is_string(), "{pool:#}");
    place
        .events
        .until_all("it is said", |events| events.iter().any(|event| event["reason"] == "AutoscalerScaleUp"))
        .await;

    for id in &made {
        let gone = manager.ask(&key, "DELETE", &format!("/sandboxes/{id}"), None).await;
        assert_eq!(gone.status, 204, "{}", gone.text());
    }
    place.pools.until("p", "it is as small as it may be", |pool| pool["spec"]["replicas"] == 1).await;
    place.levels("p", 1, 0).await;
    let pods = place.pods_of("p").await;
    assert_eq!(pods.len(), 1, "{pods:#?}");
}
