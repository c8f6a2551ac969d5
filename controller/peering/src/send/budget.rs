//! How often one peer is tried again: [`PER_SECOND`] times a second, and [`PER_TRY`] times for each first
//! try. So a peer that is down does not get ten tries for every message there is.
//!
//! This is a token bucket, and tower's `TpsBudget` is not. That one counts over a sliding window: after a
//! burst that has spent it, there is no retry until the burst leaves the window, ten seconds later for a
//! burst of [`MAX`]. Here a retry is earned every 100 ms, so a peer that is back after a second is reached
//! after a second.

use tokio::time::Instant;

const PER_SECOND: f64 = 10.0;
const PER_TRY: f64 = 0.2;
const MAX: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Budget {
    left: f64,
    since: Instant,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: MAX, since: now }
    }

    /// A first try earns part of a retry.
    pub(super) fn first(&mut self, now: Instant) {
        self.earn(now, PER_TRY);
    }

    /// Spends one retry, if there is one.
    pub(super) fn again(&mut self, now: Instant) -> bool {
        self.earn(now, 0.0);
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }

    fn earn(&mut self, now: Instant, more: f64) {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.since = now;
        self.left = (self.left + more + passed * PER_SECOND).min(MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn tries_are_spent_and_earned_again_by_time_and_by_first_tries() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        let spend = |budget: &mut Budget, now| (0..1000).take_while(|_| budget.again(now)).count();
        assert_eq!(spend(&mut budget, now), 100);
        assert_eq!(spend(&mut budget, now), 0);
        for _ in 0..50 {
            budget.first(now);
        }
        assert!((9..=10).contains(&spend(&mut budget, now)));
        let later = now + Duration::from_secs(3);
        assert!((29..=30).contains(&spend(&mut budget, later)));
        let much_later = later + Duration::from_secs(3600);
        assert_eq!(spend(&mut budget, much_later), 100);
    }
}
