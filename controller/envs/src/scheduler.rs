//! Which pod of a pool a claim gets.
//!
//! Claims of a pool stand in a line, in the order in which they came. Each has a number and keeps it until it
//! ends: one that lost its pod to another process comes before all that asked later. The pods of a pool are
//! alike, so the first in the line takes whichever is idle.
//!
//! # One claim
//! 1. It enters the line, or is refused because the line is full.
//! 2. When it is the first and a pod is idle, a task of its own writes the pod, on the condition that the pod
//!    is as it was seen. Nobody else here takes that pod meanwhile. Only so many tasks write at a time; lines
//!    that are held up by that take turns.
//! 3. The pod had been changed, or is gone: its version is stale, and the claim goes back to its place.
//! 4. No answer came: the task looks whether the pod is the claim's, and does not go on before it is known.
//!    If the pod is as it was seen, the write may still arrive, so the same pod is written again: only one
//!    of the two writes can meet the condition. So a claim never has two pods. Should the later write be
//!    refused, it ends when the earlier one has had 10 s to arrive.
//! 5. A caller that leaves takes its claim out of the line. If its pod is being written by then, the task
//!    goes on to the end and gives the pod back.
//!
//! # No lost wake-up
//! Claims enter the line, and pods are looked for, under one lock.
//! 1. The source shows a pod, then calls [`Scheduler::changed`], which looks for claims.
//! 2. A claim enters the line, then looks for pods.
//!
//! Whichever looks last sees the other. Nothing is polled. A stale version is tried again when the source
//! shows a newer one, or after [`Settings::stale_for`]: the conflict may have been about something else.
//! Beside that there is a look every 10 s to 5 min while claims wait, for sources with a fault.

mod demand;
mod lines;
mod swap;
#[cfg(test)]
mod tests;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_cache::Key;
use sandgate_routes::Version;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::lines::{Lines, Waiter};
use self::swap::Given;
use crate::lookup::{ByKey, Named, by_key};

/// A pod that may be taken, as it was seen.
#[derive(Clone, Debug)]
pub struct Candidate<T> {
    /// The pod.
    pub key: Key,
    /// The version of it that was seen, on which the write depends.
    pub version: Version,
    /// What the write needs of it.
    pub pod: T,
}

/// Where pods are seen and written.
pub trait Pods: Send + Sync + 'static {
    /// What a claim asks for. It has the ID of the sandbox, by which [`Pods::settle`] knows the pod again.
    type Request: Send + Sync + 'static;
    /// What is seen of a pod.
    type Pod: Send + Sync + 'static;
    /// A pod that was claimed.
    type Claimed: Send + 'static;
    /// Why a write was refused for good.
    type Refusal: Send + 'static;

    /// An idle pod of the pool that `fits` accepts. Pods that are about to be deleted are not idle.
    ///
    /// It is called under the scheduler's lock, so it must neither wait nor call the scheduler.
    fn idle(&self, pool: &Key, fits: &mut dyn FnMut(&Key, &Version) -> bool) -> Option<Candidate<Self::Pod>>;

    /// Writes the claim into the pod, on the condition that the pod has the version that was seen.
    fn swap(
        &self,
        candidate: &Candidate<Self::Pod>,
        request: &Self::Request,
    ) -> impl Future<Output = Result<Self::Claimed, SwapError<Self::Refusal>>> + Send;

    /// Reads from the API server whose the pod is.
    fn settle(
        &self,
        candidate: &Candidate<Self::Pod>,
        request: &Self::Request,
    ) -> impl Future<Output = Settled<Self::Claimed>> + Send;

    /// Releases a pod that nobody waits for any more. It tries until that is done; a claim that is forgotten
    /// would be kept for ever.
    fn give_back(&self, claimed: Self::Claimed) -> impl Future<Output = ()> + Send;

    /// So many claims of the pool have not ended, and not all of them have a pod in hand; 0 if all have.
    ///
    /// It is told when claims begin to wait. It is told when they no longer do, and when their number has
    /// changed by a fifth, but not within [`Settings::told_apart`] of the last time.
    fn demand(&self, pool: &Key, claims: usize);
}

/// Why a pod was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapError<R> {
    /// It is not as it was seen: another has it, or it is being deleted. The claim takes another.
    Conflict,
    /// It is not there, or not idle. The claim takes another.
    Gone,
    /// No answer came, so it may have been written.
    Unanswered,
    /// The API server had no time for it, so it was not written. The same pod is written again in a while.
    PutOff,
    /// The claim cannot be written. It ends.
    Refused(R),
}

/// Whose a pod is whose write was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled<C> {
    /// The claim's.
    Ours(C),
    /// Not the claim's, and it has another version by now or is gone, so the write can no longer arrive.
    NotOurs,
    /// Nobody's: it has the version that was seen, so the write may still arrive.
    Unchanged,
    /// The API server does not say.
    Unknown,
}

/// Why a claim got no pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError<R> {
    /// Too many claims wait. The answer is 429 with this time.
    #[error("too many claims wait for the pool")]
    Full {
        /// When a retry may help.
        retry_after: Duration,
    },
    /// No pod came in time.
    #[error("no pod came in time")]
    Deadline,
    /// This process is about to end. A retry, which another process gets, helps.
    #[error("the process is about to end")]
    Closed,
    /// The pod could not be written.
    #[error("the pod could not be written")]
    Refused(R),
    /// The task of the claim died.
    #[error("the claim was interrupted")]
    Interrupted,
}

/// Limits and times.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many claims of a pool may be unfinished.
    pub line: usize,
    /// How many claims of all pools may be unfinished.
    pub lines: usize,
    /// How many pods are written at a time.
    pub swaps: usize,
    /// What a claim that is refused is told.
    pub retry_after: Duration,
    /// How long a version is not tried again that was changed by others.
    pub stale_for: Duration,
    /// How long after a pool's demand was told it is not told again, but for claims that begin to wait.
    pub told_apart: Duration,
    /// The first and the longest time between two looks while claims wait; none for no looks.
    pub repair: Option<(Duration, Duration)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            line: 8192,
            lines: 65_536,
            swaps: 128,
            retry_after: Duration::from_secs(2),
            stale_for: Duration::from_secs(5),
            told_apart: Duration::from_secs(3),
            repair: Some((Duration::from_secs(10), Duration::from_secs(300))),
        }
    }
}

/// The line of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// How many claims have not ended, whether they have a pod in hand or not.
    pub queued: usize,
    /// How many pods are being written.
    pub in_flight: usize,
    /// When a claim last got its pod.
    pub last_dispatch: Option<Instant>,
}

/// What is left when a scheduler has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// How many writes and releases were given up. What has become of their pods is not known.
    pub unsettled: usize,
}

/// The lines of all pools. Clones share them.
pub struct Scheduler<P: Pods>(Arc<Inner<P>>);

impl<P: Pods> Clone for Scheduler<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Inner<P: Pods> {
    pods: P,
    settings: Settings,
    lines: Mutex<Lines<P>>,
    /// How many claims of each pool are unfinished, for readers that take no lock.
    queued: ByKey<Arc<AtomicUsize>>,
    runtime: Handle,
    /// Everything that writes.
    tasks: TaskTracker,
    /// Whoever writes gives up.
    cut: CancellationToken,
    unsettled: AtomicUsize,
    /// There is something to do for the upkeep.
    bell: Arc<Notify>,
    upkeep_ends: CancellationToken,
    upkeep: Mutex<Option<JoinHandle<()>>>,
}

impl<P: Pods> Drop for Inner<P> {
    fn drop(&mut self) {
        self.upkeep_ends.cancel();
    }
}

impl<P: Pods> Scheduler<P> {
    /// A scheduler of these pods. It lives on the runtime that it is made on.
    pub fn new(pods: P, settings: Settings) -> Self {
        let inner = Arc::new(Inner {
            lines: Mutex::new(Lines::new(settings.swaps)),
            pods,
            settings,
            queued: by_key(),
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            cut: CancellationToken::new(),
            unsettled: AtomicUsize::new(0),
            bell: Arc::default(),
            upkeep_ends: CancellationToken::new(),
            upkeep: Mutex::default(),
        });
        *inner.upkeep.lock() = Some(inner.runtime.spawn(upkeep::run(Arc::downgrade(&inner))));
        Self(inner)
    }

    /// Claims a pod of the pool. Dropping the future leaves the line.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub async fn claim(
        &self,
        pool: &Key,
        request: P::Request,
        deadline: Instant,
    ) -> Result<P::Claimed, ClaimError<P::Refusal>> {
        let mut ticket = self.enter(pool, request)?;
        match timeout_at(deadline, &mut ticket.reply).await {
            Ok(Ok(ended)) => ended.and_then(|given| given.take().ok_or(ClaimError::Interrupted)),
            Ok(Err(_)) => Err(ClaimError::Interrupted),
            Err(_) => Err(ClaimError::Deadline),
        }
    }

    /// Pods of the pool may have become idle. The source calls it after it shows them, and without a lock
    /// that [`Pods::idle`] takes.
    pub fn changed(&self, pool: &Key) {
        self.0.with(|lines| {
            self.0.dispatch(lines, pool, usize::MAX);
            self.0.consider(lines, pool);
        });
    }

    /// The line of a pool.
    pub fn snapshot(&self, pool: &Key) -> Snapshot {
        let lines = self.0.lines.lock();
        lines.pools.get(pool).map_or_else(Snapshot::default, |line| Snapshot {
            queued: line.queued(),
            in_flight: line.in_flight,
            last_dispatch: line.last_dispatch,
        })
    }

    /// How many claims of a pool have not ended. It takes no lock.
    pub fn queued(&self, namespace: &str, pool: &str) -> usize {
        let queued = self.0.queued.pin();
        queued.get(&Named { namespace, name: pool }).map_or(0, |queued| queued.load(Ordering::Relaxed))
    }

    /// Whether the line of a pool with so many claims takes no more.
    pub fn is_full(&self, queued: usize) -> bool {
        queued >= self.0.settings.line
    }

    /// The demand for pods of a pool now, as [`Pods::demand`] is told of it when it has changed by enough.
    pub fn demand(&self, pool: &Key) -> usize {
        self.0.lines.lock().pools.get(pool).map_or(0, lines::Line::demand)
    }

    /// The pools that claims wait for, with what [`Pods::demand`] is told of them.
    pub fn pending(&self) -> BTreeMap<Key, usize> {
        let lines = self.0.lines.lock();
        let demands = lines.pools.iter().map(|(pool, line)| (pool.clone(), line.demand()));
        demands.filter(|(_, claims)| *claims > 0).collect()
    }

    /// Ends: new claims are refused, and those that have no pod in hand end at once. Pods that are being
    /// written or given back are waited for that long; what is left then is given up.
    pub async fn drain(&self, within: Duration) -> Drained {
        let waiting = self.0.lines.lock().close(&self.0.queued);
        for waiter in waiting {
            // Nobody may be there to read it.
            let _ = waiter.reply.send(Err(ClaimError::Closed));
        }
        self.0.tasks.close();
        if timeout(within, self.0.tasks.wait()).await.is_err() {
            self.0.cut.cancel();
            self.0.tasks.wait().await;
        }
        self.0.upkeep_ends.cancel();
        let upkeep = self.0.upkeep.lock().take();
        if let Some(upkeep) = upkeep {
            // It has ended either way.
            let _ = upkeep.await;
        }
        self.0.tell_the_rest();
        Drained { unsettled: self.0.unsettled.load(Ordering::Relaxed) }
    }

    fn enter(&self, pool: &Key, request: P::Request) -> Result<Ticket<P>, ClaimError<P::Refusal>> {
        let inner = &self.0;
        inner.with(|lines| {
            if lines.is_closed {
                return Err(ClaimError::Closed);
            }
            let queued = lines.pools.get(pool).map_or(0, lines::Line::queued);
            if queued >= inner.settings.line || lines.unfinished >= inner.settings.lines {
                return Err(ClaimError::Full { retry_after: inner.settings.retry_after });
            }
            let (send, reply) = oneshot::channel();
            let waiter = Waiter { request: Arc::new(request), reply: send };
            let number = lines.enter(pool, waiter, &inner.queued);
            inner.dispatch(lines, pool, usize::MAX);
            inner.consider(lines, pool);
            Ok(Ticket { inner: Arc::clone(inner), pool: pool.clone(), number, reply })
        })
    }
}

/// What a claim gets.
type Reply<P> = Result<Given<P>, ClaimError<<P as Pods>::Refusal>>;

/// A claim's number. Dropping it leaves the line.
struct Ticket<P: Pods> {
    inner: Arc<Inner<P>>,
    pool: Key,
    number: u64,
    reply: oneshot::Receiver<Reply<P>>,
}

impl<P: Pods> Drop for Ticket<P> {
    fn drop(&mut self) {
        let mut lines = self.inner.lines.lock();
        // A pod that is being written for it is given back when its task finds the number gone.
        if lines.leave(&self.pool, self.number).is_some() {
            self.inner.consider(&mut lines, &self.pool);
        }
    }
}
