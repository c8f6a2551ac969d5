//! Who waits for a pool to have something to claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::Cache;

/// The pools that somebody watches.
#[derive(Default)]
pub(crate) struct PoolWatches(Mutex<BTreeMap<Arc<str>, watch::Sender<u64>>>);

impl PoolWatches {
    fn watch(&self, pool: &str) -> watch::Receiver<u64> {
        self.0.lock().entry(pool.into()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    pub(super) fn tell(&self, stirred: &BTreeSet<Arc<str>>) {
        if stirred.is_empty() {
            return;
        }
        let mut watched = self.0.lock();
        for pool in stirred {
            let Some(watch) = watched.get(pool) else { continue };
            if watch.receiver_count() == 0 {
                watched.remove(pool);
            } else {
                watch.send_modify(|count| *count = count.wrapping_add(1));
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// Watches a pool. Made by [`Cache::watch_pool`].
///
/// To wait for stock without losing a change: 1. make the watch; 2. look; 3. if there is nothing, await
/// [`changed`](Self::changed) and go to 2. A change after step 1 ends step 3 at once.
pub struct PoolWatch(watch::Receiver<u64>);

impl PoolWatch {
    /// Waits for a change since the watch was made or since this last returned: a sandbox of the pool that
    /// can be claimed is new or has changed, or the set of this name changed.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The cache is gone, and nothing will ever change.
            std::future::pending::<()>().await;
        }
    }
}

impl Cache {
    /// Watches a pool, of every namespace, by the name of its set or template.
    pub fn watch_pool(&self, template: &str) -> PoolWatch {
        PoolWatch(self.shared.pools.watch(template))
    }
}
