//! Nonces that were used: each is good once.
//!
//! They are kept by the second of their request's time, and a second that has left the window is forgotten whole: a
//! request of that time is refused for its time. Only requests with a good signature are noted, so a stranger cannot
//! fill it. Full, it believes nobody until a second has passed: that is counted, and a sender may try again.
//!
//! The nonces of an earlier process are lost. So a request has to be signed in a later second than the one in which this
//! store was made: what was captured before a restart is refused after it. A sender signs every try anew, so the first
//! one a second later is good. (Seconds are the sender's: one whose clock is ahead is that much longer repeatable.)

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// At 20,000 signed requests a second and a window of 30 s either way there is room to spare.
pub(crate) const MAX_NONCES: usize = 2_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Never seen.
    Fresh,
    /// Seen before, or from another time.
    Stale,
    /// There is no room to remember it.
    Full,
}

#[derive(Debug)]
pub(crate) struct Replay {
    seconds: BTreeMap<u64, HashSet<u128>>,
    count: usize,
    window: u64,
    max: usize,
    /// When the store was made.
    since: u64,
}

impl Replay {
    pub(crate) fn new(window: Duration, max: usize, since: u64) -> Self {
        Self { seconds: BTreeMap::new(), count: 0, window: window.as_secs(), max, since }
    }

    /// Whether a request of this time may be looked at.
    pub(crate) fn is_timely(&self, time: u64, now: u64) -> bool {
        time > self.since && time.abs_diff(now) <= self.window
    }

    /// Notes a nonce, once.
    pub(crate) fn note(&mut self, time: u64, nonce: u128, now: u64) -> Freshness {
        while let Some(second) = self.seconds.first_entry()
            && second.key().saturating_add(self.window) < now
        {
            self.count -= second.remove().len();
        }
        if !self.is_timely(time, now) {
            return Freshness::Stale;
        }
        if self.count >= self.max {
            let seen = self.seconds.get(&time).is_some_and(|second| second.contains(&nonce));
            return if seen { Freshness::Stale } else { Freshness::Full };
        }
        if !self.seconds.entry(time).or_default().insert(nonce) {
            return Freshness::Stale;
        }
        self.count += 1;
        Freshness::Fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(30);

    #[test]
    fn a_nonce_is_good_once_as_long_as_its_time_is() {
        let mut replay = Replay::new(WINDOW, 10, 0);
        assert_eq!(replay.note(100, 7, 100), Freshness::Fresh);
        for now in [100, 101, 130] {
            assert_eq!(replay.note(100, 7, now), Freshness::Stale, "{now}");
        }
        assert_eq!(replay.note(100, 8, 130), Freshness::Fresh);
        // Now the nonce is forgotten, and the time does in its place.
        assert_eq!(replay.note(100, 7, 131), Freshness::Stale);
        assert_eq!((replay.count, replay.seconds.len()), (0, 0));
    }

    #[test]
    fn a_time_outside_the_window_is_refused_either_way() {
        let mut replay = Replay::new(WINDOW, 10, 0);
        for (time, expected) in
            [(69, Freshness::Stale), (70, Freshness::Fresh), (130, Freshness::Fresh), (131, Freshness::Stale)]
        {
            assert_eq!(replay.note(time, 7, 100), expected, "{time}");
        }
        assert!(!replay.is_timely(u64::MAX, 0) && !replay.is_timely(0, u64::MAX));
    }

    #[test]
    fn what_was_signed_before_the_store_was_made_or_in_that_second_is_refused() {
        let mut replay = Replay::new(WINDOW, 10, 100);
        for (time, expected) in [(99, Freshness::Stale), (100, Freshness::Stale), (101, Freshness::Fresh)] {
            assert_eq!(replay.note(time, 7, 101), expected, "{time}");
            assert_eq!(replay.is_timely(time, 101), expected == Freshness::Fresh, "{time}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_forgets_nothing() {
        let mut replay = Replay::new(WINDOW, 10, 0);
        assert_eq!(replay.note(100, 7, 100), Freshness::Fresh);
        assert_eq!(replay.note(100, 7, 80), Freshness::Stale);
    }

    #[test]
    fn full_it_believes_nobody_until_time_has_passed() {
        let mut replay = Replay::new(WINDOW, 2, 0);
        assert_eq!(replay.note(100, 1, 100), Freshness::Fresh);
        assert_eq!(replay.note(101, 2, 100), Freshness::Fresh);
        assert_eq!(replay.note(102, 3, 100), Freshness::Full);
        assert_eq!(replay.note(101, 2, 100), Freshness::Stale);
        assert_eq!(replay.note(102, 3, 131), Freshness::Fresh);
    }
}
