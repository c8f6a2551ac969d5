//! How much a pool's controller does at a time.

use std::time::Duration;

/// The bounds of the controller of pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// How many batches of one pool are written at a time: `SYNC_SANDBOX_ALLOC_CONCURRENCY`.
    pub allocations: usize,
    /// How many pods are recycled at a time, over all pools: `RECYCLE_POD_CONCURRENCY`.
    pub recycles: usize,
    /// The least time between two writes of a pool's status.
    pub status_interval: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self { allocations: 256, recycles: 64, status_interval: Duration::from_millis(200) }
    }
}
