//! A provider's keys at one time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

use super::json::Object;
use super::jwk::{Jwk, Read};
use super::key::Key;
use super::{KeyFault, KeySetError, UnusableKey};

/// How long a document with keys may be.
pub const MAX_KEY_SET: usize = 1 << 20;

/// How many keys a document may have.
pub const MAX_KEYS: usize = 256;

#[derive(Deserialize)]
struct Document {
    keys: Vec<Object<Jwk>>,
}

/// The public keys of a provider, by their ID.
///
/// Each key has a serial number that no other key of this process has. A set that is read after another one
/// gives a key that stayed its old number, so what was remembered under the number is good for as long as the
/// key is in the set, over any number of refreshes.
pub struct KeySet {
    /// Sorted by `kid`.
    keys: Box<[Key]>,
    unusable: Vec<UnusableKey>,
}

impl KeySet {
    /// Reads a JSON Web Key Set. It is refused as a whole if it is empty, or if one of its keys has no `kid`
    /// or another's, is private, symmetric, weak or invalid, or is not for signatures. A key that cannot be
    /// used here is left out and named by [`KeySet::unusable`]; a set of only such keys is refused.
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        Self::parse_and_number(json, &[])
    }

    /// The same for a set that comes in the place of another one: a key with the same ID, `alg` and numbers
    /// keeps its serial number.
    pub fn parse_after(json: &[u8], previous: &Self) -> Result<Self, KeySetError> {
        Self::parse_and_number(json, &previous.keys)
    }

    fn parse_and_number(json: &[u8], previous: &[Key]) -> Result<Self, KeySetError> {
        if json.len() > MAX_KEY_SET {
            return Err(KeySetError::TooLong);
        }
        // As text: serde_json does not look at the bytes of a member that nobody asked for.
        let text = str::from_utf8(json).map_err(|error| place_of(json, error.valid_up_to()))?;
        let Object(Document { keys: found }) = serde_json::from_str(text)
            .map_err(|error| KeySetError::NotAKeySet { line: error.line(), column: error.column() })?;
        let count = found.len();
        if count == 0 {
            return Err(KeySetError::Empty);
        }
        if count > MAX_KEYS {
            return Err(KeySetError::TooManyKeys { found: count });
        }
        let (mut keys, mut unusable) = (Vec::<Key>::new(), Vec::<UnusableKey>::new());
        for (index, Object(jwk)) in found.into_iter().enumerate() {
            let fault = |fault| KeySetError::Key { index, fault };
            let read = jwk.read().map_err(fault)?;
            let (Read::Usable { kid, .. } | Read::Unusable { kid, .. }) = &read;
            if keys.iter().any(|key| *key.kid == **kid) || unusable.iter().any(|key| key.kid == *kid) {
                return Err(fault(KeyFault::DoubleKid));
            }
            match read {
                Read::Usable { kid, algorithm, material } => {
                    let same = find(previous, &kid)
                        .filter(|key| key.algorithm == algorithm && key.material == material);
                    let serial = same.map_or_else(next_serial, |key| key.serial);
                    keys.push(Key { kid: kid.into(), algorithm, material, serial });
                }
                Read::Unusable { kid, reason } => unusable.push(UnusableKey { kid, reason }),
            }
        }
        if keys.is_empty() {
            return Err(KeySetError::NothingUsable { found: count });
        }
        keys.sort_by(|one, other| one.kid.cmp(&other.kid));
        Ok(Self { keys: keys.into(), unusable })
    }

    /// The keys that were left out.
    pub fn unusable(&self) -> &[UnusableKey] {
        &self.unusable
    }

    /// The IDs of the keys, sorted.
    pub fn kids(&self) -> impl ExactSizeIterator<Item = &str> {
        self.keys.iter().map(|key| &*key.kid)
    }

    /// Whether both have the same keys: ID, `alg` and numbers. Keys that were left out do not count.
    pub fn same_as(&self, other: &Self) -> bool {
        self.keys.len() == other.keys.len()
            && self.keys.iter().zip(&other.keys).all(|(one, other)| {
                one.kid == other.kid && one.algorithm == other.algorithm && one.material == other.material
            })
    }

    pub(super) fn find(&self, kid: &str) -> Option<&Key> {
        find(&self.keys, kid)
    }

    pub(super) fn has_serial(&self, serial: u64) -> bool {
        self.keys.iter().any(|key| key.serial == serial)
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet")
            .field("keys", &self.keys.len())
            .field("unusable", &self.unusable.len())
            .finish()
    }
}

fn find<'a>(sorted: &'a [Key], kid: &str) -> Option<&'a Key> {
    let at = sorted.binary_search_by(|key| (*key.kid).cmp(kid)).ok()?;
    sorted.get(at)
}

/// A fault at this byte.
fn place_of(json: &[u8], at: usize) -> KeySetError {
    let before = json.get(..at).unwrap_or_default();
    let (mut line, mut column) = (1, 1);
    for &byte in before {
        (line, column) = if byte == b'\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    KeySetError::NotAKeySet { line, column }
}

fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
