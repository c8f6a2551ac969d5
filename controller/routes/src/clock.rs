//! Time, as tombstones see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where a table's time comes from: the system, or a test's hand.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(Instant),
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's monotonic clock.
    pub fn system() -> Self {
        Self(Source::System(Instant::now()))
    }

    /// A clock that stands still but for [`advance`](Self::advance).
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::default()))
    }

    /// Moves a manual clock and all its clones; the system's clock moves by itself.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(now) = &self.0 {
            now.fetch_add(nanos(by), Ordering::Relaxed);
        }
    }

    /// Nanoseconds since the clock was made.
    pub(crate) fn now(&self) -> u64 {
        match &self.0 {
            Source::System(start) => nanos(start.elapsed()),
            Source::Manual(now) => now.load(Ordering::Relaxed),
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
