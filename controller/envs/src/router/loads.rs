//! The load of pools as a process knows it that claims pods, read without a lock.

use parking_lot::Mutex;
use sandgate_cache::{Change, Key, Seen};
use sandgate_objects::sandbox_env::resources::EnvPod;

use super::{Load, PoolLoad};
use crate::lookup::{ByKey, Named, by_key};
use crate::scheduler::{Pods, Scheduler};

/// How many pods of each pool can be claimed. The handler of a cache tells it of every change of a pod.
pub struct IdleCounts {
    counts: ByKey<usize>,
    /// Held by writers only.
    writer: Mutex<()>,
}

impl Default for IdleCounts {
    fn default() -> Self {
        Self { counts: by_key(), writer: Mutex::default() }
    }
}

impl IdleCounts {
    /// A pod has changed. Each change has to be told once, in the order of the changes.
    pub fn changed(&self, change: &Change<EnvPod>) {
        let pool_of = |pod: &Seen<EnvPod>| {
            pod.is_claimable().then(|| Key { namespace: pod.key.namespace.clone(), name: pod.pool().into() })
        };
        let before = change.before.as_deref().and_then(pool_of);
        let after = change.after.as_deref().and_then(pool_of);
        if before == after {
            return;
        }
        let _writer = self.writer.lock();
        let counts = self.counts.pin();
        if let Some(pool) = before {
            match counts.get(&pool).copied().unwrap_or_default() {
                0 | 1 => drop(counts.remove(&pool)),
                count => drop(counts.insert(pool, count - 1)),
            }
        }
        if let Some(pool) = after {
            let count = counts.get(&pool).copied().unwrap_or_default();
            counts.insert(pool, count + 1);
        }
    }

    /// How many pods of a pool can be claimed. It takes no lock.
    pub fn of(&self, namespace: &str, pool: &str) -> usize {
        self.counts.pin().get(&Named { namespace, name: pool }).copied().unwrap_or_default()
    }
}

/// The load of pools: their idle pods, and the lines of this process.
pub struct Loads<'a, P: Pods> {
    /// The idle pods.
    pub idle: &'a IdleCounts,
    /// The lines.
    pub lines: &'a Scheduler<P>,
}

impl<P: Pods> PoolLoad for Loads<'_, P> {
    fn load(&self, namespace: &str, pool: &str) -> Option<Load> {
        let queued = self.lines.queued(namespace, pool);
        let idle_ready = self.idle.of(namespace, pool);
        Some(Load { idle_ready, queued, is_full: self.lines.is_full(queued) })
    }
}
