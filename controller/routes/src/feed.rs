//! The change feed: what happens to served IDs, told to those who act on it.
//!
//! An ID that is ambiguous is not served: turning so is told as [`ChangeKind::Gone`], its end as [`ChangeKind::Appeared`], and what
//! happens between its claimants meanwhile not at all.
//!
//! **Who writes.** The table's writer, under its lock, right after a change is visible to readers; it never waits for a subscriber
//! beyond the handing over of one change. Without subscribers it does nothing.
//!
//! **A move.** An object that changes its ID is gone from the one and appears under the other: two changes. Both are queued when both
//! are visible to readers, so nobody is told of the end of what lives on.
//!
//! **Who reads.** Each subscriber has a queue of its own and a bound on it. One that falls behind is told so ([`Notice::Lagged`]) in place
//! of what it missed, and then has to compare its own state with the table. Everything that was dropped is in the table by then, and
//! everything later is in the queue: subscribe or learn of the lag first, read the table second, and nothing is missed. Who reads it takes
//! an ambiguous route ([`Route::is_ambiguous`]) for none.
//!
//! **Who cares about little** ([`RouteWriter::subscribe_where`](crate::RouteWriter::subscribe_where)) says of each change whether it is told. Nothing is copied or queued
//! of the others, and nobody is woken. Who begins to care about an identity first has its answer changed, under a lock that the answer takes
//! too, and then reads the table: a change that was not told for want of care is in the table by then.
//!
//! **How to wait.** [`Changes::recv_timeout`] blocks a thread; [`Changes::set_waker`] calls back when there is something to take, for an
//! event loop; [`Changes::try_recv`] does neither.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, mem};

use parking_lot::{Condvar, Mutex};

use crate::{KeyRef, Route};

/// What happened to one served ID.
#[derive(Clone, Debug)]
pub struct Change {
    old: Option<Arc<Route>>,
    new: Option<Arc<Route>>,
}

/// What kind of change it was to whoever keeps something for an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The ID was not served and is now.
    Appeared,
    /// The ID is served by the same identity, and something about it changed.
    Updated,
    /// The ID is served by another identity: nothing of the old one carries over.
    Replaced,
    /// The ID is not served any more.
    Gone,
}

impl Change {
    /// What the ID pointed at before.
    pub fn before(&self) -> Option<&Arc<Route>> {
        self.old.as_ref()
    }

    /// What it points at now.
    pub fn after(&self) -> Option<&Arc<Route>> {
        self.new.as_ref()
    }

    /// The ID.
    pub fn id(&self) -> &str {
        self.either().map_or("", |route| route.id())
    }

    /// The object it points at, or pointed at if it is gone.
    pub fn key(&self) -> KeyRef<'_> {
        self.either().map_or(KeyRef::from_parts("", "", ""), |route| route.key())
    }

    /// What kind of change it was.
    pub fn kind(&self) -> ChangeKind {
        match (&self.old, &self.new) {
            (None, _) => ChangeKind::Appeared,
            (Some(_), None) => ChangeKind::Gone,
            (Some(old), Some(new)) if old.identity() == new.identity() => ChangeKind::Updated,
            (Some(_), Some(_)) => ChangeKind::Replaced,
        }
    }

    /// The identity that this ID does not serve any more, if it ceased to: what a connection pool has to let go.
    pub fn identity_gone(&self) -> Option<u64> {
        let old = self.old.as_ref()?.identity();
        (self.new.as_ref().map(|new| new.identity()) != Some(old)).then_some(old)
    }

    fn either(&self) -> Option<&Arc<Route>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// What a subscriber is told.
#[derive(Clone, Debug)]
pub enum Notice {
    /// An ID changed.
    Changed(Change),
    /// The subscriber fell behind and this many changes were dropped: compare with the table now.
    Lagged {
        /// How many.
        missed: u64,
    },
    /// There is no writer any more and nothing will follow.
    Closed,
}

/// One subscriber's end of the feed. Dropping it ends the subscription.
pub struct Changes {
    queue: Arc<Queue>,
}

type Waker = Arc<dyn Fn() + Send + Sync>;
/// Whether a subscriber is told of a change from one route of an ID to another.
type ChangeFilter = Box<dyn Fn(Option<&Route>, Option<&Route>) -> bool + Send>;

#[derive(Default)]
struct Inner {
    changes: VecDeque<Change>,
    // Not zero: the queue is full and what it holds is void.
    missed: u64,
    closed: bool,
    waker: Option<Waker>,
}

impl Inner {
    fn has_notice(&self) -> bool {
        !self.changes.is_empty() || self.missed > 0 || self.closed
    }

    fn next_notice(&mut self, void: &mut VecDeque<Change>) -> Option<Notice> {
        if self.missed > 0 {
            *void = mem::take(&mut self.changes);
            let missed = mem::take(&mut self.missed) + void.len() as u64;
            return Some(Notice::Lagged { missed });
        }
        self.changes.pop_front().map(Notice::Changed).or_else(|| self.closed.then_some(Notice::Closed))
    }
}

struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
    capacity: usize,
}

impl Queue {
    /// Queues changes, all in one step. Gives the waker if there was nothing to take before.
    fn push(&self, changes: impl IntoIterator<Item = Change>) -> Option<Waker> {
        let mut inner = self.inner.lock();
        let was_idle = !inner.has_notice();
        for change in changes {
            if inner.missed > 0 || inner.changes.len() >= self.capacity {
                inner.missed += 1;
            } else {
                inner.changes.push_back(change);
            }
        }
        self.arrived.notify_one();
        inner.waker.clone().filter(|_| was_idle)
    }

    fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let waker = inner.waker.clone();
        drop(inner);
        self.arrived.notify_one();
        if let Some(waker) = waker {
            waker();
        }
    }
}

impl Changes {
    /// Takes what there is, without waiting.
    pub fn try_recv(&mut self) -> Option<Notice> {
        // Void changes hold routes; they are dropped outside the lock, which the writer takes.
        let mut void = VecDeque::new();
        self.queue.inner.lock().next_notice(&mut void)
    }

    /// Takes what there is, or waits for it up to `timeout`.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Option<Notice> {
        let deadline = Instant::now().checked_add(timeout);
        let mut void = VecDeque::new();
        let mut inner = self.queue.inner.lock();
        let is_empty = |inner: &mut Inner| !inner.has_notice();
        match deadline {
            Some(deadline) => drop(self.queue.arrived.wait_while_until(&mut inner, is_empty, deadline)),
            // Too long for the clock: no deadline.
            None => self.queue.arrived.wait_while(&mut inner, is_empty),
        }
        let notice = inner.next_notice(&mut void);
        drop(inner);
        notice
    }

    /// Has `waker` called, on the writer's thread, each time there is something to take where there was nothing. It must be quick: hand
    /// a task its wake-up and return. Calls it at once if there is something now.
    pub fn set_waker(&mut self, waker: impl Fn() + Send + Sync + 'static) {
        let waker: Waker = Arc::new(waker);
        let mut inner = self.queue.inner.lock();
        inner.waker = Some(Arc::clone(&waker));
        let waiting = inner.has_notice();
        drop(inner);
        if waiting {
            waker();
        }
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("capacity", &self.queue.capacity).finish_non_exhaustive()
    }
}

/// The writer's end.
#[derive(Default)]
pub(crate) struct Feed {
    subscribers: Vec<Subscriber>,
    to_wake: Vec<Waker>,
    /// Whether changes are told and not queued yet.
    is_deferred: bool,
}

struct Subscriber {
    queue: Arc<Queue>,
    /// None: about everything.
    filter: Option<ChangeFilter>,
    /// What it is told and cannot take yet.
    deferred: Vec<Change>,
}

impl Feed {
    pub(crate) fn subscribe(&mut self, capacity: usize, filter: Option<ChangeFilter>) -> Changes {
        self.prune();
        let queue =
            Arc::new(Queue { inner: Mutex::default(), arrived: Condvar::new(), capacity: capacity.max(1) });
        self.subscribers.push(Subscriber { queue: Arc::clone(&queue), filter, deferred: Vec::new() });
        Changes { queue }
    }

    pub(crate) fn has_subscribers(&mut self) -> bool {
        if !self.subscribers.is_empty() {
            self.prune();
        }
        !self.subscribers.is_empty()
    }

    /// Tells every subscriber that cares. Nothing is copied where there is none.
    pub(crate) fn announce(&mut self, old: Option<&Route>, new: Option<&Route>) {
        let mut change = None;
        for Subscriber { queue, filter, deferred } in &mut self.subscribers {
            if filter.as_ref().is_some_and(|filter| !filter(old, new)) {
                continue;
            }
            let change = change.get_or_insert_with(|| {
                let [old, new] = [old, new].map(|route| route.map(|route| Arc::new(route.clone())));
                Change { old, new }
            });
            if self.is_deferred {
                deferred.push(change.clone());
            } else {
                self.to_wake.extend(queue.push([change.clone()]));
            }
        }
    }

    /// From here on nothing that is told is queued. Who cares is asked all the same.
    pub(crate) fn defer(&mut self) {
        self.is_deferred = true;
    }

    /// Queues what was told since [`hold`](Self::hold).
    pub(crate) fn flush(&mut self) {
        self.is_deferred = false;
        for Subscriber { queue, deferred, .. } in
            self.subscribers.iter_mut().filter(|s| !s.deferred.is_empty())
        {
            self.to_wake.extend(queue.push(deferred.drain(..)));
        }
    }

    /// Those to call once the writer's lock is free, so that they may use the table.
    pub(crate) fn drain_wakers(&mut self) -> Vec<Waker> {
        // Nothing is held here, unless a writer ended in the midst of a move.
        self.flush();
        mem::take(&mut self.to_wake)
    }

    // A subscriber that was dropped has left its queue to us alone.
    fn prune(&mut self) {
        self.subscribers.retain(|subscriber| Arc::strong_count(&subscriber.queue) > 1);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        for subscriber in &self.subscribers {
            subscriber.queue.close();
        }
    }
}

#[cfg(test)]
mod tests;
