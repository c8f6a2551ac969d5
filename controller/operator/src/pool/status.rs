//! The status of a pool: what it has now, after what was done.

use sandgate_objects::opensandbox::resources::{Pool, PoolStatus};

use crate::view::PoolCounts;

/// The status of a pool with these pods.
pub(super) fn status(pool: &Pool, revision: &str, counts: &PoolCounts) -> PoolStatus {
    PoolStatus {
        observed_generation: pool.metadata.generation,
        revision: revision.to_owned(),
        total: number(counts.total()),
        allocated: number(counts.held),
        available: number(counts.ready()),
        updated: number(counts.updated),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
