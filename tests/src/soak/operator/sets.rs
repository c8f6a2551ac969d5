//! Sets that are scaled, rolled, fail, and lose pods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::World;
use crate::cluster::{pod_template, sandbox_set};

/// Waits until the set has exactly so many sandboxes, all of them available and of its newest revision.
async fn until_full(world: &World, name: &str, replicas: u32) -> bool {
    world
        .until(format!("{name} has {replicas} sandboxes"), || async {
            let Some(set) = world.sets().get(name).await else { return false };
            let is = |field: &str| set["status"][field] == replicas;
            let is_current = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            is_current && is("replicas") && is("updatedAvailableReplicas")
        })
        .await
}

/// A set that goes from two to twelve and back.
pub(super) async fn scaled(world: Arc<World>) {
    let (name, few, many) = ("scaled", 2, 12);
    world.sets().create(&sandbox_set(name, few, &pod_template("hollow"))).await;
    until_full(&world, name, few).await;
    let mut turns = world.churn.turns(0.2);
    while turns.next().await {
        for (replicas, what) in [(many, "scaled up"), (few, "scaled down")] {
            world.sets().patch(name, &json!({ "spec": { "replicas": replicas } })).await;
            if until_full(&world, name, replicas).await {
                world.churn.did(what);
            }
        }
    }
    world.remove_set(name).await;
}

/// A set whose template changes again and again.
pub(super) async fn rolled(world: Arc<World>) {
    let (name, replicas) = ("rolled", 4);
    world.sets().create(&sandbox_set(name, replicas, &pod_template("hollow"))).await;
    let mut turns = world.churn.turns(0.25);
    while turns.next().await {
        let version = world.churn.number().to_string();
        let patch = json!({ "metadata": { "labels": { "version": version } } });
        world.sets().patch(name, &json!({ "spec": { "template": patch } })).await;
        if until_full(&world, name, replicas).await {
            world.churn.did("rolled");
        }
    }
    world.remove_set(name).await;
}

/// Sets whose sandboxes end as soon as they have begun.
pub(super) async fn failing(world: Arc<World>) {
    let mut turns = world.churn.turns(0.1);
    while turns.next().await {
        let name = world.name("failing");
        let mut template = pod_template("hollow");
        template["metadata"]["annotations"] = json!({ "node.sandgate.test/exit": "1" });
        template["spec"]["restartPolicy"] = "Never".into();
        world.sets().create(&sandbox_set(&name, 2, &template)).await;
        let waits = world.until(format!("{name} waits before it makes more"), || async {
            let set = world.sets().get(&name).await.unwrap_or_default();
            let conditions = set["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            conditions.iter().any(|one: &Value| one["reason"] == "SandboxesFail" && one["status"] == "True")
        });
        if waits.await {
            world.churn.did("set of failures");
        }
        world.remove_set(&name).await;
    }
}

/// Sets that lose a pod each, and replace its sandbox.
pub(super) async fn losing_pods(world: Arc<World>) {
    let mut turns = world.churn.turns(0.2);
    while turns.next().await {
        let name = world.name("losing");
        world.sets().create(&sandbox_set(&name, 1, &pod_template("hollow"))).await;
        until_full(&world, &name, 1).await;
        let children = format!("agents.kruise.io/sandbox-pool={name}");
        let before = world.sandboxes().labelled(&children).await;
        if let Some(lost) = before.first().and_then(|sandbox| sandbox["metadata"]["name"].as_str()) {
            world.pods().delete_at_once(lost).await;
            let replaced = world.until(format!("{lost} is replaced"), || async {
                let now = world.sandboxes().labelled(&children).await;
                now.iter().all(|sandbox| sandbox["metadata"]["name"] != lost)
            });
            if replaced.await && until_full(&world, &name, 1).await {
                world.churn.did("pod deleted");
            }
        }
        world.remove_set(&name).await;
    }
}
