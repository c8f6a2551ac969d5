//! What one worker remembers of tokens.

mod good;
mod refused;

use std::fmt;

use super::budget::{Budget, Clock};
use super::hash::KeyedHash;
use super::{MAX_TOKEN, Sandbox, TokenError, Verifier};
use crate::UnixTime;
use good::Good;
use refused::Refused;

/// How much a worker remembers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CacheLimits {
    /// How many good tokens: rounded down to a power of two, 8 at least.
    pub tokens: usize,
    /// How many bytes they may take, their bookkeeping included.
    pub bytes: usize,
}

impl Default for CacheLimits {
    /// 4096 tokens, 4 MiB.
    fn default() -> Self {
        Self { tokens: 4096, bytes: 4 << 20 }
    }
}

/// What a cache did since it was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheCounts {
    /// Tokens that were answered from memory, good and bad.
    pub remembered: u64,
    /// Signatures that were checked.
    pub checked: u64,
}

/// The tokens that one worker has checked.
///
/// One thread has one and nobody else sees it: there is no lock, and nothing is shared. A good token is
/// remembered with what it was checked for. To be taken from memory, it must be the same bytes, for the same
/// sandbox ID and UID, from the same issuer, within its times, and its key must still be in the set: so no
/// answer from memory differs from what a check would say. A token whose signature was wrong is remembered
/// too, by its SHA-256, for as long as the key it names is in the set.
///
/// A hit allocates nothing. It costs a keyed hash of the token and a comparison with the stored one that
/// takes the same time wherever they differ. Tokens are found by their hash in sets of eight; the one of the
/// set that was used least lately goes when a ninth comes. A token over 8 KiB is not kept.
pub struct TokenCache {
    hasher: KeyedHash,
    good: Good,
    refused: Refused,
    counts: CacheCounts,
}

/// How long a token may be to be kept.
const MAX_KEPT: usize = 8 << 10;

impl TokenCache {
    /// An empty one. It takes memory once there is a token to keep.
    pub fn new(limits: CacheLimits) -> Self {
        Self {
            hasher: KeyedHash::default(),
            good: Good::new(limits),
            refused: Refused::default(),
            counts: CacheCounts::default(),
        }
    }

    /// Checks a token, from memory if it can be. Only what is not in memory is counted on the budget, and
    /// [`TokenError::Busy`] comes for nothing else.
    pub fn check<C: Clock>(
        &mut self,
        token: &[u8],
        verifier: &Verifier,
        sandbox: Sandbox<'_>,
        now: UnixTime,
        budget: &mut Budget<C>,
    ) -> Result<(), TokenError> {
        if token.is_empty() {
            return Err(TokenError::Missing);
        }
        if token.len() > MAX_TOKEN {
            return Err(TokenError::Malformed);
        }
        let hash = self.hasher.of(token);
        if let Some(answer) = self.good.recall(hash, token, verifier, sandbox, now) {
            self.counts.remembered += 1;
            return answer;
        }
        if self.refused.has(hash, token, verifier.keys()) {
            self.counts.remembered += 1;
            return Err(TokenError::Signature);
        }
        let examined = verifier.examine(token, sandbox, now)?;
        let source = budget.source(sandbox.id);
        let begun = budget.begin(source).ok_or(TokenError::Busy)?;
        let is_signed = examined.is_signed();
        budget.end(begun, !is_signed);
        self.counts.checked += 1;
        if !is_signed {
            self.refused.keep(hash, token, examined.key.serial);
            return Err(TokenError::Signature);
        }
        if token.len() <= MAX_KEPT {
            self.good.keep(hash, token, verifier, sandbox, examined.key.serial, examined.lifetime);
        }
        Ok(())
    }

    /// How many good tokens are remembered.
    pub fn len(&self) -> usize {
        self.good.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.good.bytes()
    }

    /// What it did until now.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }
}

impl Default for TokenCache {
    fn default() -> Self {
        Self::new(CacheLimits::default())
    }
}

impl fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCache")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .field("counts", &self.counts)
            .finish()
    }
}

#[cfg(test)]
mod tests;
