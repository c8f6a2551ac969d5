//! How often somebody may ask: a bucket of tokens for each, refilled at an even pace.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// So many buckets are kept. A bucket that is full again is as good as none and goes first.
const MOST: usize = 10_000;
/// So long passes between two looks for full ones.
const SWEEP: Duration = Duration::from_secs(1);

/// How often somebody may ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// So often a second in the long run. Zero is without limit.
    pub per_second: u32,
    /// So often at once.
    pub burst: u32,
}

/// The buckets of everybody.
pub(super) struct Buckets<K> {
    rate: Rate,
    all: Mutex<All<K>>,
}

/// The buckets, and when those that were full went.
struct All<K> {
    buckets: BTreeMap<K, Bucket>,
    swept: Option<Instant>,
}

/// How many tokens there were, and when.
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl<K: Ord + Clone> Buckets<K> {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, all: Mutex::new(All { buckets: BTreeMap::new(), swept: None }) }
    }

    /// Takes a token; without one says how long until there is one.
    pub(super) fn take(&self, who: &K) -> Result<(), Duration> {
        if self.rate.per_second == 0 {
            return Ok(());
        }
        let (pace, burst) = (f64::from(self.rate.per_second), f64::from(self.rate.burst.max(1)));
        let now = Instant::now();
        let mut all = self.all.lock();
        let All { buckets, swept } = &mut *all;
        if buckets.len() >= MOST && !buckets.contains_key(who) {
            // A look at all of them, so not at every request.
            if swept.is_none_or(|at| now.saturating_duration_since(at) >= SWEEP) {
                buckets.retain(|_, bucket| bucket.tokens_at(now, pace, burst) < burst);
                *swept = Some(now);
            }
            // All are in use: somebody's bucket is forgotten, which lets that one ask more often, not less.
            if buckets.len() >= MOST {
                buckets.pop_first();
            }
        }
        let bucket = buckets.entry(who.clone()).or_insert(Bucket { tokens: burst, at: now });
        let tokens = bucket.tokens_at(now, pace, burst);
        bucket.at = now;
        if tokens < 1.0 {
            bucket.tokens = tokens;
            return Err(Duration::from_secs_f64((1.0 - tokens) / pace));
        }
        bucket.tokens = tokens - 1.0;
        Ok(())
    }
}

impl Bucket {
    fn tokens_at(&self, now: Instant, pace: f64, burst: f64) -> f64 {
        (self.tokens + now.saturating_duration_since(self.at).as_secs_f64() * pace).min(burst)
    }
}
