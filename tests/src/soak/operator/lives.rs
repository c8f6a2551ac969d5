//! The lives of single sandboxes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::BASE;
use super::world::{Reached, World, condition, is_ready};
use crate::cluster::{pod_template, sandbox};
use crate::kubernetes::timestamp;

/// One after the other is claimed from the set, paused, resumed and deleted.
pub(super) async fn claimed(world: Arc<World>) {
    let mut turns = world.churn.turns(0.4);
    while turns.next().await {
        if let Some(name) = claim(&world).await {
            world.churn.did("claimed");
            pause_and_resume(&world, &name).await;
            world.remove(&name).await;
            world.churn.did("deleted");
        }
    }
}

/// Takes the set's reference away from a sandbox that is ready. None if somebody else was quicker.
async fn claim(world: &World) -> Option<String> {
    let selector = format!("agents.kruise.io/sandbox-pool={},agents.kruise.io/sandbox-claimed=false", BASE.0);
    let warm = world.sandboxes().labelled(&selector).await;
    let is_warm = |sandbox: &&Value| is_ready(sandbox) && sandbox["metadata"]["deletionTimestamp"].is_null();
    let metadata = &warm.iter().find(is_warm)?["metadata"];
    let name = metadata["name"].as_str()?;
    let patch = json!({ "metadata": {
        "resourceVersion": metadata["resourceVersion"],
        "ownerReferences": null,
        "labels": { "agents.kruise.io/sandbox-claimed": "true" },
    } });
    world.sandboxes().try_patch(name, &patch).await.is_ok().then(|| name.to_owned())
}

async fn pause_and_resume(world: &World, name: &str) {
    world.sandboxes().patch(name, &json!({ "spec": { "paused": true } })).await;
    let is_paused = |sandbox: &Value| condition(sandbox, "SandboxPaused", "True");
    if world.until_sandbox(name, "it is paused", is_paused).await != Reached::Yes {
        return;
    }
    if world.pods().get(name).await.is_some() {
        world.churn.unexpected(format!("{name} is paused and has a pod"));
    }
    world.churn.did("paused");
    world.sandboxes().patch(name, &json!({ "spec": { "paused": false } })).await;
    if world.until_sandbox(name, "it runs again", is_ready).await == Reached::Yes {
        world.churn.did("resumed");
    }
}

/// Sandboxes that end by their shutdown time.
pub(super) async fn expiring(world: Arc<World>) {
    let mut turns = world.churn.turns(0.3);
    while turns.next().await {
        let name = world.name("expiring");
        let mut draft = sandbox(&name, &pod_template("hollow"));
        draft["spec"]["shutdownTime"] = timestamp(SystemTime::now() + Duration::from_secs(2)).into();
        world.sandboxes().create(&draft).await;
        let gone = world.until(format!("{name} has expired"), || async {
            world.sandboxes().get(&name).await.is_none() && world.pods().get(&name).await.is_none()
        });
        if gone.await {
            world.churn.did("expired");
        }
    }
}

/// Sandboxes whose image cannot be pulled.
pub(super) async fn without_image(world: Arc<World>) {
    let mut turns = world.churn.turns(0.2);
    while turns.next().await {
        let name = world.name("imageless");
        let mut template = pod_template("hollow");
        template["metadata"]["annotations"] = json!({ "node.sandgate.test/image-pull": "fail" });
        world.sandboxes().create(&sandbox(&name, &template)).await;
        let says_so = |sandbox: &Value| {
            let conditions =
                sandbox["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            conditions.iter().any(|one| one["reason"] == "StartContainerFailed")
        };
        if world.until_sandbox(&name, "its status says why", says_so).await == Reached::Yes {
            world.churn.did("image missing");
        }
        world.remove(&name).await;
    }
}

/// One sandbox after the other is not ready for a while, and lives on.
pub(super) async fn flapping(world: Arc<World>) {
    let mut turns = world.churn.turns(0.2);
    while turns.next().await {
        let name = world.name("flapping");
        world.sandboxes().create(&sandbox(&name, &pod_template("hollow"))).await;
        for (ready, value) in [("True", Value::Null), ("False", "false".into()), ("True", Value::Null)] {
            // The first is as it is already.
            if world.pods().get(&name).await.is_some() {
                let patch = json!({ "metadata": { "annotations": { "node.sandgate.test/ready": value } } });
                // A pod that its node has lost may be gone by now.
                let _gone = world.pods().try_patch(&name, &patch).await;
            }
            let holds = |sandbox: &Value| {
                sandbox["status"]["phase"] == "Running" && condition(sandbox, "Ready", ready)
            };
            if world.until_sandbox(&name, &format!("Ready is {ready}"), holds).await != Reached::Yes {
                break;
            }
            if ready == "False" {
                world.churn.did("not ready for a while");
            }
        }
        world.remove(&name).await;
    }
}
