//! The cache: the objects of seven kinds, their indexes, and who is told of changes.

mod builder;
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

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use sandgate_routes::Version;

use crate::{Clock, ConfigMapFacts, Key, PvcFacts, SecretFacts, Seen, Source, Store};
pub use builder::{BuildError, CacheBuilder};
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
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Sandbox,
        Self::SandboxSet,
        Self::Checkpoint,
        Self::SandboxTemplate,
        Self::Secret,
        Self::ConfigMap,
        Self::Pvc,
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
    /// Held by whoever delivers news.
    delivery: Mutex<()>,
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
    pools: Pools,
    ids: Index<SandboxFacts>,
    owners: Index<SandboxFacts>,
    locks: Index<SandboxFacts>,
    set_names: Index<SandboxSet>,
    checkpoint_ids: Index<Checkpoint>,
    checkpoint_owners: Index<Checkpoint>,
    pvc_owners: Index<PvcFacts>,
    volumes: Index<PvcFacts>,
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

    /// Whether every kind that is followed has been listed. What a read does not find before that may exist.
    pub fn synced(&self) -> bool {
        let inner = self.shared.inner.read();
        fn is_complete<T: Kept>(inner: &Inner) -> bool {
            T::peek(inner).is_complete()
        }
        self.shared.parts.kinds().all(|kind| for_kind!(kind, is_complete(&inner)))
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        fn len<T: Kept>(inner: &Inner) -> usize {
            T::peek(inner).len()
        }
        for_kind!(kind, len(&self.shared.inner.read()))
    }

    /// Takes in the answer to a write or to a live read: from now on nothing older is shown. What the filters
    /// do not select is left out, because the watch would never show how it changes.
    pub fn answered<T: Kept>(&self, seen: &Arc<Seen<T>>) {
        if !self.shared.selects::<T>(seen) {
            return;
        }
        let own = Seen::clone(seen);
        self.shared.change(|inner| inner.offer(own, Source::Answer));
    }

    /// This UID is gone, says the answer to a delete or to a live read.
    pub fn deleted_by_us<T: Kept>(&self, key: &Key, uid: &Arc<str>) {
        self.shared.change(|inner| {
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

    /// Forgets everything that a kind's watch has shown, as a new process would.
    pub fn forget_all(&self, kind: Kind) {
        fn forget<T: Kept>(inner: &mut Inner) {
            let changes = T::store(inner).clear();
            inner.apply(changes);
        }
        self.shared.change(|inner| for_kind!(kind, forget(inner)));
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

    /// Delivers the news in the order in which they happened.
    ///
    /// One thread delivers at a time. Another that has news leaves them to it, because the one looks again
    /// after it has let go of the delivery: so a handler that changes the cache is not called within itself,
    /// and nothing stays undelivered.
    fn deliver(&self) {
        loop {
            let Some(delivery) = self.delivery.try_lock() else { return };
            loop {
                let (news, stirred) = {
                    let mut inner = self.inner.write();
                    (std::mem::take(&mut inner.news), std::mem::take(&mut inner.stirred))
                };
                if news.is_empty() && stirred.is_empty() {
                    break;
                }
                for news in &news {
                    self.hubs.tell(news);
                }
                self.pools.tell(&stirred);
            }
            drop(delivery);
            if !self.inner.read().has_news() {
                return;
            }
        }
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
