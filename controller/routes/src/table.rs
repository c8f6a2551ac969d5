//! The state behind the writer's lock, and what an observation changes in it.
//!
//! Everything here runs under the writer's lock. An object has one record (live), or one tombstone (deleted),
//! or neither (never seen, or forgotten). `deletes` has the deletes, `ids` decides who gets an ID,
//! `unconfirmed` and `floors` decide what becomes of a push.
//!
//! # A change of ID
//! 1. `Shared::begin_move` makes the count of moves odd.
//! 2. The feed defers what it announces.
//! 3. The object leaves the old ID. Readers find it under neither.
//! 4. It is published under the new ID.
//! 5. The count of moves becomes even.
//! 6. The feed queues both changes.
//!
//! Why no update is lost: a reader that looks between 3 and 4 sees an odd count and tries again
//! ([`RouteReader::find_consistent`]). A subscriber learns of the old ID's end only after step 4,
//! so it finds the
//! object when it reads the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::addresses::Addresses;
use crate::clock::Clock;
use crate::feed::Feed;
use crate::holds::Holds;
use crate::reader::Shared;
use crate::records::Records;
use crate::relist::Relists;
use crate::scope::{ClaimSet, ScopeNumber, Scopes};
use crate::served::PinnedMap;
use crate::tombstones::Tombstones;
use crate::unconfirmed::{Subject, Unconfirmed};
use crate::{
    Capability, Fate, Invalid, Limits, Observation, Outcome, Route, RouteReader, RouteWriter, verdict,
};

/// Makes a route table: a writer and a reader.
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

/// The source of an observation or a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A push, or another source without a list: it applies until the object's watch says otherwise.
    Push,
    /// An event of a watch.
    Event(ScopeNumber),
    /// A list, by the number of its relist.
    List(ScopeNumber, u32),
}

impl Source {
    pub(crate) fn scope(self) -> Option<ScopeNumber> {
        match self {
            Self::Push => None,
            Self::Event(scope) | Self::List(scope, _) => Some(scope),
        }
    }

    /// The number of its relist, if it is one.
    pub(crate) fn relist(self) -> Option<u32> {
        match self {
            Self::List(_, number) => Some(number),
            Self::Push | Self::Event(_) => None,
        }
    }
}

pub(crate) struct Table {
    pub(crate) records: Records,
    pub(crate) tombstones: Tombstones,
    pub(crate) holds: Holds,
    pub(crate) addresses: Option<Addresses>,
    pub(crate) unconfirmed: Unconfirmed,
    pub(crate) scopes: Scopes,
    pub(crate) relists: Relists,
    pub(crate) feed: Feed,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
}

impl Table {
    fn new(mut limits: Limits, clock: Clock) -> Self {
        // Slots are numbered by 32 bits.
        limits.max_routes = limits.max_routes.min(u32::MAX as usize - 1);
        Self {
            records: Records::new(),
            tombstones: Tombstones::new(limits.max_tombstones),
            holds: Holds::new(limits.max_tombstones),
            addresses: None,
            unconfirmed: Unconfirmed::default(),
            scopes: Scopes::new(),
            relists: Relists::default(),
            feed: Feed::default(),
            limits,
            clock,
        }
    }

    /// Applies an observation.
    pub(crate) fn apply(&mut self, shared: &Shared, observed: Observation, source: Source) -> Outcome {
        if verdict(observed.state, Capability::default()).fate == Fate::Delete {
            return self.delete(shared, &observed.key, Some(&observed.uid), Some(observed.version), source);
        }
        let outcome = self.upsert(shared, observed, source);
        let counter = match &outcome {
            Outcome::Applied | Outcome::Displaced { .. } | Outcome::Ambiguous { .. } => {
                &shared.counters.applied
            }
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

    pub(crate) fn upsert(&mut self, shared: &Shared, observed: Observation, source: Source) -> Outcome {
        let served = shared.served.pin();
        let slot = self.records.find(&served, observed.key.raw());
        // A scope that names an object claims it, even if the observation is too old to apply.
        if let (Some(scope), Some(record)) =
            (source.scope(), slot.and_then(|slot| self.records.get_mut(slot)))
        {
            record.claims = self.scopes.with(record.claims, scope);
        }
        if let Err(reason) = observed.check() {
            return Outcome::Invalid(reason);
        }
        match slot {
            Some(slot) => self.update(shared, &served, slot, observed, source),
            None => self.insert(shared, &served, observed, source),
        }
    }

    /// Applies an observation of an object that is live.
    fn update(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        slot: u32,
        observed: Observation,
        source: Source,
    ) -> Outcome {
        let Some(old) = self.records.route(served, slot) else { return Outcome::Stale };
        let known = old.version();
        if source == Source::Push {
            if observed.version <= known {
                self.renew_lease(slot);
                return Outcome::Stale;
            }
            if self.is_passed(Some(slot), observed.key.raw(), &observed.version) {
                return Outcome::Stale;
            }
            return self.replace(shared, served, slot, observed, source);
        }
        let is_same_object = old.uid() == observed.uid.as_str();
        // At an equal version the watch replaces what a push has reported.
        let is_news = observed.version >= known
            && (self.unconfirmed.remove(Subject::Live(slot)).is_some() || observed.version > known);
        if is_news {
            return self.replace(shared, served, slot, observed, source);
        }
        // An object's age never changes, so a stale observation may supply it. A newer one is published with
        // its age.
        if let (true, 0, Some(created)) =
            (is_same_object, self.records.created(slot), seconds(observed.created))
        {
            self.set_created(shared, slot, created);
        }
        if observed.version < known {
            self.update_baseline(Subject::Live(slot), &observed, source);
        }
        Outcome::Stale
    }

    /// Replaces the route of a live object.
    pub(crate) fn replace(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        slot: u32,
        mut observed: Observation,
        source: Source,
    ) -> Outcome {
        let id_hash = shared.served.hash(observed.id.as_bytes());
        if self.clashes(served, id_hash, observed.id.as_bytes()) {
            return Outcome::Invalid(Invalid::Clash);
        }
        let Some(old) = self.records.route(served, slot) else { return Outcome::Stale };
        // A copy: the displaced route moves while its ID elects again.
        let old = old.clone();
        let is_same_object = old.uid() == observed.uid.as_str();
        let known_age = if is_same_object { self.records.created(slot) } else { 0 };
        let created = seconds(observed.created).unwrap_or(known_age);
        let identity = if is_same_object { old.identity() } else { next_identity() };
        let version = observed.version.clone();
        let baseline = (source == Source::Push).then(|| self.baseline_of(slot, &old));
        self.assign_address(shared, served, slot, &mut observed, created);
        // See `RouteWriter::apply`.
        if source == Source::Push
            && observed.traffic_token.is_none()
            && is_same_object
            && old.id() == observed.id
        {
            observed.traffic_token = old.traffic_token().cloned();
        }
        let new = Route::build(observed, identity, slot, id_hash);
        if new.is_same_observation(&old) {
            self.set_created(shared, slot, created);
            return Outcome::Stale;
        }
        shared.counters.state(old.state()).down();
        // See "A change of ID" above.
        let moving = (old.raw_id() != new.raw_id()).then(|| shared.begin_move());
        if moving.is_some() {
            self.feed.defer();
            self.leave(shared, served, slot);
        } else {
            if !is_same_object {
                self.hold_for(served.by_hash(id_hash), &old);
            }
            self.records.displaced.remove(slot);
        }
        if let Some(record) = self.records.get_mut(slot) {
            record.created = created;
        }
        if let Some(baseline) = baseline {
            self.mark_unconfirmed(Subject::Live(slot), version, baseline);
        }
        let outcome = self.publish(shared, served, new);
        if moving.is_some() {
            drop(moving);
            self.feed.flush();
        }
        outcome
    }

    /// Applies an observation of an object that is not live.
    fn insert(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        mut observed: Observation,
        source: Source,
    ) -> Outcome {
        let tombstone = self.tombstones.find(observed.key.raw());
        if let Some(slot) = tombstone
            && observed.version <= *self.tombstones.version(slot)
        {
            self.update_baseline(Subject::Dead(slot), &observed, source);
            return Outcome::Stale;
        }
        let is_passed = match source {
            Source::Push => self.is_passed(None, observed.key.raw(), &observed.version),
            Source::Event(scope) => self.scopes.floor(scope).is_some_and(|floor| observed.version <= *floor),
            Source::List(..) => false,
        };
        if is_passed {
            return Outcome::Stale;
        }
        let id_hash = shared.served.hash(observed.id.as_bytes());
        if self.clashes(served, id_hash, observed.id.as_bytes()) {
            return Outcome::Invalid(Invalid::Clash);
        }
        if self.records.len() >= self.limits.max_routes {
            return Outcome::Invalid(Invalid::Full);
        }
        let baseline = self.baseline_of_deleted(tombstone, observed.key.raw());
        if let Some(slot) = tombstone {
            self.tombstones.remove(slot);
            shared.counters.tombstones.set(self.tombstones.len());
        }
        let claims = source.scope().map_or(ClaimSet::NONE, |scope| self.scopes.with(ClaimSet::NONE, scope));
        let created = seconds(observed.created).unwrap_or(0);
        let slot = self.records.insert(observed.key.raw(), id_hash, claims, created);
        self.assign_address(shared, served, slot, &mut observed, created);
        if source == Source::Push {
            // What a list has named stays named, whatever is pushed meanwhile.
            if let Some(record) = self.records.get_mut(slot) {
                record.seen = baseline.seen;
            }
            self.mark_unconfirmed(Subject::Live(slot), observed.version.clone(), baseline);
        }
        self.publish(shared, served, Route::build(observed, next_identity(), slot, id_hash))
    }

    /// Whether another ID with the same hash is in use.
    fn clashes(&self, served: &PinnedMap<'_>, id_hash: u64, id: &[u8]) -> bool {
        served.by_hash(id_hash).is_some_and(|other| other.raw_id() != id)
            || self.records.displaced.id(id_hash).is_some_and(|other| other != id)
    }
}

/// A time as records store it; `None` where it is unknown.
pub(crate) fn seconds(created: Option<u64>) -> Option<u32> {
    created.map(|created| u32::try_from(created).unwrap_or(u32::MAX).max(1))
}

#[cfg(test)]
pub(crate) mod tests;
