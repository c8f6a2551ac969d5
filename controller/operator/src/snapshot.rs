//! The controller of snapshots: the containers of a batch's pod, kept as images.
//!
//! Each look at a snapshot is [`observe`](observe::observe), [`plan`](plan::plan), apply. What to do is
//! decided by the plan alone, which is a function of values.
//!
//! 1. The pod is found, and what is going to be kept of it is written down.
//! 2. A Job on the pod's node commits and pushes the images. The Job has a name of its own, so there is never
//!    a second one; a Job of an earlier snapshot of the same name has another UID as controller, and goes
//!    first.
//! 3. The result is written down. A snapshot that is made or has failed stays as it is.
//!
//! Whoever resumes from a snapshot reads it. What runs in the Job is behind [`Committer`].

mod apply;
mod job;
mod observe;
mod plan;
mod source;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::SandboxSnapshot;

use crate::events::Events;
use crate::reference::reference;
use crate::view::View;
use crate::writes::Writes;
use crate::{Again, Clock, Failed, Key, Reconciler};
pub use job::{CommitWork, Committer, ImageCommitter};
pub(crate) use plan::is_terminal;
pub(crate) use source::batch_uid;
#[cfg(test)]
pub(crate) use source::index_of;

/// What snapshots need to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Where images are pushed to; without it no snapshot can be made.
    pub registry: Option<String>,
    /// Whether the registry is spoken to without TLS.
    pub registry_insecure: bool,
    /// The image of the Job.
    pub committer_image: String,
    /// The socket of containerd, on the nodes.
    pub containerd_socket: String,
    /// How long a Job may take.
    pub commit_timeout: Duration,
    /// The Secret with the credentials to push with, in the namespace of the snapshot.
    pub push_secret: Option<String>,
    /// The Secret with the credentials to pull the image of the Job with, in the namespace of the snapshot.
    pub pull_secret: Option<String>,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        Self {
            registry: None,
            registry_insecure: false,
            committer_image: "image-committer:dev".to_owned(),
            containerd_socket: "/var/run/containerd/containerd.sock".to_owned(),
            commit_timeout: Duration::from_secs(600),
            push_secret: None,
            pull_secret: None,
        }
    }
}

/// The reconciler of snapshots.
pub struct SandboxSnapshotReconciler {
    view: View,
    writes: Writes,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    registry: Option<String>,
    committer: Arc<dyn Committer>,
}

impl SandboxSnapshotReconciler {
    /// A reconciler that reads the view and writes by `writes`, with OpenSandbox's Job.
    pub fn new(
        view: View,
        writes: Writes,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
        settings: SnapshotSettings,
    ) -> Self {
        let registry = settings.registry.clone().filter(|registry| !registry.is_empty());
        let committer = Arc::new(ImageCommitter(settings));
        Self { view, writes, events, clock, registry, committer }
    }

    /// The same with another Job.
    #[must_use]
    pub fn with_committer(mut self, committer: Arc<dyn Committer>) -> Self {
        self.committer = committer;
        self
    }
}

impl Reconciler for SandboxSnapshotReconciler {
    const NAME: &'static str = "sandboxsnapshot";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let Some(observed) = observe::observe(&self.view, key, self.clock.now()) else {
            return Ok(Again::Forget);
        };
        let plan = plan::plan(&observed, self.registry.is_some());
        self.apply(&observed, plan).await
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let snapshot = self.view.get::<SandboxSnapshot>(key)?;
        Some(reference(names::API_VERSION, "SandboxSnapshot", key, &snapshot.uid))
    }
}
