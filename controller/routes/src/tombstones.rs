//! What is remembered of deleted objects: the version of the delete, for a time.
//!
//! A tombstone lives from the newest delete of its object, and goes to the end of the line with it. All have the same lifetime, so
//! the line is in the order of ending: a linked list, swept from its head. At the cap the lowest version goes (of equal ones the
//! oldest): a heap. Versions of different sources have no common order, so the cap is a bound on memory and not a
//! promise; every tombstone lost to it is counted. Each operation costs at most O(log n).

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
    // Its place in the order of making.
    number: u64,
    older: u32,
    newer: u32,
    // Its place in the heap.
    rank: u32,
    // Only a push has said so, and no scope was there to be asked.
    is_claimed: bool,
}

pub(crate) struct Tombstones {
    hasher: RandomState,
    index: Index,
    slots: Slab<Tombstone>,
    oldest: u32,
    newest: u32,
    made: u64,
    // Slot numbers, the lowest (version, number) first.
    heap: Vec<u32>,
    cap: usize,
}

/// What became of a death: the tombstone made for it, unless there is no room, and the one that made room.
#[derive(Debug)]
pub(crate) struct Buried {
    pub(crate) slot: Option<u32>,
    pub(crate) lost: Option<u32>,
}

impl Tombstones {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            index: Index::new(),
            slots: Slab::new(),
            oldest: NONE,
            newest: NONE,
            made: 0,
            heap: Vec::new(),
            cap: cap.min(NONE as usize),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn find(&self, key: RawKey<'_>) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.index.find(hash, |slot| self.slots.get(slot).is_some_and(|t| t.key.raw() == key))
    }

    pub(crate) fn version(&self, slot: u32) -> &Version {
        &self.at(slot).version
    }

    /// Whether a death is only claimed, by a push that no scope could be asked about.
    pub(crate) fn is_claimed(&self, slot: u32) -> bool {
        self.slots.get(slot).is_some_and(|tombstone| tombstone.is_claimed)
    }

    pub(crate) fn set_claimed(&mut self, slot: u32, is_claimed: bool) {
        self.at_mut(slot).is_claimed = is_claimed;
    }

    /// Gives a tombstone another version; its deadline stays.
    pub(crate) fn set_version(&mut self, slot: u32, version: Version) {
        self.at_mut(slot).version = version;
        self.rise(self.at(slot).rank as usize);
        self.sink(self.at(slot).rank as usize);
    }

    /// Makes a tombstone that of a later delete: it lives from this one.
    pub(crate) fn renew(&mut self, slot: u32, version: Version, deadline: u64) {
        (self.at_mut(slot).number, self.at_mut(slot).deadline) = (self.made, deadline);
        self.made += 1;
        self.set_version(slot, version);
        let Tombstone { older, newer, .. } = *self.at(slot);
        if newer == NONE {
            return;
        }
        self.link(older, newer);
        let newest = self.newest;
        self.link(newest, slot);
        self.at_mut(slot).newer = NONE;
        self.newest = slot;
    }

    /// Raises those of `many` slots from `from` on that are lower than `version` and of a key that `is_meant`. Says where to go on.
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
            let lower = |tombstone: &Tombstone| tombstone.version < *version && is_meant(tombstone.key.raw());
            if self.slots.get(slot).is_some_and(lower) {
                self.set_version(slot, version.clone());
            }
        }
        (next < self.slots.end()).then_some(next)
    }

    /// Makes a tombstone for an object that has none.
    pub(crate) fn bury(&mut self, key: ObjectKey, version: Version, deadline: u64) -> Buried {
        let mut lost = None;
        if self.len() >= self.cap {
            match self.heap.first() {
                Some(&lowest) if *self.version(lowest) <= version => {
                    self.remove(lowest);
                    lost = Some(lowest);
                }
                _ => return Buried { slot: None, lost: None },
            }
        }
        let hash = self.hasher.hash_one(key.raw());
        let rank = u32::try_from(self.heap.len()).expect("the cap is below the last slot number");
        let (number, older) = (self.made, self.newest);
        let is_claimed = false;
        let slot = self.slots.insert(Tombstone {
            key,
            version,
            deadline,
            number,
            older,
            newer: NONE,
            rank,
            is_claimed,
        });
        self.made += 1;
        self.link(older, slot);
        self.newest = slot;
        self.heap.push(slot);
        self.rise(rank as usize);
        let Self { hasher, index, slots, .. } = self;
        index.insert(hash, slot, |slot| {
            let tombstone = slots.get(slot).expect("only used slots are in the index");
            hasher.hash_one(tombstone.key.raw())
        });
        Buried { slot: Some(slot), lost }
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        let rank = self.at(slot).rank as usize;
        self.heap.swap_remove(rank);
        if let Some(&moved) = self.heap.get(rank) {
            self.place(rank, moved);
            self.rise(rank);
            self.sink(self.at(moved).rank as usize);
        }
        let Some(tombstone) = self.slots.remove(slot) else { return };
        self.link(tombstone.older, tombstone.newer);
        if self.newest == slot {
            self.newest = tombstone.older;
        }
        self.index.remove(self.hasher.hash_one(tombstone.key.raw()), slot);
    }

    /// Removes up to `most` tombstones whose time is over and says which.
    pub(crate) fn expire(&mut self, now: u64, most: usize) -> Vec<u32> {
        let mut expired = Vec::new();
        while expired.len() < most && self.oldest != NONE && self.at(self.oldest).deadline <= now {
            expired.push(self.oldest);
            self.remove(self.oldest);
        }
        expired
    }

    // Makes `newer` follow `older` in the order of making; NONE as `older` is the head.
    fn link(&mut self, older: u32, newer: u32) {
        match older {
            NONE => self.oldest = newer,
            slot => self.at_mut(slot).newer = newer,
        }
        if newer != NONE {
            self.at_mut(newer).older = older;
        }
    }

    fn is_lower(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.at(a), self.at(b));
        (&a.version, a.number) < (&b.version, b.number)
    }

    fn place(&mut self, rank: usize, slot: u32) {
        self.heap[rank] = slot;
        self.at_mut(slot).rank = u32::try_from(rank).expect("the cap is below the last slot number");
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (at_a, at_b) = (self.heap[a], self.heap[b]);
        self.place(a, at_b);
        self.place(b, at_a);
    }

    fn rise(&mut self, mut rank: usize) {
        while rank > 0 {
            let parent = (rank - 1) / 2;
            if !self.is_lower(self.heap[rank], self.heap[parent]) {
                break;
            }
            self.swap(rank, parent);
            rank = parent;
        }
    }

    fn sink(&mut self, mut rank: usize) {
        loop {
            let children = 2 * rank + 1..(2 * rank + 3).min(self.heap.len());
            let Some(child) =
                children.reduce(|a, b| if self.is_lower(self.heap[b], self.heap[a]) { b } else { a })
            else {
                break;
            };
            if !self.is_lower(self.heap[child], self.heap[rank]) {
                break;
            }
            self.swap(rank, child);
            rank = child;
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
