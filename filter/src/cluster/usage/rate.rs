//! How many requests a second one sandbox gets.
//!
//! The generic cell rate algorithm: a bucket is one number, the time at which it will be full again. A
//! request moves that time on by the interval between two requests, and is refused where the time would then
//! be further ahead than a full burst takes. A request that is refused moves nothing. All workers share the
//! number; each changes it by one compare-and-swap.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const SECOND: u64 = 1_000_000_000;

/// A rate, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Between two requests.
    interval: u64,
    /// How far ahead the time of a full bucket may be when a request comes.
    ahead: u64,
}

impl Rate {
    pub(crate) fn new(rate: sandgate_request::Rate) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rates are checked: from 0.001 to a million"
        )]
        let interval = ((1e9 / rate.per_second) as u64).max(1);
        let ahead = interval.saturating_mul(u64::from(rate.burst.saturating_sub(1)));
        Self { interval, ahead }
    }
}

/// What one sandbox has left. New, it is full.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// When it is full again, in nanoseconds of [`now`].
    full_at: AtomicU64,
}

impl Bucket {
    /// Takes one request out, or says in how many seconds there is one, at least 1.
    pub(super) fn take(&self, rate: Rate, now: u64) -> Result<(), u32> {
        let next = |full_at: u64| {
            let full_at = full_at.max(now);
            (full_at - now <= rate.ahead).then(|| full_at.saturating_add(rate.interval))
        };
        let taken = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.map(drop).map_err(|full_at| {
            let wait = full_at.saturating_sub(now).saturating_sub(rate.ahead);
            u32::try_from(wait.div_ceil(SECOND)).unwrap_or(u32::MAX).max(1)
        })
    }
}

/// Nanoseconds since this was first asked.
pub(super) fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn rate(per_second: f64, burst: u32) -> Rate {
        Rate::new(sandgate_request::Rate { per_second, burst })
    }

    /// How many requests in a row get in.
    fn drain(bucket: &Bucket, rate: Rate, now: u64) -> usize {
        (0..).take_while(|_| bucket.take(rate, now).is_ok()).count()
    }

    #[test]
    fn a_burst_gets_in_at_once_and_from_then_on_the_rate() {
        let (bucket, rate) = (Bucket::default(), rate(10.0, 5));
        assert_eq!(drain(&bucket, rate, 0), 5);
        assert_eq!(drain(&bucket, rate, SECOND / 10 - 1), 0);
        assert_eq!(drain(&bucket, rate, SECOND / 10), 1);
        let in_a_minute: usize =
            (0..=600).map(|tenth| drain(&bucket, rate, SECOND + tenth * SECOND / 10)).sum();
        assert_eq!(in_a_minute, 5 + 600, "a second without requests filled it, and no further");
    }

    #[test]
    fn a_client_is_told_a_time_after_which_there_is_room_and_not_long_after() {
        let (bucket, slow) = (Bucket::default(), rate(0.1, 2));
        assert_eq!(drain(&bucket, slow, 0), 2);
        assert_eq!(bucket.take(slow, 0), Err(10));
        assert_eq!(bucket.take(slow, SECOND / 2), Err(10));
        assert_eq!(bucket.take(slow, 9 * SECOND + 1), Err(1));
        assert_eq!(bucket.take(slow, 10 * SECOND), Ok(()));
        let quick = rate(1_000_000.0, 1);
        let other = Bucket::default();
        assert_eq!(other.take(quick, 0), Ok(()));
        assert_eq!(other.take(quick, 1), Err(1), "whole seconds, and never none");
    }

    #[test]
    fn a_refused_request_costs_nothing() {
        let (bucket, rate) = (Bucket::default(), rate(1.0, 1));
        assert_eq!(bucket.take(rate, 0), Ok(()));
        for _ in 0..1000 {
            assert_eq!(bucket.take(rate, SECOND - 1), Err(1));
        }
        assert_eq!(bucket.take(rate, SECOND), Ok(()));
    }

    #[test]
    fn workers_that_ask_at_once_get_no_more_than_the_burst() {
        let (bucket, rate) = (Bucket::default(), rate(1.0, 1000));
        let got = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| got.fetch_add(drain(&bucket, rate, 7), Ordering::Relaxed));
            }
        });
        assert_eq!(got.load(Ordering::Relaxed), 1000);
    }
}
