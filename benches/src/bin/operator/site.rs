//! A cluster with one node of hollow pods, and what the bench does to its objects.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use sandgate_tests::cluster::{Cluster, Node, Operator, Resource, pod_template, sandbox_set};
use sandgate_tests::eventually;
use serde_json::Value;

/// The set's name.
pub(crate) const SET: &str = "base";

/// How long so many sandboxes may take to come or to go.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The objects that a round leaves behind, with whatever makes new ones first.
const LEFT: [(&str, &str, &str); 4] = [
    ("agents.kruise.io", "v1alpha1", "SandboxSet"),
    ("agents.kruise.io", "v1alpha1", "Sandbox"),
    ("agents.kruise.io", "v1alpha1", "SandboxTemplate"),
    ("", "v1", "Pod"),
];

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

    /// The operator, alone and ready.
    pub(crate) async fn operator(&self) -> Operator {
        self.cluster.operator().flag("--log=warn").start().await
    }

    /// The operator as it is installed: one that renews its lease.
    pub(crate) async fn elected_operator(&self) -> Operator {
        self.cluster.operator().flag("--log=warn").elected(15).start().await
    }

    /// Asks for a set of so many sandboxes with hollow pods.
    pub(crate) async fn make_set(&self, namespace: &str, replicas: u32) -> Value {
        let set = sandbox_set(SET, replicas, &template());
        self.cluster.objects(Resource::SandboxSet, namespace).create(&set).await
    }

    /// Changes how many there are to be, and waits until so many are available and the set is at rest.
    pub(crate) async fn scale(&self, namespace: &str, replicas: u32) {
        let sets = self.cluster.objects(Resource::SandboxSet, namespace);
        sets.patch(SET, &serde_json::json!({ "spec": { "replicas": replicas } })).await;
        self.settled(namespace, replicas).await;
    }

    /// Waits until so many sandboxes are available.
    pub(crate) async fn settled(&self, namespace: &str, replicas: u32) {
        let sets = self.cluster.objects(Resource::SandboxSet, namespace);
        eventually(&format!("{replicas} sandboxes are available"), PATIENCE, async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let set = sets.get(SET).await?;
            let is = |field: &str| set["status"][field] == replicas;
            (is("replicas") && is("availableReplicas")).then_some(())
        })
        .await;
    }

    /// Deletes everything that a round made, and waits until it is gone.
    pub(crate) async fn clear(&self, namespace: &str) {
        for (group, version, kind) in LEFT {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::namespaced_with(self.client(), namespace, &resource);
            eventually(&format!("no {kind} is left"), PATIENCE, async || {
                let at_once = DeleteParams::background().grace_period(0);
                let all = ListParams::default();
                // Objects that go while it runs are an error of the call and are what is wanted.
                let _asked = api.delete_collection(&at_once, &all).await;
                let left = api.list_metadata(&all.limit(1)).await.ok()?;
                left.items.is_empty().then_some(())
            })
            .await;
        }
    }
}

/// What every sandbox is made from.
pub(crate) fn template() -> Value {
    pod_template("hollow")
}
