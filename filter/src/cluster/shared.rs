//! What one cluster's main thread and workers share.
//!
//! Workers send wants and the barrier's answers to the main thread, and read whose a host is. None of it waits: the inbox
//! is a queue, the batch of a barrier is swapped whole, the rest are atomics.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyClusterScheduler, EnvoyHttpFilterScheduler};
use sandgate_request::UpstreamConfig;
use sandgate_routes::RouteReader;

use super::bell::Bell;
use super::host::{Published, Usage};
use super::hosts::Want;
use super::streams::{self, End};

/// The one event of the main thread: there is something to do.
pub(crate) const WORK: u64 = 1;

/// What a request that waits is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Answer {
    /// Something has changed: decide again.
    DecideAgain = 1,
    /// The sandbox has as many ports as it may.
    OverTheCap = 2,
    /// It has waited too long.
    TooLate = 3,
}

impl Answer {
    pub(crate) fn from_event(event: u64) -> Option<Self> {
        [Self::DecideAgain, Self::OverTheCap, Self::TooLate]
            .into_iter()
            .find(|answer| *answer as u64 == event)
    }
}

/// The way back to a request that waits. It is answered once; one that is dropped is told to decide again, because a
/// request must not wait for nobody.
pub(crate) struct Waker {
    scheduler: Option<Box<dyn EnvoyHttpFilterScheduler>>,
    /// Held so that changes of the sandbox are told while the request waits.
    minded: Option<Arc<Usage>>,
}

impl Waker {
    pub(crate) fn new(scheduler: Box<dyn EnvoyHttpFilterScheduler>) -> Self {
        Self { scheduler: Some(scheduler), minded: None }
    }

    /// The request minds what becomes of the sandbox that has this usage.
    pub(crate) fn mind(&mut self, usage: Arc<Usage>) {
        self.minded = Some(usage);
    }

    pub(crate) fn answer(mut self, answer: Answer) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.commit(answer as u64);
        }
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.commit(Answer::DecideAgain as u64);
        }
    }
}

/// What workers do when they pass a barrier.
#[derive(Debug, Default)]
struct Batch {
    number: u64,
    ends: Vec<End>,
}

/// Numbers about a cluster, for people.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hosts: AtomicUsize,
    pub(crate) parked: AtomicUsize,
    pub(crate) added: AtomicU64,
    pub(crate) removed: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) main_thread_nanos: AtomicU64,
}

pub(crate) struct Shared {
    name: Box<[u8]>,
    config: UpstreamConfig,
    reader: RouteReader,
    published: Published,
    inbox: Sender<Want<Waker>>,
    scheduler: OnceLock<Box<dyn EnvoyClusterScheduler>>,
    bell: Bell,
    made: Instant,
    /// When hosts may be added again, in nanoseconds since `made`.
    next_add: AtomicU64,
    closed: AtomicBool,
    workers: AtomicUsize,
    batch: ArcSwap<Batch>,
    /// How many workers have yet to pass the current barrier.
    behind: AtomicUsize,
    pub(crate) counts: Counts,
}

impl Shared {
    pub(crate) fn new(
        name: &[u8],
        config: UpstreamConfig,
        reader: RouteReader,
    ) -> (Arc<Self>, Receiver<Want<Waker>>) {
        let (inbox, wants) = mpsc::channel();
        let shared = Self {
            name: name.into(),
            config,
            reader,
            published: Published::default(),
            inbox,
            scheduler: OnceLock::new(),
            bell: Bell::default(),
            made: Instant::now(),
            next_add: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            workers: AtomicUsize::new(0),
            batch: ArcSwap::default(),
            behind: AtomicUsize::new(0),
            counts: Counts::default(),
        };
        (Arc::new(shared), wants)
    }

    /// The cluster's name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn config(&self) -> &UpstreamConfig {
        &self.config
    }

    pub(crate) fn reader(&self) -> &RouteReader {
        &self.reader
    }

    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    pub(crate) fn set_scheduler(&self, scheduler: Box<dyn EnvoyClusterScheduler>) {
        // Set once, in `on_init`, which Envoy calls once.
        let _ = self.scheduler.set(scheduler);
        // Who rang before there was a way to call is heard now.
        self.bell.answer();
        self.tell_now();
    }

    /// From any thread: has the main thread look at what there is to do, soon, or after its rest.
    pub(crate) fn tell(&self) {
        if self.bell.ring() {
            self.call();
        }
    }

    /// The same, without waiting for the end of a rest.
    pub(crate) fn tell_now(&self) {
        if self.bell.ring_now() {
            self.call();
        }
    }

    fn call(&self) {
        if !self.closed.load(Ordering::Acquire)
            && let Some(scheduler) = self.scheduler.get()
        {
            scheduler.commit(WORK);
        }
    }

    /// The main thread begins: whatever is told from here on is told anew.
    pub(crate) fn begin(&self) {
        self.bell.answer();
    }

    /// The main thread has set its clock, and until then need not be told of anything.
    pub(crate) fn rest(&self) {
        self.bell.rest();
    }

    /// Nothing is told any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// A request waits for its host. Answered through its waker.
    pub(crate) fn want(&self, want: Want<Waker>) {
        // A cluster that is gone gives the want back: its waker is dropped, and so answered.
        let _ = self.inbox.send(want);
        // Where its host could be added at once it does not wait for the end of a rest.
        if self.age(Instant::now()) >= self.next_add.load(Ordering::Relaxed) {
            self.tell_now();
        } else {
            self.tell();
        }
    }

    /// Main thread: from when hosts may be added.
    pub(crate) fn set_next_add(&self, at: Instant) {
        self.next_add.store(self.age(at), Ordering::Relaxed);
    }

    fn age(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made).as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn worker_joined(&self) {
        self.workers.fetch_add(1, Ordering::AcqRel);
    }

    /// How many workers have a load balancer.
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::Acquire)
    }

    pub(crate) fn worker_left(&self) {
        self.workers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Main thread: begins a barrier and gives its number, to be passed on every worker.
    pub(crate) fn raise_barrier(&self, ends: Vec<End>) -> u64 {
        let number = self.batch.load().number + 1;
        self.behind.store(self.workers(), Ordering::Release);
        self.batch.store(Arc::new(Batch { number, ends }));
        number
    }

    /// Main thread: whether every worker has passed the barrier.
    pub(crate) fn barrier_passed(&self) -> bool {
        self.behind.load(Ordering::Acquire) == 0
    }

    /// A worker passes a barrier: what it was doing before is done.
    pub(crate) fn pass_barrier(&self, number: u64) {
        let batch = self.batch.load();
        if batch.number != number {
            return;
        }
        streams::end(&batch.ends);
        let one_less = |behind: usize| behind.checked_sub(1);
        if self.behind.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less) == Ok(1) {
            self.tell_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandgate_routes::{Limits, RouteTable};

    use super::*;
    use crate::cluster::hosts::Socket;
    use crate::cluster::key::Key;

    /// Counts how often the main thread is called.
    #[derive(Clone, Default)]
    struct Calls(Arc<AtomicU64>);

    impl EnvoyClusterScheduler for Calls {
        fn commit(&self, _event_id: u64) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Nobody;

    impl EnvoyHttpFilterScheduler for Nobody {
        fn commit(&self, _event_id: u64) {}
    }

    fn want() -> Want<Waker> {
        Want {
            key: Key::new([10, 0, 0, 1].into(), 80),
            identity: 1,
            id: "one".into(),
            socket: Socket::default(),
            since: Instant::now(),
            waker: Waker::new(Box::new(Nobody)),
        }
    }

    #[test]
    fn a_request_waits_for_the_end_of_a_rest_only_where_its_host_could_not_be_added_before() {
        let (_writer, reader) = RouteTable::new(Limits::default());
        let config = UpstreamConfig::parse(b"{}").expect("a config");
        let (shared, _wants) = Shared::new(b"sandbox", config, reader);
        let calls = Calls::default();
        shared.set_scheduler(Box::new(calls.clone()));
        let mut seen = calls.0.load(Ordering::Relaxed);
        let mut called = |shared: &Shared, does: &dyn Fn(&Shared)| {
            shared.begin();
            shared.rest();
            does(shared);
            let before = std::mem::replace(&mut seen, calls.0.load(Ordering::Relaxed));
            seen - before
        };
        assert_eq!(called(&shared, &Shared::tell), 0, "a change of the table can wait");
        assert_eq!(called(&shared, &|shared| shared.want(want())), 1);
        shared.set_next_add(Instant::now() + Duration::from_secs(3600));
        assert_eq!(called(&shared, &|shared| shared.want(want())), 0);
    }
}
