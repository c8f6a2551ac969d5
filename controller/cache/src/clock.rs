//! The time, as everything that decides by it reads it.
//!
//! Timers use Tokio's clock, which a test can pause. Deadlines that stand in objects (`shutdownTime`) are
//! wall-clock times, and they come from here.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Tells the wall-clock time.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still until it is moved, for tests and for the simulation.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock();
        *now += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}
