//! When events come.

use std::time::{Duration, Instant};

/// So many a second, whatever the last one took.
pub(crate) struct Pace {
    rate: u32,
    began: Instant,
    events: u32,
}

impl Pace {
    /// Begins now.
    pub(crate) fn of(rate: u32) -> Self {
        Self { rate, began: Instant::now(), events: 0 }
    }

    /// Blocks until the next event is due.
    pub(crate) fn wait(&mut self) {
        let due = self.began + Duration::from_secs(1) / self.rate * self.events;
        self.events += 1;
        #[expect(clippy::disallowed_methods, reason = "a pace is time, and this is a thread of its own")]
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}
