//! The table's state behind its writer, and how one mutation changes it.
//!
//! Everything here runs under the writer's lock. Per object there is one record (live) or one tombstone (deleted) or neither (never
//! seen, or forgotten); never both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, nanos};
use crate::feed::Feed;
use crate::reader::Shared;
use crate::records::Records;
use crate::relist::Relists;
use crate::scope::{ClaimSet, ScopeNumber, Scopes};
use crate::served::PinnedMap;
use crate::tombstones::Tombstones;
use crate::{
    Capability, Fate, Invalid, Limits, ObjectKey, Observation, Outcome, Route, RouteReader, RouteWriter,
    Version, verdict,
};

/// A route table is its two ends.
pub enum RouteTable {}

impl RouteTable {
    /// An empty table, not ready.
    #[expect(clippy::new_ret_no_self, reason = "the table has no handle but its ends")]
    pub fn new(limits: Limits) -> (RouteWriter, RouteReader) {
        Self::with_clock(limits, Clock::system())
    }

    /// An empty table on a clock of your own.
    pub fn with_clock(limits: Limits, clock: Clock) -> (RouteWriter, RouteReader) {
        let shared = Arc::new(Shared::default());
        let writer = RouteWriter::new(Arc::clone(&shared), Table::new(limits, clock));
        (writer, RouteReader(shared))
    }
}

// One sequence for the whole process: an identity number means the same to every table in it.
static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

fn next_identity() -> u64 {
    NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed)
}

pub(crate) struct Table {
    pub(crate) records: Records,
    pub(crate) tombstones: Tombstones,
    pub(crate) scopes: Scopes,
    pub(crate) relists: Relists,
    pub(crate) feed: Feed,
    limits: Limits,
    clock: Clock,
}

impl Table {
    fn new(mut limits: Limits, clock: Clock) -> Self {
        // Slots are numbered by 32 bits.
        limits.max_routes = limits.max_routes.min(u32::MAX as usize - 1);
        Self {
            records: Records::new(),
            tombstones: Tombstones::new(limits.max_tombstones),
            scopes: Scopes::new(),
            relists: Relists::default(),
            feed: Feed::default(),
            limits,
            clock,
        }
    }

    /// Applies an observation, as a scope's if it is one's.
    pub(crate) fn apply(
        &mut self,
        shared: &Shared,
        observed: Observation,
        scope: Option<ScopeNumber>,
    ) -> Outcome {
        if verdict(observed.state, Capability::default()).fate == Fate::Delete {
            return self.delete(shared, &observed.key, Some(observed.version));
        }
        let outcome = self.upsert(shared, observed, scope);
        let counter = match &outcome {
            Outcome::Applied => &shared.counters.applied,
            Outcome::Takeover { .. } => {
                shared.counters.takeovers.up();
                &shared.counters.applied
            }
            Outcome::Stale => &shared.counters.stale,
            Outcome::Invalid(_) => &shared.counters.invalid,
        };
        counter.up();
        outcome
    }

    fn upsert(&mut self, shared: &Shared, observed: Observation, scope: Option<ScopeNumber>) -> Outcome {
        let served = shared.served.pin();
        let slot = self.records.find(&served, observed.key.raw());
        // A scope that names an object claims it, also by an observation that is too old to apply.
        if let (Some(scope), Some(record)) = (scope, slot.and_then(|slot| self.records.get_mut(slot))) {
            record.claims = self.scopes.with(record.claims, scope);
        }
        if let Err(reason) = observed.check() {
            return Outcome::Invalid(reason);
        }
        let id_hash = shared.served.hash(observed.id.as_bytes());
        let clashes = served.by_hash(id_hash).is_some_and(|other| other.raw_id() != observed.id.as_bytes());
        if let Some((slot, old)) = slot.and_then(|slot| Some((slot, self.records.route(&served, slot)?))) {
            if observed.version <= old.version() {
                return Outcome::Stale;
            }
            if clashes {
                return Outcome::Invalid(Invalid::Clash);
            }
            let identity = if old.uid() == observed.uid.as_str() { old.identity() } else { next_identity() };
            let new = Route::build(observed, identity, slot, id_hash);
            let moved = old.raw_id() != new.raw_id();
            shared.counters.state(old.state()).down();
            self.records.restore(slot);
            if moved {
                self.withdraw(shared, &served, slot);
            }
            return self.publish(shared, &served, new);
        }
        let tombstone = self.tombstones.find(observed.key.raw());
        if tombstone.is_some_and(|slot| observed.version <= *self.tombstones.version(slot)) {
            return Outcome::Stale;
        }
        if clashes {
            return Outcome::Invalid(Invalid::Clash);
        }
        if self.records.len() >= self.limits.max_routes {
            return Outcome::Invalid(Invalid::Full);
        }
        if let Some(slot) = tombstone {
            self.tombstones.remove(slot);
            shared.counters.tombstones.set(self.tombstones.len());
        }
        let claims = scope.map_or(ClaimSet::NONE, |scope| self.scopes.with(ClaimSet::NONE, scope));
        let slot = self.records.insert(observed.key.raw(), id_hash, claims);
        self.publish(shared, &served, Route::build(observed, next_identity(), slot, id_hash))
    }

    /// Deletes an object at a version, or at the one it has.
    pub(crate) fn delete(&mut self, shared: &Shared, key: &ObjectKey, version: Option<Version>) -> Outcome {
        let served = shared.served.pin();
        let outcome = match self.records.find(&served, key.raw()) {
            Some(slot) => self.delete_record(shared, &served, slot, key, version),
            None => self.delete_unknown(shared, key, version),
        };
        match outcome {
            Outcome::Stale => shared.counters.stale.up(),
            _ => shared.counters.applied.up(),
        }
        outcome
    }

    /// Deletes an object that has come to its end at this version, if this is the one it has.
    pub(crate) fn expire(&mut self, shared: &Shared, key: &ObjectKey, version: &Version) -> Outcome {
        let served = shared.served.pin();
        let slot = self.records.find(&served, key.raw());
        let known = slot.and_then(|slot| self.records.route(&served, slot)).map(Route::version);
        if known.as_ref() != Some(version) {
            shared.counters.stale.up();
            return Outcome::Stale;
        }
        self.delete(shared, key, known)
    }

    fn delete_record(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        slot: u32,
        key: &ObjectKey,
        version: Option<Version>,
    ) -> Outcome {
        let Some(route) = self.records.route(served, slot) else { return Outcome::Stale };
        let known = route.version();
        if version.as_ref().is_some_and(|version| *version < known) {
            return Outcome::Stale;
        }
        shared.counters.state(route.state()).down();
        self.withdraw(shared, served, slot);
        self.records.remove(slot);
        self.relists.forget(key);
        self.bury(shared, key, version.unwrap_or(known));
        Outcome::Applied
    }

    fn delete_unknown(&mut self, shared: &Shared, key: &ObjectKey, version: Option<Version>) -> Outcome {
        let Some(version) = version else { return Outcome::Stale };
        match self.tombstones.find(key.raw()) {
            Some(slot) if version < *self.tombstones.version(slot) => return Outcome::Stale,
            Some(slot) => self.tombstones.raise(slot, version),
            None => self.bury(shared, key, version),
        }
        Outcome::Applied
    }

    fn bury(&mut self, shared: &Shared, key: &ObjectKey, version: Version) {
        let deadline = self.clock.now().saturating_add(nanos(self.limits.tombstone_lifetime));
        if self.tombstones.bury(key.clone(), version, deadline) {
            shared.counters.tombstones_dropped.up();
        }
        shared.counters.tombstones.set(self.tombstones.len());
    }

    /// Forgets up to `most` tombstones whose time is over.
    pub(crate) fn sweep(&mut self, shared: &Shared, most: usize) -> usize {
        let expired = self.tombstones.expire(self.clock.now(), most);
        shared.counters.tombstones.set(self.tombstones.len());
        shared.counters.tombstones_expired.add(expired);
        expired
    }

    /// Shows an object's new route to readers. Says whose ID was taken.
    fn publish(&mut self, shared: &Shared, served: &PinnedMap<'_>, new: Route) -> Outcome {
        let holder = served.by_hash(new.id_hash());
        let displaced = holder.filter(|holder| holder.slot() != new.slot());
        if let Some(displaced) = displaced {
            self.records.displace(displaced);
        }
        if holder.is_none() {
            shared.counters.routes.up();
        }
        if let Some(record) = self.records.get_mut(new.slot()) {
            record.id_hash = new.id_hash();
        }
        shared.counters.state(new.state()).up();
        let told = self.feed.has_subscribers().then(|| new.clone());
        served.insert(new);
        if let Some(new) = told {
            self.feed.tell(holder, Some(&new));
        }
        displaced
            .map_or(Outcome::Applied, |displaced| Outcome::Takeover { displaced: displaced.key().to_key() })
    }

    /// Takes an object's route out of readers' sight, if it is in it.
    fn withdraw(&mut self, shared: &Shared, served: &PinnedMap<'_>, slot: u32) {
        if let Some(route) = self.records.served(served, slot) {
            served.remove(route.id_hash());
            shared.counters.routes.down();
            self.feed.tell(Some(route), None);
        }
    }
}

#[cfg(test)]
mod tests;
