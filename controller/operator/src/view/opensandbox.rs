//! What the view knows of pools and batches: who holds which pod, and who lacks one.
//!
//! # Indexes
//! - The pods of each pool, by the pool's UID, in classes; see [`fleet`].
//! - The pods that each batch holds, and the batches that hold each pod; see [`account`].
//! - The batches of each pool that lack something, oldest first.
//!
//! Each is a function of the objects that were seen, whatever their order, and is brought up to date with
//! each of them.

mod account;
mod fleet;
mod kept;
mod look;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::{Seen, Store};
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool, SandboxSnapshot};

use super::Controller;
use crate::Key;
pub use account::{Need, Slots, pool_of};
pub(crate) use account::{has_finalizer, is_leaving, may_have_a_task};
use fleet::{Fleet, Place, Standing};
pub use fleet::{PodClass, PoolCounts};
pub use kept::JobFacts;
pub use look::{BatchPod, Needy, PoolLevels, PoolLook, SeenPod};
pub(crate) use pod::pod_index;
pub use pod::{ContainerState, OwnPod, Owner, PodPhase, PodState, PoolPod};

/// The mark of a pod that is this batch's: the value of `sandgate.dev/allocated-to`.
pub fn mark_of(batch: &Seen<BatchSandbox>) -> String {
    format!("{}/{}", batch.uid, batch.key.name)
}

/// The objects of OpenSandbox's kinds, and what is kept beside them.
#[derive(Default)]
pub(super) struct OpenSandbox {
    pub(super) batches: Store<BatchSandbox>,
    pub(super) pools: Store<Pool>,
    pub(super) snapshots: Store<SandboxSnapshot>,
    pub(super) pool_pods: Store<PoolPod>,
    pub(super) own_pods: Store<OwnPod>,
    pub(super) jobs: Store<JobFacts>,
    /// By the UID of the pool.
    fleets: BTreeMap<Arc<str>, Fleet>,
    /// What each batch has.
    entries: BTreeMap<Key, Entry>,
    /// The batches that hold a pod.
    holders: BTreeMap<Key, BTreeSet<Key>>,
    /// The batches of a pool, by namespace and `poolRef`.
    of_pool: BTreeMap<Key, BTreeSet<Key>>,
    /// Those of them that lack something.
    needy: BTreeMap<Key, BTreeSet<Turn>>,
    /// The pods that a batch controls, by its UID.
    own: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// The batches whose annotations cannot be read.
    malformed: BTreeSet<Key>,
    /// The pods that say that they are a batch's.
    marked: BTreeMap<Key, BTreeSet<Key>>,
    /// The batches that got a pod, or have one that became ready: somebody waits for them to say so.
    pub(super) pressing: BTreeSet<Key>,
}

/// The place of a batch in the line: first come, first served. Those that lack no pod are before all others:
/// what they need can be done at once, and they are not to be kept from it by a pool that has no pod left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    lacks_pods: bool,
    created: Timestamp,
    uid: Arc<str>,
    batch: Key,
}

/// What is kept of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    uid: Arc<str>,
    /// Namespace and `poolRef`.
    pool: Option<Key>,
    /// The pods that it holds.
    held: BTreeSet<Key>,
    /// Those of them that it lets go.
    releasing: BTreeSet<Key>,
    /// Its place in the line, if it lacks something.
    turn: Option<Turn>,
    /// How many pods it lacks.
    lacks: usize,
    /// If it lacks any: those that it must not be given. Once one of them may be, its pool has to look.
    refused: BTreeSet<Arc<str>>,
    /// Whether its pods are recycled by being deleted, whatever the pool says.
    is_to_delete: bool,
    is_malformed: bool,
}

/// Keys that have to be looked at.
type Dirty = BTreeSet<(Controller, Key)>;

impl OpenSandbox {
    /// A batch is not as it was.
    fn batch_changed(&mut self, key: &Key, dirty: &mut Dirty) {
        let entry = self.batches.get(key).map(|batch| self.entry(batch));
        let before = self.entries.get(key);
        if before == entry.as_ref() {
            return;
        }
        let before = before.cloned();
        let none = BTreeSet::new();
        let (was, is) = (before.as_ref(), entry.as_ref());
        let held_before = was.map_or(&none, |entry| &entry.held);
        let held_after = is.map_or(&none, |entry| &entry.held);
        let (let_go_before, let_go_after) =
            (was.map_or(&none, |entry| &entry.releasing), is.map_or(&none, |entry| &entry.releasing));
        let mut touched: BTreeSet<Key> = held_before.symmetric_difference(held_after).cloned().collect();
        if was.map(|entry| &entry.uid) != is.map(|entry| &entry.uid) {
            touched.extend(held_after.iter().cloned());
        }
        touched.extend(let_go_before.symmetric_difference(let_go_after).cloned());
        for pod in held_before.difference(held_after) {
            super::index::forget_one(&mut self.holders, pod, key);
        }
        for pod in held_after.difference(held_before) {
            self.pressing.insert(key.clone());
            self.holders.entry(pod.clone()).or_default().insert(key.clone());
        }
        if let Some(Entry { pool: Some(pool), turn, .. }) = was {
            super::index::forget_one(&mut self.of_pool, pool, key);
            if let Some(turn) = turn {
                super::index::forget_one(&mut self.needy, pool, turn);
            }
            dirty.insert((Controller::Pool, pool.clone()));
        }
        if let Some(Entry { pool: Some(pool), turn, .. }) = is {
            self.of_pool.entry(pool.clone()).or_default().insert(key.clone());
            if let Some(turn) = turn {
                self.needy.entry(pool.clone()).or_default().insert(turn.clone());
            }
            dirty.insert((Controller::Pool, pool.clone()));
        }
        let toggled = match is.is_some_and(|entry| entry.is_malformed) {
            true => self.malformed.insert(key.clone()),
            false => self.malformed.remove(key),
        };
        if toggled {
            touched.extend(held_after.iter().cloned());
            touched.extend(self.marked.get(key).into_iter().flatten().cloned());
        }
        match entry {
            Some(entry) => self.entries.insert(key.clone(), entry),
            None => self.entries.remove(key),
        };
        for pod in touched {
            self.place(&pod, dirty);
        }
    }

    fn entry(&self, batch: &Seen<BatchSandbox>) -> Entry {
        let namespace = &batch.key.namespace;
        let keys = |names: &mut dyn Iterator<Item = &Arc<str>>| {
            names.map(|name| Key { namespace: Arc::clone(namespace), name: Arc::clone(name) }).collect()
        };
        let pool = pool_of(batch).map(|pool| Key::new(namespace, pool));
        let is_to_delete = account::wants_deletion(batch);
        let need = account::need(batch, |name| self.pool_pods.get(&Key::new(namespace, name)));
        match need.and_then(|need| Ok((need, Slots::of(batch)?))) {
            Ok((need, slots)) => {
                let created = batch.metadata.creation_timestamp.as_ref();
                let turn = (!need.is_met()).then(|| Turn {
                    lacks_pods: need.lacks() > 0,
                    created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
                    uid: Arc::clone(&batch.uid),
                    batch: batch.key.clone(),
                });
                Entry {
                    uid: Arc::clone(&batch.uid),
                    pool,
                    held: keys(&mut slots.held()),
                    releasing: keys(&mut need.release.iter()),
                    turn,
                    lacks: need.lacks(),
                    refused: if need.lacks() > 0 { slots.released.clone() } else { BTreeSet::new() },
                    is_to_delete,
                    is_malformed: false,
                }
            }
            Err(_) => Entry {
                uid: Arc::clone(&batch.uid),
                pool,
                held: keys(&mut account::suspects(batch).iter()),
                releasing: BTreeSet::new(),
                turn: None,
                lacks: 0,
                refused: BTreeSet::new(),
                is_to_delete,
                is_malformed: true,
            },
        }
    }

    /// Puts a pod of a pool where it belongs, and marks its pool if it was elsewhere.
    fn place(&mut self, key: &Key, dirty: &mut Dirty) {
        let Some(pod) = self.pool_pods.get(key) else { return };
        let Some(owner) = pod.owner.as_ref().filter(|owner| *owner.kind == *"Pool") else { return };
        let place = Place::of(key, pod, self.standing(key));
        if self.fleets.entry(Arc::clone(&owner.uid)).or_default().put(key, place) {
            dirty.insert((Controller::Pool, Key::new(&key.namespace, &owner.name)));
        }
    }

    /// How a pod stands. One that says whose it is stands with that batch alone: another one that lists it
    /// has no say in it, unless its list cannot be read.
    fn standing(&self, pod: &Key) -> Standing {
        if self.is_of_malformed(pod) {
            return Standing::Held;
        }
        let marked = self.pool_pods.get(pod).and_then(|pod| pod.allocated_to.as_deref());
        let has_a_say = |holder: &&Key| {
            let is_marked = |mark: &str| self.batches.get(holder).is_some_and(|batch| mark_of(batch) == mark);
            marked.is_none_or(is_marked) || self.malformed.contains(holder)
        };
        let (mut held, mut all_let_go) = (false, true);
        for holder in self.holders.get(pod).into_iter().flatten().filter(has_a_say) {
            let Some(entry) = self.entries.get(holder) else { continue };
            held = true;
            all_let_go &= entry.releasing.contains(pod);
        }
        match (held, all_let_go) {
            (false, _) => Standing::Free,
            (true, true) => Standing::Releasing,
            (true, false) => Standing::Held,
        }
    }

    /// Whether the pod says that it is a batch's whose annotations cannot be read.
    fn is_of_malformed(&self, pod: &Key) -> bool {
        self.pool_pods.get(pod).and_then(|pod| marked_for(pod)).is_some_and(|it| self.malformed.contains(&it))
    }

    /// A pod of a pool is not as it was.
    fn pool_pod_changed(
        &mut self,
        before: Option<&Arc<Seen<PoolPod>>>,
        after: Option<&Arc<Seen<PoolPod>>>,
        dirty: &mut Dirty,
    ) {
        let Some(key) = after.or(before).map(|pod| pod.key.clone()) else { return };
        let home = |pod: &&Arc<Seen<PoolPod>>| pod.pool_uid().cloned();
        let (was, is) = (before.as_ref().and_then(home), after.as_ref().and_then(home));
        if let Some(uid) = was.filter(|uid| is.as_ref() != Some(uid))
            && let Some(fleet) = self.fleets.get_mut(&uid)
        {
            fleet.take(&key);
            if fleet.is_empty() {
                self.fleets.remove(&uid);
            }
            if let Some(owner) = before.and_then(|pod| pod.owner.as_ref()) {
                dirty.insert((Controller::Pool, Key::new(&key.namespace, &owner.name)));
            }
        }
        let (was_for, is_for) =
            (before.and_then(|pod| marked_for(pod)), after.and_then(|pod| marked_for(pod)));
        if was_for != is_for {
            if let Some(batch) = &was_for {
                super::index::forget_one(&mut self.marked, batch, &key);
            }
            if let Some(batch) = &is_for {
                self.marked.entry(batch.clone()).or_default().insert(key.clone());
            }
        }
        self.place(&key, dirty);
        // Whoever holds it sees it otherwise, and may lack it now.
        let is_pressing = pod::became_ready(before, after);
        let mut concerned: BTreeSet<Key> = self.holders.get(&key).cloned().unwrap_or_default();
        concerned.extend([was_for, is_for].into_iter().flatten());
        for batch in concerned {
            self.batch_changed(&batch, dirty);
            if is_pressing {
                self.pressing.insert(batch.clone());
            }
            dirty.insert((Controller::BatchSandbox, batch));
        }
    }
}

/// The batch that a pod says it is of.
fn marked_for(pod: &Seen<PoolPod>) -> Option<Key> {
    let (_, name) = pod.allocated_to.as_deref()?.split_once('/')?;
    Some(Key::new(&pod.key.namespace, name))
}
