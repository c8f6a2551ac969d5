//! When each sandbox was last used through this gateway: what the push port's `GET /activity` answers.
//!
//! A sandbox is in use while a request of it is in flight, a WebSocket too, however silent it is. So only the
//! end of a request is noted, in its [`Usage`](super::usage::Usage): one store, and only if none has ended in
//! the same second. A request that was refused or held in vain is no activity.
//!
//! # The clock
//! Workers call no clock. They read a number of seconds that the main thread's timer raises every second
//! ([`tick`]), from the monotonic clock, so that a step of the wall clock makes nobody look idle. The number
//! is behind by a second at most, or by as long as the main thread is busy, so a second that was noted counts
//! by its end. The answer turns it into a time by the wall clock as it is then.
//!
//! # What is missed
//! Nothing that happened since the process began, with these exceptions:
//!
//! * The memory of sandboxes that have no host any more is bounded ([`Usages`]). What is forgotten of one
//!   that may live moves the time from which the answer is complete.
//! * A request to an `ORIGINAL_DST` cluster is not counted. Once there was one, there is no answer.
//!
//! An identity that dies is forgotten at once, or when its last request has ended. An object that gets
//! another ID is the same identity and is not dead; [`is_dead`] tells the two apart.
//!
//! [`Usages`]: super::usage::Usages

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sandgate_routes::{Route, RouteReader};
use sandgate_watch::{Active, Activity, Observed, Uncounted};

use super::process::Process;
use super::usage::Used;

/// A second of a [`Clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Second(pub(crate) u32);

impl Second {
    /// Before all others.
    pub(crate) const NEVER: Self = Self(0);
    const FIRST: Self = Self(1);

    fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    fn after(since: Duration) -> Self {
        let seconds = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
        Self(Self::FIRST.0.saturating_add(seconds))
    }

    /// The seconds from this one to a later one.
    fn until(self, later: Self) -> u64 {
        u64::from(later.0.saturating_sub(self.0))
    }
}

/// Counts the seconds since it was made. Whoever reads it calls no clock of the system.
#[derive(Debug)]
pub(crate) struct Clock {
    made: Instant,
    /// The same in seconds since 1970, by the wall clock of that moment.
    start: u64,
    second: AtomicU32,
}

impl Default for Clock {
    fn default() -> Self {
        Self { made: Instant::now(), start: unix_now(), second: AtomicU32::new(Second::FIRST.0) }
    }
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Second {
        Second(self.second.load(Ordering::Relaxed))
    }

    /// Brings it up to date.
    fn tick(&self) {
        self.set(Second::after(self.made.elapsed()));
    }

    pub(super) fn set(&self, second: Second) {
        self.second.store(second.0, Ordering::Relaxed);
    }
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A second has passed on the main thread.
pub(crate) fn tick() {
    Process::current().usages.clock().tick();
}

/// What this process remembers.
pub(crate) fn source() -> Arc<dyn Activity> {
    Arc::<Process>::clone(Process::current())
}

/// Whether requests went to sandboxes without being counted.
#[derive(Debug, Default)]
pub(crate) struct Unseen(AtomicBool);

impl Unseen {
    /// A request goes to a sandbox and is not counted.
    pub(crate) fn note(&self) {
        // All but the first find it set.
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// A request goes to a sandbox and is not counted.
pub(crate) fn note_uncounted() {
    Process::current().unseen.note();
}

/// Whether an ID that is not `before`'s any more has lost it because its identity is dead. An identity that
/// moves to another ID lives, and so does one whose ID is disputed or has another owner. Called by the writer
/// while it makes the change, so a move shows as one.
pub(crate) fn is_dead(before: &Route, after: Option<&Route>, table: &RouteReader) -> bool {
    if let Some(after) = after {
        return after.identity() != before.identity() && after.key() == before.key();
    }
    let shown = table.find_consistent(|table| table.get(before.id()).map(|_| ()));
    shown == Ok(None)
}

impl Process {
    fn snapshot(&self) -> Observed {
        let clock = self.usages.clock();
        // Before the usages are read, so that nothing in the answer is later.
        let (second, now) = (clock.now(), unix_now());
        let at = |then: Second| now.saturating_sub(then.until(second));
        let (used, forgotten) = self.usages.used();
        // A second counts by its end: a sandbox must not look idle for longer than it was.
        let last = |used: Used| used.last_end.filter(|_| used.open == 0).map_or(now, |end| at(end.next()));
        let sandbox = |used: Used| Active { identity: used.identity, last: last(used), open: used.open };
        Observed {
            start: clock.start,
            // The second that was forgotten is not complete.
            complete: at(forgotten.next()),
            now,
            sandboxes: used.into_iter().map(sandbox).collect(),
        }
    }
}

impl Activity for Process {
    fn observe(&self) -> Result<Observed, Uncounted> {
        // Looked at last: what went by uncounted while the usages were read is noted by then.
        let observed = self.snapshot();
        if self.unseen.0.load(Ordering::Relaxed) { Err(Uncounted) } else { Ok(observed) }
    }

    fn id_of(&self, identity: u64) -> Option<Arc<str>> {
        self.usages.id_of(identity)
    }
}
