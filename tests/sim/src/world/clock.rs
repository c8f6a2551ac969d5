//! One time for everything: the wall clock goes with Tokio's paused one.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The wall clock of a run. It moves only when Tokio's clock moves.
#[derive(Clone, Copy, Debug)]
pub struct SimClock {
    start: Timestamp,
    origin: Instant,
}

impl SimClock {
    /// A clock that shows `start` now.
    pub fn new(start: Timestamp) -> Self {
        Self { start, origin: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.origin.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Seconds since the run began, for its trace.
    pub(super) fn passed(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }
}
