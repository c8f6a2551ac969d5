//! How long to wait before the next attempt.
//!
//! The waits grow and are random, so that a thousand processes that lost one API server do not return at the
//! same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The longest `Retry-After` that is obeyed.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The waits of one task, with full jitter: a wait is a random time between nothing and a bound, which
/// doubles up to the cap.
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    tries: u32,
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration) -> Self {
        Backoff { base, cap, tries: 0, random: RandomState::new(), drawn: 0 }
    }

    /// Starts again with the first bound, after a success.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }

    /// The wait before the next attempt: at least `retry_after`.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let bound = self.base.saturating_mul(1 << self.tries.min(20)).min(self.cap);
        self.tries += 1;
        let jittered = bound.mul_f64(self.fraction());
        jittered.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
    }

    /// A random number from 0 to 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        self.drawn += 1;
        // A keyed hash of a counter spreads clients well enough, and needs no crate.
        f64::from((self.random.hash_one(self.drawn) >> 32) as u32) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff() -> Backoff {
        Backoff::new(Duration::from_millis(100), Duration::from_secs(5))
    }

    #[test]
    fn a_wait_is_below_a_bound_that_doubles_up_to_the_cap() {
        for _ in 0..100 {
            let mut backoff = backoff();
            for bound in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
                assert!(backoff.next(None) <= Duration::from_millis(bound));
            }
        }
    }

    #[test]
    fn waits_are_spread_over_the_whole_range() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1));
        let waits: Vec<_> = (0..200).map(|_| backoff.next(None)).collect();
        assert!(waits.iter().any(|wait| *wait < Duration::from_millis(250)));
        assert!(waits.iter().any(|wait| *wait > Duration::from_millis(750)));
    }

    #[test]
    fn success_starts_with_the_first_bound_again() {
        let mut backoff = backoff();
        for _ in 0..30 {
            backoff.next(None);
        }
        backoff.reset();
        assert!(backoff.next(None) <= Duration::from_millis(100));
    }

    #[test]
    fn retry_after_is_obeyed_up_to_its_cap() {
        let mut backoff = backoff();
        assert!(backoff.next(Some(Duration::from_secs(7))) >= Duration::from_secs(7));
        assert_eq!(backoff.next(Some(Duration::from_secs(100_000))), MAX_RETRY_AFTER);
    }
}
