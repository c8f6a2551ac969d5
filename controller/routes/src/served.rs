//! The map in which readers look IDs up. An entry is the route itself, and its key is the hash of the ID, so
//! nothing is stored twice: a lookup by ID and a lookup by hash (from a record) find the same entry. Two IDs
//! of one hash cannot both be served. The chance is 2^-64 for each pair; it is refused
//! ([`Invalid::Clash`](crate::Invalid::Clash)), and never leads to another object's route: a lookup by ID
//! compares the ID.
//!
//! # Growing
//! The map grows at once (papaya's blocking mode): the writer moves every entry before its next write, and
//! readers stay on the old map until the new one is complete. That costs the writer 0.2 s at a million
//! routes, and readers nothing. papaya's incremental mode would spare the writer, but readers would search
//! two tables until enough writes have come. The measurements are in the README of `benches`.
//!
//! In either mode a search must compare nothing but the key. In incremental mode an entry of the old table
//! redirects the search to the new one, and it may be an earlier route, even of another object. A search that
//! compared the object's slot missed moved entries and left deleted routes behind; the stress test found it.
//!
//! # The hash
//! Clients choose the IDs they ask for, and users choose the IDs that are stored. So the hash is keyed from
//! the system's random source, and nothing that leaves the process depends on it: pages are sorted, and no
//! hash is shown. It does not withstand an attacker who measures it, which here means nanoseconds across a
//! network. SipHash does, and doubles the instructions of a lookup. The writer's own index, which no request
//! uses, has SipHash.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use papaya::{Equivalent, HashMapRef, LocalGuard, ResizeMode};

use crate::Route;

// The standard library asks the system for randomness; this is how to get some of it.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

static SEED: LazyLock<SharedSeed> = LazyLock::new(|| SharedSeed::from_u64(random()));

// A map grows when it is nearly full, and searches long before that; 150 KB spare a small fleet both. Under
// Miri it starts small: a scan of empty slots costs seconds there, and tests with few objects then see the
// map grow.
const AT_FIRST: usize = if cfg!(miri) { 16 } else { 8192 };

pub(crate) struct ServedMap {
    hasher: SeedableRandomState,
    routes: papaya::HashMap<Served, (), PrecomputedHash>,
}

impl Default for ServedMap {
    fn default() -> Self {
        Self {
            hasher: SeedableRandomState::with_seed(random(), &SEED),
            routes: papaya::HashMap::builder()
                .capacity(AT_FIRST)
                .hasher(PrecomputedHash(0))
                .resize_mode(ResizeMode::Blocking)
                .build(),
        }
    }
}

impl ServedMap {
    /// The hash of an ID.
    #[inline]
    pub(crate) fn hash(&self, id: &[u8]) -> u64 {
        hash(&self.hasher, id)
    }

    #[inline]
    pub(crate) fn pin(&self) -> PinnedMap<'_> {
        PinnedMap { hasher: &self.hasher, routes: self.routes.pin() }
    }
}

#[inline]
fn hash(hasher: &SeedableRandomState, id: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    // The key is one run of bytes, so no length is needed to keep two keys apart.
    hasher.write(id);
    #[cfg(test)]
    return hasher.finish() & tests::KEPT.get();
    #[cfg(not(test))]
    hasher.finish()
}

/// The map as one thread has it pinned: what is found stays readable until the pin is dropped.
pub(crate) struct PinnedMap<'a> {
    hasher: &'a SeedableRandomState,
    routes: HashMapRef<'a, Served, (), PrecomputedHash, LocalGuard<'a>>,
}

impl PinnedMap<'_> {
    /// The route of an ID, looked for as requests do.
    #[inline]
    pub(crate) fn find(&self, id: &[u8]) -> Option<&Route> {
        self.by_hash(hash(self.hasher, id)).filter(|route| route.raw_id() == id)
    }

    /// The route whose ID has this hash.
    #[inline]
    pub(crate) fn by_hash(&self, hash: u64) -> Option<&Route> {
        self.routes.get_key_value(&ByHash(hash)).map(|(served, ())| &served.0)
    }

    /// Puts a route in the place of the one whose ID has the same hash, in one step. papaya keeps key and
    /// value in one entry and replaces it whole, which its documentation does not promise of the key: hence
    /// its exact version in the workspace, and the tests that would see an update get lost.
    pub(crate) fn insert(&self, route: Route) {
        self.routes.insert(Served(route), ());
    }

    /// Removes the route whose ID has this hash.
    pub(crate) fn remove(&self, hash: u64) {
        self.routes.remove(&ByHash(hash));
    }

    /// Every route; one that changes meanwhile is met before, after or both.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|(served, ())| &served.0)
    }
}

/// A route under the hash of its ID.
struct Served(Route);

struct ByHash(u64);

impl Hash for Served {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.id_hash());
    }
}

impl Hash for ByHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        self.0.id_hash() == other.0.id_hash()
    }
}

impl Eq for Served {}

impl Equivalent<Served> for ByHash {
    #[inline]
    fn equivalent(&self, served: &Served) -> bool {
        self.0 == served.0.id_hash()
    }
}

/// A hasher that returns a hash computed before.
#[derive(Clone, Copy, Default)]
struct PrecomputedHash(u64);

impl BuildHasher for PrecomputedHash {
    type Hasher = Self;

    #[inline]
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for PrecomputedHash {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        // Nothing here hashes bytes; if it did, this would be poor and not wrong.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// The bits of a hash that this thread keeps. Fewer bits make hashes clash, which a test needs.
        pub(crate) static KEPT: Cell<u64> = const { Cell::new(u64::MAX) };
    }
}
