//! What all clusters of the process share, and the clusters themselves for the status page.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::activity::Unseen;
use super::orders::Workers;
use super::shared::Shared;
use super::usage::Usages;

static CLUSTERS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) workers: Workers,
    pub(crate) usages: Usages,
    pub(crate) unseen: Unseen,
    /// Hosts that Envoy has.
    pub(crate) hosts: AtomicUsize,
    /// Requests that are held.
    pub(crate) held: AtomicUsize,
}

impl Process {
    /// This one's. Tests have others.
    pub(crate) fn current() -> &'static Arc<Self> {
        static PROCESS: LazyLock<Arc<Process>> = LazyLock::new(Arc::default);
        &PROCESS
    }
}

/// How many hosts this process has, and how many requests it holds.
pub(crate) fn in_use() -> (u64, u64) {
    let process = Process::current();
    let number = |count: &AtomicUsize| count.load(Ordering::Relaxed) as u64;
    (number(&process.hosts), number(&process.held))
}

/// Enters a cluster for [`status`].
pub(super) fn register(shared: &Arc<Shared>) {
    let mut clusters = CLUSTERS.lock();
    clusters.retain(|cluster| cluster.strong_count() > 0);
    clusters.push(Arc::downgrade(shared));
}

/// What every cluster has and has done.
pub(crate) fn status() -> Value {
    let clusters = CLUSTERS.lock();
    let status = |shared: Arc<Shared>| {
        let counts = &shared.counts;
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "name": String::from_utf8_lossy(shared.name()),
            "hosts": counts.hosts.load(Ordering::Relaxed),
            "parked": counts.parked.load(Ordering::Relaxed),
            "added": number(&counts.added),
            "removed": number(&counts.removed),
            "endedSandboxes": number(&counts.ends),
            "ended": number(&counts.ended),
            "batches": number(&counts.batches),
            "mainThreadMicros": number(&counts.main_thread_nanos) / 1000,
        })
    };
    clusters.iter().filter_map(Weak::upgrade).map(status).collect()
}
