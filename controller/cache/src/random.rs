//! Numbers that look random and can be had again: everything that jitters takes its numbers from here, so
//! that one seed gives one run.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// A stream of pseudo-random numbers (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream that no other process has.
    pub fn new() -> Self {
        // A new `RandomState` has keys from the operating system.
        Self(RandomState::new().hash_one(0_u64))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A time between the two.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let high = u32::try_from(self.number() >> 32).unwrap_or(u32::MAX);
        from + to.saturating_sub(from).mul_f64(f64::from(high) / f64::from(u32::MAX))
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream_and_two_seeds_give_two() {
        let draw = |seed| {
            let mut random = Random::seeded(seed);
            [random.number(), random.number(), random.number()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn times_are_spread_over_the_whole_range_and_stay_in_it() {
        let mut random = Random::seeded(7);
        let (from, to) = (Duration::from_secs(10), Duration::from_secs(20));
        let drawn: Vec<_> = (0..1000).map(|_| random.between(from, to)).collect();
        assert!(drawn.iter().all(|time| (from..=to).contains(time)));
        assert!(drawn.iter().any(|time| *time < Duration::from_secs(11)));
        assert!(drawn.iter().any(|time| *time > Duration::from_secs(19)));
    }
}
