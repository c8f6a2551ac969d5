//! What a plan for a pool is made from.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool};

use super::pod::revision;
use super::strategies::Strategies;
use super::terms::Terms;
use crate::Key;
use crate::failures::Failures;
use crate::view::{PoolLook, PoolPod, Seen, Slots, View, mark_of};

/// How many pods and batches of each sort a plan is given. A pool that has to act on more goes on in its next
/// look, which the changes themselves bring about.
pub(super) const LOOK: usize = 256;

/// A pod and the batch that it has to do with.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) pod: Arc<Seen<PoolPod>>,
    pub(super) batch: Arc<Seen<BatchSandbox>>,
}

/// A pool and what belongs to it, at one moment.
pub(super) struct Observed {
    /// The pool.
    pub(super) pool: Arc<Seen<Pool>>,
    /// What it asks for.
    pub(super) terms: Terms,
    /// How it decides.
    pub(super) strategies: Strategies,
    /// The revision of its template.
    pub(super) revision: Arc<str>,
    /// Its pods, and the batches that lack some.
    pub(super) look: PoolLook,
    /// Pods that their batches let go.
    pub(super) releasing: Vec<Pair>,
    /// Pods that say that they are a batch's which does not hold them.
    pub(super) orphans: Vec<Pair>,
    /// The same, where no such batch is known.
    pub(super) strays: Vec<Arc<Seen<PoolPod>>>,
    /// Pods that do not say whose they are, with the batch that came first of those that hold them.
    pub(super) unmarked: Vec<Pair>,
    /// How its pods have failed.
    pub(super) failures: Failures,
    /// The time.
    pub(super) now: Timestamp,
}

/// The batch that the mark of a pod names, if there is one of this name: it may be another one by now.
pub(super) fn marked_batch(pod: &Seen<PoolPod>) -> Option<Key> {
    let (_, name) = pod.allocated_to.as_deref()?.split_once('/')?;
    Some(Key::new(&pod.key.namespace, name))
}

/// Whether a pod says that it is this batch's.
pub(super) fn is_marked(pod: &PoolPod, batch: &Seen<BatchSandbox>) -> bool {
    pod.allocated_to.as_deref().is_some_and(|mark| mark == mark_of(batch))
}

/// Reads the view.
pub(super) fn observe(view: &View, pool: Arc<Seen<Pool>>, failures: Failures, now: Timestamp) -> Observed {
    let revision = revision(&pool.spec);
    let mut look = view.pool_look(&pool, &revision, LOOK, now);
    let mut releasing = Vec::new();
    for pod in std::mem::take(&mut look.releasing) {
        let holders = view.holders(&pod.key).into_iter();
        releasing.extend(holders.map(|batch| Pair { pod: Arc::clone(&pod), batch }));
    }
    let (mut orphans, mut strays) = (Vec::new(), Vec::new());
    for pod in std::mem::take(&mut look.orphans) {
        let batch = marked_batch(&pod).and_then(|key| view.get::<BatchSandbox>(&key));
        match batch.filter(|batch| is_marked(&pod, batch)) {
            Some(batch) => orphans.push(Pair { pod, batch }),
            None => strays.push(pod),
        }
    }
    let first = |pod: Arc<Seen<PoolPod>>| {
        let age = |batch: &Arc<Seen<BatchSandbox>>| {
            (batch.metadata.creation_timestamp.as_ref().map(|time| time.0), Arc::clone(&batch.uid))
        };
        let readable = view.holders(&pod.key).into_iter().filter(|batch| Slots::of(batch).is_ok());
        let batch = readable.min_by_key(age)?;
        Some(Pair { pod, batch })
    };
    let unmarked = std::mem::take(&mut look.held_unmarked).into_iter().filter_map(first).collect();
    Observed {
        terms: Terms::of(&pool.spec),
        strategies: Strategies::of(&pool),
        revision,
        look,
        releasing,
        orphans,
        strays,
        unmarked,
        failures,
        now,
        pool,
    }
}
