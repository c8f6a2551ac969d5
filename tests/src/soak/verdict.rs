//! Whether something grows.
//!
//! The samples of the time that is judged are put into [`BLOCKS`] blocks of equal length; a block's value is
//! the median of its samples, so that the ups and downs of the churn and their correlation from one sample to
//! the next do not count as evidence. The slope is Theil and Sen's: the median of the slopes between every
//! two blocks, which a few wild blocks do not move. Its interval of 95 % is Sen's, from Kendall's variance.
//!
//! A column grows when both hold: its growth over the time that is judged is more than its tolerance, and the
//! lower end of the interval is above zero, so that noise alone is not called growth. A leak below the
//! tolerance is not seen: the tolerance over the number of lives in a run is the smallest leak a life that
//! the run can show.

use std::fmt::Write;

use super::sample::{Column, Sample};

/// Blocks that the judged time is put into.
const BLOCKS: usize = 24;
/// Fewer than this many blocks say nothing.
const LEAST: usize = 8;
/// Two-sided 95 %.
const NORMAL_QUANTILE: f64 = 1.96;

/// How a series moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The median of the first quarter of the blocks.
    pub first: f64,
    /// The median of the last quarter.
    pub last: f64,
    /// The growth over the whole series: the lower end of its interval, the estimate, the upper end.
    pub growth: [f64; 3],
    /// The length of the series, in seconds.
    pub seconds: f64,
}

/// The trend of a series of (seconds, value), or `None` where it is too short.
pub fn trend(series: &[(f64, f64)]) -> Option<Trend> {
    let count = BLOCKS.min(series.len());
    if count < LEAST {
        return None;
    }
    let blocks: Vec<(f64, f64)> = (0..count)
        .map(|block| &series[block * series.len() / count..(block + 1) * series.len() / count])
        .map(|block| (median(block.iter().map(|p| p.0)), median(block.iter().map(|p| p.1))))
        .collect();
    let mut slopes: Vec<f64> = Vec::with_capacity(count * (count - 1) / 2);
    for (at, (time, value)) in blocks.iter().enumerate() {
        slopes.extend(blocks[at + 1..].iter().map(|(later, other)| (other - value) / (later - time)));
    }
    slopes.sort_by(f64::total_cmp);
    let blocks_count = count as f64;
    let deviation = (blocks_count * (blocks_count - 1.0) * (2.0 * blocks_count + 5.0) / 18.0).sqrt();
    let half = NORMAL_QUANTILE * deviation / 2.0;
    let middle = slopes.len() as f64 / 2.0;
    let seconds = series.last()?.0 - series.first()?.0;
    let growth =
        [middle - half - 1.0, middle - 0.5, middle + half].map(|rank| at_rank(&slopes, rank) * seconds);
    let quarter = count / 4;
    Some(Trend {
        first: median(blocks[..quarter].iter().map(|block| block.1)),
        last: median(blocks[count - quarter..].iter().map(|block| block.1)),
        growth,
        seconds,
    })
}

/// The value at a rank that may lie between two, or outside.
fn at_rank(sorted: &[f64], rank: f64) -> f64 {
    let last = sorted.len() - 1;
    let rank = rank.clamp(0.0, last as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank within the slice")]
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    f64::midpoint(sorted[low], sorted[high])
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    at_rank(&values, (values.len() - 1) as f64 / 2.0)
}

/// A column and what became of it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The column's name.
    pub name: &'static str,
    /// How it moved.
    pub trend: Trend,
    /// What it may grow in that time; `None`: it is not judged.
    pub tolerance: Option<f64>,
}

impl Judged {
    /// Whether it grows.
    pub fn grows(&self) -> bool {
        let [low, middle, _] = self.trend.growth;
        // A value that is missing is not a flat one.
        self.tolerance.is_some_and(|tolerance| middle.is_nan() || (low > 0.0 && middle > tolerance))
    }
}

/// Judges every column of the samples, or says nothing of too few.
pub fn judge(samples: &[Sample]) -> Option<Vec<Judged>> {
    let judged = |(at, column): (usize, &'static Column)| {
        let series: Vec<(f64, f64)> =
            samples.iter().map(|sample| (sample.at.as_secs_f64(), sample.values[at])).collect();
        let trend = trend(&series)?;
        let tolerance =
            column.tolerance.map(|tolerance| tolerance.absolute + tolerance.relative * trend.first);
        Some(Judged { name: column.name, trend, tolerance })
    };
    let columns = samples.first()?.columns;
    columns.iter().enumerate().map(judged).collect()
}

/// The verdict as a table for people.
pub fn table(judged: &[Judged]) -> String {
    let mut text = format!(
        "{:<20} {:>10} {:>10} {:>10} {:>24} {:>10}  verdict\n",
        "", "first", "last", "growth", "95 % of it", "may grow"
    );
    for one in judged {
        let Trend { first, last, growth: [low, middle, high], .. } = one.trend;
        let (tolerance, verdict) = match one.tolerance {
            None => (String::new(), ""),
            Some(tolerance) => (format!("{tolerance:.2}"), if one.grows() { "GROWS" } else { "flat" }),
        };
        let interval = format!("{low:.2} to {high:.2}");
        // Writing to a text does not fail.
        let _ok = writeln!(
            text,
            "{:<20} {first:>10.2} {last:>10.2} {middle:>10.2} {interval:>24} {tolerance:>10}  {verdict}",
            one.name
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise that is the same each time, between -1 and 1.
    fn noise(seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % 2001) as f64 / 1000.0 - 1.0
        })
    }

    fn series(value: impl Fn(f64, f64) -> f64) -> Vec<(f64, f64)> {
        let at = |(n, noise): (usize, f64)| (n as f64 * 5.0, value(n as f64 / 600.0, noise));
        noise(7).take(600).enumerate().map(at).collect()
    }

    fn growth(value: impl Fn(f64, f64) -> f64) -> [f64; 3] {
        trend(&series(value)).expect("long enough").growth
    }

    fn grows(value: impl Fn(f64, f64) -> f64) -> bool {
        let trend = trend(&series(value)).expect("long enough");
        Judged { name: "a column", trend, tolerance: Some(2.0) }.grows()
    }

    #[test]
    fn noise_around_a_level_does_not_grow() {
        for (level, size) in [(0.0, 1.0), (100.0, 5.0), (100.0, 50.0)] {
            assert!(!grows(|_, noise| level + size * noise), "{size} around {level}");
        }
    }

    #[test]
    fn a_leak_is_found_in_noise_that_is_larger_and_measured_right() {
        let leaks = |part: f64, noise: f64| 100.0 + 4.0 * part + 5.0 * noise;
        assert!(grows(leaks));
        let [low, middle, high] = growth(leaks);
        assert!(low > 1.5 && (middle - 4.0).abs() < 1.5 && high < 6.5, "{low} {middle} {high}");
    }

    #[test]
    fn a_leak_below_the_tolerance_is_not_called_one() {
        assert!(!grows(|part, noise| 100.0 + part + noise / 10.0));
    }

    #[test]
    fn what_comes_and_goes_does_not_grow() {
        assert!(!grows(|part, noise| 100.0 + 20.0 * (part * 40.0).sin() + noise));
    }

    #[test]
    fn a_few_wild_samples_are_no_growth() {
        assert!(!grows(|part, noise| if part > 0.97 { 1000.0 } else { 50.0 + noise }));
    }

    #[test]
    fn a_step_in_the_middle_is_growth() {
        assert!(grows(|part, noise| if part > 0.5 { 60.0 } else { 50.0 } + noise));
    }

    #[test]
    fn what_is_always_the_same_has_no_growth_at_all() {
        assert_eq!(growth(|_, _| 17.0), [0.0; 3]);
    }

    #[test]
    fn too_few_samples_are_not_judged_and_a_missing_value_is_not_called_flat() {
        assert_eq!(trend(&series(|_, _| 1.0)[..7]), None);
        let trend = trend(&series(|_, _| f64::NAN)).expect("long enough");
        assert!(Judged { name: "missing", trend, tolerance: Some(1.0) }.grows());
        assert!(!Judged { name: "missing", trend, tolerance: None }.grows());
    }
}
