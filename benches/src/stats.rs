//! Medians and quartiles of rounds, percentiles of samples.

use std::fmt;

/// A value below which `percent` of the samples are: the sample itself, not an interpolation. `samples` is put in order.
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
}
