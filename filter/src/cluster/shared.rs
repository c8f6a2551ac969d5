//! What one cluster's main thread and workers share.
//!
//! Workers send wants and the barrier's answers to the main thread, and read whose a host is. None of it
//! waits: the inbox is a queue, orders are taken at a barrier ([`Orders`]), the rest are atomics.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyClusterScheduler, EnvoyHttpFilterScheduler};
use sandgate_config::ClusterConfig;
use sandgate_routes::RouteReader;

use super::bell::Bell;
use super::host::{Endpoint, Published};
use super::hosts::Want;
use super::orders::{self, Orders, WorkerId};
use super::process::Process;
use super::streams::{self, End};
use super::usage::{Usage, Usages};

/// The one event of the main thread: there is something to do.
pub(crate) const WORK: u64 = 1;

/// Why a held request is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Wakeup {
    /// Something has changed: decide again.
    DecideAgain = 1,
    /// The sandbox has as many ports as it may.
    OverTheCap = 2,
    /// It has waited too long.
    TooLate = 3,
    /// Its client has as many ports of the sandbox as one client may have.
    OverTheShare = 4,
    /// The gateway has as many hosts as it may.
    NoRoom = 5,
}

impl Wakeup {
    pub(crate) fn from_event(event: u64) -> Option<Self> {
        [Self::DecideAgain, Self::OverTheCap, Self::TooLate, Self::OverTheShare, Self::NoRoom]
            .into_iter()
            .find(|answer| *answer as u64 == event)
    }
}

/// The way back to a request that waits. It is answered once; one that is dropped is told to decide again,
/// because a request must not wait for nobody.
pub(crate) struct Waker {
    scheduler: Option<Box<dyn EnvoyHttpFilterScheduler>>,
    /// Keeps the identity followed while the request is held.
    followed: Option<Arc<Usage>>,
    _held: Held,
}

impl Waker {
    pub(crate) fn new(scheduler: Box<dyn EnvoyHttpFilterScheduler>, held: Held) -> Self {
        Self { scheduler: Some(scheduler), followed: None, _held: held }
    }

    /// Follows the identity of this usage for as long as the request is held.
    pub(crate) fn follow(&mut self, usage: Arc<Usage>) {
        self.followed = Some(usage);
    }

    pub(crate) fn wake(mut self, wakeup: Wakeup) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.commit(wakeup as u64);
        }
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.commit(Wakeup::DecideAgain as u64);
        }
    }
}

/// One of the requests that the process may hold, for as long as it is held.
pub(crate) struct Held(Arc<Process>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What workers send to the main thread.
pub(crate) enum Message {
    /// A request waits for its host.
    Want(Want<Waker>),
    /// Nothing listens on this port of this identity, and no request is in flight there.
    Refused { endpoint: Endpoint, identity: u64 },
}

/// Numbers about a cluster, for people.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hosts: AtomicUsize,
    pub(crate) parked: AtomicUsize,
    pub(crate) added: AtomicU64,
    pub(crate) removed: AtomicU64,
    /// Sandboxes whose requests were to end.
    pub(crate) ends: AtomicU64,
    /// Requests that were told to. One that two clusters have to end counts where it was told first.
    pub(crate) ended: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) main_thread_nanos: AtomicU64,
}

pub(crate) struct Shared {
    name: Box<[u8]>,
    config: ClusterConfig,
    reader: RouteReader,
    process: Arc<Process>,
    published: Published,
    inbox: Sender<Message>,
    scheduler: OnceLock<Box<dyn EnvoyClusterScheduler>>,
    bell: Bell,
    made: Instant,
    /// When hosts may be added again, in nanoseconds since `made`.
    next_add: AtomicU64,
    closed: AtomicBool,
    workers: AtomicUsize,
    orders: Orders,
    pub(crate) counts: Counts,
}

impl Shared {
    pub(crate) fn new(
        name: &[u8],
        config: ClusterConfig,
        reader: RouteReader,
        process: &Arc<Process>,
    ) -> (Arc<Self>, Receiver<Message>) {
        let (inbox, messages) = mpsc::channel();
        let shared = Self {
            name: name.into(),
            config,
            reader,
            process: Arc::clone(process),
            published: Published::default(),
            inbox,
            scheduler: OnceLock::new(),
            bell: Bell::default(),
            made: Instant::now(),
            next_add: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            workers: AtomicUsize::new(0),
            orders: Orders::new(&process.workers),
            counts: Counts::default(),
        };
        (Arc::new(shared), messages)
    }

    /// The cluster's name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn config(&self) -> &ClusterConfig {
        &self.config
    }

    pub(crate) fn reader(&self) -> &RouteReader {
        &self.reader
    }

    /// What each sandbox has in use.
    pub(crate) fn usages(&self) -> &Usages {
        &self.process.usages
    }

    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    pub(crate) fn set_scheduler(&self, scheduler: Box<dyn EnvoyClusterScheduler>) {
        // Set once, in `on_init`, which Envoy calls once.
        let _ = self.scheduler.set(scheduler);
        // A ring before the scheduler was set could schedule nothing, so a run is scheduled now.
        self.bell.answer();
        self.notify_now();
    }

    /// From any thread: schedules a run of the main thread, soon or after its rest.
    pub(crate) fn notify(&self) {
        if self.bell.ring() {
            self.call();
        }
    }

    /// The same, without waiting for the end of a rest.
    pub(crate) fn notify_now(&self) {
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

    /// The main thread begins a run: a notification from here on schedules another.
    pub(crate) fn begin(&self) {
        self.bell.answer();
    }

    /// The main thread has set its timer and needs no notification before it.
    pub(crate) fn rest(&self) {
        self.bell.rest();
    }

    /// Ends notifications.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Counts a request that is about to be held; `None` if the gateway holds as many as it may.
    pub(crate) fn hold(&self) -> Option<Held> {
        let held = Held(Arc::clone(&self.process));
        (self.process.held.fetch_add(1, Ordering::Relaxed) < self.config.max_held).then_some(held)
    }

    /// Nothing listens on this port of this identity: its host may go.
    pub(crate) fn refused(&self, endpoint: Endpoint, identity: u64) {
        let _ = self.inbox.send(Message::Refused { endpoint, identity });
        self.notify();
    }

    /// Main thread: how many hosts there may be more, and that there are more or fewer.
    pub(crate) fn room_for_hosts(&self) -> usize {
        self.config.max_hosts.saturating_sub(self.process.hosts.load(Ordering::Relaxed))
    }

    pub(crate) fn hosts_added(&self, count: usize) {
        self.process.hosts.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn hosts_removed(&self, count: usize) {
        self.process.hosts.fetch_sub(count, Ordering::Relaxed);
    }

    /// A request waits for its host. Answered through its waker.
    pub(crate) fn want(&self, want: Want<Waker>) {
        // A cluster that is gone gives the want back: its waker is dropped, and so answered.
        let _ = self.inbox.send(Message::Want(want));
        // Where its host could be added at once it does not wait for the end of a rest.
        if self.age(Instant::now()) >= self.next_add.load(Ordering::Relaxed) {
            self.notify_now();
        } else {
            self.notify();
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
        self.orders.give(ends)
    }

    /// Main thread: whether every worker has passed the newest barrier.
    pub(crate) fn barrier_passed(&self) -> bool {
        self.orders.all_passed()
    }

    /// This worker passes a barrier: what it was doing before is done.
    pub(crate) fn pass_barrier(&self, number: u64) {
        if let Some(worker) = orders::this_worker() {
            self.pass_barrier_as(worker, number);
        }
    }

    pub(crate) fn pass_barrier_as(&self, worker: WorkerId, number: u64) {
        for ends in self.orders.take(worker, number) {
            self.counts.ended.fetch_add(streams::end(&ends), Ordering::Relaxed);
        }
        if self.orders.done(worker, number) {
            self.notify_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandgate_routes::{Limits, RouteTable};

    use super::*;
    use crate::cluster::hosts::Socket;

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

    fn want(shared: &Shared) -> Want<Waker> {
        Want {
            endpoint: Endpoint::new([10, 0, 0, 1].into(), 80),
            identity: 1,
            id: "one".into(),
            socket: Socket::default(),
            opener: None,
            since: Instant::now(),
            waker: Waker::new(Box::new(Nobody), shared.hold().expect("room for one more")),
        }
    }

    #[test]
    fn a_request_waits_for_the_end_of_a_rest_only_where_its_host_could_not_be_added_before() {
        let (_writer, reader) = RouteTable::new(Limits::default());
        let config = ClusterConfig::parse(b"{}").expect("a config");
        let (shared, _wants) = Shared::new(b"sandbox", config, reader, &Arc::default());
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
        assert_eq!(called(&shared, &Shared::notify), 0, "a change of the table can wait");
        assert_eq!(called(&shared, &|shared| shared.want(want(shared))), 1);
        shared.set_next_add(Instant::now() + Duration::from_secs(3600));
        assert_eq!(called(&shared, &|shared| shared.want(want(shared))), 0);
    }

    #[test]
    fn the_process_holds_as_many_requests_as_it_may_whichever_cluster_they_wait_for() {
        let (_writer, reader) = RouteTable::new(Limits::default());
        let process = Arc::<Process>::default();
        let cluster = |most: u32| {
            let config = format!(r#"{{"max-held-requests":{most}}}"#);
            let config = ClusterConfig::parse(config.as_bytes()).expect("a config");
            Shared::new(b"sandbox", config, reader.clone(), &process).0
        };
        let (one, other) = (cluster(3), cluster(3));
        let held = [one.hold(), other.hold(), one.hold()];
        assert!(held.iter().all(Option::is_some) && one.hold().is_none() && other.hold().is_none());
        assert_eq!(process.held.load(Ordering::Relaxed), 3, "who is refused is not counted");
        drop(held);
        assert_eq!(process.held.load(Ordering::Relaxed), 0);
        assert!(other.hold().is_some());
    }
}
