//! What a watch has told, up to which version, and what that means for what was pushed.
//!
//! A complete list of a scope without a selector names every object of it, and its watch tells every change after it
//! in the order of versions. So there is a version up to which the scope has been told whole: its floor. The list sets
//! it, events and bookmarks raise it, a rewind of the API server lowers it.
//!
//! A push that is not newer than the floor is of the past, whatever the table knows of its object: a gateway that has
//! just started has no tombstones, and must not bring back what died before. What a newer push means until the watch
//! has come so far stands in `unconfirmed`.

use crate::clock::nanos;
use crate::key::RawKey;
use crate::reader::Shared;
use crate::scope::ScopeNumber;
use crate::table::{Source, Table};
use crate::unconfirmed::Subject;
use crate::{ObjectKey, Observation, Route, Scope, Version};

/// A push that waits for a silent watch is looked at so many times in the time it has.
const RECHECKS: u64 = 30;

/// What the watch knew of an object when a push came.
#[derive(Default)]
pub(crate) struct Baseline {
    scope: Option<ScopeNumber>,
    observed: Option<Box<Observation>>,
    pub(crate) seen: u32,
}

impl Table {
    /// Whether the scope that would tell of a pushed observation has told everything of its time.
    pub(crate) fn is_passed(&self, slot: Option<u32>, key: RawKey<'_>, version: &Version) -> bool {
        let floor = self.scope_of(slot, key).and_then(|scope| self.scopes.floor(scope));
        floor.is_some_and(|floor| version <= floor)
    }

    /// The scope that tells of an object: one that has seen it, else one that covers it.
    fn scope_of(&self, slot: Option<u32>, key: RawKey<'_>) -> Option<ScopeNumber> {
        let claims = slot.and_then(|slot| self.records.get(slot)).map(|record| record.claims);
        claims.and_then(|claims| self.scopes.first(claims)).or_else(|| self.scopes.covering(key))
    }

    /// What the watch has said last of an object that has this route.
    pub(crate) fn baseline_of(&mut self, slot: u32, route: &Route) -> Baseline {
        let scope = self.scope_of(Some(slot), route.raw_key());
        let Some(record) = self.records.get(slot) else { return Baseline::default() };
        let (created, is_claimed) = (record.created, !record.claims.is_empty());
        let relist = scope.and_then(|scope| self.relists.current(scope));
        let is_seen = |relist: &u32| record.seen == *relist || self.relists.is_also_seen(*relist, route);
        let seen = relist.filter(is_seen).unwrap_or(0);
        match self.unconfirmed.remove(Subject::Live(slot)) {
            Some(pushed) => Baseline { scope, observed: pushed.baseline, seen: pushed.seen },
            None => Baseline {
                scope,
                observed: is_claimed.then(|| Box::new(self.observation_of(slot, route, created))),
                seen,
            },
        }
    }

    /// The same of one that has no route.
    pub(crate) fn baseline_of_deleted(&mut self, tombstone: Option<u32>, key: RawKey<'_>) -> Baseline {
        match tombstone.and_then(|slot| self.unconfirmed.remove(Subject::Dead(slot))) {
            Some(pushed) => {
                let scope = pushed.scope.or_else(|| self.scopes.covering(key));
                Baseline { scope, observed: pushed.baseline, seen: pushed.seen }
            }
            None => Baseline { scope: self.scopes.covering(key), ..Baseline::default() },
        }
    }

    /// Remembers that only a push has said this so far.
    pub(crate) fn mark_unconfirmed(&mut self, subject: Subject, version: Version, baseline: Baseline) {
        if let Subject::Dead(slot) = subject {
            // Nobody can be asked about it yet, and there may be a million: its tombstone says so, for as long as it lives.
            self.tombstones.set_claimed(slot, baseline.scope.is_none());
        }
        let after = |wait| self.clock.now().saturating_add(nanos(wait));
        let deadline = match (baseline.scope, subject) {
            (Some(_), _) => Some(after(self.limits.push_confirmation)),
            (None, Subject::Live(_)) => self.limits.push_lease.map(after),
            (None, Subject::Dead(_)) => None,
        };
        if let Some(deadline) = deadline {
            self.unconfirmed.insert(
                subject,
                version,
                baseline.scope,
                baseline.observed,
                baseline.seen,
                deadline,
            );
        }
    }

    /// A pushed route was pushed again: its lease begins anew.
    pub(crate) fn renew_lease(&mut self, slot: u32) {
        if let Some(lease) = self.limits.push_lease {
            let deadline = self.clock.now().saturating_add(nanos(lease));
            self.unconfirmed.renew(Subject::Live(slot), deadline);
        }
    }

    /// Remembers what the watch says of an object of which a push has claimed something newer. Says whether one has.
    pub(crate) fn update_baseline(
        &mut self,
        subject: Subject,
        observed: &Observation,
        source: Source,
    ) -> bool {
        let Some(scope) = source.scope() else { return false };
        if let Subject::Dead(slot) = subject
            && self.tombstones.is_claimed(slot)
        {
            // A scope that covers nothing, or has listed nothing yet, has a word on it: now it can be asked.
            let version = self.tombstones.version(slot).clone();
            self.mark_unconfirmed(subject, version, Baseline { scope: Some(scope), ..Baseline::default() });
        }
        let Some(pushed) = self.unconfirmed.get_mut(subject) else { return false };
        if pushed.baseline.as_ref().is_none_or(|baseline| baseline.version <= observed.version) {
            pushed.baseline = Some(Box::new(observed.clone()));
        }
        if pushed.scope.is_none() {
            self.adopt(subject, scope);
        }
        if let (Some(relist), Some(pushed)) = (source.relist(), self.unconfirmed.get_mut(subject))
            && pushed.scope == Some(scope)
        {
            pushed.seen = relist;
        }
        true
    }

    /// A scope will tell of what only had a lease.
    fn adopt(&mut self, subject: Subject, scope: ScopeNumber) {
        if let Some(pushed) = self.unconfirmed.remove(subject) {
            let baseline = Baseline { scope: Some(scope), observed: pushed.baseline, seen: pushed.seen };
            self.mark_unconfirmed(subject, pushed.version, baseline);
        }
    }

    /// A complete list of a scope is in: it has told everything up to its version.
    pub(crate) fn listed(&mut self, shared: &Shared, scope: ScopeNumber, relist: u32, version: &Version) {
        self.scopes.set_floor(scope, version.clone(), self.clock.now());
        for slot in self.unconfirmed.leased() {
            let served = shared.served.pin();
            let is_told = self
                .records
                .route(&served, slot)
                .is_some_and(|route| self.scope_of(Some(slot), route.raw_key()) == Some(scope));
            if is_told {
                self.adopt(Subject::Live(slot), scope);
            }
        }
        self.unconfirmed.forget_unseen(scope, relist);
        self.reached(shared, scope, version);
    }

    /// The watch of a scope has told everything up to a version.
    pub(crate) fn reached(&mut self, shared: &Shared, scope: ScopeNumber, version: &Version) {
        self.scopes.raise_floor(scope, version, self.clock.now());
        while let Some(subject) = self.unconfirmed.passed(scope, version) {
            self.overrule(shared, subject);
        }
    }

    /// Gives up to `most` pushes up that nobody has confirmed in time, and says how many.
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

    /// Puts what the watch said last in the place of what a push has said.
    fn overrule(&mut self, shared: &Shared, subject: Subject) {
        let Some(pushed) = self.unconfirmed.remove(subject) else { return };
        let served = shared.served.pin();
        shared.counters.overruled.up();
        let floor = pushed.scope.and_then(|scope| self.scopes.floor(scope)).cloned();
        match (subject, pushed.baseline, pushed.scope) {
            (Subject::Live(slot), Some(baseline), Some(scope)) => {
                // Its record may be a push's own.
                if let Some(record) = self.records.get_mut(slot) {
                    record.claims = self.scopes.with(record.claims, scope);
                }
                self.replace(shared, &served, slot, *baseline, Source::Event(scope));
            }
            (Subject::Live(slot), ..) => {
                let Some(key) = self.records.route(&served, slot).map(|route| route.key().to_key()) else {
                    return;
                };
                if pushed.scope.is_none() {
                    self.end_lease(shared, &served, slot, &key, &pushed.version);
                } else {
                    self.remove_record(shared, &served, slot, &key, floor.unwrap_or(pushed.version));
                }
            }
            (Subject::Dead(slot), Some(baseline), Some(scope)) => {
                self.tombstones.remove(slot);
                shared.counters.tombstones.set(self.tombstones.len());
                let key = baseline.key.clone();
                self.upsert(shared, *baseline, Source::List(scope, pushed.seen));
                self.note_seen(shared, &key, pushed.seen);
            }
            (Subject::Dead(slot), ..) => {
                if let Some(floor) = floor {
                    self.tombstones.set_version(slot, floor);
                }
            }
        }
    }

    /// Takes away every route of a scope that is newer than a version: the API server lost the time it is of. Looks at
    /// some records from slot `from` on, and says where to go on.
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
            // At the version the table has: what is older stays away as long as the tombstone lives.
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
