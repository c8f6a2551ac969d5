//! The one way to wait: for a condition, with a deadline.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// How long a condition may take before the scenario fails. Generous: a loaded two-core machine must not fail
/// a good build.
pub const DEADLINE: Duration = Duration::from_secs(20);

const TICK: Duration = Duration::from_millis(10);

/// Asks `condition` until it answers `Some`.
///
/// # Panics
/// When `deadline` has passed, with `what` was awaited.
pub async fn eventually<T>(what: &str, deadline: Duration, condition: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_every(TICK, what, deadline, condition).await
}

/// The same for a condition that is expensive to look at: it is asked once in every `pace`.
///
/// # Panics
/// When `deadline` has passed, with `what` was awaited.
pub async fn eventually_every<T>(
    pace: Duration,
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> T {
    let mut tries = Tries::every(pace, what, deadline);
    loop {
        tries.next().await;
        if let Some(value) = condition().await {
            return value;
        }
    }
}

/// The same for a loop of the caller's own: where the future has to be `Send`, which one with an async
/// closure in it is not.
///
/// The first try is at once, and there is always one after the deadline.
pub(crate) struct Tries<'a> {
    what: &'a str,
    deadline: Duration,
    end: Instant,
    over: bool,
    ticks: Interval,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(what: &'a str, deadline: Duration) -> Self {
        Self::every(TICK, what, deadline)
    }

    fn every(pace: Duration, what: &'a str, deadline: Duration) -> Self {
        let mut ticks = interval(pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { what, deadline, end: Instant::now() + deadline, over: false, ticks }
    }

    /// Waits for the time of the next try.
    pub(crate) async fn next(&mut self) {
        assert!(!self.over, "not within {:?}: {}", self.deadline, self.what);
        self.ticks.tick().await;
        self.over = Instant::now() >= self.end;
    }
}
