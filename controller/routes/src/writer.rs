//! The writer's end: every mutation of every source passes its lock, which no reader takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::{fmt, thread};

use crate::reader::Shared;
use crate::table::Table;
use crate::{Changes, ObjectKey, Observation, Outcome, Relist, Route, RouteReader, Scope, Version};

// How much a sweep does in all, and before it lets others in.
const SWEEP: usize = 10_000;
const SWEEP_STEP: usize = 500;

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
        self.with(|table, shared| table.apply(shared, observed, None))
    }

    /// Applies several, in order and under one lock, and leaves the subscribers' wakers to [`wake`](Self::wake): for a source that has
    /// many to apply in a short time, and whose subscribers would be woken for each.
    pub fn apply_quietly(&self, observed: impl IntoIterator<Item = Observation>) -> Vec<Outcome> {
        let mut table = self.lock();
        observed.into_iter().map(|observed| table.apply(&self.0.shared, observed, None)).collect()
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
            table.apply(shared, observed, Some(scope))
        })
    }

    /// Deletes an object at a version, or, where the source lost it, at the version the table has. The route is out of readers' sight
    /// when this returns, and nothing as old brings it back while the tombstone lives. Leaves a tombstone also for an object never
    /// seen; without a version there is nothing to leave.
    pub fn delete(&self, key: &ObjectKey, version: Option<Version>) -> Outcome {
        self.with(|table, shared| table.delete(shared, key, version))
    }

    /// Ends an object whose time has come: at exactly this version it was to live until now. It is deleted at that version, so the same
    /// version brings it back from nowhere, neither a list nor a peer, and a later one does from anywhere. Stale, and nothing changes, if
    /// the table has another version of it or none: whoever brought that one knows better.
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
