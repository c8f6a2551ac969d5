//! What the queue knows, without a lock and without a clock: the caller says what time it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::Pace;
use crate::{Again, Key, Random};

/// The keys of a queue, each in one of two states. Maps are ordered, and the jitter has a seed, so that equal
/// calls have equal answers.
#[derive(Debug)]
pub(super) struct Schedule {
    pace: Pace,
    random: Random,
    entries: BTreeMap<Key, Entry>,
    /// The waiting keys in the order in which they are handed out: by their place, then by arrival.
    order: BTreeSet<(Instant, u64, Key)>,
    /// The number of the next arrival.
    arrival: u64,
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// Failures in a row.
    failures: u32,
}

#[derive(Debug)]
enum State {
    Waiting(Turn),
    /// Handed out. If the key was added since, it is due again then.
    Running {
        again: Option<When>,
    },
}

/// When a key is due, and where it stands among those that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct When {
    due: Instant,
    /// The time whose place it has: when it is due, or earlier if it overtakes others.
    place: Instant,
}

/// The place of a key that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    when: When,
    arrival: u64,
}

impl When {
    /// In the order of due times.
    pub(super) fn at(due: Instant) -> Self {
        Self { due, place: due }
    }

    /// Now, before all that have been due for less than this time.
    pub(super) fn ahead(now: Instant, start: Duration) -> Self {
        Self { due: now, place: now.checked_sub(start).unwrap_or(now) }
    }

    /// The earlier one of each.
    fn sooner(self, other: Self) -> Self {
        Self { due: self.due.min(other.due), place: self.place.min(other.place) }
    }
}

/// A key that was handed out.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) key: Key,
    pub(super) turn: Turn,
    pub(super) failures: u32,
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Done(Again),
    /// Failed: again after the back-off, which is at most this long.
    Failed {
        cap: Duration,
    },
    /// Did not run: the key goes back to its place.
    Untouched(Turn),
}

impl Taken {
    /// When the key was due.
    pub(super) fn due(&self) -> Instant {
        self.turn.when.due
    }
}

impl Schedule {
    pub(super) fn new(pace: Pace, random: Random) -> Self {
        Self { pace, random, entries: BTreeMap::new(), order: BTreeSet::new(), arrival: 0 }
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The key is due then, or earlier if it already was.
    pub(super) fn add(&mut self, key: Key, when: When) {
        match self.entries.get_mut(&key).map(|entry| &mut entry.state) {
            None => self.wait(key, when, 0),
            Some(State::Running { again }) => *again = Some(again.map_or(when, |at| at.sooner(when))),
            Some(State::Waiting(turn)) => {
                let (known, sooner) = (*turn, turn.when.sooner(when));
                if sooner != known.when {
                    self.order.remove(&(known.when.place, known.arrival, key.clone()));
                    let failures = self.failures(&key);
                    self.wait(key, sooner, failures);
                }
            }
        }
    }

    fn wait(&mut self, key: Key, when: When, failures: u32) {
        let turn = Turn { when, arrival: self.arrival };
        self.arrival += 1;
        self.enter(key, turn, failures);
    }

    fn enter(&mut self, key: Key, turn: Turn, failures: u32) {
        self.order.insert((turn.when.place, turn.arrival, key.clone()));
        self.entries.insert(key, Entry { state: State::Waiting(turn), failures });
    }

    /// Hands out the first of the keys that are due. Nobody else gets it until [`finish`](Self::finish).
    pub(super) fn take(&mut self, now: Instant) -> Option<Taken> {
        if self.order.first()?.0 > now {
            return None;
        }
        let (.., key) = self.order.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        let State::Waiting(turn) = std::mem::replace(&mut entry.state, State::Running { again: None }) else {
            return None;
        };
        Some(Taken { key, turn, failures: entry.failures })
    }

    /// Takes a key back that was handed out.
    pub(super) fn finish(&mut self, key: &Key, end: End, now: Instant) {
        let Some(Entry { state: State::Running { again }, failures }) = self.entries.remove(key) else {
            return;
        };
        let (due, failures) = match end {
            End::Done(Again::Forget) => (None, 0),
            End::Done(Again::Rarely) => (Some(now + self.rarely()), 0),
            End::Done(Again::After(wait)) => (Some(now + wait.min(self.rarely())), 0),
            End::Failed { cap } => (Some(now + self.back_off(failures, cap)), failures.saturating_add(1)),
            End::Untouched(turn) => return self.enter(key.clone(), turn, failures),
        };
        let when = [due.map(When::at), again].into_iter().flatten().reduce(When::sooner);
        if let Some(when) = when {
            self.wait(key.clone(), when, failures);
        }
    }

    /// From half the period to one and a half: objects that were looked at together spread out.
    fn rarely(&mut self) -> Duration {
        let period = self.pace.rarely;
        self.random.between(period / 2, period + period / 2)
    }

    /// A random time in the upper half of a bound that doubles with each failure.
    fn back_off(&mut self, failures: u32, cap: Duration) -> Duration {
        let bound = self.pace.first.saturating_mul(1 << failures.min(20)).min(cap);
        self.random.between(bound / 2, bound)
    }

    /// When the next key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.order.first().map(|(place, ..)| *place)
    }

    /// How many keys are due and not running.
    pub(super) fn depth(&self, now: Instant) -> usize {
        self.order.iter().take_while(|(place, ..)| *place <= now).count()
    }

    fn failures(&self, key: &Key) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// How many keys are known, due or not, running or not.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(super) fn due(&self, key: &Key) -> Option<Instant> {
        match self.entries.get(key)?.state {
            State::Waiting(turn) => Some(turn.when.due),
            State::Running { .. } => None,
        }
    }
}
