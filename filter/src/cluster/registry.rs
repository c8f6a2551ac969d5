//! The clusters of the process, for the status page.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::shared::Shared;

static CLUSTERS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

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
        let number = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
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
