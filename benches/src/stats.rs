//! Medians and quartiles of rounds, percentiles of samples.

use std::collections::BTreeMap;
use std::fmt;

/// A value below which `percent` of the samples are: the sample itself, not an interpolation. `samples` is
/// put in order.
pub fn percentile(samples: &mut [f64], percent: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank within the slice")]
    // A hair less, since 99.9 of a hundred of 1000 is not quite 999 in binary.
    let rank = (percent / 100.0 * samples.len() as f64 - 1e-6).ceil() as usize;
    samples.get(rank.clamp(1, samples.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
}

/// The middle of some rounds and how far they scatter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The first quartile.
    pub low: f64,
    /// The third quartile.
    pub high: f64,
}

impl Spread {
    /// Of these rounds.
    pub fn of(rounds: &[f64]) -> Self {
        let mut rounds = rounds.to_vec();
        let [low, median, high] = [25.0, 50.0, 75.0].map(|percent| percentile(&mut rounds, percent));
        Self { median, low, high }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median >= 100.0 {
            0
        } else if self.median >= 10.0 {
            1
        } else {
            2
        };
        write!(f, "{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.low, self.high)
    }
}

/// Combines each round's value with the base's of the same round. A round that only one of them has is left
/// out.
pub fn paired(
    values: &BTreeMap<usize, f64>,
    base: &BTreeMap<usize, f64>,
    combine: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let both = values.iter().filter_map(|(round, &value)| base.get(round).map(|&base| combine(value, base)));
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample_and_not_the_greatest() {
        let mut samples: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut samples, 50.0), 500.0);
        assert_eq!(percentile(&mut samples, 99.0), 990.0);
        assert_eq!(percentile(&mut samples, 99.9), 999.0);
        assert_eq!(percentile(&mut samples, 100.0), 1000.0);
        assert_eq!(percentile(&mut [7.0], 99.0), 7.0);
        assert!(percentile(&mut [], 50.0).is_nan());
    }

    #[test]
    fn a_spread_has_its_median_between_its_quartiles() {
        let spread = Spread::of(&[5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 8.0, 7.0]);
        assert_eq!(spread, Spread { median: 4.0, low: 2.0, high: 6.0 });
    }

    #[test]
    fn rounds_are_paired_by_their_number_and_a_lonely_one_is_left_out() {
        let values = BTreeMap::from([(0, 8.0), (1, 30.0), (3, 5.0)]);
        let base = BTreeMap::from([(0, 10.0), (1, 20.0), (2, 7.0)]);
        assert_eq!(paired(&values, &base, |value, base| value / base), [0.8, 1.5]);
        assert_eq!(paired(&values, &base, |value, base| value - base), [-2.0, 10.0]);
    }

    #[test]
    fn a_ratio_of_pairs_does_not_see_a_drift_that_both_had() {
        // The machine halves its speed in the middle of the run; the contender is at nine tenths throughout.
        let base: BTreeMap<usize, f64> =
            (0..20).map(|round| (round, if round < 10 { 100.0 } else { 50.0 })).collect();
        let values = base.iter().map(|(&round, value)| (round, value * 0.9)).collect();
        let spread = Spread::of(&paired(&values, &base, |value, base| value / base));
        assert!((spread.median - 0.9).abs() < 1e-9 && spread.high - spread.low < 1e-9);
    }
}
