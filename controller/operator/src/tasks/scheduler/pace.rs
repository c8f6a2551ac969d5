//! How often executors are asked, and how soon a task is tried again.

use jiff::{SignedDuration, Timestamp};

/// A task that runs is asked about so often.
const PERIOD: SignedDuration = SignedDuration::from_secs(3);
/// A pod that keeps a task that has ended is asked so often. Nothing depends on the answers.
const SLOW: SignedDuration = SignedDuration::from_secs(30);
/// The first repetition: short tasks end at once, and so do stops.
const FIRST: SignedDuration = SignedDuration::from_millis(500);
/// An executor that does not answer is asked so often at last.
const UNREACHABLE: SignedDuration = SignedDuration::from_secs(10);
/// From this failure in a row on, which is after some twenty seconds.
const GIVEN_UP: u32 = 10;
/// The longest wait of a task that is lost, or refused, again and again.
const LONGEST: SignedDuration = SignedDuration::from_secs(300);

/// When everything has arrived that another process may have sent before `now`: it waits no longer than this
/// for an answer.
pub(super) fn settled(now: Timestamp) -> Timestamp {
    now + PERIOD
}

/// From one question to the next: 0.5 s, 1 s, 2 s, 3 s, 3 s, …
pub(super) fn next(now: Timestamp, asked: u32) -> Timestamp {
    now + FIRST.saturating_mul(1 << asked.saturating_sub(1).min(4)).min(PERIOD)
}

/// From a question without an answer to the next one.
pub(super) fn after_failure(now: Timestamp, failures: u32) -> Timestamp {
    if failures >= GIVEN_UP { now + UNREACHABLE } else { next(now, failures) }
}

/// From one question to the next where nothing is expected to change.
pub(super) fn slow(now: Timestamp) -> Timestamp {
    now + SLOW
}

/// When a task that was lost, or refused, so often may be given out again: at once after the first time, then
/// after 1 s, 2 s, 4 s and so on.
pub(super) fn retry(now: Timestamp, times: u32) -> Timestamp {
    match times {
        0 | 1 => now,
        _ => now + SignedDuration::from_secs(1 << (times - 2).min(16)).min(LONGEST),
    }
}
