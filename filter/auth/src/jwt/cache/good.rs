//! Tokens that were good.

use std::hint::black_box;
use std::sync::Arc;

use super::super::claims::Lifetime;
use super::{CacheLimits, Sandbox, TokenError, Verifier};
use crate::UnixTime;

const WAYS: usize = 8;

pub(super) struct Good {
    limits: CacheLimits,
    /// Empty until the first token is kept, then a power of two.
    sets: Vec<Set>,
    len: usize,
    bytes: usize,
    /// Counts uses, to know the oldest.
    uses: u64,
    /// The set that is robbed next when there are too many bytes.
    hand: usize,
}

#[derive(Default)]
struct Set {
    /// The hashes of the entries: one cache line says which one to look at.
    hashes: [u64; WAYS],
    entries: [Option<Box<Entry>>; WAYS],
}

struct Entry {
    /// Token, sandbox ID and sandbox UID, one after the other.
    text: Box<[u8]>,
    token_len: usize,
    id_len: usize,
    serial: u64,
    lifetime: Lifetime,
    issuer: Arc<str>,
    /// The verifier that last found key and issuer good.
    verifier: u64,
    used: u64,
}

impl Entry {
    fn token(&self) -> &[u8] {
        self.text.get(..self.token_len).unwrap_or_default()
    }

    fn is_for(&self, sandbox: Sandbox<'_>) -> bool {
        let rest = self.text.get(self.token_len..).unwrap_or_default();
        let (id, uid) = rest.split_at(self.id_len.min(rest.len()));
        id == sandbox.id && uid == sandbox.uid
    }

    /// What it takes, with what an allocator adds for two boxes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len() + 32
    }
}

impl Good {
    pub(super) fn new(limits: CacheLimits) -> Self {
        Self { limits, sets: Vec::new(), len: 0, bytes: 0, uses: 0, hand: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a check of this token would say, if it is remembered and its key and issuer still count.
    pub(super) fn recall(
        &mut self,
        hash: u64,
        token: &[u8],
        verifier: &Verifier,
        sandbox: Sandbox<'_>,
        now: UnixTime,
    ) -> Option<Result<(), TokenError>> {
        let at = index(hash, self.sets.len());
        let set = self.sets.get_mut(at)?;
        let way = set.hashes.iter().position(|&kept| kept == hash)?;
        let entry = set.entries.get_mut(way)?.as_deref_mut()?;
        if !is_same(entry.token(), token) {
            return None;
        }
        // Most requests come by the verifier that the last one came by, and need no look at its keys.
        if entry.verifier != verifier.id {
            if *entry.issuer != *verifier.issuer || !verifier.keys.has_serial(entry.serial) {
                return None;
            }
            entry.verifier = verifier.id;
        }
        self.uses += 1;
        entry.used = self.uses;
        let answer = entry.lifetime.check(now, verifier.leeway);
        Some(answer.and_then(|()| if entry.is_for(sandbox) { Ok(()) } else { Err(TokenError::Sandbox) }))
    }

    /// Remembers a good token, in the place of the one of its set that was used least lately.
    pub(super) fn keep(
        &mut self,
        hash: u64,
        token: &[u8],
        verifier: &Verifier,
        sandbox: Sandbox<'_>,
        serial: u64,
        lifetime: Lifetime,
    ) {
        self.uses += 1;
        let entry = Entry {
            text: [token, sandbox.id, sandbox.uid].concat().into(),
            token_len: token.len(),
            id_len: sandbox.id.len(),
            serial,
            lifetime,
            issuer: Arc::clone(&verifier.issuer),
            verifier: verifier.id,
            used: self.uses,
        };
        let bytes = entry.bytes();
        if bytes > self.limits.bytes {
            return;
        }
        if self.sets.is_empty() {
            let sets = (self.limits.tokens / WAYS).max(1);
            self.sets.resize_with(1 << sets.ilog2(), Set::default);
        }
        let at = index(hash, self.sets.len());
        let way = self.sets.get(at).map_or(0, |set| set.way_for(hash));
        self.forget(at, way);
        while self.bytes + bytes > self.limits.bytes && self.forget_some() {}
        if let Some(set) = self.sets.get_mut(at)
            && let (Some(kept), Some(place)) = (set.hashes.get_mut(way), set.entries.get_mut(way))
        {
            *kept = hash;
            *place = Some(Box::new(entry));
            self.len += 1;
            self.bytes += bytes;
        }
    }

    fn forget(&mut self, at: usize, way: usize) {
        let gone = self.sets.get_mut(at).and_then(|set| set.entries.get_mut(way)?.take());
        if let Some(gone) = gone {
            self.len -= 1;
            self.bytes -= gone.bytes();
        }
    }

    /// Forgets the oldest of the next set that has any.
    fn forget_some(&mut self) -> bool {
        for _ in 0..self.sets.len() {
            let at = self.hand;
            self.hand = (at + 1) & (self.sets.len() - 1);
            if let Some(way) = self.sets.get(at).and_then(Set::oldest) {
                self.forget(at, way);
                return true;
            }
        }
        false
    }
}

impl Set {
    fn way_for(&self, hash: u64) -> usize {
        let same = self.hashes.iter().position(|&kept| kept == hash);
        same.or_else(|| self.entries.iter().position(Option::is_none)).or_else(|| self.oldest()).unwrap_or(0)
    }

    fn oldest(&self) -> Option<usize> {
        let used =
            self.entries.iter().enumerate().filter_map(|(way, entry)| Some((entry.as_ref()?.used, way)));
        used.min().map(|(_, way)| way)
    }
}

// The upper half chooses the set: `sets` is a power of two, or nothing at all.
fn index(hash: u64, sets: usize) -> usize {
    usize::try_from(hash >> 32).unwrap_or_default() & sets.saturating_sub(1)
}

// A token is a secret, so this takes the same time wherever the two differ. Eight bytes at a step, because a
// token has a thousand and every request pays.
fn is_same(kept: &[u8], token: &[u8]) -> bool {
    if kept.len() != token.len() {
        return false;
    }
    let (kept, kept_end) = kept.as_chunks::<8>();
    let (token, token_end) = token.as_chunks::<8>();
    let differ = |one: &[u8; 8], other: &[u8; 8]| u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other);
    let words = kept.iter().zip(token).fold(0, |all, (one, other)| all | differ(one, other));
    let bytes = kept_end.iter().zip(token_end).fold(0, |all, (one, other)| all | (one ^ other));
    black_box(words | u64::from(bytes)) == 0
}
