//! The map readers look IDs up in. An entry is the route itself, found by its ID or by its object's slot; nothing is held twice.
//!
//! # Growing
//! The map grows in one go (papaya's blocking mode): the writer, which is one at a time anyway, moves every entry before its next write,
//! and readers stay on the old map until the new one is whole. While a map grows entry by entry (papaya's other mode) an ID is in two
//! tables at once, and a search must take any route of it in the old one as the sign to go on to the new one. A search by slot does not:
//! the ID may have been another object's then, so it would miss the route that it is to remove. The stress test shows that within a second.
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
    routes: papaya::HashMap<Served, (), AsItIs>,
}

impl Default for ServedMap {
    fn default() -> Self {
        Self {
            hasher: SeedableRandomState::with_seed(random(), &SEED),
            routes: papaya::HashMap::builder()
                .capacity(AT_FIRST)
                .hasher(AsItIs(0))
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
    hasher.finish()
}

/// The map as one thread has it pinned: what is found stays readable until the pin is dropped.
pub(crate) struct PinnedMap<'a> {
    hasher: &'a SeedableRandomState,
    routes: HashMapRef<'a, Served, (), AsItIs, LocalGuard<'a>>,
}

impl PinnedMap<'_> {
    /// The route of an ID, looked for as requests do.
    #[inline]
    pub(crate) fn find(&self, id: &[u8]) -> Option<&Route> {
        self.by_id(hash(self.hasher, id), id)
    }

    /// The same with the hash at hand.
    #[inline]
    pub(crate) fn by_id(&self, hash: u64, id: &[u8]) -> Option<&Route> {
        self.routes.get_key_value(&ById { hash, id }).map(|(served, ())| &served.0)
    }

    /// The route of an object whose ID has this hash, if its ID is its own.
    pub(crate) fn by_slot(&self, hash: u64, slot: u32) -> Option<&Route> {
        self.routes.get_key_value(&BySlot { hash, slot }).map(|(served, ())| &served.0)
    }

    /// Puts a route in the place of whatever its ID pointed at, in one step. papaya keeps key and value in one entry and replaces it
    /// whole, which its documentation does not promise of the key: hence its exact version in the workspace, and the tests that would
    /// see an update get lost.
    pub(crate) fn insert(&self, route: Route) {
        self.routes.insert(Served(route), ());
    }

    /// Removes an object's route, if its ID is its own, and gives it back as long as the pin lasts.
    pub(crate) fn remove(&self, hash: u64, slot: u32) -> Option<&Route> {
        self.routes.remove_entry(&BySlot { hash, slot }).map(|(served, ())| &served.0)
    }

    /// Every route; one that changes meanwhile is met before, after or both.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|(served, ())| &served.0)
    }
}

/// A route under its own ID.
struct Served(Route);

struct ById<'a> {
    hash: u64,
    id: &'a [u8],
}

struct BySlot {
    hash: u64,
    slot: u32,
}

impl Hash for Served {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.id_hash());
    }
}

impl Hash for ById<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for BySlot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        self.0.raw_id() == other.0.raw_id()
    }
}

impl Eq for Served {}

impl Equivalent<Served> for ById<'_> {
    #[inline]
    fn equivalent(&self, served: &Served) -> bool {
        self.id == served.0.raw_id()
    }
}

impl Equivalent<Served> for BySlot {
    fn equivalent(&self, served: &Served) -> bool {
        self.slot == served.0.slot() && self.hash == served.0.id_hash()
    }
}

/// Hands a hash on that was computed before.
#[derive(Clone, Copy, Default)]
struct AsItIs(u64);

impl BuildHasher for AsItIs {
    type Hasher = Self;

    #[inline]
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for AsItIs {
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
