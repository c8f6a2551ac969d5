//! Objects of the cluster as JSON: read, written, waited for.

mod follow;

use std::time::Duration;

use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::{DEADLINE, Tries};

/// How long objects may take to be as a scenario wants them: several programs work on that in turn.
const PATIENCE: Duration = DEADLINE.saturating_mul(3);

/// A kind of objects that scenarios look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Ours: a sandbox.
    Sandbox,
    /// Ours: a set of warm sandboxes.
    SandboxSet,
    /// Ours: a revision of a set.
    SandboxTemplate,
    /// Ours: a checkpoint.
    Checkpoint,
    /// OpenSandbox's: some sandboxes that are one's.
    BatchSandbox,
    /// OpenSandbox's: pods that are ready for them.
    Pool,
    /// OpenSandbox's: images made of a sandbox.
    SandboxSnapshot,
    /// An environment of scitix's kinds.
    SandboxEnv,
    /// A pool of an environment.
    SandboxPool,
    /// What pools of environments are made from; it has no namespace.
    EnvTemplate,
    /// A pod.
    Pod,
    /// A node; it has no namespace.
    Node,
    /// A job.
    Job,
    /// A config map.
    ConfigMap,
    /// A service account.
    ServiceAccount,
    /// A claim of a volume.
    PersistentVolumeClaim,
    /// Who leads.
    Lease,
    /// What controllers say about an object.
    Event,
}

impl Resource {
    /// The kinds of our definitions.
    pub const OURS: [Self; 10] = [
        Self::Sandbox,
        Self::SandboxSet,
        Self::SandboxTemplate,
        Self::Checkpoint,
        Self::BatchSandbox,
        Self::Pool,
        Self::SandboxSnapshot,
        Self::SandboxEnv,
        Self::SandboxPool,
        Self::EnvTemplate,
    ];

    fn api_resource(self) -> ApiResource {
        let (group, version) = match self {
            Self::Sandbox | Self::SandboxSet | Self::SandboxTemplate | Self::Checkpoint => {
                ("agents.kruise.io", "v1alpha1")
            }
            Self::BatchSandbox | Self::Pool | Self::SandboxSnapshot => ("sandbox.opensandbox.io", "v1alpha1"),
            Self::SandboxEnv | Self::SandboxPool | Self::EnvTemplate => ("agents.navix.sh", "v1alpha1"),
            Self::Pod | Self::Node | Self::ConfigMap | Self::ServiceAccount | Self::PersistentVolumeClaim => {
                ("", "v1")
            }
            Self::Job => ("batch", "v1"),
            Self::Lease => ("coordination.k8s.io", "v1"),
            Self::Event => ("events.k8s.io", "v1"),
        };
        let kind = match self {
            Self::EnvTemplate => "SandboxTemplate".to_owned(),
            _ => format!("{self:?}"),
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind))
    }
}

pub use follow::Follower;

/// The objects of one kind in one namespace.
#[derive(Clone)]
pub struct Objects {
    api: Api<DynamicObject>,
    resource: Resource,
}

impl Objects {
    pub(super) fn of(client: Client, resource: Resource, namespace: &str) -> Self {
        let api = match resource {
            Resource::Node | Resource::EnvTemplate => Api::all_with(client, &resource.api_resource()),
            _ => Api::namespaced_with(client, namespace, &resource.api_resource()),
        };
        Self { api, resource }
    }

    /// The object as the server has it now, if there is one.
    pub async fn get(&self, name: &str) -> Option<Value> {
        let found = self.api.get_opt(name).await;
        found.unwrap_or_else(|e| panic!("get {:?} {name}: {e}", self.resource)).map(json)
    }

    /// All objects, in the order of their names.
    pub async fn list(&self) -> Vec<Value> {
        self.try_list().await.unwrap_or_else(|e| panic!("list {:?}: {e}", self.resource))
    }

    pub(super) async fn try_list(&self) -> kube::Result<Vec<Value>> {
        Ok(self.api.list(&ListParams::default()).await?.items.into_iter().map(json).collect())
    }

    /// The objects with these labels (`key=value,…`).
    pub async fn labelled(&self, selector: &str) -> Vec<Value> {
        let list = self.api.list(&ListParams::default().labels(selector)).await;
        let list = list.unwrap_or_else(|e| panic!("list {:?} with {selector}: {e}", self.resource));
        list.items.into_iter().map(json).collect()
    }

    /// Makes an object and gives it as the server made it.
    pub async fn create(&self, object: &Value) -> Value {
        self.try_create(object).await.unwrap_or_else(|e| panic!("create {object}: {e}"))
    }

    /// Makes an object.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn try_create(&self, object: &Value) -> kube::Result<Value> {
        let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
        self.api.create(&PostParams::default(), &object).await.map(json)
    }

    /// Changes an object by a merge patch.
    pub async fn patch(&self, name: &str, patch: &Value) -> Value {
        self.try_patch(name, patch).await.unwrap_or_else(|e| panic!("patch {name} with {patch}: {e}"))
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn try_patch(&self, name: &str, patch: &Value) -> kube::Result<Value> {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(json)
    }

    /// Changes an object's status by a merge patch.
    pub async fn patch_status(&self, name: &str, patch: &Value) -> Value {
        let done = self.try_patch_status(name, patch).await;
        done.unwrap_or_else(|e| panic!("patch the status of {name} with {patch}: {e}"))
    }

    /// Changes an object's status by a merge patch.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn try_patch_status(&self, name: &str, patch: &Value) -> kube::Result<Value> {
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(json)
    }

    /// Deletes an object; one that is gone is no error.
    pub async fn delete(&self, name: &str) {
        self.delete_with(name, &DeleteParams::default()).await;
    }

    /// Deletes an object without waiting for anybody, as when it is known that its node is gone.
    pub async fn delete_at_once(&self, name: &str) {
        self.delete_with(name, &DeleteParams::default().grace_period(0)).await;
    }

    pub(super) async fn delete_with(&self, name: &str, how: &DeleteParams) {
        match self.api.delete(name, how).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(e) => panic!("delete {:?} {name}: {e}", self.resource),
        }
    }

    /// Waits until the object is as `holds` asks, and gives it.
    pub async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        let mut tries = Tries::new(what, PATIENCE * 2);
        loop {
            tries.next().await;
            let last = self.get(name).await;
            if let Some(found) = last.as_ref().filter(|object| holds(object)) {
                return found.clone();
            }
            let last = last.unwrap_or_default();
            let in_time = Instant::now() < end;
            assert!(in_time, "not within {PATIENCE:?}: {:?} {name}: {what}, but {last:#}", self.resource);
        }
    }

    /// Waits until all objects are as `holds` asks, and gives them.
    pub async fn until_all(&self, what: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let end = Instant::now() + PATIENCE;
        let mut tries = Tries::new(what, PATIENCE * 2);
        loop {
            tries.next().await;
            let last = self.list().await;
            if holds(&last) {
                return last;
            }
            assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}, but {:#}", Value::from(last));
        }
    }

    /// Waits until there is no such object.
    pub async fn until_gone(&self, name: &str) {
        let what = format!("{:?} {name} is gone", self.resource);
        let mut tries = Tries::new(&what, PATIENCE);
        while self.get(name).await.is_some() {
            tries.next().await;
        }
    }
}

fn json(object: DynamicObject) -> Value {
    serde_json::to_value(object).expect("JSON")
}
