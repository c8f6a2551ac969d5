//! A cluster with one node of hollow pods, and what the bench does to its pools and batches.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use sandgate_tests::cluster::{Cluster, Node, Operator, Resource, pod_template, pool, pooled};
use sandgate_tests::eventually;
use serde_json::{Value, json};

/// The pool's name.
pub(crate) const POOL: &str = "base";

/// How long so many pods may take to come or to go.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How many objects are created at a time.
const AT_A_TIME: usize = 32;

pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    _node: Node,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::builder()
            // What a round leaves goes in seconds.
            .api_flag("--delete-collection-workers=16")
            .start()
            .await;
        let node = cluster.node("hollow").start().await;
        Self { cluster, _node: node }
    }

    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
    }

    /// The operator of a namespace, alone and ready.
    pub(crate) async fn operator(&self, namespace: &str) -> Operator {
        self.cluster.operator().opensandbox(namespace).flag("--log=warn").start().await
    }

    /// Asks for a pool of exactly so many hollow pods, which are used again and again as they are.
    pub(crate) async fn make_pool(&self, namespace: &str, size: u32) {
        let mut object = pool(POOL, &template(), [0, size], [size, size]);
        object["spec"]["recycleStrategy"] = json!({ "type": "Noop" });
        self.cluster.objects(Resource::Pool, namespace).create(&object).await;
    }

    /// Changes the size of the pool.
    pub(crate) async fn resize_pool(&self, namespace: &str, size: u32) {
        let capacity = json!({ "bufferMin": 0, "bufferMax": size, "poolMin": size, "poolMax": size });
        let patch = json!({ "spec": { "capacitySpec": capacity } });
        self.cluster.objects(Resource::Pool, namespace).patch(POOL, &patch).await;
    }

    /// Waits until all pods of the pool are ready, and none is anybody's.
    pub(crate) async fn all_free(&self, namespace: &str, size: u32) {
        let pools = self.cluster.objects(Resource::Pool, namespace);
        eventually(&format!("{size} pods are free"), PATIENCE, async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let pool = pools.get(POOL).await?;
            let is = |field: &str, count: u32| pool["status"][field] == count;
            (is("total", size) && is("allocated", 0) && is("available", size)).then_some(())
        })
        .await;
    }

    /// Makes batches of one sandbox each, from the pool.
    pub(crate) async fn make_batches(&self, namespace: &str, prefix: &str, count: u32) {
        let batches = self.cluster.objects(Resource::BatchSandbox, namespace);
        let make = |number: u32| {
            let (batches, object) = (batches.clone(), pooled(&format!("{prefix}-{number:05}"), 1, POOL));
            async move { drop(batches.create(&object).await) }
        };
        stream::iter(0..count).for_each_concurrent(AT_A_TIME, make).await;
    }

    /// Deletes all batches, and waits until they are gone.
    pub(crate) async fn end_batches(&self, namespace: &str) {
        let api = batches(self.client(), namespace);
        eventually("no batch is left", PATIENCE, async || {
            let all = ListParams::default();
            // Objects that go while it runs are an error of the call and are what is wanted.
            let _asked = api.delete_collection(&DeleteParams::background(), &all).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            let left = api.list_metadata(&all.limit(1)).await.ok()?;
            left.items.is_empty().then_some(())
        })
        .await;
    }
}

/// What every pod is made from.
pub(crate) fn template() -> Value {
    pod_template("hollow")
}

/// The batches of a namespace.
pub(crate) fn batches(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("sandbox.opensandbox.io", "v1alpha1", "BatchSandbox");
    let resource = ApiResource { plural: "batchsandboxes".to_owned(), ..ApiResource::from_gvk(&kind) };
    Api::namespaced_with(client, namespace, &resource)
}
