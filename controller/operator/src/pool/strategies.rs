//! Which strategies a pool has. Each kind of decision is a trait with one default; what a pool names and
//! nobody knows counts as the default.

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{Pool, RecycleType};

use super::allocate::{AllocationStrategy, Packed, Spread};
use super::evict::{ByLabel, EvictionHandler};
use super::recycle::{Delete, Noop, Recycler};
use super::restart::Restart;
use super::update::{Recreate, UpdateStrategy};

/// The strategies of one pool.
pub(super) struct Strategies {
    pub(super) eviction: &'static dyn EvictionHandler,
    pub(super) update: &'static dyn UpdateStrategy,
    pub(super) allocation: &'static dyn AllocationStrategy,
    pub(super) recycler: Box<dyn Recycler>,
}

/// Annotation of a pool with the name of its allocation strategy. OpenSandbox has no way to choose one.
const ALLOCATION: &str = "sandgate.dev/allocation-strategy";
/// The name of [`Spread`].
const SPREAD: &str = "Spread";

impl Strategies {
    /// The strategies of this pool.
    pub(super) fn of(pool: &Pool) -> Self {
        let annotation = |name: &str| pool.metadata.annotations.as_ref()?.get(name).map(String::as_str);
        let label = |name: &str| pool.metadata.labels.as_ref()?.get(name).map(String::as_str);
        Self {
            eviction: eviction(label(names::LABEL_EVICTION_HANDLER).unwrap_or_default()),
            update: &Recreate,
            allocation: if annotation(ALLOCATION) == Some(SPREAD) { &Spread } else { &Packed },
            recycler: match pool.spec.recycle() {
                RecycleType::Noop => Box::new(Noop),
                RecycleType::Restart => {
                    Box::new(Restart::read(annotation(names::ANNOTATION_RESTART_CONFIG).unwrap_or_default()))
                }
                _ => Box::new(Delete),
            },
        }
    }
}

/// The handler of this name. There is one so far.
fn eviction(_name: &str) -> &'static dyn EvictionHandler {
    &ByLabel
}
