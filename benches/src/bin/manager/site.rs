//! A cluster without an operator: the bench writes the sandboxes of a pool itself, as an operator would have
//! left them.

use std::time::Duration;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use sandgate_tests::cluster::{Cluster, Manager, Resource, sandbox_set};
use sandgate_tests::eventually;
use sandgate_tests::kubernetes::{Draft, kruise, pod_template};
use serde_json::{Value, json};

use crate::objects::claimed_template;

/// The set's name.
pub(crate) const SET: &str = "base";
/// How long something may take that is not measured.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    pub(crate) namespace: String,
    /// The UID of the set.
    set: String,
    revision: String,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::builder().api_flag("--delete-collection-workers=16").start().await;
        let namespace = cluster.namespace("pool").await;
        let sets = cluster.objects(Resource::SandboxSet, &namespace);
        // As large as a pod template of a real sandbox.
        let made = sets.create(&sandbox_set(SET, 0, &pod_template())).await;
        let revision = "r1".to_owned();
        sets.patch_status(SET, &json!({ "updateRevision": revision, "observedGeneration": 1 })).await;
        let set = made["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Self { cluster, namespace, set, revision }
    }

    /// A sandbox that waits in the pool.
    pub(crate) fn member(&self, name: &str, ip: [u8; 4]) -> Draft {
        kruise(self.cluster.api(), &self.namespace, name).with_template().running(std::net::IpAddr::from(ip)).merge(json!({
            "metadata": {
                "labels": {
                    "agents.kruise.io/sandbox-pool": SET, "agents.kruise.io/sandbox-template": SET,
                    "agents.kruise.io/sandbox-claimed": "false", "agents.kruise.io/template-hash": self.revision,
                },
                "ownerReferences": [{
                    "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxSet", "name": SET,
                    "uid": self.set, "controller": true, "blockOwnerDeletion": true,
                }],
            },
            // Written past the API server's checks, so it must have every field that the definition asks for.
            "status": {
                "observedGeneration": 1,
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "PodReady", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        }))
    }

    /// A sandbox that somebody has claimed.
    pub(crate) fn claimed(&self, number: usize, ip: [u8; 4]) -> Draft {
        self.member(&name("claimed", number), ip).merge(json!({
            "metadata": {
                "labels": {
                    "agents.kruise.io/sandbox-claimed": "true",
                    "agents.kruise.io/sandbox-id": format!("id{number:018}"),
                },
                "annotations": {
                    "agents.kruise.io/lock": format!("{number:032}"),
                    "agents.kruise.io/owner": format!("00000000-0000-4000-8000-{:012}", number % 100),
                    "agents.kruise.io/claim-timestamp": "2026-01-01T00:00:00Z",
                    "agents.kruise.io/runtime-access-token": format!("{number:032}"),
                    "agents.kruise.io/init-runtime-request":
                        format!("{{\"envVars\":{{}},\"accessToken\":\"{number:032}\"}}"),
                },
                "ownerReferences": [],
            },
            "spec": { "shutdownTime": "2036-01-01T00:00:00Z", "template": claimed_template(number) },
        }))
    }

    /// Fills the pool with so many.
    pub(crate) async fn fill(&self, prefix: &str, count: usize) {
        self.add((0..count).map(|number| self.member(&name(prefix, number), address(number)))).await;
    }

    /// Adds sandboxes while others follow, each in a transaction of its own: objects of one transaction have
    /// one version, which the API server never does.
    pub(crate) async fn add(&self, sandboxes: impl Iterator<Item = Draft>) {
        for sandbox in sandboxes {
            self.cluster.api().seed([sandbox]).await;
        }
    }

    /// Waits until the manager has so many sandboxes in its cache.
    pub(crate) async fn until_followed(&self, manager: &Manager, count: usize) {
        eventually(&format!("the manager knows {count} sandboxes"), PATIENCE, async || {
            tokio::time::sleep(Duration::from_millis(50)).await;
            // One that has just been started does not answer yet.
            let metrics = manager.page("/metrics").await?;
            let line = metrics.text().lines().find(|line| {
                line.starts_with("sandgate_manager_objects") && line.contains("\"sandboxes\"")
            })?;
            let known: f64 = line.rsplit(' ').next()?.parse().ok()?;
            (known == count as f64).then_some(())
        })
        .await;
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("agents.kruise.io", "v1alpha1", "Sandbox");
        let resource = ApiResource { plural: "sandboxes".to_owned(), ..ApiResource::from_gvk(&kind) };
        Api::namespaced_with(self.cluster.client(), &self.namespace, &resource)
    }

    /// Every sandbox.
    pub(crate) async fn sandboxes(&self) -> Vec<Value> {
        let all = self.api().list(&ListParams::default()).await.expect("a list");
        all.items.into_iter().map(|object| serde_json::to_value(object).expect("JSON")).collect()
    }

    /// Deletes every sandbox, and waits until they are gone.
    pub(crate) async fn clear(&self) {
        let api = self.api();
        eventually("no sandbox is left", PATIENCE, async || {
            let all = ListParams::default();
            // Objects that go while it runs are an error of the call and are what is wanted.
            let _asked = api.delete_collection(&DeleteParams::background(), &all).await;
            let left = api.list_metadata(&all.limit(1)).await.ok()?;
            left.items.is_empty().then_some(())
        })
        .await;
    }
}

/// The name of one of many.
pub(crate) fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:06}")
}

/// An address of its own for each, on this machine.
pub(crate) fn address(number: usize) -> [u8; 4] {
    let [_, high, middle, low] = u32::try_from(number).unwrap_or(0).to_be_bytes();
    [127, 100 + high, middle, low.max(1)]
}
