//! A template that changes while sandboxes are made of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use sandgate_tests::cluster::{Environments, sandbox_env, sandboxes};
use serde_json::{Value, json};

use super::{LOCAL, create, hollow, id, manager};

/// How many pods the pool has.
const REPLICAS: u32 = 12;
/// How many users ask at a time.
const USERS: usize = 3;

fn hash(pod: &Value) -> String {
    pod["metadata"]["labels"]["agentbox.navix.sh/template-hash"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_rollout_under_load_replaces_every_idle_pod_and_no_sandbox() {
    let place = Environments::shared("roll").await;
    let _operator = place.operator().start().await;
    let manager = manager(&place, &[]).await;
    let key = place.cluster.api_key(&place.namespace).await;
    let name = place.template("hollow").await;
    place.templates.patch(&name, &json!({ "spec": { "idleImage": "hollow-idle" } })).await;
    let mut env = sandbox_env("e", &name, LOCAL, &[("p", REPLICAS)]);
    env["spec"]["overrides"] = json!({ "updateStrategy": { "maxUnavailable": "50%" } });
    // It does not scale by itself, but a pod that is about to go is marked no longer than this.
    env["spec"]["clusters"][0]["members"][0]["config"]["scalingGroup"] = json!("g");
    let window = json!({ "protectionWindowSeconds": 1 });
    env["spec"]["autoscaling"] = json!({ "groups": [{ "name": "g", "scaleDownPolicy": window }] });
    place.envs.create(&env).await;
    place.levels("p", REPLICAS, 0).await;
    let old = hash(&place.pods_of("p").await[0]);

    // Some sandboxes are there before and stay.
    let mut kept = BTreeSet::new();
    for _ in 0..3 {
        let (status, made) = create(&manager, &key, "e", &hollow()).await.expect("an answer");
        assert_eq!(status, 201, "{made}\n{}", manager.log());
        kept.insert(id(&made).to_owned());
    }

    let done = AtomicBool::new(false);
    let work = || async {
        let mut made = 0_u32;
        while !done.load(Ordering::Relaxed) {
            let (status, sandbox) = create(&manager, &key, "e", &hollow()).await.expect("an answer");
            assert!(matches!(status, 201 | 429), "{status} {sandbox}");
            if status == 201 {
                made += 1;
                let path = format!("/sandboxes/{}", id(&sandbox));
                let gone = manager.ask(&key, "DELETE", &path, None).await;
                assert_eq!(gone.status, 204, "{}", gone.text());
            }
        }
        made
    };
    let rollout = async {
        let changed = json!({ "spec": { "version": "2", "template": { "metadata": { "labels": { "version": "2" } } } } });
        place.templates.patch(&name, &changed).await;
        let rolled = place
            .pods
            .until_all("every pod that is no sandbox is of the new template", |pods| {
                let waiting = pods.iter().filter(|pod| {
                    !kept.contains(
                        pod["metadata"]["labels"]["agentbox.navix.sh/sandbox-id"]
                            .as_str()
                            .unwrap_or_default(),
                    )
                });
                let waiting: Vec<_> =
                    waiting.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect();
                !waiting.is_empty() && waiting.iter().all(|pod| hash(pod) != old)
            })
            .await;
        done.store(true, Ordering::Relaxed);
        rolled
    };
    let users = join_all((0..USERS).map(|_| work()));
    let (_, made) = tokio::join!(rollout, users);
    assert!(made.iter().sum::<u32>() > 0, "nobody was served during the rollout");

    // The sandboxes of before are the same pods, of the old template.
    let pods = place.pods_of("p").await;
    assert!(kept.is_subset(&sandboxes(&pods)), "a sandbox was replaced");
    let still = pods.iter().filter(|pod| hash(pod) == old).count();
    assert_eq!(still, kept.len());
    place.levels("p", REPLICAS - 3, 3).await;
}
