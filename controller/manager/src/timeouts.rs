//! When a sandbox ends or pauses by itself: the deadlines in its spec, as pure functions.
//!
//! - A sandbox that ends at its timeout has `shutdownTime`.
//! - A sandbox that pauses at its timeout has `pauseTime`, and `shutdownTime` a retention later.
//! - A sandbox that never ends has neither.
//! - A pause puts both deadlines a retention ahead: a paused sandbox is kept so long. One that never ends is
//!   kept for ever.
//!
//! Times in objects have whole seconds.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::openkruise::names::ANNOTATION_RESERVE_PAUSED;
use sandgate_objects::openkruise::resources::{SandboxFacts, Time};
use serde_json::{Value, json};

use crate::FOREVER;

/// The word for a retention without end.
const FOREVER_WORD: &str = "forever";

/// The deadlines of a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    /// When it pauses.
    pub(crate) pause: Option<Timestamp>,
    /// When it ends.
    pub(crate) shutdown: Option<Timestamp>,
}

/// When a new deadline is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Where it is another one.
    Always,
    /// Where it is later. A sandbox that never ends stays so.
    ExtendOnly,
}

impl Deadlines {
    /// Those of a sandbox.
    pub(crate) fn of(sandbox: &SandboxFacts) -> Self {
        Self { pause: sandbox.pause_time, shutdown: sandbox.shutdown_time }
    }

    /// Those of a sandbox that runs for so long from now; none is for ever.
    pub(crate) fn running_for(
        timeout: Option<Duration>,
        auto_pause: bool,
        retention: Duration,
        now: Timestamp,
    ) -> Self {
        let Some(timeout) = timeout else { return Self::default() };
        let end = after(now, timeout);
        if auto_pause {
            Self { pause: Some(end), shutdown: Some(after(end, retention)) }
        } else {
            Self { pause: None, shutdown: Some(end) }
        }
    }

    /// Those of a sandbox with these deadlines that is paused now and kept for so long.
    pub(crate) fn paused(self, retention: Duration, now: Timestamp) -> Self {
        if self == Self::default() {
            return self;
        }
        let until = after(now, retention);
        Self { pause: self.pause.map(|_| until), shutdown: Some(until) }
    }

    /// Those of a paused sandbox with these deadlines that is resumed now. The timeout is at least `floor`;
    /// none is the floor. A sandbox that never ends stays so, unless it is asked to pause at a timeout.
    pub(crate) fn resumed(
        self,
        timeout: Option<Duration>,
        auto_pause: Option<bool>,
        retention: Duration,
        floor: Duration,
        now: Timestamp,
    ) -> Self {
        let gets_timeout = timeout.is_some() && auto_pause.is_some();
        if self == Self::default() && !gets_timeout {
            return self;
        }
        let timeout = timeout.unwrap_or(floor).max(floor);
        Self::running_for(Some(timeout), auto_pause.unwrap_or(self.pause.is_some()), retention, now)
    }

    /// Those of a running sandbox with these deadlines that lives for so long from now; none if nothing is
    /// to be written.
    pub(crate) fn moved(
        self,
        timeout: Duration,
        policy: Policy,
        retention: Duration,
        now: Timestamp,
    ) -> Option<Self> {
        let wanted = Self::running_for(Some(timeout), self.pause.is_some(), retention, now);
        match policy {
            Policy::Always => (wanted.in_whole_seconds() != self.in_whole_seconds()).then_some(wanted),
            Policy::ExtendOnly => {
                let (has, wants) = (self.end()?, wanted.end()?);
                (wants.as_second() > has.as_second()).then_some(wanted)
            }
        }
    }

    /// When it pauses, or else ends.
    pub(crate) fn end(self) -> Option<Timestamp> {
        self.pause.or(self.shutdown)
    }

    /// The fields of the spec. What is missing is removed.
    pub(crate) fn spec(self) -> Value {
        let Self { pause, shutdown } = self.in_whole_seconds();
        json!({"pauseTime": pause.map(Time), "shutdownTime": shutdown.map(Time)})
    }

    fn in_whole_seconds(self) -> Self {
        Self { pause: self.pause.map(whole_seconds), shutdown: self.shutdown.map(whole_seconds) }
    }
}

/// How long a paused sandbox is kept: what its annotation says, or else for ever. An annotation that cannot
/// be read keeps it: nothing is deleted because of a typing error.
pub(crate) fn retention(sandbox: &SandboxFacts) -> Duration {
    sandbox.annotations.get(ANNOTATION_RESERVE_PAUSED).and_then(parse).unwrap_or(FOREVER)
}

/// A retention as the annotation has it.
pub(crate) fn write_retention(retention: Duration) -> String {
    if retention >= FOREVER { FOREVER_WORD.to_owned() } else { format!("{}s", retention.as_secs()) }
}

/// A duration as Go writes it (`1h30m`), a number of seconds, or `forever`.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text == FOREVER_WORD {
        return Some(FOREVER);
    }
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let parsed = text.parse::<SignedDuration>().ok()?;
    Duration::try_from(parsed).ok().map(|parsed| parsed.min(FOREVER))
}

/// So long after a time, as far as there are times.
pub(crate) fn after(at: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    at.checked_add(duration).unwrap_or(Timestamp::MAX)
}

fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
