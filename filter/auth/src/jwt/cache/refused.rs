//! Tokens whose signature was wrong.

use ring::digest::{SHA256, digest};

use super::super::KeySet;

const SLOTS: usize = 1024;

/// Small entries of one size, each where its hash says; a newer one takes the place.
#[derive(Default)]
pub(super) struct Refused {
    /// Empty until the first one is kept.
    slots: Vec<Option<Slot>>,
}

#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    /// The key that the signature is not of.
    serial: u64,
    digest: [u8; 32],
}

impl Refused {
    /// Whether this token had a wrong signature, by a key that is still in the set. The digest is taken if
    /// the hash is the same: two tokens with one hash must not be taken for one, and a stranger chooses both.
    pub(super) fn has(&self, hash: u64, token: &[u8], keys: &KeySet) -> bool {
        self.slots
            .get(index(hash))
            .copied()
            .flatten()
            .is_some_and(|slot| slot.hash == hash && keys.has_serial(slot.serial) && slot.digest == of(token))
    }

    pub(super) fn keep(&mut self, hash: u64, token: &[u8], serial: u64) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, None);
        }
        if let Some(slot) = self.slots.get_mut(index(hash)) {
            *slot = Some(Slot { hash, serial, digest: of(token) });
        }
    }
}

fn index(hash: u64) -> usize {
    usize::try_from(hash >> 32).unwrap_or_default() & (SLOTS - 1)
}

fn of(token: &[u8]) -> [u8; 32] {
    // SHA-256 has 32 bytes.
    digest(&SHA256, token).as_ref().try_into().unwrap_or_default()
}
