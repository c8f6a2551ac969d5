//! The work of one controller: which objects to look at, and when.
//!
//! # Protocol
//! - Whoever learns of a change calls [`Queue::add`]. A key that waits already is not added twice.
//! - A worker takes a [`Job`], runs it, and says how it ended. A key is never handed out twice at a time. If
//!   it is added while it runs, it is handed out again after the run ends, so a change that the run did not
//!   see is not lost.
//! - Keys are handed out by due time, and in the order of their arrival among equal ones. An add makes a key
//!   due at once, also one that backs off or waits for its deadline: what failed may work now.
//! - A key that is [pressing](Haste::Pressing) overtakes those that have been due for less than
//!   [`HEAD_START`]. So it waits for no crowd that came with it, and keeps nobody waiting for long.
//! - A failed key waits for a time of its own, which doubles with each failure in a row and is forgotten on
//!   success.
//! - A job that is dropped has failed: a worker that is cancelled or panics loses no key.
//!
//! Keys stay in the queue while nobody takes them. A replica that does not lead therefore has everything that
//! it will have to look at once it does.
//!
//! Equal calls at equal times, with one seed, hand out equal keys.

mod schedule;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::{Again, Key, Random};
use schedule::{End, Schedule, Taken, When};

/// The time that a pressing key counts as having waited for already.
pub const HEAD_START: Duration = Duration::from_secs(2);

/// The waits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The bound of the wait after the first failure.
    pub first: Duration,
    /// The longest wait after a failure.
    pub longest: Duration,
    /// The longest wait after a conflict: the change that was missed arrives soon.
    pub longest_conflict: Duration,
    /// How often an object is looked at if nothing happens to it, on average. This repairs an event that was
    /// missed, and a deadline that the clock was set past.
    pub rarely: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(5),
            longest: Duration::from_secs(60),
            longest_conflict: Duration::from_secs(1),
            rarely: Duration::from_secs(3600),
        }
    }
}

/// How much a change is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// In its turn.
    Usual,
    /// Somebody waits for exactly this.
    Pressing,
}

/// The queue of one controller. Clones are the same queue.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    schedule: Mutex<Schedule>,
    stopped: AtomicBool,
    /// Another key is the next one.
    changed: Notify,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("keys", &self.len()).finish_non_exhaustive()
    }
}

/// What [`Queue::try_next`] found.
#[derive(Debug)]
pub enum Next {
    /// A key that is due.
    Job(Job),
    /// Nothing is due before this time, unless something is added.
    At(Instant),
    /// Nothing waits.
    Empty,
    /// The queue was stopped.
    Stopped,
}

impl Queue {
    /// An empty queue.
    pub fn new(pace: Pace, random: Random) -> Self {
        let schedule = Mutex::new(Schedule::new(pace, random));
        Self {
            shared: Arc::new(Shared { schedule, stopped: AtomicBool::new(false), changed: Notify::new() }),
        }
    }

    /// Looks at the object as soon as a worker is free.
    pub fn add(&self, key: Key) {
        self.add_after(key, Duration::ZERO);
    }

    /// Looks at the object after this time, or earlier if it was to be looked at earlier.
    pub fn add_after(&self, key: Key, wait: Duration) {
        self.shared.change(|schedule, now| schedule.add(key, When::at(now + wait)));
    }

    /// Looks at the object as soon as a worker is free, and before others if it is pressing.
    pub fn add_in(&self, key: Key, haste: Haste) {
        match haste {
            Haste::Usual => self.add(key),
            Haste::Pressing => {
                self.shared.change(|schedule, now| schedule.add(key, When::ahead(now, HEAD_START)));
            }
        }
    }

    /// The next job that is due at `now`.
    pub fn try_next(&self, now: Instant) -> Next {
        if self.shared.stopped.load(Ordering::Acquire) {
            return Next::Stopped;
        }
        let mut schedule = self.shared.schedule.lock();
        if let Some(taken) = schedule.take(now) {
            let waited = now.saturating_duration_since(taken.due());
            return Next::Job(Job { shared: Arc::clone(&self.shared), taken, waited, ended: false });
        }
        schedule.next_due().map_or(Next::Empty, Next::At)
    }

    /// Waits for the next job. `None` once the queue is stopped. Dropping this loses nothing.
    pub async fn next(&self) -> Option<Job> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // From here on no wake is missed.
            changed.as_mut().enable();
            match self.try_next(Instant::now()) {
                Next::Job(job) => return Some(job),
                Next::Stopped => return None,
                Next::Empty => changed.await,
                Next::At(due) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = sleep_until(due) => {}
                    }
                }
            }
        }
    }

    /// Hands out nothing any more. Jobs that were handed out go on.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.changed.notify_waiters();
    }

    /// How many keys are due and wait for a worker.
    pub fn depth(&self) -> usize {
        self.shared.schedule.lock().depth(Instant::now())
    }

    /// How many keys are known: due or not, running or not.
    pub fn len(&self) -> usize {
        self.shared.schedule.lock().len()
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shared {
    /// Changes the schedule, and wakes the waiting workers if another key is the next one now.
    ///
    /// No waiting worker waits for longer than until the next key is due:
    /// 1. it looks at the schedule after it has registered for wakes;
    /// 2. whatever puts another key first wakes all of them, and they look again;
    /// 3. taking a key only makes the next one later.
    ///
    /// So it does not matter which of them is cancelled or busy.
    fn change(&self, change: impl FnOnce(&mut Schedule, Instant)) {
        let now = Instant::now();
        let sooner = {
            let mut schedule = self.schedule.lock();
            let before = schedule.next_due();
            change(&mut schedule, now);
            schedule.next_due().is_some_and(|after| before.is_none_or(|before| after < before))
        };
        if sooner {
            self.changed.notify_waiters();
        }
    }
}

/// A key that was handed out to a worker. Nobody else has it until this is dropped.
pub struct Job {
    shared: Arc<Shared>,
    taken: Taken,
    waited: Duration,
    ended: bool,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("key", self.key()).field("failures", &self.failures()).finish()
    }
}

impl Job {
    /// Which object.
    pub fn key(&self) -> &Key {
        &self.taken.key
    }

    /// How long the key was due.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How often in a row it has failed before.
    pub fn failures(&self) -> u32 {
        self.taken.failures
    }

    /// The run succeeded.
    pub fn done(mut self, again: Again) {
        self.end(End::Done(again));
    }

    /// The run failed: again after the key's back-off.
    pub fn failed(mut self) {
        let cap = self.shared.schedule.lock().pace().longest;
        self.end(End::Failed { cap });
    }

    /// The run met a conflict: again after the key's back-off, and soon.
    pub fn conflicted(mut self) {
        let cap = self.shared.schedule.lock().pace().longest_conflict;
        self.end(End::Failed { cap });
    }

    /// The run did not take place: the key goes back to its place.
    pub fn put_back(mut self) {
        let turn = self.taken.turn;
        self.end(End::Untouched(turn));
    }

    fn end(&mut self, end: End) {
        self.ended = true;
        let key = &self.taken.key;
        self.shared.change(|schedule, now| schedule.finish(key, end, now));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.ended {
            let cap = self.shared.schedule.lock().pace().longest;
            self.end(End::Failed { cap });
        }
    }
}
