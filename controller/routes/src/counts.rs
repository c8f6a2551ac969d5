//! Numbers about the table, kept as it changes: reading them costs the same at any size.
//!
//! Only the writer changes them, under its lock. Readers may see one number a change ahead of another.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::State;

/// Numbers about a table at about one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// IDs that are known to readers: those that are served, and the ambiguous ones.
    pub routes: u64,
    /// IDs under which no object is served, because several live objects claim them.
    pub ambiguous: u64,
    /// Live objects: the routes, and those whose ID another object took or claims too.
    pub objects: u64,
    /// Live objects that are not shown under the ID they claim.
    pub displaced: u64,
    /// Live objects that are not routed to because they claim an address that another has.
    pub withheld: u64,
    /// Live objects by state, in the order of [`State::ALL`].
    pub by_state: [u64; State::ALL.len()],
    /// Tombstones kept.
    pub tombstones: u64,
    /// Mutations that changed the table, takeovers among them, deletes by a relist too.
    pub applied: u64,
    /// Mutations that were too old.
    pub stale: u64,
    /// Observations that could not be a route.
    pub invalid: u64,
    /// Times an object took the ID of another.
    pub takeovers: u64,
    /// Pushes that the watch did not confirm, and whose effect was undone for that.
    pub overruled: u64,
    /// Tombstones lost to the cap before their time.
    pub tombstones_dropped: u64,
    /// Tombstones swept after their time.
    pub tombstones_expired: u64,
    /// Relists committed.
    pub relists: u64,
}

impl Counts {
    /// Live objects in one state.
    pub fn in_state(&self, state: State) -> u64 {
        self.by_state[state as usize]
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) routes: Counter,
    pub(crate) ambiguous: Counter,
    pub(crate) displaced: Counter,
    pub(crate) overruled: Counter,
    pub(crate) withheld: Counter,
    pub(crate) by_state: [Counter; State::ALL.len()],
    pub(crate) tombstones: Counter,
    pub(crate) applied: Counter,
    pub(crate) stale: Counter,
    pub(crate) invalid: Counter,
    pub(crate) takeovers: Counter,
    pub(crate) tombstones_dropped: Counter,
    pub(crate) tombstones_expired: Counter,
    pub(crate) relists: Counter,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        let by_state: [u64; State::ALL.len()] = std::array::from_fn(|at| self.by_state[at].get());
        Counts {
            routes: self.routes.get(),
            ambiguous: self.ambiguous.get(),
            objects: by_state.iter().sum(),
            displaced: self.displaced.get(),
            overruled: self.overruled.get(),
            withheld: self.withheld.get(),
            by_state,
            tombstones: self.tombstones.get(),
            applied: self.applied.get(),
            stale: self.stale.get(),
            invalid: self.invalid.get(),
            takeovers: self.takeovers.get(),
            tombstones_dropped: self.tombstones_dropped.get(),
            tombstones_expired: self.tombstones_expired.get(),
            relists: self.relists.get(),
        }
    }

    pub(crate) fn state(&self, state: State) -> &Counter {
        &self.by_state[state as usize]
    }
}

/// A number that one thread at a time changes and any may read; nothing is ordered by it.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, number: usize) {
        self.0.store(number as u64, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, more: usize) {
        self.0.store(self.get().wrapping_add(more as u64), Ordering::Relaxed);
    }

    pub(crate) fn up(&self) {
        self.add(1);
    }

    pub(crate) fn down(&self) {
        self.0.store(self.get().wrapping_sub(1), Ordering::Relaxed);
    }
}
