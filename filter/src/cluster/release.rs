//! How fast requests that were held go on.
//!
//! Those whose hosts were added in one batch could all go on at once, and their worker would serve nobody
//! else until each of them has opened its connection, and again when their answers come together. So a few go
//! on at a time, with room between for others. Where many are ready more of them go at a time: the last one
//! waits for some [`SHARE`] turns longer than it would have had to, whatever their number.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many go on at a time, for each worker.
const FEW: usize = 4;
/// Or this part of those that are ready.
const SHARE: usize = 8;
/// How long the next ones wait.
const TURN: Duration = Duration::from_millis(1);

pub(crate) struct Release<W> {
    ready: VecDeque<W>,
    next: Option<Instant>,
}

impl<W> Default for Release<W> {
    fn default() -> Self {
        Self { ready: VecDeque::new(), next: None }
    }
}

impl<W> Release<W> {
    /// These may go on.
    pub(crate) fn add(&mut self, ready: Vec<W>) {
        self.ready.extend(ready);
    }

    /// Those that go on now.
    #[must_use]
    pub(crate) fn take(&mut self, now: Instant, workers: usize) -> Vec<W> {
        if self.ready.is_empty() || self.next.is_some_and(|next| now < next) {
            return Vec::new();
        }
        self.next = Some(now + TURN);
        let count = (FEW * workers.max(1)).max(self.ready.len() / SHARE).min(self.ready.len());
        self.ready.drain(..count).collect()
    }

    /// When the next ones go on, if any wait.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.next.filter(|_| !self.ready.is_empty())
    }

    /// Everybody who waits still.
    pub(crate) fn take_all(&mut self) -> VecDeque<W> {
        std::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_go_on_at_once_and_the_others_in_turn() {
        let now = Instant::now();
        let mut release = Release::<u8>::default();
        assert_eq!((release.take(now, 1), release.due()), (vec![], None));
        release.add((0..6).collect());
        assert_eq!(release.take(now, 1), [0, 1, 2, 3]);
        assert_eq!((release.take(now, 1), release.due()), (vec![], Some(now + TURN)));
        release.add(vec![6]);
        assert!(release.take(now, 1).is_empty(), "who comes later does not overtake");
        assert_eq!(release.take(now + TURN, 1), [4, 5, 6]);
        assert_eq!(release.due(), None);
        release.add(vec![7]);
        assert!(release.take(now + TURN, 1).is_empty(), "nor does one who comes right after them go at once");
        assert_eq!(release.take(now + 3 * TURN, 1), [7]);
    }

    #[test]
    fn each_worker_has_its_few() {
        let mut release = Release::default();
        release.add(vec![(); 40]);
        assert_eq!(release.take(Instant::now(), 3).len(), 3 * FEW);
    }

    #[test]
    fn many_do_not_wait_much_longer_than_few() {
        let mut now = Instant::now();
        let mut release = Release::default();
        release.add(vec![(); 10_000]);
        let mut turns = 0;
        while release.due().is_some() || turns == 0 {
            assert!(!release.take(now, 1).is_empty());
            now += TURN;
            turns += 1;
        }
        assert!(turns < 64, "{turns}");
    }
}
