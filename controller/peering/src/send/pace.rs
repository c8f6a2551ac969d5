//! How long to wait for one peer.
//!
//! The wait begins at the minimum. After an answer it is four times the smoothed time that answers take,
//! within the minimum and the maximum. After a timeout it doubles, so a peer that has become slow has enough
//! time after a few tries.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct Pace {
    min: Duration,
    max: Duration,
    allowed: Duration,
    /// How long an answer takes, smoothed.
    usual: Option<Duration>,
}

impl Pace {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), allowed: min, usual: None }
    }

    /// How long the next answer may take.
    pub(super) fn allowed(&self) -> Duration {
        self.allowed
    }

    /// An answer took this long.
    pub(super) fn answered(&mut self, took: Duration) {
        let usual = self.usual.map_or(took, |usual| (usual * 7 + took) / 8);
        self.usual = Some(usual);
        self.allowed = (usual * 4).clamp(self.min, self.max);
    }

    /// There was no answer in time.
    pub(super) fn missed(&mut self) {
        self.allowed = (self.allowed * 2).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_peer_is_given_more_time_and_a_quick_one_the_least() {
        let ms = Duration::from_millis;
        let mut pace = Pace::new(ms(100), ms(5000));
        let mut waited = Vec::new();
        // Takes 700 ms.
        while pace.allowed() < ms(700) {
            waited.push(pace.allowed());
            pace.missed();
        }
        assert_eq!(waited, [ms(100), ms(200), ms(400)]);
        pace.answered(ms(700));
        assert_eq!(pace.allowed(), ms(2800));
        for _ in 0..100 {
            pace.answered(ms(1));
        }
        assert_eq!(pace.allowed(), ms(100));
        for _ in 0..100 {
            pace.missed();
        }
        assert_eq!(pace.allowed(), ms(5000));
        pace.answered(ms(10_000));
        assert_eq!(pace.allowed(), ms(5000));
    }
}
