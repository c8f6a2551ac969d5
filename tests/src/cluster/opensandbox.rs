//! OpenSandbox's objects in one namespace: made, waited for, and checked against each other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Cluster, Objects, OperatorBuilder, Resource};
use crate::{DEADLINE, Tries};

const ALLOCATED: &str = "sandbox.opensandbox.io/alloc-status";
const RELEASED: &str = "sandbox.opensandbox.io/alloc-released";
const ENDPOINTS: &str = "sandbox.opensandbox.io/endpoints";

/// The kinds of one namespace that scenarios about pools and batches look at.
pub struct Batches {
    /// The cluster.
    pub cluster: Cluster,
    /// The namespace, which is the scenario's alone.
    pub namespace: String,
    /// Its batches.
    pub batches: Objects,
    /// Its pools.
    pub pools: Objects,
    /// Its snapshots.
    pub snapshots: Objects,
    /// Its pods.
    pub pods: Objects,
    /// Its jobs.
    pub jobs: Objects,
    /// What was said about them.
    pub events: Objects,
}

impl Batches {
    /// A new namespace.
    pub async fn new(cluster: &Cluster, prefix: &str) -> Self {
        let namespace = cluster.namespace(prefix).await;
        let of = |resource| cluster.objects(resource, &namespace);
        Self {
            batches: of(Resource::BatchSandbox),
            pools: of(Resource::Pool),
            snapshots: of(Resource::SandboxSnapshot),
            pods: of(Resource::Pod),
            jobs: of(Resource::Job),
            events: of(Resource::Event),
            cluster: cluster.clone(),
            namespace,
        }
    }

    /// A new namespace of the cluster that scenarios share.
    pub async fn shared(prefix: &str) -> Self {
        Self::new(&Cluster::shared().await, prefix).await
    }

    /// Describes an operator of this namespace.
    pub fn operator(&self) -> OperatorBuilder {
        self.cluster.operator().opensandbox(&self.namespace)
    }

    /// Waits until a pool has seen its newest spec and has so many pods in all, of which so many are
    /// allocated and so many ready for whoever comes.
    pub async fn levels(&self, pool: &str, total: u32, allocated: u32, available: u32) -> Value {
        let what = format!("{total} in all, {allocated} allocated, {available} available");
        self.pools
            .until(pool, &what, |object| {
                let status = &object["status"];
                status["observedGeneration"] == object["metadata"]["generation"]
                    && (&status["total"], &status["allocated"], &status["available"])
                        == (&json!(total), &json!(allocated), &json!(available))
            })
            .await
    }

    /// Waits until a batch has so many pods, all of them ready and each with its endpoint.
    pub async fn ready(&self, batch: &str, replicas: usize) -> Value {
        self.batches.until(batch, &format!("{replicas} are ready"), |object| is_ready(object, replicas)).await
    }

    /// Deletes a batch and waits until it is gone.
    pub async fn end(&self, batch: &str) {
        self.batches.delete(batch).await;
        self.batches.until_gone(batch).await;
    }

    /// The living pods of a pool.
    pub async fn pods_of(&self, pool: &str) -> Vec<Value> {
        let mut pods = self.pods.labelled(&format!("sandbox.opensandbox.io/pool-name={pool}")).await;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// Waits for an event with this reason about this object.
    pub async fn event(&self, about: &str, reason: &str) -> Value {
        let is_it = |event: &Value| event["regarding"]["name"] == about && event["reason"] == reason;
        let what = format!("{reason} is said about {about}");
        let all = self.events.until_all(&what, |all| all.iter().any(is_it)).await;
        all.into_iter().find(is_it).expect("the event")
    }

    /// Waits until the namespace has so many pods and none that is on its way out.
    pub async fn settled(&self, pods: usize) {
        let what = format!("{pods} pods are left");
        self.pods
            .until_all(&what, |all| {
                all.len() == pods && all.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            })
            .await;
    }

    /// Looks at one moment of every batch: no pod is in two of them, but where one has given it back. A pod
    /// that stands in a batch says so itself, as soon as it does.
    pub async fn assert_no_pod_is_shared(&self) {
        assert_apart(&self.batches.list().await);
    }

    /// Looks again and again until `done` says so, as [`Batches::assert_no_pod_is_shared`] does.
    pub async fn watch_apart(&self, what: &str, mut done: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
        let mut tries = Tries::new(what, 3 * DEADLINE);
        loop {
            tries.next().await;
            let batches = self.batches.list().await;
            assert_apart(&batches);
            if done(&batches) {
                return batches;
            }
        }
    }
}

/// No pod is held by two of these batches.
fn assert_apart(batches: &[Value]) {
    let mut holders: BTreeMap<String, &str> = BTreeMap::new();
    for batch in batches {
        let allocated = allocated(batch);
        let distinct: BTreeSet<&String> = allocated.iter().collect();
        assert_eq!(distinct.len(), allocated.len(), "a pod is twice in {batch:#}");
        for pod in holds(batch) {
            if let Some(other) = holders.insert(pod.clone(), name(batch)) {
                panic!("{pod} is in {other} and in {}: {batches:#?}", name(batch));
            }
        }
    }
}

/// The pods that a batch was given, in the order of its sandboxes.
pub fn allocated(batch: &Value) -> Vec<String> {
    pods(batch, ALLOCATED)
}

/// The pods that a batch has given back.
pub fn released(batch: &Value) -> Vec<String> {
    pods(batch, RELEASED)
}

/// The pods that a batch has.
pub fn holds(batch: &Value) -> Vec<String> {
    let released = released(batch);
    allocated(batch).into_iter().filter(|pod| !released.contains(pod)).collect()
}

/// The addresses of a batch's sandboxes, empty where there is none.
pub fn endpoints(batch: &Value) -> Vec<String> {
    annotation(batch, ENDPOINTS).map_or_else(Vec::new, |text| serde_json::from_str(text).expect("a list"))
}

fn pods(batch: &Value, key: &str) -> Vec<String> {
    let Some(text) = annotation(batch, key) else { return Vec::new() };
    let held: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{key}: {e}: {text}"));
    let pods = held["pods"].as_array().map(Vec::as_slice).unwrap_or_default();
    pods.iter().map(|pod| pod.as_str().expect("a name").to_owned()).collect()
}

/// An annotation of an object.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// The name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// What tells an object from any other of its name.
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().expect("a UID")
}

/// A condition of an object. One that is false is not there.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Whether so many pods of a batch are all ready, and each has its endpoint.
pub fn is_ready(batch: &Value, replicas: usize) -> bool {
    let (status, count) = (&batch["status"], json!(replicas));
    let endpoints = endpoints(batch);
    ["replicas", "allocated", "ready"].iter().all(|field| status[field] == count)
        && endpoints.len() == replicas
        && endpoints.iter().all(|endpoint| !endpoint.is_empty())
        && condition(batch, "Ready").is_some_and(|ready| ready["status"] == "True")
}
