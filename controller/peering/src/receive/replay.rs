//! The nonces of signed requests: each is good once.
//!
//! Nonces are kept by the second in which their request was signed. A second that has left the window is
//! forgotten, because its requests are refused for their time. Only requests with a good signature are noted,
//! so nobody without a key can fill the store. A full store accepts nothing until a second has left the
//! window; the sender may retry.
//!
//! A process does not have the nonces of an earlier one. So a request has to be signed in a later second than
//! the one in which this store was made: a request that was captured before a restart is refused after it. A
//! sender signs every try anew, so its first try a second later is good. The seconds are the sender's: if its
//! clock is ahead, a captured request stays good that much longer.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::auth::Denied;

/// At 20,000 signed requests a second and a window of 30 s either way there is room to spare.
pub(crate) const MAX_NONCES: usize = 2_000_000;

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

    /// Whether the time of a request is within the window.
    pub(crate) fn is_timely(&self, time: u64, now: u64) -> bool {
        time > self.since && time.abs_diff(now) <= self.window
    }

    /// Notes a nonce. Denied if it was noted before or is of another time, and unchecked if the store is
    /// full.
    pub(crate) fn note(&mut self, time: u64, nonce: u128, now: u64) -> Result<(), Denied> {
        while let Some(second) = self.seconds.first_entry()
            && second.key().saturating_add(self.window) < now
        {
            self.count -= second.remove().len();
        }
        if !self.is_timely(time, now) {
            return Err(Denied::Unauthorized);
        }
        if self.count >= self.max {
            let seen = self.seconds.get(&time).is_some_and(|second| second.contains(&nonce));
            return Err(if seen { Denied::Unauthorized } else { Denied::Unchecked });
        }
        if !self.seconds.entry(time).or_default().insert(nonce) {
            return Err(Denied::Unauthorized);
        }
        self.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(30);

    #[test]
    fn a_nonce_is_good_once_as_long_as_its_time_is() {
        let mut replay = Replay::new(WINDOW, 10, 0);
        assert_eq!(replay.note(100, 7, 100), Ok(()));
        for now in [100, 101, 130] {
            assert_eq!(replay.note(100, 7, now), Err(Denied::Unauthorized), "{now}");
        }
        assert_eq!(replay.note(100, 8, 130), Ok(()));
        // Now the nonce is forgotten, and the time does in its place.
        assert_eq!(replay.note(100, 7, 131), Err(Denied::Unauthorized));
        assert_eq!((replay.count, replay.seconds.len()), (0, 0));
    }

    #[test]
    fn a_time_outside_the_window_is_refused_either_way() {
        let mut replay = Replay::new(WINDOW, 10, 0);
        for (time, expected) in
            [(69, Err(Denied::Unauthorized)), (70, Ok(())), (130, Ok(())), (131, Err(Denied::Unauthorized))]
        {
            assert_eq!(replay.note(time, 7, 100), expected, "{time}");
        }
        assert!(!replay.is_timely(u64::MAX, 0) && !replay.is_timely(0, u64::MAX));
    }

    #[test]
    fn what_was_signed_before_the_store_was_made_or_in_that_second_is_refused() {
        let mut replay = Replay::new(WINDOW, 10, 100);
        for (time, expected) in
            [(99, Err(Denied::Unauthorized)), (100, Err(Denied::Unauthorized)), (101, Ok(()))]
        {
            assert_eq!(replay.note(time, 7, 101), expected, "{time}");
            assert_eq!(replay.is_timely(time, 101), expected.is_ok(), "{time}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_forgets_nothing() {
        let mut replay = Replay::new(WINDOW, 10, 0);
        assert_eq!(replay.note(100, 7, 100), Ok(()));
        assert_eq!(replay.note(100, 7, 80), Err(Denied::Unauthorized));
    }

    #[test]
    fn full_it_believes_nobody_until_time_has_passed() {
        let mut replay = Replay::new(WINDOW, 2, 0);
        assert_eq!(replay.note(100, 1, 100), Ok(()));
        assert_eq!(replay.note(101, 2, 100), Ok(()));
        assert_eq!(replay.note(102, 3, 100), Err(Denied::Unchecked));
        assert_eq!(replay.note(101, 2, 100), Err(Denied::Unauthorized));
        assert_eq!(replay.note(102, 3, 131), Ok(()));
    }
}
