//! The writer's end: every mutation of every source passes its lock, which no reader takes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::{fmt, thread};

use crate::reader::Shared;
use crate::table::{Source, Table};
use crate::{Changes, ObjectKey, Observation, Outcome, Relist, Route, RouteReader, Scope, Version};

// How much a sweep does in all, and before it lets others in.
const SWEEP: usize = 10_000;
const SWEEP_STEP: usize = 500;
// How many records are looked at for what was lost before others are let in.
const FORGET_STEP: usize = 1024;

/// Changes a table. Cheap to clone, one for each source; none of its calls waits for anything but another writer's call.
#[derive(Clone)]
pub struct RouteWriter(Arc<Writer>);

struct Writer {
    shared: Arc<Shared>,
    table: Mutex<Table>,
    // How many wait for the lock: a hint for those who would take it again at once.
    waiting: AtomicUsize,
}

impl RouteWriter {
    pub(crate) fn new(shared: Arc<Shared>, table: Table) -> Self {
        Self(Arc::new(Writer { shared, table: Mutex::new(table), waiting: AtomicUsize::new(0) }))
    }

    /// Applies what a source saw. A state that is not kept ([`verdict`](crate::verdict)) makes it a delete at its version.
    pub fn apply(&self, observed: Observation) -> Outcome {
        self.with(|table, shared| table.apply(shared, observed, Source::Push))
    }

    /// Applies several, in order and under one lock, and leaves the subscribers' wakers to [`wake`](Self::wake): for a source that has
    /// many to apply in a short time, and whose subscribers would be woken for each.
    pub fn apply_quietly(&self, observed: impl IntoIterator<Item = Observation>) -> Vec<Outcome> {
        let mut table = self.lock();
        observed.into_iter().map(|observed| table.apply(&self.0.shared, observed, Source::Push)).collect()
    }

    /// Wakes the subscribers that have something to take since [`apply_quietly`](Self::apply_quietly). Any other change does so too.
    pub fn wake(&self) {
        self.with(|_, _| ());
    }

    /// The same as [`apply`](Self::apply), noting that `scope` saw the object: for the events of a watch, so that its next relist answers for them too. Needed
    /// where the scope has a selector; without one it answers for everything it covers.
    pub fn apply_in(&self, scope: &Scope, observed: Observation) -> Outcome {
        self.with(|table, shared| {
            let scope = table.scopes.number(scope);
            table.apply(shared, observed, Source::Event(scope))
        })
    }

    /// Deletes an object that the watch of a scope saw go, at a version or at the one the table has. Unlike
    /// [`delete`](Self::delete) this beats any version that only a push has claimed of the object with this UID, or of
    /// any if it is not known which one went.
    pub fn delete_in(
        &self,
        scope: &Scope,
        key: &ObjectKey,
        uid: Option<&str>,
        version: Option<Version>,
    ) -> Outcome {
        self.with(|table, shared| {
            let scope = table.scopes.number(scope);
            table.delete(shared, key, uid, version, Source::Event(scope))
        })
    }

    /// Says that the watch of a scope has told everything up to a version, by an event (after it is applied) or a
    /// bookmark. Before the scope's first complete list this says nothing.
    pub fn reached(&self, scope: &Scope, version: &Version) {
        self.with(|table, shared| {
            let scope = table.scopes.number(scope);
            table.reached(shared, scope, version);
        });
    }

    /// Takes away every route of a scope that is newer than a version, served or not: the API server lost the time it
    /// is of, so nobody will ever tell what became of it. Says how many there were, and names each.
    pub fn forget_after(
        &self,
        scope: &Scope,
        version: &Version,
        mut forgotten: impl FnMut(&ObjectKey),
    ) -> usize {
        let (mut from, mut count) = (0, 0);
        let mut note = |key: &ObjectKey| {
            count += 1;
            forgotten(key);
        };
        while let Some(next) =
            self.with(|table, shared| table.forget_some(shared, scope, version, from, FORGET_STEP, &mut note))
        {
            from = next;
            self.let_others_in();
        }
        count
    }

    /// Up to `most` live objects that are not served under the ID they claim, because another is or because it is
    /// kept for others, in the order of their IDs. For people.
    pub fn displaced(&self, most: usize) -> Vec<Arc<Route>> {
        self.with(|table, _| {
            // Nothing is copied of those behind the last: the lock is held, and there may be a million.
            let mut first = BTreeMap::new();
            for route in table.records.displaced.iter() {
                first.insert((route.raw_id(), route.key()), route);
                if first.len() > most {
                    first.pop_last();
                }
            }
            first.into_values().map(|route| Arc::new(route.clone())).collect()
        })
    }

    /// Whether an object is known and not deleted, served or not.
    pub fn is_live(&self, key: &ObjectKey) -> bool {
        self.with(|table, shared| table.records.find(&shared.served.pin(), key.raw()).is_some())
    }

    /// Deletes an object at a version, or, where the source lost it, at the version the table has. The route is out of readers' sight
    /// when this returns, and nothing as old brings it back while the tombstone lives. Leaves a tombstone also for an object never
    /// seen; without a version there is nothing to leave.
    pub fn delete(&self, key: &ObjectKey, version: Option<Version>) -> Outcome {
        self.with(|table, shared| table.delete(shared, key, None, version, Source::Push))
    }

    /// Ends an object whose time has come: at exactly this version it was to live until now. It is deleted at that version, so the same
    /// version brings it back from nowhere, neither a list nor a peer, and a later one does from anywhere. Stale, and nothing changes, if
    /// the table has another version of it or none: whoever brought that one knows better. If that was a push, and it is given up, the
    /// object does not come back at this version.
    pub fn expire(&self, key: &ObjectKey, version: &Version) -> Outcome {
        self.with(|table, shared| table.expire(shared, key, version))
    }

    /// Begins a relist of a scope at a list's version. Ends any relist of the same scope that is under way.
    pub fn begin_relist(&self, scope: Scope, version: Version) -> Relist {
        Relist::begin(self.clone(), scope, version)
    }

    /// The first list of every source is in: readers may serve.
    pub fn set_ready(&self) {
        // Whoever sees it set sees every route that was there before.
        self.0.shared.ready.store(true, Ordering::Release);
    }

    /// Forgets tombstones whose time is over, some ten thousand at most, and says how many. Call it on a timer; a tombstone holds until
    /// it is swept.
    pub fn sweep(&self) -> usize {
        let mut swept = 0;
        while swept < SWEEP {
            let step = self.with(|table, shared| table.sweep(shared, SWEEP_STEP));
            swept += step;
            if step < SWEEP_STEP {
                break;
            }
            self.let_others_in();
        }
        swept
    }

    /// A reader of this table.
    pub fn reader(&self) -> RouteReader {
        RouteReader(Arc::clone(&self.0.shared))
    }

    /// Subscribes to every later change of a served ID, with a queue of `capacity` changes.
    pub fn subscribe(&self, capacity: usize) -> Changes {
        self.with(|table, _| table.feed.subscribe(capacity, None))
    }

    /// The same for those who care about some of them: `cares` is asked of what an ID was and what it is, under the writer's lock and when
    /// readers see the change already. It must be quick, and must not call the writer.
    pub fn subscribe_where(
        &self,
        capacity: usize,
        cares: impl Fn(Option<&Route>, Option<&Route>) -> bool + Send + 'static,
    ) -> Changes {
        self.with(|table, _| table.feed.subscribe(capacity, Some(Box::new(cares))))
    }

    /// Runs `change` under the lock and wakes subscribers after it. A panic under the lock would be a bug of ours; the table then goes on
    /// with what is done rather than stop every writer.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Table, &Shared) -> R) -> R {
        let mut table = self.lock();
        let result = change(&mut table, &self.0.shared);
        let wakers = table.feed.take_wakers();
        drop(table);
        for waker in wakers {
            waker();
        }
        result
    }
}

impl RouteWriter {
    fn lock(&self) -> MutexGuard<'_, Table> {
        match self.0.table.try_lock() {
            Ok(table) => table,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.0.waiting.fetch_add(1, Ordering::Relaxed);
                let table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
                self.0.waiting.fetch_sub(1, Ordering::Relaxed);
                table
            }
        }
    }

    /// Between two steps of long work: gives those who wait the time to take the lock, which goes to whoever is first and not to
    /// whoever waits longest.
    pub(crate) fn let_others_in(&self) {
        for _ in 0..1_000 {
            if self.0.waiting.load(Ordering::Relaxed) == 0 {
                return;
            }
            thread::yield_now();
        }
    }
}

impl fmt::Debug for RouteWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteWriter").field("counts", &self.0.shared.counters.read()).finish()
    }
}
