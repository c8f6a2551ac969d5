//! Relists: what a complete list means for the objects it does not name.
//!
//! 1. [`RouteWriter::begin_relist`] begins the relist of a scope.
//! 2. [`Relist::observe`] applies each object of the list by its version. Other writers go on meanwhile.
//! 3. [`Relist::commit`] deletes, at the list's version, the objects of the scope that the list did not name,
//!    unless something newer than the list is known of them.
//! 4. The tombstones of a scope without a selector are raised to the list's version: the list shows that
//!    those objects did not come back, so no older message may bring them back.
//! 5. The scope's floor is set: see `floors`.
//!
//! A relist that is dropped deletes nothing. A second relist of a scope supersedes the first: the commit of
//! the first deletes nothing and says so.
//!
//! # Which objects belong to a scope
//! Those it has seen, in a list or by [`RouteWriter::apply_in`]. A scope without a selector also has the
//! objects in its provider and namespace that no scope has seen (pushed ones): a complete list would name
//! them. An object that several scopes have seen is deleted by the last that misses it; the others release
//! it. So scopes never delete each other's objects.
//!
//! # Consistency
//! The commit works in steps and frees the lock between them, so no writer waits for the whole walk. Each
//! object is judged once between the commit's begin and end. The mark "named" is kept in the object's record.
//! If the watch deletes a named object, and it comes back with a version not newer than the list, it counts
//! as not named: that delete is newer than the list's entry. A push proves no delete: what pushes delete and
//! bring back stays named.

use std::collections::HashSet;

use crate::reader::Shared;
use crate::scope::ScopeNumber;
use crate::table::{Source, Table};
use crate::{ObjectKey, Observation, Outcome, Route, RouteWriter, Scope, Version};

// How much one step of a commit does.
const RECORDS_PER_STEP: usize = 4096;
const CHANGES_PER_STEP: usize = 256;

/// A relist under way.
///
/// Objects that it does not observe, and that are not newer than the list, are deleted by its commit.
#[must_use = "a relist that is dropped deletes nothing"]
pub struct Relist {
    writer: RouteWriter,
    scope: Scope,
    scope_number: ScopeNumber,
    version: Version,
    number: u32,
    observed: u64,
}

/// What a relist did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelistSummary {
    /// Observations made.
    pub observed: u64,
    /// Objects deleted because the list did not name them.
    pub deleted: u64,
    /// Objects released: not in the list, but seen by another scope.
    pub released: u64,
    /// A later relist of the scope began before the commit: nothing was deleted.
    pub superseded: bool,
}

impl Relist {
    pub(crate) fn begin(writer: RouteWriter, scope: Scope, version: Version) -> Self {
        let (scope_number, number) = writer.with(|table, _| {
            let scope_number = table.scopes.number(&scope);
            (scope_number, table.relists.begin(scope_number))
        });
        Self { writer, scope, scope_number, version, number, observed: 0 }
    }

    /// Applies an object of the list and marks it as named, even if it is stale or invalid.
    pub fn observe(&mut self, observed: Observation) -> Outcome {
        self.observed += 1;
        let (scope, number) = (self.scope_number, self.number);
        self.writer.with(|table, shared| {
            let key = observed.key.clone();
            let outcome = table.apply(shared, observed, Source::List(scope, number));
            table.note_seen(shared, &key, number);
            outcome
        })
    }

    /// Commits at another version than the one it began with: a streamed list has its version at the end.
    pub fn commit_at(mut self, version: Version) -> RelistSummary {
        self.version = version;
        self.commit()
    }

    /// Deletes what the list did not name.
    pub fn commit(self) -> RelistSummary {
        let mut summary = RelistSummary { observed: self.observed, ..RelistSummary::default() };
        if !self.writer.with(|table, _| table.relists.is_current(self.scope_number, self.number)) {
            summary.superseded = true;
            return summary;
        }
        self.writer.in_steps(|table, shared, from| self.step(table, shared, from, &mut summary));
        self.writer.in_steps(|table, _, from| {
            table.tombstones.raise_some(from, CHANGES_PER_STEP, &self.version, |key| self.scope.covers(key))
        });
        self.writer.with(|table, shared| {
            table.listed(shared, self.scope_number, self.number, &self.version);
            shared.counters.relists.up();
        });
        summary
    }

    /// Judges some records from slot `from` on. Returns the slot to go on from.
    fn step(
        &self,
        table: &mut Table,
        shared: &Shared,
        from: usize,
        summary: &mut RelistSummary,
    ) -> Option<usize> {
        let served = shared.served.pin();
        let end = table.records.slots();
        let mut deletes = 0;
        for at in from..end.min(from + RECORDS_PER_STEP) {
            if deletes == CHANGES_PER_STEP {
                return Some(at);
            }
            let slot = u32::try_from(at).ok()?;
            let Some(record) = table.records.get(slot) else { continue };
            let (claims, claimed) = (record.claims, table.scopes.contains(record.claims, self.scope_number));
            // Most are named. Those of other scopes are skipped without reading their routes.
            if record.seen == self.number || !(claimed || claims.is_empty()) {
                continue;
            }
            let Some(route) = table.records.route(&served, slot) else { continue };
            let ours = claimed || self.scope.covers(route.raw_key());
            if !ours || route.version() > self.version || table.relists.is_also_seen(self.number, route) {
                continue;
            }
            let rest = table.scopes.without(claims, self.scope_number);
            if rest.is_empty() {
                let key = route.key().to_key();
                let source = Source::List(self.scope_number, self.number);
                table.delete(shared, &key, None, Some(self.version.clone()), source);
                deletes += 1;
                summary.deleted += 1;
            } else if let Some(record) = table.records.get_mut(slot) {
                record.claims = rest;
                summary.released += 1;
            }
        }
        (from + RECORDS_PER_STEP < end).then_some(from + RECORDS_PER_STEP)
    }
}

impl Drop for Relist {
    fn drop(&mut self) {
        self.writer.with(|table, _| table.relists.end(self.number));
    }
}

impl Table {
    pub(crate) fn note_seen(&mut self, shared: &Shared, key: &ObjectKey, number: u32) {
        let Some(slot) = self.records.find(&shared.served.pin(), key.raw()) else { return };
        let Some(record) = self.records.get_mut(slot) else { return };
        if record.seen == number {
            return;
        }
        // A record has one mark. A relist of another scope that has the object too may be using it.
        if self.relists.is_open(record.seen) {
            self.relists.also_saw(number, key);
        } else {
            record.seen = number;
        }
    }
}

/// The relists under way: per scope one that may commit, and the superseded ones until they are dropped.
#[derive(Default)]
pub(crate) struct Relists {
    open: Vec<Open>,
    begun: u32,
}

struct Open {
    number: u32,
    scope: ScopeNumber,
    superseded: bool,
    also_seen: HashSet<ObjectKey>,
}

impl Relists {
    fn begin(&mut self, scope: ScopeNumber) -> u32 {
        for open in &mut self.open {
            open.superseded |= open.scope == scope;
        }
        // Never 0, the mark of an object that no relist has seen.
        self.begun = self.begun.checked_add(1).unwrap_or(1);
        self.open.push(Open { number: self.begun, scope, superseded: false, also_seen: HashSet::new() });
        self.begun
    }

    fn end(&mut self, number: u32) {
        self.open.retain(|open| open.number != number);
    }

    fn is_open(&self, number: u32) -> bool {
        self.open.iter().any(|open| open.number == number)
    }

    fn is_current(&self, scope: ScopeNumber, number: u32) -> bool {
        self.open.iter().any(|open| open.number == number && open.scope == scope && !open.superseded)
    }

    fn also_saw(&mut self, number: u32, key: &ObjectKey) {
        if let Some(open) = self.open.iter_mut().find(|open| open.number == number) {
            open.also_seen.insert(key.clone());
        }
    }

    /// The relist of a scope that may commit, if one is under way.
    pub(crate) fn current(&self, scope: ScopeNumber) -> Option<u32> {
        self.open.iter().find(|open| open.scope == scope && !open.superseded).map(|open| open.number)
    }

    pub(crate) fn is_also_seen(&self, number: u32, route: &Route) -> bool {
        let open = self.open.iter().find(|open| open.number == number && !open.also_seen.is_empty());
        open.is_some_and(|open| open.also_seen.contains(&route.key().to_key()))
    }

    /// A deleted object is not named by any list under way.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        for open in self.open.iter_mut().filter(|open| !open.also_seen.is_empty()) {
            open.also_seen.remove(key);
        }
    }
}
