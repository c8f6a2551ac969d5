//! An instant, and until when what was said about it stays true.
//!
//! Every comparison of a decision with the time is made here, and notes when its answer changes. Before the
//! earliest of those times all answers are the same, and so is the decision: it is when to look again.

use jiff::{SignedDuration, Timestamp};

/// An instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// The instant.
    pub(super) at: Timestamp,
    /// The earliest time at which an answer changes; none if all stay for ever.
    pub(super) until: Option<Timestamp>,
}

impl Now {
    pub(super) fn new(at: Timestamp) -> Self {
        Self { at, until: None }
    }

    /// Whether `since` is at least `period` ago.
    pub(super) fn has_lasted(&mut self, since: Timestamp, period: SignedDuration) -> bool {
        match since.checked_add(period) {
            Ok(end) => !self.is_before(end),
            Err(_) => false,
        }
    }

    /// Whether something that happened at `time` is less than `period` ago. A time ahead of this clock counts
    /// as long as it is at most `period` ahead: one that is further was never true, and must not hold a pool
    /// for ever.
    pub(super) fn is_within(&mut self, time: Timestamp, period: SignedDuration) -> bool {
        if period <= SignedDuration::ZERO {
            return false;
        }
        let has_begun = match time.checked_sub(period) {
            Ok(begin) => !self.is_before(begin),
            Err(_) => true,
        };
        has_begun
            && match time.checked_add(period) {
                Ok(end) => self.is_before(end),
                Err(_) => true,
            }
    }

    fn is_before(&mut self, time: Timestamp) -> bool {
        let is_before = self.at < time;
        if is_before {
            self.until = Some(self.until.map_or(time, |until| until.min(time)));
        }
        is_before
    }
}

/// Seconds of a policy. Fewer than 0 are 0.
pub(super) fn seconds(seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds.max(0)))
}

/// `period` after `time`, and at least a second: who has just written must not look again before others can
/// have seen it.
pub(super) fn later(time: Timestamp, period: SignedDuration) -> Option<Timestamp> {
    time.checked_add(period.max(SignedDuration::from_secs(1))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_period_ends_at_its_last_instant_and_says_so() {
        let mut now = Now::new(at(100));
        assert!(now.has_lasted(at(70), seconds(30)) && now.until.is_none());
        assert!(!now.has_lasted(at(71), seconds(30)));
        assert_eq!(now.until, Some(at(101)));
        assert!(now.is_within(at(80), seconds(30)));
        assert_eq!(now.until, Some(at(101)), "the earlier one stays");
        assert!(!now.is_within(at(70), seconds(30)));
        assert!(!now.is_within(at(100), seconds(0)));
    }

    #[test]
    fn a_time_far_ahead_holds_nothing() {
        let mut now = Now::new(at(100));
        assert!(now.is_within(at(130), seconds(30)));
        assert!(!now.is_within(at(131), seconds(30)));
        assert_eq!(now.until, Some(at(101)));
        assert!(!now.is_within(Timestamp::MAX, seconds(i32::MAX)));
        assert!(!now.has_lasted(Timestamp::MAX, seconds(i32::MAX)));
        assert!(!now.is_within(Timestamp::MIN, seconds(30)));
        assert!(now.has_lasted(Timestamp::MIN, seconds(-1)));
    }
}
