//! Whether a batch takes its pods from a pool, and who chooses the pool.

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::BatchSandbox;

use super::profile::DEFAULT;

/// What says where a batch gets its pods.
pub(crate) trait PoolStrategy: Send + Sync {
    /// Whether the pods come from a pool.
    fn is_pooled(&self, batch: &BatchSandbox) -> bool;

    /// The profile that the pool is chosen by. None if the batch names its pool, or has none.
    fn assign_profile(&self, batch: &BatchSandbox) -> Option<&'static str>;
}

/// What `poolRef` says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefaultPools;

impl PoolStrategy for DefaultPools {
    fn is_pooled(&self, batch: &BatchSandbox) -> bool {
        batch.spec.pool_ref.as_deref().is_some_and(|pool| !pool.is_empty())
    }

    fn assign_profile(&self, batch: &BatchSandbox) -> Option<&'static str> {
        (batch.spec.pool_ref.as_deref() == Some(names::POOL_ANY)).then_some(DEFAULT)
    }
}
