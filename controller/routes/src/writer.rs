//! The writer: every mutation of every source passes its lock. No reader takes that lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};

use crate::reader::Shared;
use crate::table::{Source, Table};
use crate::{Changes, ObjectKey, Observation, Outcome, Relist, Route, RouteReader, Scope, Version};

// How much one sweep does in all, and in one step.
const SWEEP: usize = 10_000;
const SWEEP_STEP: usize = 500;
// How many records one step of a rewind looks at.
const FORGET_STEP: usize = 1024;

/// Changes a table. Cheap to clone: each source has one. A call waits for other writers' calls, and for
/// nothing else.
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

    /// Applies an observation. One whose state is not kept ([`verdict`](crate::verdict)) is a delete at its
    /// version.
    ///
    /// An observation without a traffic token leaves the object the one that it has, while UID and ID stay:
    /// not every pusher knows of such tokens, and one that does not must not open a sandbox. The object's
    /// watch takes it away, or the object's end.
    pub fn apply(&self, observed: Observation) -> Outcome {
        self.with(|table, shared| table.apply(shared, observed, Source::Push))
    }

    /// Applies several observations in order, under one lock, without waking subscribers: call
    /// [`wake`](Self::wake) after it. For a source with many batches in a short time.
    pub fn apply_quietly(&self, observed: impl IntoIterator<Item = Observation>) -> Vec<Outcome> {
        let mut table = self.0.table.lock();
        observed.into_iter().map(|observed| table.apply(&self.0.shared, observed, Source::Push)).collect()
    }

    /// Wakes the subscribers that have a notice since [`apply_quietly`](Self::apply_quietly). Any other
    /// change does so too.
    pub fn wake(&self) {
        self.with(|_, _| ());
    }

    /// The same as [`apply`](Self::apply) for an event of the watch of `scope`. Notes that the scope has seen
    /// the object, so that its next relist covers it: a scope with a selector covers only what it has seen.
    pub fn apply_in(&self, scope: &Scope, observed: Observation) -> Outcome {
        self.with(|table, shared| {
            let scope = table.scopes.number(scope);
            table.apply(shared, observed, Source::Event(scope))
        })
    }

    /// Deletes an object that the watch of a scope reports as deleted, at a version or at the one the table
    /// has. Unlike [`delete`](Self::delete) this beats any version that only a push has claimed for the
    /// object with this UID. Without a UID it beats any version that a push has claimed.
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

    /// Raises the floor of a scope: its watch has reported everything up to a version, by an event (after it
    /// is applied) or a bookmark. Has no effect before the scope's first complete list.
    pub fn reached(&self, scope: &Scope, version: &Version) {
        self.with(|table, shared| {
            let scope = table.scopes.number(scope);
            table.reached(shared, scope, version);
        });
    }

    /// Rewinds a scope: removes every route of it that is newer than a version, served or not. For an API
    /// server that was restored from a backup: it will never report those objects again. Calls `forgotten`
    /// for each and returns how many.
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

    /// Up to `most` live objects that are not shown under the ID they claim, because another object has it or
    /// because it is held, in the order of their IDs. For people.
    pub fn displaced(&self, most: usize) -> Vec<Arc<Route>> {
        self.with(|table, _| {
            // Copies only what is returned: there may be a million, and the lock is held.
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

    /// Whether an object is live, shown or not.
    pub fn is_live(&self, key: &ObjectKey) -> bool {
        self.with(|table, shared| table.records.find(&shared.served.pin(), key.raw()).is_some())
    }

    /// Deletes an object at a version or, if the source does not know it, at the version the table has.
    /// Readers do not see the route when this returns, and nothing as old brings it back while the tombstone
    /// lives. An object never seen gets a tombstone too, if there is a version.
    pub fn delete(&self, key: &ObjectKey, version: Option<Version>) -> Outcome {
        self.with(|table, shared| table.delete(shared, key, None, version, Source::Push))
    }

    /// Expires an object that exactly this version limits to a time that is over. It is deleted at that
    /// version: the same version does not bring it back, a later one does. If the table has another version
    /// or none, the outcome is stale and nothing changes. If that other version is a push that is undone
    /// later, the object is not restored at this one.
    pub fn expire(&self, key: &ObjectKey, version: &Version) -> Outcome {
        self.with(|table, shared| table.expire(shared, key, version))
    }

    /// Begins a relist of a scope at a list's version. Supersedes a relist of the same scope that is under
    /// way.
    pub fn begin_relist(&self, scope: Scope, version: Version) -> Relist {
        Relist::begin(self.clone(), scope, version)
    }

    /// Lets readers serve: the first list of every source is complete.
    pub fn set_ready(&self) {
        // Release: a reader that sees it set sees every route that was applied before.
        self.0.shared.ready.store(true, Ordering::Release);
    }

    /// Removes tombstones whose time is over, about ten thousand at most, and returns how many. Call it on a
    /// timer: a tombstone counts until it is swept.
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

    /// The same for the changes that `filter` accepts. It gets the route before and after, is called under
    /// the writer's lock, and after readers see the change. It must be quick and must not call the writer.
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

    /// Runs `step` under the lock until it returns `None`. Each step gets what the one before returned, the
    /// first one 0.
    ///
    /// Between two steps the lock goes to a writer that waits for it, if there is one. A plain unlock would
    /// not do: this thread takes the lock again at once, and would get it before a thread that has to be
    /// woken first.
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
