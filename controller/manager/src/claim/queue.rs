//! Who waits for a sandbox of which pool, and which sandboxes this process is about to write.
//!
//! Every claim has a number. The numbers of a pool that wait stand in a line; the pool's sandboxes go to the
//! lowest numbers. A claim that lost its sandbox to another replica keeps its number, so it comes before all
//! that asked later.
//!
//! # No lost wake-up
//! 1. A claim enters the line, then looks at the pool.
//! 2. If it is the first, it waits for the pool to change since before its look; otherwise for its bell.
//! 3. Whoever leaves the line, or gives a sandbox back, rings the bell of the first. A bell that rings before
//!    anybody waits for it is remembered.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_cache::{Key, Seen};
use sandgate_objects::openkruise::resources::SandboxFacts;
use sandgate_routes::Version;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many versions that were changed by others are kept before those that the cache knows by now are
/// dropped.
const STALE: usize = 64;
/// How long a version is not tried again that others have changed. If the cache shows no newer one by then,
/// the conflict may have been about something else.
const STALE_FOR: Duration = Duration::from_secs(5);

/// The lines of all pools. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    last: u64,
    /// By the set's key, then by number.
    waiting: BTreeMap<Key, BTreeMap<u64, Arc<Notify>>>,
    /// What this process is about to write.
    picked: BTreeSet<Key>,
    /// Versions that others have changed though the cache still shows them, and until when they count.
    stale: BTreeMap<Key, (Version, Instant)>,
}

impl Lines {
    fn ring_first(&self, set: &Key) {
        if let Some((_, bell)) = self.waiting.get(set).and_then(BTreeMap::first_key_value) {
            bell.notify_one();
        }
    }
}

impl Queue {
    /// A number for a claim of this set's pool.
    pub(super) fn draw(&self, set: &Key) -> Ticket {
        let mut lines = self.0.lock();
        lines.last += 1;
        Ticket { queue: self.clone(), set: set.clone(), number: lines.last, bell: Arc::default() }
    }

    /// How many claims wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.lock().waiting.values().map(BTreeMap::len).sum()
    }

    /// Another has changed the sandbox since this version: it is not taken again before the cache shows a
    /// newer one. `current` says what the cache shows.
    pub(super) fn is_stale(&self, seen: &Seen<SandboxFacts>, current: impl Fn(&Key) -> Option<Version>) {
        let mut lines = self.0.lock();
        if lines.stale.len() >= STALE {
            lines.stale.retain(|key, (version, _)| current(key).is_some_and(|shown| shown <= *version));
        }
        lines.stale.insert(seen.key.clone(), (seen.version.clone(), Instant::now() + STALE_FOR));
    }

    /// When one of the versions that others have changed may be tried again; none if there is none.
    pub(super) fn tried_again(&self) -> Option<Instant> {
        let now = Instant::now();
        self.0.lock().stale.values().map(|(_, until)| *until).filter(|until| *until > now).min()
    }
}

/// A claim's number. Dropping it leaves the line.
pub(super) struct Ticket {
    queue: Queue,
    set: Key,
    number: u64,
    bell: Arc<Notify>,
}

/// What the line says to a claim.
pub(super) enum Turn {
    /// This sandbox is the claim's to write.
    Take(Pick),
    /// There is none for it. It is the first in the line, so it waits for the pool.
    First,
    /// There is none for it, and others come before it.
    Behind,
}

impl Ticket {
    /// Looks at the pool. The claim gets a sandbox if there are more than claims that came before it.
    ///
    /// `look` gives the first sandbox that its argument accepts.
    pub(super) fn look(
        &self,
        look: impl FnOnce(&mut dyn FnMut(&Seen<SandboxFacts>) -> bool) -> Option<Arc<Seen<SandboxFacts>>>,
    ) -> Turn {
        let mut lines = self.queue.0.lock();
        let line = lines.waiting.get(&self.set);
        let before = line.map_or(0, |line| line.range(..self.number).count());
        // Each of those that came before is left one.
        let mut others = before;
        let found = look(&mut |seen| {
            let may_be_tried =
                |(version, until): &(Version, Instant)| seen.version > *version || Instant::now() >= *until;
            if lines.picked.contains(&seen.key) || !lines.stale.get(&seen.key).is_none_or(may_be_tried) {
                return false;
            }
            let is_others = others > 0;
            others = others.saturating_sub(1);
            !is_others
        });
        match found {
            Some(seen) => {
                lines.picked.insert(seen.key.clone());
                lines.stale.remove(&seen.key);
                Turn::Take(Pick { queue: self.queue.clone(), set: self.set.clone(), seen })
            }
            None if before == 0 => Turn::First,
            None => Turn::Behind,
        }
    }

    /// Enters the line, until the claim has a sandbox or gives up. Entering twice is entering once.
    pub(super) fn enter(&self) {
        let mut lines = self.queue.0.lock();
        let line = lines.waiting.entry(self.set.clone()).or_default();
        line.insert(self.number, Arc::clone(&self.bell));
    }

    /// Leaves the line: the next one looks.
    pub(super) fn leave(&self) {
        let mut lines = self.queue.0.lock();
        let Some(line) = lines.waiting.get_mut(&self.set) else { return };
        let was_in = line.remove(&self.number).is_some();
        if line.is_empty() {
            lines.waiting.remove(&self.set);
        } else if was_in {
            lines.ring_first(&self.set);
        }
    }

    /// Waits for the bell.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A sandbox that this process is about to write. Nobody else here takes it until this is dropped.
pub(super) struct Pick {
    queue: Queue,
    set: Key,
    /// The sandbox.
    pub(super) seen: Arc<Seen<SandboxFacts>>,
}

impl Drop for Pick {
    fn drop(&mut self) {
        let mut lines = self.queue.0.lock();
        lines.picked.remove(&self.seen.key);
        lines.ring_first(&self.set);
    }
}
