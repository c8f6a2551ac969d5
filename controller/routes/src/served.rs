//! The map readers look IDs up in. An entry is the route itself and its key the hash of the ID, so that nothing is held twice: who has the
//! ID and who has only its hash (a record) find the same entry. Two IDs of one hash cannot both be served. That has a chance of one in
//! 2^64 for each pair, is refused when it happens ([`Invalid::Clash`](crate::Invalid::Clash)), and never leads to another's route: who
//! looks by ID compares it.
//!
//! # Growing
//! The map grows in one go (papaya's blocking mode): the writer, which is one at a time anyway, moves every entry before its next write,
//! and readers stay on the old map until the new one is whole. That costs the writer two tenths of a second when a million routes move,
//! and readers nothing. Entry by entry, papaya's other mode, would spare the writer, and have readers search two tables until enough
//! writes have come. What was measured of that is in the README of `benches`.
//!
//! In either mode a search may compare nothing that can differ between two entries of one key: in the other mode an entry of the old table
//! is the sign to go on to the new one, and it may be of an earlier route, of another object even. A search by the object's slot missed
//! what had moved, and left a route behind that should have been removed; the stress test found it.
//!
//! # The hash
//! IDs come from clients, and whoever creates sandboxes chooses the ones that are stored. So the hash is keyed, from the system's random
//! source, and nothing that leaves the process depends on it: pages are sorted, and a hash is never shown. It does not claim to withstand
//! someone who can watch it at work, which here would mean telling nanoseconds apart across a network. SipHash claims that, and doubles the
//! instructions of a lookup; the writer's own index, which is not on the request path, uses it.

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

// A map grows when it is nearly full, and searches long before that; 150 KB spare a small fleet both.
const AT_FIRST: usize = 8192;

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
    // The whole key is one run of bytes: it needs no length to be told from another.
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

    /// Puts a route in the place of the one whose ID has the same hash, in one step. papaya keeps key and value in one entry and replaces
    /// it whole, which its documentation does not promise of the key: hence its exact version in the workspace, and the tests that
    /// would see an update get lost.
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

/// Hands a hash on that was computed before.
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
        /// Subject bits of a hash this thread keeps: a test of equal hashes cannot wait for one.
        pub(crate) static KEPT: Cell<u64> = const { Cell::new(u64::MAX) };
    }
}
