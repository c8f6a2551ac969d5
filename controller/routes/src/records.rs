//! Records: what the writer keeps per live object, by key. Readers never use them.
//!
//! A record does not own its route. The served map does, and the record has the hash of the ID to find it
//! there. Only the route of a displaced object is stored here.

use std::hash::{BuildHasher, RandomState};

use crate::Route;
use crate::claims::Displaced;
use crate::index::Index;
use crate::key::RawKey;
use crate::scope::ClaimSet;
use crate::served::PinnedMap;
use crate::slab::Slab;

/// What is known of a live object beyond its route.
pub(crate) struct Record {
    /// The hash of its ID.
    pub(crate) id_hash: u64,
    key_hash: u32,
    /// When it was created, in seconds since 1970; 0 if unknown.
    pub(crate) created: u32,
    /// The scopes that saw it.
    pub(crate) claims: ClaimSet,
    /// The last relist that saw it, by number; 0 for none.
    pub(crate) seen: u32,
}

pub(crate) struct Records {
    hasher: RandomState,
    index: Index,
    slots: Slab<Record>,
    /// The routes that are not shown.
    pub(crate) displaced: Displaced,
}

impl Records {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            index: Index::new(),
            slots: Slab::new(),
            displaced: Displaced::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many slots there are, used or not: the end of a scan.
    pub(crate) fn slots(&self) -> usize {
        self.slots.end()
    }

    pub(crate) fn find(&self, served: &PinnedMap<'_>, key: RawKey<'_>) -> Option<u32> {
        let matches = |slot| self.route(served, slot).is_some_and(|route| route.raw_key() == key);
        self.index.find(spread(self.hash(key)), matches)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Record> {
        self.slots.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Record> {
        self.slots.get_mut(slot)
    }

    /// The route of an object, served or displaced.
    pub(crate) fn route<'a>(&'a self, served: &'a PinnedMap<'_>, slot: u32) -> Option<&'a Route> {
        self.served(served, slot).or_else(|| self.displaced.get(slot))
    }

    /// The route of an object, if readers see it under its ID.
    pub(crate) fn served<'a>(&self, served: &'a PinnedMap<'_>, slot: u32) -> Option<&'a Route> {
        served.by_hash(self.get(slot)?.id_hash).filter(|route| route.slot() == slot)
    }

    /// When an object was created, in seconds since 1970; 0 if unknown.
    pub(crate) fn created(&self, slot: u32) -> u32 {
        self.get(slot).map_or(0, |record| record.created)
    }

    /// Adds an object that is not in yet, and gives the slot its route has to name. The caller has checked
    /// that there is room.
    pub(crate) fn insert(&mut self, key: RawKey<'_>, id_hash: u64, claims: ClaimSet, created: u32) -> u32 {
        let key_hash = self.hash(key);
        let slot = self.slots.insert(Record { id_hash, key_hash, created, claims, seen: 0 });
        let slots = &self.slots;
        let hash_of = |slot| slots.get(slot).map_or(0, |record| spread(record.key_hash));
        self.index.insert(spread(key_hash), slot, hash_of);
        slot
    }

    /// Removes an object whose route is out of the served map.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(record) = self.slots.remove(slot) else { return };
        self.index.remove(spread(record.key_hash), slot);
        self.displaced.remove(slot);
    }

    /// Half a hash: a record has no room for more.
    fn hash(&self, key: RawKey<'_>) -> u32 {
        let [a, b, c, d, ..] = self.hasher.hash_one(key).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

/// A hash of 64 bits for the index, from the 32 bits that a record keeps.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
