//! The cache: the objects of ten kinds, their indexes, and who is told of changes.

mod builder;
mod environments;
mod feed;
mod hub;
mod index;
mod kept;
mod pool;
mod pool_watch;
mod reads;
mod run;
mod sharing;
mod turn;
mod wait;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{ReentrantMutex, RwLock};
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};
use sandgate_routes::Version;

use crate::{Clock, ConfigMapFacts, Key, PvcFacts, SecretFacts, Seen, Source, Store};
pub use builder::{BuildError, CacheBuilder};
use environments::IdlePods;
pub use feed::Feed;
use hub::Hubs;
use index::Index;
pub use kept::Kept;
use kept::News;
use pool::Pools;
pub use pool_watch::PoolWatch;
use pool_watch::PoolWatches;
pub use reads::ReadError;
pub use run::{Followed, RunError, Running, StartError};
use run::{Parts, Runs};
use sharing::Sharing;
pub use turn::Turn;
use turn::Turns;
pub use wait::Wait;

/// A kind, for feeds without a follower and for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Sandboxes.
    Sandbox,
    /// Sets of sandboxes.
    SandboxSet,
    /// Checkpoints of sandboxes.
    Checkpoint,
    /// Templates of sandboxes.
    SandboxTemplate,
    /// Secrets of the system namespace.
    Secret,
    /// ConfigMaps of the system namespace.
    ConfigMap,
    /// PersistentVolumeClaims.
    Pvc,
    /// Environments of scitix.
    SandboxEnv,
    /// The pools of environments.
    SandboxPool,
    /// The pods of those pools.
    EnvPod,
}

impl Kind {
    /// Every kind, whether a cache follows it or not. See [`Cache::kinds`].
    pub const ALL: [Self; 10] = [
        Self::Sandbox,
        Self::SandboxSet,
        Self::Checkpoint,
        Self::SandboxTemplate,
        Self::Secret,
        Self::ConfigMap,
        Self::Pvc,
        Self::SandboxEnv,
        Self::SandboxPool,
        Self::EnvPod,
    ];

    /// A fixed name, for metrics: the plural of the resource.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandboxes",
            Self::SandboxSet => "sandboxsets",
            Self::Checkpoint => "checkpoints",
            Self::SandboxTemplate => "sandboxtemplates",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Pvc => "persistentvolumeclaims",
            Self::SandboxEnv => "sandboxenvs",
            Self::SandboxPool => "sandboxpools",
            Self::EnvPod => "pods",
        }
    }
}

/// Calls `$run::<T>($args)` with the type of a kind.
macro_rules! for_kind {
    ($kind:expr, $run:ident($($argument:expr),*)) => {
        match $kind {
            Kind::Sandbox => $run::<SandboxFacts>($($argument),*),
            Kind::SandboxSet => $run::<SandboxSet>($($argument),*),
            Kind::Checkpoint => $run::<Checkpoint>($($argument),*),
            Kind::SandboxTemplate => $run::<SandboxTemplate>($($argument),*),
            Kind::Secret => $run::<SecretFacts>($($argument),*),
            Kind::ConfigMap => $run::<ConfigMapFacts>($($argument),*),
            Kind::Pvc => $run::<PvcFacts>($($argument),*),
            Kind::SandboxEnv => $run::<SandboxEnv>($($argument),*),
            Kind::SandboxPool => $run::<SandboxPool>($($argument),*),
            Kind::EnvPod => $run::<EnvPod>($($argument),*),
        }
    };
}
pub(crate) use for_kind;

/// The cache. Clones are the same cache. See the [crate's docs](crate) for the protocol.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

/// What the clones of a cache share.
pub(crate) struct Shared {
    inner: RwLock<Inner>,
    /// Held by whoever delivers news. The flag is set as long as somebody does: only the thread that has the
    /// lock can find it set, from within a handler.
    delivery: ReentrantMutex<Cell<bool>>,
    hubs: Hubs,
    pools: PoolWatches,
    turns: Turns,
    clock: Arc<dyn Clock>,
    parts: Parts,
    runs: Runs,
    stopped: AtomicBool,
}

/// Everything that the lock protects.
#[derive(Default)]
pub struct Inner {
    sandboxes: Store<SandboxFacts>,
    sets: Store<SandboxSet>,
    checkpoints: Store<Checkpoint>,
    templates: Store<SandboxTemplate>,
    secrets: Store<SecretFacts>,
    config_maps: Store<ConfigMapFacts>,
    pvcs: Store<PvcFacts>,
    envs: Store<SandboxEnv>,
    env_pools: Store<SandboxPool>,
    env_pods: Store<EnvPod>,
    pools: Pools,
    ids: Index<SandboxFacts>,
    owners: Index<SandboxFacts>,
    set_names: Index<SandboxSet>,
    checkpoint_ids: Index<Checkpoint>,
    checkpoint_owners: Index<Checkpoint>,
    pvc_owners: Index<PvcFacts>,
    volumes: Index<PvcFacts>,
    env_names: Index<SandboxEnv>,
    env_ids: Index<EnvPod>,
    env_owners: Index<EnvPod>,
    idle_pods: IdlePods,
    sharing: Sharing,
    /// What is to be told once the lock is free, in the order in which it happened.
    news: Vec<News>,
    /// Pools that have one more to claim, or whose set changed.
    stirred: BTreeSet<Arc<str>>,
}

impl Cache {
    /// A cache to be configured.
    pub fn builder() -> CacheBuilder {
        CacheBuilder::default()
    }

    /// The clock that decides what has expired.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// The sink of a kind, for a follower: this cache's own, or somebody else's watch.
    pub fn feed<T: Kept>(&self) -> Feed<T> {
        Feed { cache: self.clone(), kind: PhantomData }
    }

    /// The kinds that are followed.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.shared.parts.kinds()
    }

    /// Whether every kind that is followed has been listed. What a read does not find before that may exist.
    pub fn synced(&self) -> bool {
        let inner = self.shared.inner.read();
        fn is_complete<T: Kept>(inner: &Inner) -> bool {
            T::peek(inner).is_complete()
        }
        self.shared.parts.kinds().all(|kind| for_kind!(kind, is_complete(&inner)))
    }

    /// The version up to which the watch of a kind has shown everything.
    pub fn shown_up_to<T: Kept>(&self) -> Option<Version> {
        T::peek(&self.shared.inner.read()).shown_up_to().cloned()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        fn len<T: Kept>(inner: &Inner) -> usize {
            T::peek(inner).len()
        }
        for_kind!(kind, len(&self.shared.inner.read()))
    }

    /// Whether the filters select an object: its kind, its namespace and its labels. What they do not select
    /// is never shown, because no watch would show how it changes.
    pub fn follows<T: Kept>(&self, seen: &Seen<T>) -> bool {
        self.shared.selects(seen)
    }

    /// Takes in the answer to a write or to a live read: from now on nothing older is shown. What is not
    /// [followed](Self::follows) is left out, and an older version that was followed goes.
    ///
    /// When this returns, handlers and waits have been told of this version, or of a newer one: also if
    /// another thread brought it. Only where a handler calls this they are told after that handler has
    /// returned. So a caller must not hold a lock that a handler takes.
    pub fn answered<T: Kept>(&self, seen: &Arc<Seen<T>>) {
        if self.follows(seen) {
            let own = Seen::clone(seen);
            self.shared.written(|inner| inner.offer(own, Source::Answer));
        } else {
            self.shared.written(|inner| inner.left(seen));
        }
    }

    /// This UID is gone, says the answer to a delete or to a live read. Handlers and waits have been told
    /// when this returns, as with [`answered`](Self::answered).
    pub fn deleted_by_us<T: Kept>(&self, key: &Key, uid: &Arc<str>) {
        self.shared.written(|inner| {
            if let Some(change) = T::store(inner).forget(key, uid) {
                inner.changed(change);
            }
        });
    }

    /// What a watch without a follower shows. Objects of one kind must come in the order of their versions.
    ///
    /// # Errors
    /// If the object cannot be read. Older knowledge of it stays until [`deleted`](Self::deleted) is called.
    pub fn observe_json(&self, kind: Kind, object: &[u8]) -> Result<(), Rejected> {
        fn observe<T: Kept>(shared: &Shared, object: &[u8]) -> Result<(), Rejected> {
            let seen = T::read(object)?;
            let version = seen.version.clone();
            shared.watched(seen);
            shared.change(|inner| T::store(inner).reached(&version));
            Ok(())
        }
        for_kind!(kind, observe(&self.shared, object))
    }

    /// A watch without a follower shows that an object has ended, at this version.
    pub fn deleted(&self, kind: Kind, key: &Key, uid: &str, version: &Version) {
        fn ended<T: Kept>(inner: &mut Inner, key: &Key, uid: &str, version: &Version) {
            inner.ended::<T>(key, Some(uid), Some(version));
            T::store(inner).reached(version);
        }
        self.shared.change(|inner| for_kind!(kind, ended(inner, key, uid, version)));
    }

    /// A feed without a follower has shown everything up to this version: the list of a kind is complete.
    pub fn listed(&self, kind: Kind, version: &Version) {
        fn complete<T: Kept>(inner: &mut Inner, version: &Version) {
            T::store(inner).complete_at(version);
        }
        self.shared.change(|inner| for_kind!(kind, complete(inner, version)));
    }
}

impl Shared {
    /// Changes what the lock protects, and tells whoever is interested after the lock is free.
    fn change<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        let (answer, is_news) = {
            let mut inner = self.inner.write();
            let answer = change(&mut inner);
            (answer, inner.has_news())
        };
        if is_news {
            self.deliver();
        }
        answer
    }

    /// The same for the answer to a write. It may be no news, because another thread has brought it and still
    /// tells of it: so this waits for that thread too.
    fn written(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner.write());
        self.deliver();
    }

    /// Delivers the news in the order in which they happened, and returns when all have been delivered that
    /// there were at the call.
    ///
    /// One thread delivers at a time; another one waits for it, and then delivers what is left. A handler
    /// that changes the cache comes here too, on the thread that has called it. It does not wait for itself:
    /// the loop that called it goes on with its change, so no handler is called within a handler.
    fn deliver(&self) {
        let is_delivering = self.delivery.lock();
        if is_delivering.replace(true) {
            return;
        }
        let _ends = Delivering(&is_delivering);
        loop {
            let (news, stirred) = {
                let mut inner = self.inner.write();
                (std::mem::take(&mut inner.news), std::mem::take(&mut inner.stirred))
            };
            if news.is_empty() && stirred.is_empty() {
                return;
            }
            for news in &news {
                self.hubs.tell(news);
            }
            self.pools.tell(&stirred);
        }
    }

    /// Registers a waiter: see [`Hub::register`](hub::Hub::register).
    fn register<T: Kept>(
        &self,
        key: &Key,
        uid: &Arc<str>,
        predicate: hub::Predicate<T>,
    ) -> hub::Registered<'_, T> {
        T::hub(&self.hubs).register(&self.inner, key, uid, predicate)
    }

    /// Takes in what a watch shows. What the filters do not select has left what is followed.
    fn watched<T: Kept>(&self, seen: Seen<T>) {
        let is_selected = self.selects::<T>(&seen);
        self.change(|inner| {
            if is_selected {
                inner.offer(seen, Source::Watch);
            } else {
                inner.ended::<T>(&seen.key, Some(&seen.uid), Some(&seen.version));
            }
        });
    }

    fn selects<T: Kept>(&self, seen: &Seen<T>) -> bool {
        seen.is_selected() && self.parts.selects::<T>(seen)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// A delivery until it ends, also by a panic.
struct Delivering<'a>(&'a Cell<bool>);

impl Drop for Delivering<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Inner {
    fn has_news(&self) -> bool {
        !self.news.is_empty() || !self.stirred.is_empty()
    }

    fn offer<T: Kept>(&mut self, mut seen: Seen<T>, source: Source) {
        T::share(&self.sharing, &mut seen);
        if let Some(change) = T::store(self).offer(Arc::new(seen), source) {
            self.changed(change);
        }
    }

    fn ended<T: Kept>(&mut self, key: &Key, uid: Option<&str>, version: Option<&Version>) {
        if let Some(change) = T::store(self).ended(key, uid, version) {
            self.changed(change);
        }
    }

    fn left<T: Kept>(&mut self, seen: &Seen<T>) {
        if let Some(change) = T::store(self).left(&seen.key, &seen.uid, &seen.version) {
            self.changed(change);
        }
    }

    /// Applies what a list changed. Returns how many objects it was.
    fn apply<T: Kept>(&mut self, changes: Vec<crate::Change<T>>) -> u64 {
        let count = changes.len() as u64;
        for change in changes {
            self.changed(change);
        }
        count
    }

    fn changed<T: Kept>(&mut self, change: crate::Change<T>) {
        T::changed(self, &change);
        self.news.push(T::news(change));
    }
}
