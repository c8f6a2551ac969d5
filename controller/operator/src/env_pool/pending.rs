//! The claims that wait for a pod, as the replicas of the manager say in annotations of the pool.

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::SandboxPool;

/// What a replica says is true for so long.
const FRESH: SignedDuration = SignedDuration::from_secs(30);
/// What a replica has not said anew for so long is taken off.
const GONE: SignedDuration = SignedDuration::from_mins(5);
/// How many replicas are read.
const REPLICAS: usize = 256;
/// The most claims that one replica can have. It holds fewer in its queue.
const CLAIMS: u32 = 1_000_000;

/// What the annotations of a pool say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// How many claims wait.
    pub(super) claims: i32,
    /// What each replica said, and when.
    said: Vec<(i32, Timestamp)>,
    /// When one of the numbers is not true any more.
    pub(super) until: Option<Timestamp>,
    /// The annotations of replicas that are not there any more, and those that cannot be read.
    pub(super) gone: Vec<String>,
}

impl Pending {
    /// When the oldest of the numbers was said.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.said.iter().map(|(_, at)| *at).min()
    }

    /// How many claims have no sandbox that runs, where pods were claimed at these times and so many of them
    /// are starting. A claim that was served after its replica had said its number waits no more; which
    /// replica's it was, nobody knows, so it is taken off each number once at most.
    pub(super) fn unserved(&self, claimed: &[Timestamp], starting: usize) -> i32 {
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let left = self.said.iter().map(|(number, at)| {
            let served = claimed.iter().filter(|claimed| *claimed >= at).count();
            number.saturating_sub(count(served)).max(0)
        });
        left.fold(count(starting), i32::saturating_add)
    }
}

/// Reads them. A time that is ahead of this clock by more than a number is true for is as good as none.
pub(super) fn pending(pool: &SandboxPool, now: Timestamp) -> Pending {
    let mut pending = Pending::default();
    let mut sum = 0_u32;
    let annotations = pool.metadata.annotations.iter().flatten();
    let said = annotations.filter(|(name, _)| name.starts_with(names::PREFIX_PENDING));
    for (name, text) in said.take(REPLICAS) {
        let read = || -> Option<(u32, Timestamp)> {
            let (count, at) = text.split_once('@')?;
            Some((count.parse().ok()?, at.parse().ok()?))
        };
        let Some((count, at)) = read() else {
            pending.gone.push(name.clone());
            continue;
        };
        let age = now.duration_since(at);
        if age > GONE {
            pending.gone.push(name.clone());
        } else if age.abs() <= FRESH && count > 0 {
            sum = sum.saturating_add(count.min(CLAIMS));
            pending.said.push((i32::try_from(count.min(CLAIMS)).unwrap_or(i32::MAX), at));
            let until = at.checked_add(FRESH).ok();
            pending.until = [pending.until, until].into_iter().flatten().min();
        }
    }
    pending.claims = i32::try_from(sum).unwrap_or(i32::MAX);
    pending
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fresh_numbers_are_added_and_old_ones_are_not() {
        let now: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
        let name = |replica: &str| format!("{}{replica}", names::PREFIX_PENDING);
        let pool = json!({"metadata": {"name": "p", "annotations": {
            (name("a")): "3@2026-11-16T07:59:30Z",
            (name("b")): "4@2026-11-16T07:59:50Z",
            (name("stale")): "5@2026-11-16T07:59:29Z",
            (name("gone")): "6@2026-11-16T07:54:59Z",
            (name("ahead")): "7@2026-11-16T08:00:31Z",
            (name("wrong")): "many",
            (name("none")): "0@2026-11-16T07:59:59Z",
            "other": "8@2026-11-16T07:59:50Z",
        }}, "spec": {}});
        let pool: SandboxPool = serde_json::from_value(pool).unwrap();
        let found = pending(&pool, now);
        assert_eq!(found.claims, 7);
        assert_eq!(found.until, Some(now));
        assert_eq!(found.since().unwrap().to_string(), "2026-11-16T07:59:30Z");
        assert_eq!(found.gone, [name("gone"), name("wrong")]);
    }

    /// One replica has not said anything for long, the other is at it.
    #[test]
    fn what_was_served_is_taken_off_the_numbers_from_before_and_not_off_those_from_after() {
        let now: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
        let second = |second: i64| now + SignedDuration::from_secs(second);
        let name = |replica: &str| format!("{}{replica}", names::PREFIX_PENDING);
        let pool = json!({"metadata": {"name": "p", "annotations": {
            (name("a")): format!("5@{}", second(-10)), (name("b")): format!("300@{now}"),
        }}, "spec": {}});
        let found = pending(&serde_json::from_value(pool).unwrap(), now);
        let early: Vec<_> = (0..250).map(|_| second(-5)).collect();
        assert_eq!(found.unserved(&[], 0), 305);
        assert_eq!(found.unserved(&early, 0), 300);
        assert_eq!(found.unserved(&early[..2], 7), 310);
        assert_eq!(found.unserved(&[second(1), second(1)], 2), 303);
    }
}
