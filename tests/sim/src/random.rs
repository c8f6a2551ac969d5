//! Where every choice of a run comes from: one seed, one sequence.

/// SplitMix64. Equal seeds give equal sequences on every machine and in every version of every dependency.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence of its own for one part of the run: what that part draws does not shift what others draw.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "the sequence does not end, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `end`.
    ///
    /// # Panics
    /// If `end` is zero.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "there is nothing to choose from");
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    /// True `per_mille` times of a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }

    /// One of these.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of these, each as often as its weight says; `None` if no weight is above zero.
    pub fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> Option<T> {
        let total: u64 = from.iter().map(|(weight, _)| weight).sum();
        if total == 0 {
            return None;
        }
        let mut left = self.next() % total;
        for (weight, item) in from {
            if left < *weight {
                return Some(*item);
            }
            left -= weight;
        }
        None
    }
}

/// The output function of SplitMix64, for numbers that must differ but be the same in each run.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// The first outputs of SplitMix64 for seed 1234567, as its author published them.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_choice_without_weight_is_never_made() {
        let mut random = Random::new(7);
        for _ in 0..100 {
            assert_eq!(random.weighted(&[(0, "never"), (3, "always"), (0, "nor this")]), Some("always"));
        }
        assert_eq!(random.weighted(&[(0, "never")]), None);
    }
}
