//! What all who take part in the churn around the operator know.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, Objects, Resource};
use crate::soak::churn::Churn;

/// How long anything may take. Longer than a lost node is lost: what was on it goes on when it is back.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// The time between two looks at what is awaited.
const EVERY: Duration = Duration::from_millis(100);

pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) namespace: String,
    pub(super) churn: Churn,
}

impl World {
    pub(super) fn new(cluster: Cluster, namespace: String, speed: f64) -> Self {
        Self { cluster, namespace, churn: Churn::new(speed) }
    }

    pub(super) fn objects(&self, resource: Resource) -> Objects {
        self.cluster.objects(resource, &self.namespace)
    }

    pub(super) fn sandboxes(&self) -> Objects {
        self.objects(Resource::Sandbox)
    }

    pub(super) fn sets(&self) -> Objects {
        self.objects(Resource::SandboxSet)
    }

    pub(super) fn pods(&self) -> Objects {
        self.objects(Resource::Pod)
    }

    /// A name that nobody else has.
    pub(super) fn name(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.churn.number())
    }

    /// Asks `look` until it answers `Some`. What it never answers is unexpected.
    pub(super) async fn find<T, F>(&self, what: String, look: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Option<T>>,
    {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(found) = look().await {
                return Some(found);
            }
            // The lists of many who wait would be the load.
            sleep(EVERY).await;
        }
        self.churn.unexpected(format!("not within {PATIENCE:?}: {what}"));
        None
    }

    /// Waits until what `look` sees is as it should be, and says whether it was.
    pub(super) async fn until<F: Future<Output = bool>>(&self, what: String, look: impl Fn() -> F) -> bool {
        let look = || async { look().await.then_some(()) };
        self.find(what, look).await.is_some()
    }

    /// Waits until a sandbox satisfies the condition; also says so when it has failed or is gone, which is
    /// what a lost node does to it.
    pub(super) async fn until_sandbox(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Reached {
        let look = || async {
            match self.sandboxes().get(name).await {
                None => Some(Reached::Gone),
                Some(sandbox) if sandbox["status"]["phase"] == "Failed" => Some(Reached::Failed),
                Some(sandbox) => holds(&sandbox).then_some(Reached::Yes),
            }
        };
        self.find(format!("{name}: {what}"), look).await.unwrap_or(Reached::Failed)
    }

    /// Deletes a sandbox and waits until it and its pod are gone.
    pub(super) async fn remove(&self, name: &str) {
        self.sandboxes().delete(name).await;
        self.until(format!("{name} and its pod are gone"), || async {
            self.sandboxes().get(name).await.is_none() && self.pods().get(name).await.is_none()
        })
        .await;
    }

    /// Deletes a set and waits until nothing of it is left.
    pub(super) async fn remove_set(&self, name: &str) {
        self.sets().delete(name).await;
        let children = format!("agents.kruise.io/sandbox-pool={name}");
        self.until(format!("nothing is left of the set {name}"), || async {
            self.sandboxes().labelled(&children).await.is_empty()
                && self.objects(Resource::SandboxTemplate).labelled(&children).await.is_empty()
        })
        .await;
    }
}

/// What became of a wait for a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// It is as it should be.
    Yes,
    /// It has failed.
    Failed,
    /// It is not there any more.
    Gone,
}

/// Whether an object has a condition with this status.
pub(super) fn condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == kind && one["status"] == status)
}

/// Whether a sandbox can be used.
pub(super) fn is_ready(sandbox: &Value) -> bool {
    sandbox["status"]["phase"] == "Running" && condition(sandbox, "Ready", "True")
}
