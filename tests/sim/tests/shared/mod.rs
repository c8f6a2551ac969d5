//! What the simulations of the operator's controllers have in common: how a run of a reconciler is told of
//! and cut off, and how the program's view is fed by the world's watches.

mod crew;
pub(crate) mod cut;
mod feeds;
mod told;

use std::time::Duration;

use sandgate_operator::Clock;
use sandgate_sim::SimClock;

pub(crate) use crew::Crew;
pub(crate) use feeds::{Feeds, scope};

/// The rare look would repair what an event should have brought: no run is so long.
const RARELY: Duration = Duration::from_secs(365 * 24 * 3600);

/// The world's clock, for the program.
pub(crate) struct WorldClock(pub(crate) SimClock);

impl Clock for WorldClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }
}

/// The number in this variable, if it is set.
pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// One thread, and a clock that stands still while any task can run.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("a runtime")
}
