//! What the controllers of OpenSandbox's kinds need to know of a pod.

mod raw;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::{Seen, Viewed, seen};
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::resources::decode;

use raw::RawPod;

/// A pod of a pool or of a batch, trimmed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodState {
    /// The Pool or the BatchSandbox that controls it.
    pub owner: Option<Owner>,
    /// The pool that its label names.
    pub pool: Option<Arc<str>>,
    /// The revision of the pool that it was made from; empty if no label says so.
    pub revision: Arc<str>,
    /// The batch that its label names.
    pub batch: Option<Arc<str>>,
    /// Its index in the batch: of the label, or of the number at the end of its name where the label is no
    /// number.
    pub index: Option<u32>,
    /// Whether its index is in a label.
    pub(crate) has_index: bool,
    /// Whose pod it is: `uid/name` of a batch. See [`mark_of`](super::mark_of).
    pub allocated_to: Option<Arc<str>>,
    /// The record of a restart that is under way.
    pub restart_record: Option<Arc<str>>,
    /// Whether somebody asked for its eviction.
    pub wants_eviction: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The phase.
    pub phase: PodPhase,
    /// Whether it runs and serves.
    pub is_ready: bool,
    /// Since when the condition Ready is as it is.
    pub ready_since: Option<Timestamp>,
    /// When it was created.
    pub created: Timestamp,
    /// Its address.
    pub ip: Option<Arc<str>>,
    /// Where it runs.
    pub node: Option<Arc<str>>,
    /// The containers, the init containers first.
    pub containers: Vec<ContainerState>,
    /// Why it is in its phase.
    pub reason: Option<Arc<str>>,
    /// The same in words.
    pub message: Option<Arc<str>>,
}

/// The controller of a pod, if it is one of OpenSandbox's kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `Pool` or `BatchSandbox`.
    pub kind: Arc<str>,
    /// Which object.
    pub uid: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// The phase of a pod, in the order in which idle pods are let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// Not started yet.
    #[default]
    Pending,
    /// The node does not answer.
    Unknown,
    /// At least one container runs.
    Running,
    /// Every container ended well.
    Succeeded,
    /// A container ended badly, and none runs again.
    Failed,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerState {
    /// The name.
    pub name: Arc<str>,
    /// Whether it is an init container.
    pub is_init: bool,
    /// Which run of it this is.
    pub id: Option<Arc<str>>,
    /// Whether it runs.
    pub is_running: bool,
    /// Why it waits, if it does.
    pub waiting: Option<Arc<str>>,
    /// The same in words.
    pub waiting_message: Option<Arc<str>>,
    /// How often it was started again.
    pub restarts: u32,
}

/// The index of a pod in its batch: what its label says, else the number at the end of its name.
pub(crate) fn pod_index(label: Option<&str>, name: &str) -> Option<u32> {
    let of_name = || name.rsplit('-').next().and_then(|end| end.parse().ok());
    label.and_then(|label| label.parse().ok()).or_else(of_name)
}

/// Whether a pod is ready that was not.
pub(super) fn became_ready<P: Deref<Target = PodState>>(
    before: Option<&Arc<Seen<P>>>,
    after: Option<&Arc<Seen<P>>>,
) -> bool {
    let is_ready = |pod: &Arc<Seen<P>>| pod.is_ready && !pod.is_deleting;
    after.is_some_and(is_ready) && !before.is_some_and(is_ready)
}

impl PodState {
    /// Whether the pod has ended by itself.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether it has a node or an address.
    pub fn is_assigned(&self) -> bool {
        self.node.is_some() || self.ip.is_some()
    }

    /// How often the container was started again that was so most often, init containers aside.
    pub fn restarts(&self) -> u32 {
        let main = self.containers.iter().filter(|container| !container.is_init);
        main.map(|container| container.restarts).max().unwrap_or_default()
    }

    /// The UID of the pool that controls it.
    pub fn pool_uid(&self) -> Option<&Arc<str>> {
        self.owner.as_ref().filter(|owner| *owner.kind == *"Pool").map(|owner| &owner.uid)
    }

    /// The UID of the batch that controls it.
    pub fn batch_uid(&self) -> Option<&Arc<str>> {
        self.owner.as_ref().filter(|owner| *owner.kind == *"BatchSandbox").map(|owner| &owner.uid)
    }

    /// Whether it is a pod of the pool of this name: its controller is, or it has none and the label says so.
    pub fn is_of_pool(&self, name: &str) -> bool {
        let owner = self.owner.as_ref().filter(|owner| *owner.kind == *"Pool").map(|owner| &owner.name);
        owner.or(self.pool.as_ref()).is_some_and(|of| **of == *name)
    }
}

/// A pod of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolPod(pub PodState);

/// A pod of a batch that has no pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnPod(pub PodState);

macro_rules! pods {
    ($($kind:ident: $selector:literal, $selects:expr;)*) => {$(
        impl Deref for $kind {
            type Target = PodState;

            fn deref(&self) -> &PodState {
                &self.0
            }
        }

        impl Viewed for $kind {
            const GROUP: &'static str = "";
            const VERSION: &'static str = "v1";
            const KIND: &'static str = "Pod";
            const PLURAL: &'static str = "pods";
            const SELECTOR: &'static str = $selector;

            fn is_selected(&self) -> bool {
                let selects: fn(&PodState) -> bool = $selects;
                selects(&self.0)
            }

            fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
                let object = decode(object).map_err(|error| Rejected(error.to_string()))?;
                let Seen { key, uid, version, object } = seen(object, |raw: &RawPod| &raw.metadata)?;
                let object = Self(object.state(&key.name));
                Ok(Seen { key, uid, version, object })
            }
        }
    )*};
}

pods! {
    PoolPod: "sandbox.opensandbox.io/pool-name", |pod| pod.pool.is_some();
    OwnPod: "batch-sandbox.sandbox.opensandbox.io/pod-index,!sandbox.opensandbox.io/pool-name",
        |pod| pod.pool.is_none() && pod.has_index;
}
