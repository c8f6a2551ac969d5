//! How much of a worker's time goes into signatures.

use std::fmt;
use std::time::{Duration, Instant};

use super::hash::KeyedHash;

/// Bounds the share of a worker's time that signature checks take.
///
/// A leaky bucket of time: a check puts in what it took, and the configured share of all time flows out. Once
/// the bucket is full, no check begins until some has flowed out, and the caller answers "try again". Over
/// any time the checks take the share of it, one bucket and one check at most. Tokens that are remembered
/// need no check, so they are served however full it is.
///
/// # Fairness
/// A flood must not lock out every new token. To be checked at all, a bad token must name the ID and the UID
/// of the sandbox that it is sent to, so floods are told apart by sandbox, from however many addresses they
/// come. Checks that fail are also counted in one of 64 smaller buckets, chosen by the sandbox: half the
/// size, half the share. While that one is full, new tokens of that sandbox (and of the few with the same
/// bucket) wait, and the other half is there for the rest. Someone with many sandboxes can still take it all.
pub struct Budget<C = Monotonic> {
    clock: C,
    hasher: KeyedHash,
    per_mille: u64,
    burst: u64,
    all: Bucket,
    failing: [Bucket; SOURCES],
}

const SOURCES: usize = 64;

// What one check is counted as at most, in nanoseconds. The slowest key takes less; what takes longer was
// waiting for a core.
const LONGEST: u64 = 2_000_000;

impl Budget {
    /// Checks may take this share of a worker's time (1 to 100 percent), and this much at once.
    pub fn new(percent: u32, burst: Duration) -> Self {
        Self::with_clock(percent, burst, Monotonic::default())
    }
}

impl<C: Clock> Budget<C> {
    /// The same by another clock.
    pub fn with_clock(percent: u32, burst: Duration, clock: C) -> Self {
        let per_mille = u64::from(percent.clamp(1, 100)) * 10;
        // Half of it is what a source may fail with, so there is something to halve.
        let burst = nanos(burst).max(2);
        let failing = [Bucket::default(); SOURCES];
        Self { clock, hasher: KeyedHash::default(), per_mille, burst, all: Bucket::default(), failing }
    }

    /// What a sandbox's failures are counted under.
    pub(super) fn source(&self, sandbox: &[u8]) -> u64 {
        self.hasher.of(sandbox)
    }

    /// Whether a check may begin, and when it did.
    pub(super) fn begin(&mut self, source: u64) -> Option<Begun> {
        let now = nanos(self.clock.now());
        let at = slot(source);
        let is_free = self.all.level(now, self.per_mille) < self.burst;
        let failing = self.failing.get_mut(at)?;
        let may_fail = failing.level(now, self.per_mille / 2) < self.burst / 2;
        (is_free && may_fail).then_some(Begun { at: now, slot: at })
    }

    /// Counts a check.
    pub(super) fn end(&mut self, begun: Begun, failed: bool) {
        let now = nanos(self.clock.now());
        let took = now.saturating_sub(begun.at).min(LONGEST);
        self.all.add(took);
        if failed && let Some(failing) = self.failing.get_mut(begun.slot) {
            failing.add(took);
        }
    }
}

impl Default for Budget {
    /// A fifth of the time, 50 milliseconds at once.
    fn default() -> Self {
        Self::new(20, Duration::from_millis(50))
    }
}

impl<C> fmt::Debug for Budget<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("per_mille", &self.per_mille).field("burst", &self.burst).finish()
    }
}

/// A check that has begun.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    at: u64,
    slot: usize,
}

fn slot(source: u64) -> usize {
    usize::try_from(source % SOURCES as u64).unwrap_or_default()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds that flow out with time.
#[derive(Clone, Copy, Default)]
struct Bucket {
    level: u64,
    at: u64,
}

impl Bucket {
    fn level(&mut self, now: u64, per_mille: u64) -> u64 {
        let gone = now.saturating_sub(self.at).saturating_mul(per_mille) / 1000;
        self.level = self.level.saturating_sub(gone);
        self.at = now;
        self.level
    }

    fn add(&mut self, nanos: u64) {
        self.level = self.level.saturating_add(nanos);
    }
}

/// A clock that never goes back.
pub trait Clock {
    /// The time since some moment that stays the same.
    fn now(&mut self) -> Duration;
}

/// The system's.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now(&mut self) -> Duration {
        self.0.elapsed()
    }
}

impl<F: FnMut() -> Duration> Clock for F {
    fn now(&mut self) -> Duration {
        self()
    }
}

#[cfg(test)]
mod tests;
