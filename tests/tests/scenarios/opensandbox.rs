//! Pools, batches, tasks and snapshots made by our own operator: a real control plane, a node that runs real
//! processes, the real commands, and the gateway beside them.
//!
//! The scenarios share a cluster ([`Cluster::shared`](sandgate_tests::cluster::Cluster::shared)): each has a
//! namespace and an operator of its own, and kills no more than that.

mod assign;
mod batches;
mod defects;
mod gateway;
mod integrity;
mod pause_resume;
mod pools;
mod races;
mod recovery;
mod recycle;
mod tasks;
mod updates;
mod wishes;

use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;
use sandgate_tests::cluster::{Batches, name, uid};
use serde_json::{Value, json};

const RECYCLE_BY: [&str; 3] = ["Noop", "Delete", "Restart"];
const EVICT: &str = "pool.opensandbox.io/evict";
const TASK_FINALIZER: &str = "batch-sandbox.sandbox.opensandbox.io/task-cleanup";
const POOL_FINALIZER: &str = "pool.sandbox.opensandbox.io/pool-allocation";

/// The same pool with another way to recycle its pods.
fn recycling(mut pool: Value, kind: &str) -> Value {
    pool["spec"]["recycleStrategy"] = json!({ "type": kind });
    pool
}

/// A template with an order to the node: how its pods misbehave.
fn cued(mut template: Value, cue: &str, value: &str) -> Value {
    template["metadata"]["annotations"][format!("node.sandgate.test/{cue}")] = json!(value);
    template
}

/// The same template, and yet another one.
fn labelled(mut template: Value, value: &str) -> Value {
    template["metadata"]["labels"]["generation"] = json!(value);
    template
}

fn capacity(buffer: [u32; 2], bounds: [u32; 2]) -> Value {
    json!({ "spec": { "capacitySpec": {
        "bufferMin": buffer[0], "bufferMax": buffer[1], "poolMin": bounds[0], "poolMax": bounds[1],
    } } })
}

fn replicas(count: u32) -> Value {
    json!({ "spec": { "replicas": count } })
}

/// A time of the near future, as objects have it.
fn in_seconds(seconds: u64) -> Value {
    let at = Timestamp::try_from(SystemTime::now() + Duration::from_secs(seconds)).expect("a time");
    json!(Timestamp::from_second(at.as_second()).expect("a time").to_string())
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&json!(finalizer)))
}

fn pod_is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

/// What pods are called, in order.
fn names(pods: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = pods.iter().map(|pod| name(pod).to_owned()).collect();
    names.sort();
    names
}

/// The pods of these names, each with its UID.
async fn uids(place: &Batches, pods: &[String]) -> Vec<String> {
    let mut uids = Vec::new();
    for pod in pods {
        let pod = place.pods.get(pod).await.unwrap_or_else(|| panic!("{pod} is there"));
        uids.push(uid(&pod).to_owned());
    }
    uids
}
