//! The change feed: subscribers learn what happens to served IDs.
//!
//! An ambiguous ID is not served. When an ID becomes ambiguous, subscribers get [`ChangeKind::Gone`]; when
//! that ends, they get [`ChangeKind::Appeared`]. Changes among its claimants in between are not reported.
//!
//! **Writing.** The table's writer queues a change under its lock, after readers can see it. It waits for no
//! subscriber. Without subscribers it does nothing.
//!
//! **Moves.** An object that changes its ID is gone from one ID and appears under another: two changes. Both
//! are queued after readers can see both, so a subscriber never takes a move for an end.
//!
//! **Lag.** Each subscriber has a bounded queue. When it is full, further changes are dropped and counted,
//! and the next notice is [`Notice::Lagged`]. To catch up:
//! 1. take the [`Notice::Lagged`] (or subscribe, at first);
//! 2. read the table. Treat an ambiguous route ([`Route::is_ambiguous`]) as none.
//!
//! Why no update is lost: a change is visible in the table before it is queued. So every change that was
//! dropped before step 1 is seen in step 2, and every change after step 1 is in the queue.
//!
//! **Filters.** A subscriber may pass a filter
//! ([`RouteWriter::subscribe_where`](crate::RouteWriter::subscribe_where)). The writer calls it for every
//! change, under the writer's lock, and copies and queues only what it accepts. To start following an
//! identity:
//! 1. add it to the filter's set, under a lock that the filter takes too;
//! 2. read the table.
//!
//! Why no update is lost: a change that was rejected before step 1 is in the table by step 2. A later one is
//! accepted.
//!
//! **Waiting.** [`Changes::recv_timeout`] blocks a thread. [`Changes::set_waker`] calls back when there is a
//! notice, for an event loop. [`Changes::try_recv`] does neither.

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

/// What a change means for state that is kept for an identity.
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

    /// The identity that this ID served before and does not serve any more. Its connections must be closed.
    pub fn identity_gone(&self) -> Option<u64> {
        let old = self.old.as_ref()?.identity();
        (self.new.as_ref().map(|new| new.identity()) != Some(old)).then_some(old)
    }

    fn either(&self) -> Option<&Arc<Route>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// What a subscriber receives.
#[derive(Clone, Debug)]
pub enum Notice {
    /// An ID changed.
    Changed(Change),
    /// The subscriber fell behind and changes were dropped. Compare with the table now.
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
/// Whether a subscriber wants a change from the first route of an ID to the second.
type ChangeFilter = Box<dyn Fn(Option<&Route>, Option<&Route>) -> bool + Send>;

#[derive(Default)]
struct Inner {
    changes: VecDeque<Change>,
    // If not zero, the queue was full, and the changes in it are void.
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
    /// Queues changes in one step. Returns the waker if the queue was empty before.
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
    /// Returns the next notice, if there is one.
    pub fn try_recv(&mut self) -> Option<Notice> {
        // Dropped after the lock is free: the writer takes that lock, and void changes own routes.
        let mut void = VecDeque::new();
        self.queue.inner.lock().next_notice(&mut void)
    }

    /// Returns the next notice, or waits for one up to `timeout`.
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

    /// Sets a function that is called when an empty queue gets a notice, and now if there is one. It is
    /// called on the writer's thread and must be quick.
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
    /// Whether changes are kept back until [`flush`](Self::flush).
    is_deferred: bool,
}

struct Subscriber {
    queue: Arc<Queue>,
    /// `None` accepts every change.
    filter: Option<ChangeFilter>,
    /// Accepted changes that are not queued yet.
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

    /// Queues a change for every subscriber whose filter accepts it. The routes are copied once, and only if
    /// one does.
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

    /// Keeps further changes back. Filters are still called at once.
    pub(crate) fn defer(&mut self) {
        self.is_deferred = true;
    }

    /// Queues the changes since [`defer`](Self::defer).
    pub(crate) fn flush(&mut self) {
        self.is_deferred = false;
        for Subscriber { queue, deferred, .. } in
            self.subscribers.iter_mut().filter(|s| !s.deferred.is_empty())
        {
            self.to_wake.extend(queue.push(deferred.drain(..)));
        }
    }

    /// The wakers to call after the writer's lock is free, so that they may use the table.
    pub(crate) fn drain_wakers(&mut self) -> Vec<Waker> {
        // Nothing is deferred here, unless a writer panicked during a move.
        self.flush();
        mem::take(&mut self.to_wake)
    }

    // A subscriber that was dropped does not own its queue any more.
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
