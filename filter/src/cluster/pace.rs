//! How often the main thread may have Envoy change its hosts.
//!
//! What Envoy 1.40 was measured to take for a change, with 100,000 hosts live in priorities of 128:
//! * an addition: 0.13 ms a batch, 4 µs a host;
//! * a removal: 2.3 ms a batch, because it copies every host of the cluster; 35 µs a priority that loses one,
//!   5 µs a host.
//!
//! So both are done in batches, and a batch is worth waiting for. Alone, a change is made at once. The more
//! there are, the longer the next batch waits, within bounds: an addition holds a request up, and a removal
//! has to close the connections of a sandbox that is gone within a tenth of a second. How long a batch of
//! removals is waited for depends on the hosts that are live, for that is what makes a small one dear. A
//! backlog, which a longer wait would not make cheaper, is worked off batch by batch with only as much rest
//! between as lets others have the thread.

use std::time::{Duration, Instant};

/// How many hosts are added in one go.
pub(crate) const MOST_ADDED: usize = 256;
/// How many hosts are removed in one go.
pub(crate) const MOST_REMOVED: usize = 1024;

/// A batch of additions is followed by this much rest for each host.
const EACH: Duration = Duration::from_millis(1);
/// A look for work by this much for each piece that was found: from some thousand a second on looks become
/// fewer.
const EACH_FOUND: Duration = Duration::from_micros(300);
/// Mostly by the number of hosts: those that come one by one, as fast as one client asks for new sandboxes,
/// wait for hardly anything, and from a thousand a second on batches grow.
const ADD: Pause = Pause { factor: 4, most: Duration::from_millis(8) };
const ADD_BACKLOG: Pause = Pause { factor: 10, most: Duration::from_millis(5) };
/// A batch of removals waits for this long for each live host: twenty times what it takes for it.
const REMOVE_EACH: Duration = Duration::from_nanos(500);
const REMOVE_MOST: Duration = Duration::from_millis(40);
/// Where a request waits for the address.
const REMOVE_WANTED: Duration = Duration::from_millis(20);
/// It waits at least so much, whatever it took.
const REMOVE_BACKLOG: Pause = Pause { factor: 3, most: Duration::from_millis(30) };
const REST: Duration = Duration::from_millis(10);

/// A batch waits this many times as long as the last one took, but not longer than this.
#[derive(Clone, Copy)]
struct Pause {
    factor: u32,
    most: Duration,
}

impl Pause {
    fn after(self, took: Duration) -> Duration {
        (took * self.factor).min(self.most)
    }
}

pub(crate) struct Pace {
    next_add: Instant,
    next_remove: Instant,
    next_wanted: Instant,
    rest_until: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next_add: now, next_remove: now, next_wanted: now, rest_until: now }
    }

    /// When hosts may be added again.
    pub(crate) fn next_add(&self) -> Instant {
        self.next_add
    }

    /// A batch of so many hosts was added; `more` were ready.
    pub(crate) fn added(&mut self, now: Instant, took: Duration, hosts: usize, more: bool) {
        let pause = if more {
            ADD_BACKLOG.after(took)
        } else {
            ADD.after(took).max(for_each(EACH, hosts).min(ADD.most))
        };
        self.next_add = now + pause;
    }

    /// There is no room for more hosts: additions are thought of again after a rest, or when there is room.
    pub(crate) fn no_room(&mut self, now: Instant) {
        self.next_add = now + REST;
    }

    /// When hosts may be removed again, of which somebody waits for an address or nobody does.
    pub(crate) fn next_remove(&self, wanted: bool) -> Instant {
        if wanted { self.next_wanted } else { self.next_remove }
    }

    /// A batch was removed, of so many live hosts; `more` were ready.
    pub(crate) fn removed(&mut self, now: Instant, took: Duration, live: usize, more: bool) {
        let least = REMOVE_BACKLOG.after(took);
        let each = REMOVE_EACH * u32::try_from(live).unwrap_or(u32::MAX);
        let pause = if more { least } else { each.min(REMOVE_MOST).max(least) };
        self.next_remove = now + pause;
        self.next_wanted = now + pause.min(REMOVE_WANTED.max(least));
    }

    /// So many pieces of work were found.
    pub(crate) fn found(&mut self, now: Instant, work: usize) {
        self.rest_until = self.rest_until.max(now + for_each(EACH_FOUND, work).min(REST));
    }

    /// Until when nobody but the clock need call the main thread.
    pub(crate) fn rest_until(&self) -> Instant {
        self.rest_until
    }
}

fn for_each(each: Duration, work: usize) -> Duration {
    each * u32::try_from(work).unwrap_or(u32::MAX).min(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: Duration = Duration::from_micros(1);
    const MILLIS: Duration = Duration::from_millis(1);

    /// How long additions at this rate (a millisecond) wait for one another in the end, if a batch takes as
    /// long as it was measured to.
    fn settled(rate: f64) -> Duration {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        let mut hosts = 1;
        for _ in 0..100 {
            pace.added(now, 130 * MICROS + 4 * MICROS * hosts, hosts as usize, false);
            let pause = (pace.next_add() - now).as_secs_f64() * 1e3;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hosts")]
            let arrived = (pause * rate).round() as u32;
            hosts = arrived.max(1);
        }
        pace.next_add() - now
    }

    #[test]
    fn few_additions_wait_a_little_and_many_wait_for_a_batch() {
        assert!(settled(0.1) < 3 * MILLIS, "{:?}", settled(0.1));
        assert_eq!(settled(1.5), ADD.most);
        assert_eq!(settled(10.0), ADD.most);
    }

    #[test]
    fn a_backlog_of_additions_does_not_wait_for_more() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.added(now, MILLIS, MOST_ADDED, true);
        assert_eq!(pace.next_add(), now + ADD_BACKLOG.most);
    }

    #[test]
    fn a_removal_waits_as_the_live_hosts_say_and_less_where_somebody_waits_for_the_address() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        assert_eq!(pace.next_remove(false), now, "the first goes at once");
        pace.removed(now, 100 * MICROS, 1_000, false);
        assert_eq!(
            (pace.next_remove(false), pace.next_remove(true)),
            (now + 500 * MICROS, now + 500 * MICROS)
        );
        pace.removed(now, 6 * MILLIS, 100_000, false);
        assert_eq!(pace.next_remove(false), now + REMOVE_MOST);
        assert_eq!(pace.next_remove(true), now + REMOVE_WANTED);
        pace.removed(now, 8 * MILLIS, 100_000, true);
        assert_eq!(pace.next_remove(false), now + 24 * MILLIS, "a backlog");
        pace.removed(now, 5 * MILLIS, 10, false);
        assert_eq!(pace.next_remove(false), now + 15 * MILLIS, "others have the thread meanwhile");
    }

    #[test]
    fn a_removal_with_all_its_waits_leaves_time_to_close_connections_within_a_tenth_of_a_second() {
        // The change is found after a rest, the host waits for its batch, and that batch takes a while
        // itself.
        assert!(REST + REMOVE_MOST + 20 * MILLIS < 100 * MILLIS);
    }

    #[test]
    fn the_more_work_is_found_the_longer_the_rest_and_a_shorter_one_does_not_cut_it() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.found(now, 0);
        assert_eq!(pace.rest_until(), now);
        pace.found(now, 3);
        assert_eq!(pace.rest_until(), now + 900 * MICROS);
        pace.found(now, 1_000_000);
        assert_eq!(pace.rest_until(), now + REST);
        pace.found(now + MILLIS, 1);
        assert_eq!(pace.rest_until(), now + REST);
    }
}
