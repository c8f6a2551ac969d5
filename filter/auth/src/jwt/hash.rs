//! A keyed hash of bytes that a stranger chooses.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// Each has a key of its own, from the system's random source.
pub(super) struct KeyedHash(SeedableRandomState);

impl KeyedHash {
    pub(super) fn of(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        // One run of bytes, so no length is needed to keep two keys apart.
        hasher.write(bytes);
        hasher.finish()
    }
}

impl Default for KeyedHash {
    fn default() -> Self {
        Self(SeedableRandomState::with_seed(random(), &SEED))
    }
}

// The standard library asks the system for randomness; this is how to get some of it.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

static SEED: LazyLock<SharedSeed> = LazyLock::new(|| SharedSeed::from_u64(random()));
