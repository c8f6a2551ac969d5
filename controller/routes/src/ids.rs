//! Who gets an ID.
//!
//! Each live object claims one ID. At most one claimant is shown to readers under it; the others are
//! displaced. Which one is a function of the live objects and of who was served last, never of arrival:
//!
//! 1. Claimants are ranked by facts of the objects ([`Rank`](crate::claims::Rank)), and the first is shown.
//!    An object that has the ID by its own name ([`Observation::own_id`](crate::Observation)) comes before
//!    any label. Among labels the older object comes first, even if it was labelled later: only an admission
//!    policy of the cluster can prevent that.
//! 2. If two or more claimants of the first one's provider could be served, and one of these refuses to share
//!    ([`Clash::Refuse`](crate::Clash)), the first is shown as ambiguous and none is served. An object that
//!    could not be served makes no ID ambiguous, nor does one of another provider.
//! 3. When the served object leaves the ID, or its name goes on with another UID, the ID is held for the
//!    lifetime of a tombstone ([`Holds`](crate::holds)). Claimants from other namespaces wait; those of the
//!    same follow at once. After the hold, rank decides again.
//!
//! The shown object is not touched when another claimant comes, changes or goes, unless that changes who is
//! first or whether the ID is ambiguous.

use crate::counts::Counter;
use crate::reader::Shared;
use crate::served::PinnedMap;
use crate::table::Table;
use crate::{Outcome, Route};

impl Table {
    /// Publishes an object's new route. Its older route, if any, must be under the same ID. Returns whose ID
    /// was taken, or who has it.
    pub(crate) fn publish(&mut self, shared: &Shared, served: &PinnedMap<'_>, new: Route) -> Outcome {
        let (slot, id_hash) = (new.slot(), new.id_hash());
        if let Some(record) = self.records.get_mut(slot) {
            record.id_hash = id_hash;
        }
        shared.counters.state(new.state()).up();
        let shown = served.by_hash(id_hash);
        let is_contested =
            self.records.displaced.any(id_hash) || shown.is_some_and(|shown| shown.slot() != slot);
        if !is_contested && (shown.is_some() || self.holds.admits(&new)) {
            if shown.is_none() {
                self.holds.forget(id_hash);
            }
            self.show(shared, served, shown, Some(new));
            return Outcome::Applied;
        }
        let rival = shown.filter(|shown| shown.slot() != slot);
        let created = self.records.created(slot);
        self.records.displaced.insert(new, created);
        self.elect(shared, served, shown, id_hash, Some(slot));
        self.outcome(served, rival, slot, id_hash)
    }

    fn outcome(&self, served: &PinnedMap<'_>, rival: Option<&Route>, slot: u32, id_hash: u64) -> Outcome {
        match served.by_hash(id_hash) {
            Some(shown) if shown.is_ambiguous() => {
                let rivals = self.records.displaced.claimants(id_hash).chain([shown]);
                let other =
                    rivals.map(|route| (route.slot(), route.key())).filter(|(other, _)| *other != slot);
                match other.map(|(_, key)| key).min() {
                    Some(other) => Outcome::Ambiguous { other: other.to_key() },
                    None => Outcome::Applied,
                }
            }
            Some(shown) if shown.slot() == slot => match rival {
                Some(rival) if !rival.is_ambiguous() => Outcome::Takeover { displaced: rival.key().to_key() },
                _ => Outcome::Applied,
            },
            Some(shown) => Outcome::Displaced { by: Some(shown.key().to_key()) },
            None => Outcome::Displaced { by: None },
        }
    }

    /// Withdraws an object from its ID: it is not shown and claims nothing.
    pub(crate) fn leave(&mut self, shared: &Shared, served: &PinnedMap<'_>, slot: u32) {
        let Some(own) = self.records.route(served, slot) else { return };
        let (own, id_hash) = (own.clone(), own.id_hash());
        // Another ID may have the hash of one that is claimed and not shown.
        let shown = served.by_hash(id_hash).filter(|shown| shown.raw_id() == own.raw_id());
        self.records.displaced.remove(slot);
        self.hold_for(shown, &own);
        match shown {
            Some(shown) if shown.slot() == slot => {
                self.elect_displaced(shared, served, Some(shown), id_hash, None);
            }
            Some(shown) if shown.is_ambiguous() => self.elect(shared, served, Some(shown), id_hash, None),
            _ => {}
        }
        shared.counters.displaced.set(self.records.displaced.len());
    }

    /// Holds an ID for the successors of an object that leaves it or gets another UID: its clients still send
    /// requests.
    pub(crate) fn hold_for(&mut self, shown: Option<&Route>, gone: &Route) {
        let until = self.end_of_hold();
        match shown {
            Some(shown) if shown.is_ambiguous() => self.holds.renew(gone, until),
            Some(shown) if shown.slot() == gone.slot() => self.holds.keep(gone, until),
            _ => {}
        }
    }

    /// Elects again for an ID whose hold is over, if a claimant waits.
    pub(crate) fn elect_again(&mut self, shared: &Shared, id_hash: u64) {
        let served = shared.served.pin();
        if self.records.displaced.any(id_hash) {
            let shown = served.by_hash(id_hash);
            self.elect(shared, &served, shown, id_hash, None);
        }
    }

    /// Sets an object's age, which was not known before, and elects again.
    pub(crate) fn set_created(&mut self, shared: &Shared, slot: u32, created: u32) {
        let Some(record) = self.records.get_mut(slot) else { return };
        if record.created == created {
            return;
        }
        record.created = created;
        let id_hash = record.id_hash;
        if let Some(route) = self.records.displaced.remove(slot) {
            self.records.displaced.insert(route, created);
        }
        self.elect_again(shared, id_hash);
    }

    /// Elects which claimant of an ID is shown, among the displaced and the one shown now. The `changed` one
    /// has a new route.
    fn elect(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        shown: Option<&Route>,
        id_hash: u64,
        changed: Option<u32>,
    ) {
        if let Some(shown) = shown
            && self.records.displaced.get(shown.slot()).is_none()
        {
            let created = self.records.created(shown.slot());
            self.records.displaced.insert(shown.clone(), created);
        }
        self.elect_displaced(shared, served, shown, id_hash, changed);
    }

    /// The same among the displaced alone. The one shown now is one of them, or has left.
    fn elect_displaced(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        shown: Option<&Route>,
        id_hash: u64,
        changed: Option<u32>,
    ) {
        let displaced = &self.records.displaced;
        let admitted = |claimant: &&Route| self.holds.admits(claimant);
        let first = displaced.claimants(id_hash).find(admitted).map(|first| {
            let ambiguous = displaced.is_contested(id_hash, first.key().provider());
            (first.slot(), ambiguous)
        });
        let Some((slot, ambiguous)) = first else {
            self.show(shared, served, shown, None);
            shared.counters.displaced.set(self.records.displaced.len());
            return;
        };
        let was_served = shown.filter(|shown| !shown.is_ambiguous());
        if ambiguous && let Some(was_served) = was_served {
            self.holds.remember(was_served);
        } else if !ambiguous {
            self.holds.forget(id_hash);
        }
        let new = self.records.displaced.remove(slot).map(|route| route.marked(ambiguous));
        shared.counters.displaced.set(self.records.displaced.len());
        // A rival came or went, and nothing changed for the one shown.
        if let Some(shown) = shown
            && (shown.slot(), shown.is_ambiguous()) == (slot, ambiguous)
            && changed != Some(slot)
        {
            return;
        }
        self.show(shared, served, shown, new);
    }

    /// Changes what readers see under an ID, and announces it to subscribers.
    pub(crate) fn show(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        old: Option<&Route>,
        new: Option<Route>,
    ) {
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
            self.feed.announce(was_served, is_served);
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
