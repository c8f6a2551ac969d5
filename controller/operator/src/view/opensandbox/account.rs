//! What a batch has and what it lacks, by its annotations and by the pods that there are.
//!
//! The annotations are the account; what is kept of them in memory is a copy, made anew from each version
//! that is seen. A batch *holds* a pod from the moment that `alloc-status` names it until `alloc-released`
//! does. Only the batch's own annotations free a pod, so the order in which batches are seen does not matter.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_objects::opensandbox::resources::BatchSandbox;
use sandgate_objects::opensandbox::{Allocation, Malformed, names};

use super::{PoolPod, mark_of};
use crate::Seen;
use crate::tasks::{ANNOTATION_TASKS_DONE, Done};

/// The three lists of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// `alloc-status`: the pods in the order of the replicas.
    pub pods: Vec<Arc<str>>,
    /// `alloc-release`: what the batch does not want any more.
    pub release: BTreeSet<Arc<str>>,
    /// `alloc-released`: what was recycled, or must not be given to this batch.
    pub released: BTreeSet<Arc<str>>,
}

/// What the pool of a batch has to do for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// `alloc-status` as it is.
    pub slots: Vec<Arc<str>>,
    /// `alloc-released` as it is.
    pub released: BTreeSet<Arc<str>>,
    /// `alloc-release` as it is.
    pub wished: BTreeSet<Arc<str>>,
    /// How many slots are missing.
    pub append: usize,
    /// The slots whose pod is gone, is going, belongs to somebody else or is of another pool, and those whose
    /// pod was given back while the batch wants it again.
    pub replace: Vec<usize>,
    /// How many slots at the end are released, and are beyond the replicas or to be filled anew.
    pub cut: usize,
    /// The pods to let go: those that are there are in the look of their pool, to be recycled.
    pub release: Vec<Arc<str>>,
    /// Those of [`release`](Self::release) that there is nothing to recycle of for this batch: they are gone
    /// or going, marked as somebody else's, or no pool has them.
    pub release_over: Vec<Arc<str>>,
    /// Whether the pool's finalizer has nothing to wait for any more.
    pub drop_finalizer: bool,
    /// Whether pods are held without the pool's finalizer.
    pub add_finalizer: bool,
}

impl Slots {
    /// Reads the annotations.
    ///
    /// # Errors
    /// If one of them is no such list.
    pub fn of(batch: &BatchSandbox) -> Result<Self, Malformed> {
        let annotations = batch.metadata.annotations.as_ref();
        let list = |key: &str| -> Result<Vec<Arc<str>>, Malformed> {
            let Some(annotations) = annotations else { return Ok(Vec::new()) };
            let list = Allocation::read(annotations, key)?;
            Ok(list.map(|list| list.pods.into_iter().map(Arc::from).collect()).unwrap_or_default())
        };
        Ok(Self {
            pods: list(names::ANNOTATION_ALLOC_STATUS)?,
            release: list(names::ANNOTATION_ALLOC_RELEASE)?.into_iter().collect(),
            released: list(names::ANNOTATION_ALLOC_RELEASED)?.into_iter().collect(),
        })
    }

    /// The pods that the batch holds.
    pub fn held(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pods.iter().filter(|pod| !self.released.contains(*pod))
    }

    /// The pods that the batch has kept.
    pub fn kept(&self) -> impl Iterator<Item = &Arc<str>> {
        self.held().filter(|pod| !self.release.contains(*pod))
    }

    /// The pods that the batch holds and has to let go.
    pub fn to_release(&self, batch: &BatchSandbox) -> Vec<Arc<str>> {
        let all = match is_leaving(batch) {
            true => !has_finalizer(batch, names::FINALIZER_TASK_CLEANUP),
            false => pool_of(batch).is_none(),
        };
        self.held().filter(|pod| all || self.release.contains(*pod)).cloned().collect()
    }
}

/// Every pod that the annotations may mean, where they cannot be read: none of these is given to anybody.
pub(super) fn suspects(batch: &BatchSandbox) -> BTreeSet<Arc<str>> {
    let keys =
        [names::ANNOTATION_ALLOC_STATUS, names::ANNOTATION_ALLOC_RELEASE, names::ANNOTATION_ALLOC_RELEASED];
    let annotations = batch.metadata.annotations.as_ref();
    let texts = keys.iter().filter_map(|key| annotations?.get(*key));
    texts.flat_map(|text| Allocation::words(text)).map(Arc::from).collect()
}

/// The pool that a batch names; none if it has pods of its own, or has not been given one yet.
pub fn pool_of(batch: &BatchSandbox) -> Option<&str> {
    batch.spec.pool()
}

/// Whether a batch is being deleted.
pub(crate) fn is_leaving(batch: &BatchSandbox) -> bool {
    batch.metadata.deletion_timestamp.is_some()
}

/// Whether a batch has a finalizer.
pub(crate) fn has_finalizer(batch: &BatchSandbox, name: &str) -> bool {
    batch.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

/// Whether the pods of a batch are recycled by being deleted, whatever the pool says.
pub(super) fn wants_deletion(batch: &BatchSandbox) -> bool {
    let annotations = batch.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(names::ANNOTATION_RECYCLE)).is_some_and(|how| how == "Delete")
}

/// Whether a pod that comes back from this batch may have a task of it still: the batch has tasks, and has
/// neither cleared the pod before it let it go, nor all its pods before it was deleted. Only pods that are in
/// the batch's slots are cleared, and only while it has a pool.
pub(crate) fn may_have_a_task(batch: &BatchSandbox, pod: &str) -> bool {
    let has_cleanup = has_finalizer(batch, names::FINALIZER_TASK_CLEANUP);
    if batch.spec.task_template.is_none() && !has_cleanup {
        return false;
    }
    Slots::of(batch).is_ok_and(|slots| {
        let is_slot = slots.pods.iter().any(|slot| **slot == *pod);
        let ended_with_batch = is_leaving(batch) && !has_cleanup && pool_of(batch).is_some() && is_slot;
        !slots.release.contains(pod) && !ended_with_batch
    })
}

/// Whether a batch is on its way to a pause, or there: it gets no pod.
fn is_pausing(batch: &BatchSandbox) -> bool {
    let phase = batch.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    matches!(phase, names::PHASE_PAUSING | names::PHASE_PAUSED)
}

/// What the pool of this batch has to do for it. `pod` finds a pod of the batch's namespace.
///
/// # Errors
/// If the annotations of the batch cannot be read.
pub(super) fn need<'a>(
    batch: &Seen<BatchSandbox>,
    pod: impl Fn(&str) -> Option<&'a Arc<Seen<PoolPod>>>,
) -> Result<Need, Malformed> {
    let slots = Slots::of(batch)?;
    let release = slots.to_release(batch);
    let wanted = batch.spec.replicas();
    let pool = pool_of(batch);
    let gets_pods = !is_leaving(batch) && !is_pausing(batch) && pool.is_some_and(|it| it != names::POOL_ANY);
    let mark = mark_of(batch);
    let is_foreign = |pod: &PoolPod| pod.allocated_to.as_deref().is_some_and(|of| of != mark);
    let beyond = slots.pods.get(wanted..).unwrap_or_default();
    let is_released = |pod: &&Arc<str>| slots.released.contains(*pod);
    let mut cut = if is_leaving(batch) { 0 } else { beyond.iter().rev().take_while(is_released).count() };
    let (mut append, mut replace) = (0, Vec::new());
    if let Some(pool) = pool.filter(|_| gets_pods) {
        append = wanted.saturating_sub(slots.pods.len());
        let is_lost = |name: &str| {
            pod(name).is_none_or(|pod| pod.is_deleting || is_foreign(pod) || !pod.is_of_pool(pool))
        };
        let within = &slots.pods[..wanted.min(slots.pods.len())];
        let kept = |name: &&Arc<str>| !slots.release.contains(*name) && !slots.released.contains(*name);
        let has = within.iter().filter(kept).count() + append;
        let mut empty = wanted.saturating_sub(has + served_for_good(batch, wanted));
        // Slots at the end are cut off, so that the batch may be given any pod for them.
        if cut == beyond.len() {
            let last = within.iter().rev().take_while(is_released).take(empty).count();
            (cut, empty) = (cut + last, empty - last);
        }
        let left = within.len() - (cut.saturating_sub(beyond.len()));
        let mut known = BTreeSet::new();
        for (slot, name) in within[..left].iter().enumerate() {
            // A pod cannot fill two slots.
            if kept(&name) && (!known.insert(name) || is_lost(name)) {
                replace.push(slot);
            } else if is_released(&name) && empty > 0 {
                empty -= 1;
                replace.push(slot);
            }
        }
    }
    let is_over = |name: &Arc<str>| {
        pod(name).is_none_or(|pod| pod.is_deleting || is_foreign(pod) || pod.pool_uid().is_none())
    };
    let release_over = release.iter().filter(|name| is_over(name)).cloned().collect();
    let holds_none = slots.held().next().is_none();
    let has_it = has_finalizer(batch, names::FINALIZER_POOL_ALLOCATION);
    let is_done = match is_leaving(batch) {
        true => !has_finalizer(batch, names::FINALIZER_TASK_CLEANUP),
        false => pool.is_none(),
    };
    Ok(Need {
        append,
        replace,
        cut,
        release,
        release_over,
        drop_finalizer: has_it && holds_none && is_done,
        add_finalizer: !has_it && !holds_none && !is_leaving(batch) && pool.is_some(),
        slots: slots.pods,
        released: slots.released,
        wished: slots.release,
    })
}

/// How many of so many replicas need no pod any more: their tasks have ended, and the batch gives back pods
/// whose task has ended.
fn served_for_good(batch: &BatchSandbox, replicas: usize) -> usize {
    if batch.spec.task_template.is_none() || !batch.spec.releases_completed() {
        return 0;
    }
    let annotations = batch.metadata.annotations.as_ref();
    let done = Done::read(annotations.and_then(|all| all.get(ANNOTATION_TASKS_DONE)).map(String::as_str));
    done.0.range(..replicas).count()
}

impl Need {
    /// Whether the pool has nothing to do for the batch. Pods to recycle are found by the pods themselves.
    pub fn is_met(&self) -> bool {
        self.append == 0
            && self.replace.is_empty()
            && self.cut == 0
            && self.release_over.is_empty()
            && !self.drop_finalizer
            && !self.add_finalizer
    }

    /// How many pods it lacks.
    pub fn lacks(&self) -> usize {
        self.append + self.replace.len()
    }
}
