//! Floors: the version up to which a scope's watch has reported everything, and what that means for pushes.
//!
//! A complete list of a scope without a selector names every object of it, and its watch reports every later
//! change in the order of versions. So there is a version up to which everything is reported: the floor.
//! 1. A complete list sets it.
//! 2. Events and bookmarks raise it.
//! 3. A rewind of the API server lowers it.
//!
//! A push that is not newer than the floor is stale, even if the table knows nothing of its object. A gateway
//! that has just started has no tombstones, and must not revive what was deleted before. A newer push
//! applies: see `unconfirmed`.
//!
//! Why no update is lost: a change at or below the floor was in the list or in an event, so the push of it
//! has nothing to add. A change above the floor is applied from the push, and later confirmed or undone by
//! the watch.

use crate::clock::nanos;
use crate::key::RawKey;
use crate::reader::Shared;
use crate::scope::ScopeNumber;
use crate::table::{Source, Table};
use crate::unconfirmed::{Baseline, Subject};
use crate::{ObjectKey, Observation, Route, Scope, Version};

/// How many times per confirmation time a push is rechecked that waits for a silent watch.
const RECHECKS: u64 = 30;

impl Table {
    /// Whether a pushed observation is at or below the floor of its object's scope.
    pub(crate) fn is_passed(&self, slot: Option<u32>, key: RawKey<'_>, version: &Version) -> bool {
        let floor = self.scope_of(slot, key).and_then(|scope| self.scopes.floor(scope));
        floor.is_some_and(|floor| version <= floor)
    }

    /// The scope that reports an object: one that has seen it, else one that covers it.
    fn scope_of(&self, slot: Option<u32>, key: RawKey<'_>) -> Option<ScopeNumber> {
        let claims = slot.and_then(|slot| self.records.get(slot)).map(|record| record.claims);
        claims.and_then(|claims| self.scopes.first(claims)).or_else(|| self.scopes.covering(key))
    }

    /// The baseline of a live object that has this route.
    pub(crate) fn baseline_of(&mut self, slot: u32, route: &Route) -> Baseline {
        let scope = self.scope_of(Some(slot), route.raw_key());
        let Some(record) = self.records.get(slot) else { return Baseline::default() };
        let (created, is_claimed) = (record.created, !record.claims.is_empty());
        let relist = scope.and_then(|scope| self.relists.current(scope));
        let is_seen = |relist: &u32| record.seen == *relist || self.relists.is_also_seen(*relist, route);
        let seen = relist.filter(is_seen).unwrap_or(0);
        match self.unconfirmed.remove(Subject::Live(slot)) {
            Some(pushed) => Baseline { scope, ..pushed.baseline },
            None => Baseline {
                scope,
                observed: is_claimed.then(|| Box::new(self.observation_of(slot, route, created))),
                seen,
            },
        }
    }

    /// The baseline of an object that is not live.
    pub(crate) fn baseline_of_deleted(&mut self, tombstone: Option<u32>, key: RawKey<'_>) -> Baseline {
        match tombstone.and_then(|slot| self.unconfirmed.remove(Subject::Dead(slot))) {
            Some(pushed) => {
                let scope = pushed.baseline.scope.or_else(|| self.scopes.covering(key));
                Baseline { scope, ..pushed.baseline }
            }
            None => Baseline { scope: self.scopes.covering(key), ..Baseline::default() },
        }
    }

    /// Records that only a push has reported this so far.
    pub(crate) fn mark_unconfirmed(&mut self, subject: Subject, version: Version, baseline: Baseline) {
        if let Subject::Dead(slot) = subject {
            // No scope can confirm it yet. There may be a million of these, so the tombstone itself has the
            // mark.
            self.tombstones.set_claimed(slot, baseline.scope.is_none());
        }
        let after = |wait| self.clock.now().saturating_add(nanos(wait));
        let deadline = match (baseline.scope, subject) {
            (Some(_), _) => Some(after(self.limits.push_confirmation)),
            (None, Subject::Live(_)) => self.limits.push_lease.map(after),
            (None, Subject::Dead(_)) => None,
        };
        if let Some(deadline) = deadline {
            self.unconfirmed.insert(subject, version, baseline, deadline);
        }
    }

    /// Renews the lease of a route that was pushed again.
    pub(crate) fn renew_lease(&mut self, slot: u32) {
        if let Some(lease) = self.limits.push_lease {
            let deadline = self.clock.now().saturating_add(nanos(lease));
            self.unconfirmed.renew(Subject::Live(slot), deadline);
        }
    }

    /// Replaces the baseline of an unconfirmed push, if there is one, by what the watch reports.
    pub(crate) fn update_baseline(&mut self, subject: Subject, observed: &Observation, source: Source) {
        let Some(scope) = source.scope() else { return };
        if let Subject::Dead(slot) = subject
            && self.tombstones.is_claimed(slot)
        {
            // A scope that covers nothing, or has no complete list yet, reports the object: now it can
            // confirm the delete.
            let version = self.tombstones.version(slot).clone();
            self.mark_unconfirmed(subject, version, Baseline { scope: Some(scope), ..Baseline::default() });
        }
        let Some(pushed) = self.unconfirmed.get_mut(subject) else { return };
        if pushed.baseline.observed.as_ref().is_none_or(|known| known.version <= observed.version) {
            pushed.baseline.observed = Some(Box::new(observed.clone()));
        }
        if pushed.baseline.scope.is_none() {
            self.adopt(subject, scope);
        }
        if let (Some(relist), Some(pushed)) = (source.relist(), self.unconfirmed.get_mut(subject))
            && pushed.baseline.scope == Some(scope)
        {
            pushed.baseline.seen = relist;
        }
    }

    /// Makes a scope responsible for a push that only had a lease.
    fn adopt(&mut self, subject: Subject, scope: ScopeNumber) {
        if let Some(pushed) = self.unconfirmed.remove(subject) {
            let baseline = Baseline { scope: Some(scope), ..pushed.baseline };
            self.mark_unconfirmed(subject, pushed.version, baseline);
        }
    }

    /// Ends a complete list of a scope: everything up to its version is reported.
    pub(crate) fn listed(&mut self, shared: &Shared, scope: ScopeNumber, relist: u32, version: &Version) {
        self.scopes.set_floor(scope, version.clone(), self.clock.now());
        for slot in self.unconfirmed.leased() {
            let served = shared.served.pin();
            let Some(route) = self.records.route(&served, slot) else { continue };
            if self.scope_of(Some(slot), route.raw_key()) == Some(scope) {
                self.adopt(Subject::Live(slot), scope);
            }
        }
        self.unconfirmed.forget_unseen(scope, relist);
        self.reached(shared, scope, version);
    }

    /// Raises the floor of a scope, and undoes the pushes that its watch has passed.
    pub(crate) fn reached(&mut self, shared: &Shared, scope: ScopeNumber, version: &Version) {
        self.scopes.raise_floor(scope, version, self.clock.now());
        while let Some(subject) = self.unconfirmed.passed(scope, version) {
            self.overrule(shared, subject);
        }
    }

    /// Undoes up to `most` pushes that were not confirmed in time. Returns how many.
    pub(crate) fn overrule_overdue(&mut self, shared: &Shared, most: usize) -> usize {
        let now = self.clock.now();
        let later = now.saturating_add((nanos(self.limits.push_confirmation) / RECHECKS).max(1));
        let mut overruled = 0;
        while overruled < most {
            let heard = |scope| self.scopes.heard(scope);
            let Some(subject) = self.unconfirmed.overdue(now, later, heard) else { break };
            self.overrule(shared, subject);
            overruled += 1;
        }
        overruled
    }

    /// Undoes a push: restores its baseline.
    fn overrule(&mut self, shared: &Shared, subject: Subject) {
        let Some(pushed) = self.unconfirmed.remove(subject) else { return };
        let served = shared.served.pin();
        shared.counters.overruled.up();
        let Baseline { scope, observed, seen } = pushed.baseline;
        let floor = scope.and_then(|scope| self.scopes.floor(scope)).cloned();
        match (subject, observed, scope) {
            (Subject::Live(slot), Some(observed), Some(scope)) => {
                // The record may have been made by the push, without a claim of the scope.
                if let Some(record) = self.records.get_mut(slot) {
                    record.claims = self.scopes.with(record.claims, scope);
                }
                self.replace(shared, &served, slot, *observed, Source::Event(scope));
            }
            (Subject::Live(slot), ..) => {
                let Some(key) = self.records.route(&served, slot).map(|route| route.key().to_key()) else {
                    return;
                };
                if scope.is_none() {
                    self.end_lease(shared, &served, slot, &key, &pushed.version);
                } else {
                    self.remove_record(shared, &served, slot, &key, floor.unwrap_or(pushed.version));
                }
            }
            (Subject::Dead(slot), Some(observed), Some(scope)) => {
                self.tombstones.remove(slot);
                shared.counters.tombstones.set(self.tombstones.len());
                let key = observed.key.clone();
                self.upsert(shared, *observed, Source::List(scope, seen));
                self.note_seen(shared, &key, seen);
            }
            (Subject::Dead(slot), ..) => {
                if let Some(floor) = floor {
                    self.tombstones.set_version(slot, floor);
                }
            }
        }
    }

    /// One step of a rewind: removes every route of a scope that is newer than a version, among `many`
    /// records from slot `from` on. Returns the slot to go on from.
    pub(crate) fn rewind_step(
        &mut self,
        shared: &Shared,
        scope: &Scope,
        version: &Version,
        from: usize,
        many: usize,
        forgotten: &mut impl FnMut(&ObjectKey),
    ) -> Option<usize> {
        let number = self.scopes.number(scope);
        let served = shared.served.pin();
        let next = from.saturating_add(many);
        for at in from..next.min(self.records.slots()) {
            let Ok(slot) = u32::try_from(at) else { break };
            let Some(claims) = self.records.get(slot).map(|record| record.claims) else { continue };
            let Some(route) = self.records.route(&served, slot) else { continue };
            let is_ours =
                self.scopes.contains(claims, number) || claims.is_empty() && scope.covers(route.raw_key());
            if !is_ours || route.version() <= *version {
                continue;
            }
            let (key, known) = (route.key().to_key(), route.version());
            self.unconfirmed.remove(Subject::Live(slot));
            // Deleted at the version the table has: nothing older comes back while the tombstone lives.
            self.remove_record(shared, &served, slot, &key, known);
            forgotten(&key);
        }
        if next < self.records.slots() {
            return Some(next);
        }
        self.unconfirmed.forget_dead(number);
        self.scopes.set_floor(number, version.clone(), self.clock.now());
        None
    }
}
