//! What this process knows of the cluster: sandboxes, their sets and templates, pools and batches, and their
//! pods.
//!
//! # Who writes
//! - The watch of each kind, through a [`Feed`].
//! - The answer to every write of ours, through [`View::answered`] and [`View::deleted_by_us`]. So what this
//!   process has written is never read older, and nothing has to wait for an event.
//!
//! The order of the versions decides between the two; see [`Store`].
//!
//! # Who reads
//! Reconcilers, by key. They get `Arc`s of objects that never change. A set's children are indexed; see
//! `pool`. So are the pods of pools and batches; see `opensandbox`.
//!
//! # Who is told
//! Each change marks the keys whose reconcilers have to look, and calls [`Mark`] for each of them after the
//! view has changed. A repeated or older observation marks nothing.
//!
//! # Names of children
//! A set chooses the name of a child and registers it here before the request. Until the child is seen, or
//! the request is known to have failed, the name counts as a child in creation. So an answer that was lost
//! never makes a second child.

mod decode;
mod environments;
mod feed;
mod index;
mod opensandbox;
mod pod;
mod pool;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
pub(crate) use sandgate_cache::{Seen, Viewed};
use sandgate_cache::{Source, Store};
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet, SandboxTemplate};
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool as OpenSandboxPool, SandboxSnapshot};
use sandgate_objects::sandbox_env::resources::{
    EnvPod, SandboxEnv, SandboxPool as EnvPool, SandboxTemplate as EnvTemplate,
};
use sandgate_routes::Version;

use crate::{Haste, Key};
pub(crate) use decode::Kept;
use environments::Environments;
pub use environments::{EnvPodClass, EnvPodCounts, EnvPods, env_of};
pub use feed::Feed;
use opensandbox::OpenSandbox;
pub use opensandbox::{
    BatchPod, ContainerState, JobFacts, Need, Needy, OwnPod, Owner, PodClass, PodPhase, PodState, PoolCounts,
    PoolLevels, PoolLook, PoolPod, SeenPod, Slots, mark_of, pool_of,
};
pub(crate) use opensandbox::{has_finalizer, is_leaving, may_have_a_task, pod_index};
pub use pod::{ContainerFacts, PodFacts, Resize};
pub use pool::{Child, Class, Counts, Rank};
use pool::{Pool, Which};

/// A controller that the view wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// The one of sandboxes.
    Sandbox,
    /// The one of sets.
    SandboxSet,
    /// The one of OpenSandbox's batches.
    BatchSandbox,
    /// The one of OpenSandbox's pools.
    Pool,
    /// The one of OpenSandbox's snapshots.
    SandboxSnapshot,
    /// The one of environments.
    SandboxEnv,
    /// The one of the pools of environments.
    EnvPool,
    /// The one that gives lone pools an environment.
    PoolAdoption,
}

/// A kind, for feeds without a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Sandboxes.
    Sandbox,
    /// Sets of sandboxes.
    SandboxSet,
    /// Templates of sandboxes.
    SandboxTemplate,
    /// Pods of sandboxes.
    Pod,
    /// OpenSandbox's batches.
    BatchSandbox,
    /// OpenSandbox's pools.
    Pool,
    /// OpenSandbox's snapshots.
    SandboxSnapshot,
    /// Pods of pools.
    PoolPod,
    /// Pods that batches control.
    OwnPod,
    /// The Jobs that make snapshots.
    Job,
    /// Environments.
    SandboxEnv,
    /// Pools of environments.
    EnvPool,
    /// Templates of environments.
    EnvTemplate,
    /// Pods of the pools of environments.
    EnvPod,
}

/// Does the same with the type of a kind, whichever it is.
macro_rules! for_kind {
    ($kind:expr, $object:ident => $what:expr) => {
        match $kind {
            Kind::Sandbox => {
                type $object = Sandbox;
                $what
            }
            Kind::SandboxSet => {
                type $object = SandboxSet;
                $what
            }
            Kind::SandboxTemplate => {
                type $object = SandboxTemplate;
                $what
            }
            Kind::Pod => {
                type $object = PodFacts;
                $what
            }
            Kind::BatchSandbox => {
                type $object = BatchSandbox;
                $what
            }
            Kind::Pool => {
                type $object = OpenSandboxPool;
                $what
            }
            Kind::SandboxSnapshot => {
                type $object = SandboxSnapshot;
                $what
            }
            Kind::PoolPod => {
                type $object = PoolPod;
                $what
            }
            Kind::OwnPod => {
                type $object = OwnPod;
                $what
            }
            Kind::Job => {
                type $object = JobFacts;
                $what
            }
            Kind::SandboxEnv => {
                type $object = SandboxEnv;
                $what
            }
            Kind::EnvPool => {
                type $object = EnvPool;
                $what
            }
            Kind::EnvTemplate => {
                type $object = EnvTemplate;
                $what
            }
            Kind::EnvPod => {
                type $object = EnvPod;
                $what
            }
        }
    };
}

/// Called for each key that has to be looked at, with how much that is waited for.
pub type Mark = Box<dyn Fn(Controller, &Key, Haste) + Send + Sync>;

/// The view. Clones are the same view.
#[derive(Clone)]
pub struct View {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    mark: Mark,
}

/// A child that was asked for and has not been seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Namespace and name.
    pub key: Key,
    /// The revision that it is made from.
    pub revision: Arc<str>,
    set: Arc<str>,
}

/// Everything that the view has.
#[derive(Default)]
pub struct Inner {
    sandboxes: Store<Sandbox>,
    sets: Store<SandboxSet>,
    templates: Store<SandboxTemplate>,
    pods: Store<PodFacts>,
    /// By the UID of the set.
    pools: BTreeMap<Arc<str>, Pool>,
    /// The templates that a set's revisions are, by the UID of the set.
    revisions: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// Who names a template.
    referrers: BTreeMap<Key, BTreeSet<(Controller, Key)>>,
    reserved: BTreeMap<Key, Reserved>,
    opensandbox: OpenSandbox,
    environments: Environments,
    /// What is to be marked once the lock is free.
    dirty: BTreeSet<(Controller, Key)>,
}

/// A set's children, as many of each class as were asked for.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// How many there are.
    pub counts: Counts,
    /// Children that were asked for and not seen.
    pub reserved: Vec<Reserved>,
    /// In creation, of other revisions than the one asked for.
    pub old_creating: Vec<Child>,
    /// Available, of other revisions.
    pub old_available: Vec<Child>,
    /// In creation, of the revision asked for, as far as they may be too many.
    pub new_creating: Vec<Child>,
    /// Available, of the revision asked for, as far as they may be too many.
    pub new_available: Vec<Child>,
    /// Failed, completed or expired.
    pub dead: Vec<Child>,
    /// Left behind by OpenKruise's scale-down.
    pub abandoned: Vec<Child>,
    /// Every revision that a child has.
    pub revisions: BTreeSet<Arc<str>>,
    /// When the next child ends by itself.
    pub next_end: Option<Timestamp>,
}

impl Kind {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        for_kind!(self, T => T::KIND)
    }
}

impl View {
    /// An empty view. `mark` is called outside of the view's lock, and may read the view.
    pub fn new(mark: Mark) -> Self {
        Self { shared: Arc::new(Shared { inner: Mutex::default(), mark }) }
    }

    /// The sink of a kind, for a follower.
    pub fn feed<T: Kept>(&self) -> Feed<T> {
        Feed { view: self.clone(), kind: PhantomData }
    }

    /// What a watch without a follower shows. Objects of one kind must come in the order of their versions.
    ///
    /// # Errors
    /// If the object cannot be read. Older knowledge of it stays until [`deleted`](Self::deleted) is called.
    pub fn observe_json(&self, kind: Kind, object: &[u8]) -> Result<(), Rejected> {
        self.change(|inner| for_kind!(kind, T => inner.watch::<T>(object)))
    }

    /// A watch without a follower shows that an object has ended, at this version.
    pub fn deleted(&self, kind: Kind, key: &Key, uid: &str, version: &Version) {
        fn ended<T: Kept>(inner: &mut Inner, key: &Key, uid: &str, version: &Version) {
            inner.ended::<T>(key, Some(uid), Some(version));
            T::store(inner).reached(version);
        }
        self.change(|inner| for_kind!(kind, T => ended::<T>(inner, key, uid, version)));
    }

    /// A feed without a follower has shown everything up to this version: the list of a kind is complete.
    pub fn listed(&self, kind: Kind, version: &Version) {
        self.change(|inner| for_kind!(kind, T => T::store(inner).complete_at(version)));
    }

    /// Whether each of these kinds has been listed.
    pub fn synced(&self, kinds: &[Kind]) -> bool {
        let inner = self.shared.inner.lock();
        kinds.iter().all(|kind| for_kind!(kind, T => T::peek(&inner).is_complete()))
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        let inner = self.shared.inner.lock();
        for_kind!(kind, T => T::peek(&inner).len())
    }

    /// Takes in the answer to a write or to a live read.
    pub fn answered<T: Kept>(&self, seen: &Arc<Seen<T>>) {
        // What the watch does not select would never be seen to change.
        if seen.is_selected() {
            self.change(|inner| inner.offer(Arc::clone(seen), Source::Answer));
        }
    }

    /// This UID is gone, says the answer to a delete or to a live read.
    pub fn deleted_by_us<T: Kept>(&self, key: &Key, uid: &Arc<str>) {
        self.change(|inner| {
            if let Some(change) = T::store(inner).forget(key, uid) {
                T::changed(inner, change);
            }
        });
    }

    /// The object of this name.
    pub fn get<T: Kept>(&self, key: &Key) -> Option<Arc<Seen<T>>> {
        T::peek(&self.shared.inner.lock()).get(key).cloned()
    }

    /// The children of a set, at most `limit` of each class. Of the revision asked for only those are given
    /// that may be too many if `wanted` are: a look at a set that is as it should be copies no children.
    pub fn members(&self, set: &str, revision: &str, now: Timestamp, limit: usize, wanted: usize) -> Members {
        let mut inner = self.shared.inner.lock();
        let reserved: Vec<_> =
            inner.reserved.values().filter(|reserved| &*reserved.set == set).cloned().collect();
        let Some(pool) = inner.pools.get_mut(set) else {
            return Members { reserved, ..Members::default() };
        };
        pool.expire(now);
        let counts = pool.counts(revision);
        let surplus = (counts.all() + reserved.len()).saturating_sub(wanted).min(limit);
        let (old, new) = (Which::AllBut(revision), Which::Only(revision));
        Members {
            counts,
            reserved,
            old_creating: pool.first(Class::Creating, old, limit),
            old_available: pool.first(Class::Available, old, limit),
            new_creating: pool.first(Class::Creating, new, surplus),
            new_available: pool.first(Class::Available, new, surplus),
            dead: pool.first(Class::Dead, Which::Any, limit),
            abandoned: pool.first(Class::Abandoned, Which::Any, limit),
            revisions: pool.revisions(),
            next_end: pool.next_end(),
        }
    }

    /// The templates that are revisions of a set.
    pub fn revisions(&self, set: &str) -> Vec<Arc<Seen<SandboxTemplate>>> {
        let inner = self.shared.inner.lock();
        let keys = inner.revisions.get(set).into_iter().flatten();
        keys.filter_map(|key| inner.templates.get(key).cloned()).collect()
    }

    /// Registers the name of a child before it is asked for. False if the name is in use.
    pub fn reserve(&self, set: &Arc<str>, key: &Key, revision: &Arc<str>) -> bool {
        let mut inner = self.shared.inner.lock();
        if inner.sandboxes.get(key).is_some() || inner.reserved.contains_key(key) {
            return false;
        }
        let reserved = Reserved { key: key.clone(), revision: revision.clone(), set: set.clone() };
        inner.reserved.insert(key.clone(), reserved);
        true
    }

    /// The child of this name was seen, or will never be made.
    pub fn release(&self, key: &Key) {
        self.shared.inner.lock().reserved.remove(key);
    }

    fn change<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        let (answer, dirty, pressing) = {
            let mut inner = self.shared.inner.lock();
            let answer = change(&mut inner);
            let pressing = std::mem::take(&mut inner.opensandbox.pressing);
            (answer, std::mem::take(&mut inner.dirty), pressing)
        };
        for (controller, key) in &dirty {
            let is_pressing = *controller == Controller::BatchSandbox && pressing.contains(key);
            (self.shared.mark)(*controller, key, if is_pressing { Haste::Pressing } else { Haste::Usual });
        }
        answer
    }
}
