//! What a plan for a batch is made from.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::opensandbox::Malformed;
use sandgate_objects::opensandbox::resources::{BatchSandbox, SandboxSnapshot};

use super::pulls::Stuck;
use crate::Key;
use crate::assign::PoolStrategy;
use crate::view::{BatchPod, PoolPod, Seen, Slots, View, mark_of};

/// A batch and what belongs to it, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The batch.
    pub(super) batch: Arc<Seen<BatchSandbox>>,
    /// Its pods, in the order of its replicas.
    pub(super) pods: Vec<BatchPod>,
    /// What its annotations say of the pods of a pool.
    pub(super) slots: Slots,
    /// The pods of a pool that it holds, as far as there are such pods.
    pub(super) held: Vec<Key>,
    /// Which of the pods that its annotations name there are.
    pub(super) there: BTreeSet<Arc<str>>,
    /// The snapshot of its pause.
    pub(super) snapshot: SnapshotOf,
    /// Whether its pods come from a pool.
    pub(super) is_pooled: bool,
    /// The profile by which a pool is to be chosen for it.
    pub(super) profile: Option<&'static str>,
    /// Its pods whose nodes cannot pull their images. What the view knows does not say that.
    pub(super) stuck: Stuck,
    /// The time.
    pub(super) now: Timestamp,
}

/// The snapshot of the name that a batch's pauses use.
#[derive(Clone, Debug)]
pub(super) enum SnapshotOf {
    /// There is none.
    None,
    /// The batch's own.
    Own(Arc<Seen<SandboxSnapshot>>),
    /// Of an earlier batch of the name: it goes by itself. Or a stranger's.
    Other(Arc<Seen<SandboxSnapshot>>),
}

impl SnapshotOf {
    /// What a snapshot is to a batch.
    pub(super) fn of(snapshot: Option<Arc<Seen<SandboxSnapshot>>>, batch: &Seen<BatchSandbox>) -> Self {
        match snapshot {
            None => Self::None,
            Some(snapshot) if crate::snapshot::batch_uid(&snapshot) == Some(&*batch.uid) => {
                Self::Own(snapshot)
            }
            Some(snapshot) => Self::Other(snapshot),
        }
    }
}

/// The name of the snapshot of a batch's pause.
pub(super) fn pause_snapshot(batch: &Key) -> Key {
    Key::new(&batch.namespace, &format!("{}-pause", batch.name))
}

/// A batch whose annotations cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// The batch.
    pub(super) batch: Arc<Seen<BatchSandbox>>,
    /// What is wrong.
    pub(super) malformed: Malformed,
}

/// Reads the view. None if there is no such batch.
pub(super) fn observe(
    view: &View,
    key: &Key,
    pools: &dyn PoolStrategy,
    now: Timestamp,
) -> Result<Option<Observed>, Unreadable> {
    let Some(batch) = view.get::<BatchSandbox>(key) else { return Ok(None) };
    let read = Slots::of(&batch).and_then(|slots| Ok((slots, view.batch_pods(&batch)?)));
    let (slots, pods) = match read {
        Ok(read) => read,
        Err(malformed) => return Err(Unreadable { batch, malformed }),
    };
    let key_of = |name: &Arc<str>| Key { namespace: Arc::clone(&key.namespace), name: Arc::clone(name) };
    let held = slots.held().map(key_of).filter(|key| is_held(view, key, &batch)).collect();
    let is_there = |name: &&Arc<str>| view.get::<PoolPod>(&key_of(name)).is_some();
    let there = slots.pods.iter().chain(&slots.released).filter(is_there).cloned().collect();
    let snapshot = SnapshotOf::of(view.get::<SandboxSnapshot>(&pause_snapshot(key)), &batch);
    let is_pooled = pools.is_pooled(&batch);
    let profile = pools.assign_profile(&batch);
    let stuck = Stuck::default();
    Ok(Some(Observed { batch, pods, slots, held, there, snapshot, is_pooled, profile, stuck, now }))
}

fn is_held(view: &View, key: &Key, batch: &Seen<BatchSandbox>) -> bool {
    let pod = view.get::<PoolPod>(key);
    pod.is_some_and(|pod| pod.allocated_to.as_deref().is_none_or(|of| of == mark_of(batch)))
}
