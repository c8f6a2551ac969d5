//! Tombstones: the version at which a deleted object was deleted, kept for a time.
//!
//! A tombstone lives from the newest delete of its object. All of them have the same lifetime, so the order
//! of those deletes is the order of their ends: a linked list through the slots, swept from its head. At the
//! cap the head goes too, before its time, and is counted. The cap bounds memory; it promises nothing. Every
//! operation takes constant time.

use std::hash::{BuildHasher, RandomState};

use crate::index::Index;
use crate::key::RawKey;
use crate::slab::Slab;
use crate::{ObjectKey, Version};

const NONE: u32 = u32::MAX;

struct Tombstone {
    key: ObjectKey,
    version: Version,
    deadline: u64,
    // Its neighbours in the order of deletes.
    older: u32,
    newer: u32,
    // Only a push has reported the delete, and no scope was there to confirm it.
    is_claimed: bool,
}

pub(crate) struct Tombstones {
    hasher: RandomState,
    index: Index,
    slots: Slab<Tombstone>,
    oldest: u32,
    newest: u32,
    cap: usize,
}

impl Tombstones {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            index: Index::new(),
            slots: Slab::new(),
            oldest: NONE,
            newest: NONE,
            cap: cap.min(NONE as usize),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn find(&self, key: RawKey<'_>) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.index.find(hash, |slot| self.slots.get(slot).is_some_and(|t| t.key.raw() == key))
    }

    pub(crate) fn version(&self, slot: u32) -> &Version {
        &self.at(slot).version
    }

    /// Whether only a push has reported the delete, and no scope covered the object to confirm it.
    pub(crate) fn is_claimed(&self, slot: u32) -> bool {
        self.slots.get(slot).is_some_and(|tombstone| tombstone.is_claimed)
    }

    pub(crate) fn set_claimed(&mut self, slot: u32, is_claimed: bool) {
        self.at_mut(slot).is_claimed = is_claimed;
    }

    /// Gives a tombstone another version; its deadline stays.
    pub(crate) fn set_version(&mut self, slot: u32, version: Version) {
        self.at_mut(slot).version = version;
    }

    /// Makes a tombstone that of a later delete: it lives from this one.
    pub(crate) fn renew(&mut self, slot: u32, version: Version, deadline: u64) {
        self.unlink(slot);
        let tombstone = self.at_mut(slot);
        (tombstone.version, tombstone.deadline) = (version, deadline);
        self.append(slot);
    }

    /// Raises the tombstones of up to `many` slots from `from` on that are lower than `version` and whose key
    /// `is_meant`. Returns the slot to go on from.
    pub(crate) fn raise_some(
        &mut self,
        from: usize,
        many: usize,
        version: &Version,
        is_meant: impl Fn(RawKey<'_>) -> bool,
    ) -> Option<usize> {
        let next = from.saturating_add(many);
        for at in from..next.min(self.slots.end()) {
            let slot = u32::try_from(at).expect("the cap is below the last slot number");
            if let Some(tombstone) = self.slots.get_mut(slot)
                && tombstone.version < *version
                && is_meant(tombstone.key.raw())
            {
                tombstone.version = version.clone();
            }
        }
        (next < self.slots.end()).then_some(next)
    }

    /// The tombstone that has to be removed before another one can be inserted, if the cap is reached.
    pub(crate) fn excess(&self) -> Option<u32> {
        (self.len() >= self.cap && self.oldest != NONE).then_some(self.oldest)
    }

    /// Adds a tombstone for an object that has none. Returns nothing where there is no room.
    pub(crate) fn insert(&mut self, key: ObjectKey, version: Version, deadline: u64) -> Option<u32> {
        if self.len() >= self.cap {
            return None;
        }
        let hash = self.hasher.hash_one(key.raw());
        let tombstone = Tombstone { key, version, deadline, older: NONE, newer: NONE, is_claimed: false };
        let slot = self.slots.insert(tombstone);
        self.append(slot);
        let Self { hasher, index, slots, .. } = self;
        index.insert(hash, slot, |slot| {
            let tombstone = slots.get(slot).expect("only used slots are in the index");
            hasher.hash_one(tombstone.key.raw())
        });
        Some(slot)
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let Some(tombstone) = self.slots.remove(slot) else { return };
        self.index.remove(self.hasher.hash_one(tombstone.key.raw()), slot);
    }

    /// Removes up to `most` tombstones whose time is over, and returns their slots.
    pub(crate) fn expire(&mut self, now: u64, most: usize) -> Vec<u32> {
        let mut expired = Vec::new();
        while expired.len() < most && self.oldest != NONE && self.at(self.oldest).deadline <= now {
            expired.push(self.oldest);
            self.remove(self.oldest);
        }
        expired
    }

    /// Puts a tombstone at the end of the list, in which it is not.
    fn append(&mut self, slot: u32) {
        let last = self.newest;
        self.newest = slot;
        self.link(last, slot);
        self.at_mut(slot).newer = NONE;
    }

    fn unlink(&mut self, slot: u32) {
        let Tombstone { older, newer, .. } = *self.at(slot);
        self.link(older, newer);
        if newer == NONE {
            self.newest = older;
        }
    }

    /// Makes `newer` follow `older`; NONE before the first and after the last.
    fn link(&mut self, older: u32, newer: u32) {
        match older {
            NONE => self.oldest = newer,
            slot => self.at_mut(slot).newer = newer,
        }
        if newer != NONE {
            self.at_mut(newer).older = older;
        }
    }

    fn at(&self, slot: u32) -> &Tombstone {
        self.slots.get(slot).expect("only used slots are linked")
    }

    fn at_mut(&mut self, slot: u32) -> &mut Tombstone {
        self.slots.get_mut(slot).expect("only used slots are linked")
    }
}

#[cfg(test)]
mod tests;
