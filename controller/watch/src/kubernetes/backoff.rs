//! How long to wait before trying again: longer each time, at random, so that a thousand gateways that lost one API
//! server do not come back at one moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// What the API server may ask for at most; a longer wish is not honoured.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The waits of one task: full jitter, so a wait is anything from nothing to the bound, which doubles up to the cap.
pub(super) struct Backoff {
    base: Duration,
    cap: Duration,
    tries: u32,
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    pub(super) fn new(base: Duration, cap: Duration) -> Self {
        Backoff { base, cap, tries: 0, random: RandomState::new(), drawn: 0 }
    }

    /// Something worked: the next failure is the first again.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }

    /// The wait before the next try, at least as long as the server asked for.
    pub(super) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let bound = self.base.saturating_mul(1 << self.tries.min(20)).min(self.cap);
        self.tries += 1;
        let jittered = bound.mul_f64(self.fraction());
        jittered.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
    }

    /// From 0 to 1.
    pub(super) fn fraction(&mut self) -> f64 {
        self.drawn += 1;
        // A keyed hash of a counter is random enough to spread clients, and needs no crate.
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
    fn success_begins_anew() {
        let mut backoff = backoff();
        for _ in 0..30 {
            backoff.next(None);
        }
        backoff.reset();
        assert!(backoff.next(None) <= Duration::from_millis(100));
    }

    #[test]
    fn what_the_server_asks_for_is_waited_for_but_not_for_ever() {
        let mut backoff = backoff();
        assert!(backoff.next(Some(Duration::from_secs(7))) >= Duration::from_secs(7));
        assert_eq!(backoff.next(Some(Duration::from_secs(100_000))), MAX_RETRY_AFTER);
    }
}
