//! From a key's hash to a slot number, in shards.
//!
//! A hash table grows by moving everything it has, and the writer waits for that. With 256 shards each growth
//! moves a 256th: well under a millisecond at a million objects.

use hashbrown::HashTable;

const SHARDS: usize = 256;

pub(crate) struct Index {
    shards: Box<[HashTable<u32>]>,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }

    pub(crate) fn find(&self, hash: u64, mut matches: impl FnMut(u32) -> bool) -> Option<u32> {
        self.shards[shard(hash)].find(hash, |&slot| matches(slot)).copied()
    }

    /// Adds a slot that is not in yet; `hash_of` returns the hash of a slot that is.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        self.shards[shard(hash)].insert_unique(hash, slot, |&slot| hash_of(slot));
    }

    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        if let Ok(entry) = self.shards[shard(hash)].find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
    }
}

// The bits between those that choose a bucket (the lowest) and those kept beside it (the highest).
fn shard(hash: u64) -> usize {
    usize::from(hash.to_le_bytes()[5])
}
