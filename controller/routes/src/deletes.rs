//! Deletes: how a live object ends, and what the table keeps of it.
//!
//! A delete at least as new as what is known removes the object and leaves a tombstone. The source matters:
//! - **A watch** knows the end of an object. Its delete also beats a newer version that only a push has
//!   claimed, unless that push is about a successor with another UID.
//! - **A push** is believed until the watch says otherwise: see `unconfirmed`.

use crate::clock::nanos;
use crate::reader::Shared;
use crate::served::PinnedMap;
use crate::table::{Source, Table};
use crate::unconfirmed::Subject;
use crate::{ObjectKey, Outcome, Route, Version};

impl Table {
    /// Deletes an object at a version, or at the one it has.
    pub(crate) fn delete(
        &mut self,
        shared: &Shared,
        key: &ObjectKey,
        uid: Option<&str>,
        version: Option<Version>,
        source: Source,
    ) -> Outcome {
        let served = shared.served.pin();
        let outcome = match self.records.find(&served, key.raw()) {
            Some(slot) => self.delete_record(shared, &served, slot, key, uid, version, source),
            None => self.delete_absent(shared, key, version, source),
        };
        match outcome {
            Outcome::Stale => shared.counters.stale.up(),
            _ => shared.counters.applied.up(),
        }
        outcome
    }

    /// Expires an object, if it has exactly this version.
    pub(crate) fn expire(&mut self, shared: &Shared, key: &ObjectKey, version: &Version) -> Outcome {
        let served = shared.served.pin();
        let slot = self.records.find(&served, key.raw());
        let known = slot.and_then(|slot| self.records.route(&served, slot)).map(Route::version);
        let (Some(slot), Some(known)) = (slot, known.filter(|known| known == version)) else {
            let dead = || self.tombstones.find(key.raw()).map(Subject::Dead);
            if let Some(subject) = slot.map(Subject::Live).or_else(dead) {
                self.unconfirmed.end_baseline(subject, version);
            }
            shared.counters.stale.up();
            return Outcome::Stale;
        };
        self.unconfirmed.remove(Subject::Live(slot));
        self.remove_record(shared, &served, slot, key, known);
        shared.counters.applied.up();
        Outcome::Applied
    }

    #[expect(clippy::too_many_arguments, reason = "what is known of one delete")]
    fn delete_record(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        slot: u32,
        key: &ObjectKey,
        uid: Option<&str>,
        version: Option<Version>,
        source: Source,
    ) -> Outcome {
        let Some(route) = self.records.route(served, slot) else { return Outcome::Stale };
        let known = route.version();
        let is_older = version.as_ref().is_some_and(|version| *version < known);
        if source == Source::Push {
            if is_older {
                return Outcome::Stale;
            }
            let version = version.unwrap_or(known);
            let route = route.clone();
            let baseline = self.baseline_of(slot, &route);
            if let Some(tombstone) = self.remove_record(shared, served, slot, key, version.clone()) {
                self.mark_unconfirmed(Subject::Dead(tombstone), version, baseline);
            }
            return Outcome::Applied;
        }
        if is_older {
            // The end of an object beats any version that a push has claimed for it, but not a push of its
            // successor.
            let is_same_object = uid.is_none_or(|uid| route.uid() == uid);
            let Some(pushed) = self.unconfirmed.get_mut(Subject::Live(slot)) else { return Outcome::Stale };
            if !is_same_object {
                pushed.baseline.observed = None;
                return Outcome::Stale;
            }
        }
        self.unconfirmed.remove(Subject::Live(slot));
        self.remove_record(shared, served, slot, key, version.unwrap_or(known));
        Outcome::Applied
    }

    /// Removes a live object and leaves a tombstone. Returns the tombstone's slot.
    pub(crate) fn remove_record(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        slot: u32,
        key: &ObjectKey,
        version: Version,
    ) -> Option<u32> {
        self.remove_live(shared, served, slot, key)?;
        self.add_tombstone(shared, key, version)
    }

    fn remove_live(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        slot: u32,
        key: &ObjectKey,
    ) -> Option<()> {
        let route = self.records.route(served, slot)?;
        shared.counters.state(route.state()).down();
        self.leave(shared, served, slot);
        self.records.remove(slot);
        self.release_address(shared, served, slot);
        self.relists.forget(key);
        Some(())
    }

    /// Removes a live object whose lease has ended. The next equal push must bring it back, so its tombstone
    /// has the version before; the first version has none.
    pub(crate) fn end_lease(
        &mut self,
        shared: &Shared,
        served: &PinnedMap<'_>,
        slot: u32,
        key: &ObjectKey,
        version: &Version,
    ) {
        self.remove_live(shared, served, slot, key);
        if let Some(before) = version.before() {
            self.add_tombstone(shared, key, before);
        }
    }

    fn delete_absent(
        &mut self,
        shared: &Shared,
        key: &ObjectKey,
        version: Option<Version>,
        source: Source,
    ) -> Outcome {
        let Some(version) = version else { return Outcome::Stale };
        let tombstone = self.tombstones.find(key.raw());
        let deadline = self.end_of_hold();
        if source != Source::Push
            && let Some(slot) = tombstone
            && (self.unconfirmed.remove(Subject::Dead(slot)).is_some() || self.tombstones.is_claimed(slot))
        {
            // The watch knows the version of the delete; the push only claimed one.
            self.tombstones.set_claimed(slot, false);
            self.tombstones.renew(slot, version, deadline);
            return Outcome::Applied;
        }
        if tombstone.is_some_and(|slot| version < *self.tombstones.version(slot))
            || source == Source::Push && self.is_passed(None, key.raw(), &version)
        {
            return Outcome::Stale;
        }
        let slot = match tombstone {
            Some(slot) => {
                self.tombstones.renew(slot, version.clone(), deadline);
                Some(slot)
            }
            None => self.add_tombstone(shared, key, version.clone()),
        };
        if let (Source::Push, Some(slot)) = (source, slot) {
            let baseline = self.baseline_of_deleted(tombstone, key.raw());
            self.mark_unconfirmed(Subject::Dead(slot), version, baseline);
        }
        Outcome::Applied
    }

    fn add_tombstone(&mut self, shared: &Shared, key: &ObjectKey, version: Version) -> Option<u32> {
        if let Some(oldest) = self.tombstones.excess() {
            self.tombstones.remove(oldest);
            self.unconfirmed.remove(Subject::Dead(oldest));
            shared.counters.tombstones_dropped.up();
        }
        let slot = self.tombstones.insert(key.clone(), version, self.end_of_hold());
        if slot.is_none() {
            shared.counters.tombstones_dropped.up();
        }
        shared.counters.tombstones.set(self.tombstones.len());
        slot
    }

    /// When a tombstone or a hold that begins now ends.
    pub(crate) fn end_of_hold(&self) -> u64 {
        self.clock.now().saturating_add(nanos(self.limits.tombstone_lifetime))
    }

    /// Removes up to `most` tombstones and as many holds whose time is over, and undoes as many overdue
    /// pushes. Returns the largest of the three counts.
    pub(crate) fn sweep(&mut self, shared: &Shared, most: usize) -> usize {
        let overruled = self.overrule_overdue(shared, most);
        let now = self.clock.now();
        let expired = self.tombstones.expire(now, most);
        for slot in &expired {
            self.unconfirmed.remove(Subject::Dead(*slot));
        }
        let mut freed = 0;
        while freed < most
            && let Some(id_hash) = self.holds.end_one(now)
        {
            self.elect_again(shared, id_hash);
            freed += 1;
        }
        shared.counters.tombstones.set(self.tombstones.len());
        shared.counters.tombstones_expired.add(expired.len());
        expired.len().max(freed).max(overruled)
    }
}
