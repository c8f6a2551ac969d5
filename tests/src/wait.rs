//! The one way to wait: for a condition, with a deadline.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// How long a condition may take before the scenario fails. Generous: a loaded two-core machine must not fail
/// a good build.
pub const DEADLINE: Duration = Duration::from_secs(20);

const TICK: Duration = Duration::from_millis(10);

/// Asks `condition` until it answers `Some`.
///
/// # Panics
/// When `deadline` has passed, with `what` was awaited.
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + deadline;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < end, "not within {deadline:?}: {what}");
    }
}
