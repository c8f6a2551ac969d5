//! The status of the watch, for other threads to read without a lock.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandgate_follow::{FollowStatus, StatusCell};

/// The status of one scope: a provider's objects in one namespace or all, with one selector. It derefs to
/// what the list/watch engine reports.
#[derive(Clone, Debug, Default)]
pub struct ScopeStatus {
    /// The provider.
    pub provider: Arc<str>,
    /// The resource, as `plural.group/version`.
    pub resource: Arc<str>,
    /// The namespace; none is all.
    pub namespace: Option<Arc<str>>,
    /// The label selector; empty selects every object.
    pub selector: Arc<str>,
    /// Observations whose address is outside the pod ranges, or not the address of one machine.
    pub outside: u64,
    /// What the engine reports.
    pub follow: FollowStatus,
}

impl Deref for ScopeStatus {
    type Target = FollowStatus;

    fn deref(&self) -> &FollowStatus {
        &self.follow
    }
}

/// A view of a source's status for other threads. Reading it takes no lock.
#[derive(Clone, Debug)]
pub struct KubernetesStatusReader(pub(super) Arc<[ScopeCell]>);

impl KubernetesStatusReader {
    /// Every scope, as it is now.
    pub fn scopes(&self) -> Vec<ScopeStatus> {
        self.0.iter().map(ScopeCell::load).collect()
    }

    /// Whether the first complete list of every scope is in the table.
    pub fn is_complete(&self) -> bool {
        self.0.iter().all(|scope| scope.follow.is_listed())
    }
}

/// What the follower and the sink of one scope report, and which scope it is.
#[derive(Clone, Debug)]
pub(super) struct ScopeCell {
    /// Says which scope it is. The counts are not in here.
    pub(super) scope: ScopeStatus,
    pub(super) outside: Arc<AtomicU64>,
    pub(super) follow: Arc<StatusCell>,
}

impl ScopeCell {
    fn load(&self) -> ScopeStatus {
        let (outside, follow) = (self.outside.load(Ordering::Relaxed), self.follow.load());
        ScopeStatus { outside, follow, ..self.scope.clone() }
    }
}
