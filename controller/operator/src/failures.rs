//! How long a set or a pool waits before it replaces children that fail one after the other. (What is said of
//! sandboxes and their set is true of pods and their pool.)
//!
//! A template that always fails would make and lose sandboxes as fast as the cluster can. The first failure
//! is replaced at once: a node was lost, or somebody deleted a pod. A replacement that fails too is replaced
//! after a second, the next after two, and so on up to [`LONGEST`]. Sandboxes that were made before the last
//! failure do not count: a node that takes thirty of them along is one failure. One that has lived for
//! [`STEADY`] says that its template works, so its end starts the count again: nodes that are lost a minute
//! apart are replaced at once, each of them.
//!
//! This is in memory alone. After a restart the set tries once at once.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::conditions::whole_seconds;

/// The longest wait.
pub(crate) const LONGEST: Duration = Duration::from_secs(300);

/// A set that has not failed for so long, and for twice its last wait, starts again.
const FORGIVEN: Duration = Duration::from_secs(600);

/// A sandbox that has lived for so long, and for twice the set's last wait, has not failed by its template.
const STEADY: Duration = Duration::from_secs(30);

/// The failures of one set in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    revision: Arc<str>,
    count: u32,
    last: Option<Timestamp>,
    /// Why the API server refused the last one, if it was not made at all.
    refusal: Option<Arc<str>>,
}

impl Failures {
    /// How many there were in a row.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Why the API server refused the last sandbox. None if it was made and has failed.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// The API server refused a sandbox of this revision.
    #[must_use]
    pub(crate) fn and_refused(self, revision: &Arc<str>, message: &str, now: Timestamp) -> Self {
        Self { refusal: Some(message.into()), ..self.and(revision, now, now) }
    }

    /// A sandbox of this revision, made at `created`, has failed.
    #[must_use]
    pub(crate) fn and(mut self, revision: &Arc<str>, created: Timestamp, now: Timestamp) -> Self {
        if self.revision != *revision || self.is_forgiven(now) {
            self = Self { revision: Arc::clone(revision), ..Self::default() };
        }
        let has_lived = now.duration_since(created) > signed(STEADY.max(2 * self.delay()));
        self.count_one(created, now, has_lived);
        self
    }

    /// A sandbox of this revision, made at `created`, has not started and is given up. It has not lived,
    /// however old it is.
    #[must_use]
    pub(crate) fn and_stuck(mut self, revision: &Arc<str>, created: Timestamp, now: Timestamp) -> Self {
        if self.revision != *revision || self.is_forgiven(now) {
            self = Self { revision: Arc::clone(revision), ..Self::default() };
        }
        self.count_one(created, now, false);
        self
    }

    fn count_one(&mut self, created: Timestamp, now: Timestamp, has_lived: bool) {
        // Objects have whole seconds: what was made within the second of the last failure may be older.
        if self.last.is_none_or(|last| created > whole_seconds(last)) {
            self.count = if has_lived { 1 } else { self.count.saturating_add(1) };
            self.last = Some(now);
            self.refusal = None;
        }
    }

    /// When the set may make the next sandbox of this revision, if that is not now.
    pub(crate) fn wait(&self, revision: &str, now: Timestamp) -> Option<Timestamp> {
        let last = self.last.filter(|_| *self.revision == *revision)?;
        let until = last.checked_add(signed(self.delay())).ok()?;
        (until > now).then_some(until)
    }

    fn is_forgiven(&self, now: Timestamp) -> bool {
        let quiet = FORGIVEN.max(2 * self.delay());
        self.last.is_some_and(|last| now.duration_since(last) > signed(quiet))
    }

    fn delay(&self) -> Duration {
        match self.count {
            0 | 1 => Duration::ZERO,
            count => Duration::from_secs(1 << (count - 2).min(16)).min(LONGEST),
        }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_first_failure_is_replaced_at_once_and_its_replacements_ever_later() {
        let revision: Arc<str> = "r".into();
        let mut failures = Failures::default();
        let mut now = at(1000);
        let mut waits = Vec::new();
        for _ in 0..12 {
            failures = failures.and(&revision, now, now);
            let until = failures.wait("r", now).unwrap_or(now);
            waits.push(until.duration_since(now).as_secs());
            now = until + SignedDuration::from_secs(1);
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn sandboxes_of_before_the_last_failure_do_not_count() {
        let revision: Arc<str> = "r".into();
        let failures = Failures::default().and(&revision, at(10), at(1000));
        let failures = (0..30).fold(failures, |failures, n| failures.and(&revision, at(971 + n), at(1001)));
        assert_eq!((failures.count(), failures.wait("r", at(1001))), (1, None));
    }

    #[test]
    fn what_had_lived_for_a_while_is_replaced_at_once_however_often() {
        let revision: Arc<str> = "r".into();
        let mut failures = Failures::default();
        for lost in 1..=5 {
            let now = at(1000 + 60 * lost);
            failures = failures.and(&revision, now - SignedDuration::from_secs(55), now);
            assert_eq!((failures.count(), failures.wait("r", now)), (1, None), "loss {lost}");
        }
        let now = at(1310);
        assert_eq!(failures.and(&revision, now - SignedDuration::from_secs(5), now).count(), 2);
    }

    #[test]
    fn what_never_started_has_not_lived_however_old_it_is() {
        let revision: Arc<str> = "r".into();
        let mut failures = Failures::default();
        let (mut now, mut waits) = (at(1000), Vec::new());
        for _ in 0..12 {
            let created = now;
            now += SignedDuration::from_secs(60);
            failures = failures.and_stuck(&revision, created, now);
            let until = failures.wait("r", now).unwrap_or(now);
            waits.push(until.duration_since(now).as_secs());
            now = until + SignedDuration::from_secs(1);
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn another_revision_and_a_long_quiet_start_again() {
        let (old, new): (Arc<str>, Arc<str>) = ("old".into(), "new".into());
        let failing = (0..5).fold(Failures::default(), |failures, n| failures.and(&old, at(n), at(n)));
        assert_eq!(failing.wait("new", at(5)), None);
        assert_eq!(failing.clone().and(&new, at(5), at(5)).count(), 1);
        assert_eq!(failing.clone().and(&old, at(5), at(5)).count(), 6);
        assert_eq!(failing.and(&old, at(700), at(700)).count(), 1);
    }
}
