//! The writer's end: every mutation of every source passes its lock, which no reader takes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};

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
}

impl RouteWriter {
    pub(crate) fn new(shared: Arc<Shared>, table: Table) -> Self {
        Self(Arc::new(Writer { shared, table: Mutex::new(table) }))
    }

    /// Applies what a source saw. A state that is not kept ([`verdict`](crate::verdict)) makes it a delete at its version.
    pub fn apply(&self, observed: Observation) -> Outcome {
        self.with(|table, shared| table.apply(shared, observed, Source::Push))
    }

    /// Applies several, in order and under one lock, and leaves the subscribers' wakers to [`wake`](Self::wake): for a source that has
    /// many to apply in a short time, and whose subscribers would be woken for each.
    pub fn apply_quietly(&self, observed: impl IntoIterator<Item = Observation>) -> Vec<Outcome> {
        let mut table = self.0.table.lock();
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
        let mut count = 0;
        let mut note = |key: &ObjectKey| {
            count += 1;
            forgotten(key);
        };
        self.in_steps(|table, shared, from| {
            table.rewind_step(shared, scope, version, from, FORGET_STEP, &mut note)
        });
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
        self.in_steps(|table, shared, before| {
            let step = table.sweep(shared, SWEEP_STEP);
            swept = before + step;
            (step >= SWEEP_STEP && swept < SWEEP).then_some(swept)
        });
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
        filter: impl Fn(Option<&Route>, Option<&Route>) -> bool + Send + 'static,
    ) -> Changes {
        self.with(|table, _| table.feed.subscribe(capacity, Some(Box::new(filter))))
    }

    /// Runs `change` under the lock and calls the subscribers' wakers after it.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Table, &Shared) -> R) -> R {
        self.locked(change, |table| drop(table))
    }

    /// Runs `step` under the lock until it returns `None`. Each step gets what the one before returned, the first one 0.
    ///
    /// Between two steps the lock goes to a writer that waits for it, if there is one. A plain unlock would not do: this
    /// thread takes the lock again at once, and would get it before a thread that has to be woken first.
    pub(crate) fn in_steps(&self, mut step: impl FnMut(&mut Table, &Shared, usize) -> Option<usize>) {
        let mut from = 0;
        while let Some(next) =
            self.locked(|table, shared| step(table, shared, from), |table| MutexGuard::unlock_fair(table))
        {
            from = next;
        }
    }

    fn locked<R>(
        &self,
        change: impl FnOnce(&mut Table, &Shared) -> R,
        unlock: impl FnOnce(MutexGuard<'_, Table>),
    ) -> R {
        let mut table = self.0.table.lock();
        let result = change(&mut table, &self.0.shared);
        let wakers = table.feed.drain_wakers();
        unlock(table);
        for waker in wakers {
            waker();
        }
        result
    }
}

impl fmt::Debug for RouteWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteWriter").field("counts", &self.0.shared.counters.read()).finish()
    }
}

#[cfg(test)]
mod tests;
