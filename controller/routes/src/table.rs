//! The table's state behind its writer, and how one mutation changes it.
//!
//! Everything here runs under the writer's lock. Per object there is one record (live) or one tombstone (deleted) or neither (never
//! seen, or forgotten); never both.
//!
//! # Whose an ID is
//! Each live object claims one ID. Among the claimants of an ID at most one is shown to readers, under the ID; the others are displaced.
//! If none of them refuses to share it ([`Clash`](crate::Clash)), the shown one is served: the last to claim it, until it leaves, and then
//! nobody. If one refuses, and there are several, the ID is ambiguous: one is shown, marked so, and stands for all; which one is a matter
//! of keys and not of arrival. It stays so, also when those who refused are gone, until only one remains, which is then served without a
//! word from its source, or until one of those who would share it claims it anew. So what is left of an ambiguous ID does not depend on the
//! order in which the others went.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, nanos};
use crate::counts::Counter;
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
            Outcome::Ambiguous { .. } => &shared.counters.applied,
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
            if moved {
                self.leave(shared, &served, slot);
            } else {
                self.records.displaced.remove(slot);
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
        self.leave(shared, served, slot);
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

    /// Puts an object's new route in place; nothing of it is left elsewhere. Says whose ID was taken, or who claims it too.
    fn publish(&mut self, shared: &Shared, served: &PinnedMap<'_>, new: Route) -> Outcome {
        let shown = served.by_hash(new.id_hash());
        let rival = shown.filter(|shown| shown.slot() != new.slot());
        if let Some(record) = self.records.get_mut(new.slot()) {
            record.id_hash = new.id_hash();
        }
        shared.counters.state(new.state()).up();
        let displaced = &mut self.records.displaced;
        if let Some(rival) = rival {
            displaced.insert(rival);
        }
        let alone = displaced.count(new.raw_id()) == 0;
        if !alone && (new.refuses() || displaced.any_refuses(new.raw_id())) {
            let other = displaced.claimants(new.raw_id()).next().map(|(key, _)| key.clone());
            displaced.insert(&new);
            self.settle(shared, served, shown, new.raw_id());
            return other.map_or(Outcome::Applied, |other| Outcome::Ambiguous { other });
        }
        self.show(shared, served, shown, Some(new));
        match rival {
            Some(rival) if !rival.is_ambiguous() => Outcome::Takeover { displaced: rival.key().to_key() },
            _ => Outcome::Applied,
        }
    }

    /// An object leaves its ID: it is not shown any more and claims nothing.
    fn leave(&mut self, shared: &Shared, served: &PinnedMap<'_>, slot: u32) {
        let Some(own) = self.records.route(served, slot) else { return };
        // Another ID may have the hash of one that is claimed and not shown.
        let shown = served.by_hash(own.id_hash()).filter(|shown| shown.raw_id() == own.raw_id());
        let displaced = &mut self.records.displaced;
        displaced.remove(slot);
        let Some(shown) = shown else { return };
        let was_shown = shown.slot() == slot;
        if shown.is_ambiguous() {
            if !was_shown {
                displaced.insert(shown);
            }
            self.settle(shared, served, Some(shown), shown.raw_id());
        } else if was_shown {
            self.show(shared, served, Some(shown), None);
        }
    }

    /// Decides anew about an ID that is or was ambiguous and whose claimants, all of them, are displaced: of several none is served, and the
    /// only one that remains is.
    fn settle(&mut self, shared: &Shared, served: &PinnedMap<'_>, shown: Option<&Route>, id: &[u8]) {
        let displaced = &mut self.records.displaced;
        let several = displaced.count(id) > 1;
        let new = displaced.take_first(id);
        self.show(shared, served, shown, new.map(|new| new.marked(several)));
    }

    /// Changes what readers see under an ID, and tells whoever listens what became of the route that was served.
    fn show(&mut self, shared: &Shared, served: &PinnedMap<'_>, old: Option<&Route>, new: Option<Route>) {
        let is_ambiguous = |route: Option<&Route>| route.is_some_and(Route::is_ambiguous);
        move_by(&shared.counters.routes, old.is_some(), new.is_some());
        move_by(&shared.counters.ambiguous, is_ambiguous(old), is_ambiguous(new.as_ref()));
        let was_served = old.filter(|old| !old.is_ambiguous());
        let now = new.as_ref().map(Route::id_hash);
        match (old, new) {
            (_, Some(new)) => served.insert(new),
            (Some(old), None) => served.remove(old.id_hash()),
            (None, None) => {}
        }
        if !self.feed.has_subscribers() {
            return;
        }
        let is_served = now.and_then(|hash| served.by_hash(hash)).filter(|new| !new.is_ambiguous());
        if was_served.is_some() || is_served.is_some() {
            self.feed.tell(was_served, is_served);
        }
    }
}

fn move_by(counter: &Counter, was: bool, is: bool) {
    match (was, is) {
        (false, true) => counter.up(),
        (true, false) => counter.down(),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
