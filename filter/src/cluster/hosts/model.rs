//! The book, the workers' hosts, requests and orders, and an Envoy of a few lines, run at random.
//!
//! This Envoy is as mean as the real one: it knows one host an address, tells each worker of changes only
//! when that worker gets round to it, and gives a new host the smallest pointer that nobody holds any more,
//! so that pointers are used again as soon as they can be. Now and then it replaces the whole cluster, or the
//! main thread does not wait for a worker that is late. Everything that workers and main thread do is done by
//! the real code.
//!
//! What must hold: no worker picks a host of another identity than it asked for, none picks one that Envoy
//! has removed, everybody who waits is answered, and every request whose sandbox is gone is told to end, and
//! no other. A request that another filter holds between its decision and the choice may find no host, and
//! never a stranger's or one that is gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use envoy_proxy_dynamic_modules_rust_sdk::EnvoyHttpFilterScheduler;

use super::{Book, Closed, Socket, Want};
use crate::cluster::host::Endpoint;
use crate::cluster::host::{Host, Published};
use crate::cluster::orders::{Member, Orders, Workers};
use crate::cluster::streams::{End, Streams, Token};
use crate::cluster::usage::Limits;
use crate::cluster::usage::Usage;
use crate::cluster::worker::LocalHosts;

/// Small numbers at random, the same in every run of a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// One of the clusters that follow one another under one name: what its main thread and its workers share.
struct Cluster {
    published: Published,
    orders: Orders,
}

#[derive(Clone)]
enum Event {
    Added(Endpoint, usize),
    Removed(Endpoint, usize),
    Barrier(Arc<Cluster>, u64),
    Replaced(Arc<Cluster>),
}

struct Worker {
    member: Member,
    cluster: Arc<Cluster>,
    hosts: LocalHosts,
    streams: Streams,
    /// What Envoy has told it and it has not heard yet.
    inbox: VecDeque<Event>,
    /// The hosts that Envoy holds for it, and of which cluster.
    held: BTreeMap<usize, Arc<Cluster>>,
}

/// How often a request was told to end.
#[derive(Clone, Default)]
struct Ends(Arc<AtomicU64>);

impl EnvoyHttpFilterScheduler for Ends {
    fn commit(&self, _event_id: u64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct InFlight {
    worker: usize,
    token: Token,
    host: Arc<Host>,
    ends: Ends,
    /// Whether it has to end: its sandbox is gone, or has moved away in a way that ends requests.
    must_end: bool,
    /// Whether another filter holds it still, before its host is picked.
    late: bool,
}

struct Model {
    dice: Dice,
    now: Instant,
    limits: Limits,
    workers: Vec<Worker>,
    /// Envoy's hosts: pointer to address.
    envoy: BTreeMap<usize, Endpoint>,
    /// Who really is at each pointer, which no part of the code under test can see.
    truth: BTreeMap<usize, u64>,
    /// Whether requests end where their sandbox is not any more, as `on-pause: end` has it.
    ends_when_moved: bool,
    /// The table: identity to the last byte of its address.
    table: BTreeMap<u64, u8>,
    // The main thread of the newest cluster.
    cluster: Arc<Cluster>,
    book: Book<u64>,
    ends: Vec<End>,
    barrier: Option<Vec<Closed>>,
    removable: Vec<Closed>,
    next_identity: u64,
    next_waker: u64,
    waiting: BTreeMap<u64, (u64, u16)>,
    in_flight: Vec<InFlight>,
    /// Whether a worker may be too late to be waited for.
    impatient: bool,
    picked: u64,
    ended: u64,
    replaced: u64,
}

const ADDRESSES: u64 = 6;
const PORTS: u64 = 3;
const MOST_SERVED: usize = 5;

impl Model {
    fn new(seed: u64) -> Self {
        let workers = Workers::default();
        let cluster = Arc::new(Cluster { published: Published::default(), orders: Orders::new(&workers) });
        let worker = |_| Worker {
            member: workers.join(),
            cluster: Arc::clone(&cluster),
            hosts: LocalHosts::default(),
            streams: Streams::new(),
            inbox: VecDeque::new(),
            held: BTreeMap::new(),
        };
        Self {
            dice: Dice(seed),
            now: Instant::now(),
            limits: Limits::new(u32::MAX, u32::MAX, 100),
            workers: (0..3).map(worker).collect(),
            envoy: BTreeMap::new(),
            truth: BTreeMap::new(),
            ends_when_moved: !seed.is_multiple_of(3),
            table: BTreeMap::new(),
            cluster: Arc::clone(&cluster),
            book: Self::book(seed),
            ends: Vec::new(),
            barrier: None,
            removable: Vec::new(),
            next_identity: 1,
            next_waker: 1,
            waiting: BTreeMap::new(),
            in_flight: Vec::new(),
            impatient: seed.is_multiple_of(3),
            picked: 0,
            ended: 0,
            replaced: 0,
        }
    }

    fn book(seed: u64) -> Book<u64> {
        Book::new(2 + usize::try_from(seed % 2).expect("small"))
    }

    fn endpoint(&self, identity: u64, port: u16) -> Option<Endpoint> {
        self.table.get(&identity).map(|last| Endpoint::new([10, 0, 0, *last].into(), port))
    }

    fn any(&mut self, count: usize) -> usize {
        usize::try_from(self.dice.roll(count as u64)).expect("small")
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(20));
        match self.dice.roll(46) {
            0 => self.appear(),
            1 => self.disappear(),
            2 => self.move_away(),
            3 => self.book.take_turns(self.now),
            4 => self.book.sweep(1),
            5..=8 => self.remove(),
            9..=14 => self.run_main_thread(None),
            15..=24 => (0..6).for_each(|_| self.hear(None)),
            25..=26 => self.go_on_late(),
            27..=28 => self.finish(),
            29 if self.dice.roll(8) == 0 => self.replace(),
            _ => self.request(),
        }
    }

    fn appear(&mut self) {
        if self.table.len() >= MOST_SERVED {
            self.disappear();
        }
        let last = u8::try_from(self.dice.roll(ADDRESSES)).expect("small");
        self.table.insert(self.next_identity, last);
        self.next_identity += 1;
    }

    fn anyone(&mut self) -> Option<u64> {
        if self.table.is_empty() {
            return None;
        }
        let index = self.any(self.table.len());
        self.table.keys().nth(index).copied()
    }

    fn disappear(&mut self) {
        let Some(identity) = self.anyone() else { return };
        self.table.remove(&identity);
        let woken = self.book.forget(identity, None);
        self.answer(woken);
        self.end(identity, None);
    }

    fn move_away(&mut self) {
        let Some(identity) = self.anyone() else { return };
        let last = u8::try_from(self.dice.roll(ADDRESSES)).expect("small");
        if self.table.insert(identity, last) == Some(last) {
            return;
        }
        let woken = self.book.forget(identity, Some([10, 0, 0, last].into()));
        self.answer(woken);
        if self.ends_when_moved {
            self.end(identity, Some([10, 0, 0, last].into()));
        }
    }

    /// The main thread of the newest cluster has these requests end.
    fn end(&mut self, identity: u64, keep: Option<IpAddr>) {
        for request in &mut self.in_flight {
            let elsewhere = Some(request.host.endpoint().ip()) != keep;
            request.must_end |= request.host.identity() == identity && elsewhere;
        }
        self.ends.push(End::now(identity, keep));
    }

    /// Envoy replaces the cluster by another of its name. The old one is destroyed, and whatever it was about
    /// to do with it; the new one has no hosts, and compares what is in flight with the table.
    fn replace(&mut self) {
        self.replaced += 1;
        self.book.close_all();
        self.waiting.clear();
        self.book = Self::book(self.replaced);
        self.cluster = Arc::new(Cluster {
            published: Published::default(),
            orders: Orders::new(&Workers::clone(self.workers[0].member.workers())),
        });
        self.envoy.clear();
        (self.barrier, self.removable) = (None, Vec::new());
        self.ends.clear();
        for worker in &mut self.workers {
            worker.inbox.push_back(Event::Replaced(Arc::clone(&self.cluster)));
        }
        for request in &mut self.in_flight {
            request.must_end = request.ends.0.load(Ordering::Relaxed) > 0;
        }
        // The orders that went with the old cluster are given again.
        let followed: BTreeSet<u64> = self.in_flight.iter().map(|request| request.host.identity()).collect();
        for identity in followed {
            let keep = self.endpoint(identity, 0).map(|endpoint| endpoint.ip());
            if keep.is_none() || self.ends_when_moved {
                self.end(identity, keep);
            }
        }
    }

    /// A request on some worker: what it picks must be its own sandbox's and must be there.
    fn request(&mut self) {
        let Some(identity) = self.anyone() else { return };
        let port = u16::try_from(80 + self.dice.roll(PORTS)).expect("small");
        let Some(endpoint) = self.endpoint(identity, port) else { return };
        let index = self.any(self.workers.len());
        let worker = &mut self.workers[index];
        if let Some((host, pick)) = worker.hosts.find(endpoint, identity, &worker.cluster.published) {
            let (host, ends) = (Arc::clone(host), Ends::default());
            let entered = host.usage().enter(true, &self.limits, || None).expect("no limit");
            let token = worker.streams.enter(Arc::clone(&host), pick, entered, Box::new(ends.clone()));
            let late = self.dice.roll(8) == 0;
            let request = InFlight { worker: index, token, host, ends, must_end: false, late };
            self.in_flight.push(request);
            let at = self.in_flight.len() - 1;
            if late {
                return;
            }
            // Between the filter's decision and the router's choice this worker hears nothing; the others go
            // on.
            for _ in 0..self.dice.roll(6) {
                match self.dice.roll(4) {
                    0 => self.disappear(),
                    1 => self.run_main_thread(Some(index)),
                    2 => self.remove(),
                    _ => self.hear(Some(index)),
                }
            }
            let picked = self.pick(at);
            assert!(picked.is_some() || self.impatient, "what is found has a pointer");
            self.picked += 1;
            return;
        }
        if !Arc::ptr_eq(&worker.cluster, &self.cluster) {
            // The want goes to a cluster that is gone, and is given back at once: the request decides again
            // later.
            return;
        }
        let waker = self.next_waker;
        self.next_waker += 1;
        self.waiting.insert(waker, (identity, port));
        let want = Want {
            endpoint,
            identity,
            id: "id".into(),
            socket: Socket::default(),
            opener: None,
            since: self.now,
            waker,
        };
        let woken = self.book.want(want);
        self.answer(woken);
    }

    /// The router of a request asks for its host.
    fn pick(&mut self, request: usize) -> Option<usize> {
        let InFlight { worker, token, .. } = self.in_flight[request];
        let worker = &mut self.workers[worker];
        let target = worker.streams.target(token).expect("it is in flight");
        let published = &worker.cluster.published;
        let pointer = worker.hosts.pointer(target.pick, target.endpoint, target.identity, published)?;
        assert_eq!(self.truth.get(&pointer), Some(&target.identity), "a request went to a stranger");
        assert!(worker.held.contains_key(&pointer), "a request's pointer leads nowhere");
        if Arc::ptr_eq(&worker.cluster, &self.cluster) {
            assert_eq!(
                self.envoy.get(&pointer),
                Some(&target.endpoint),
                "a request went to a host that was removed"
            );
        }
        Some(pointer)
    }

    /// A request that was held goes on, or one is tried again: its worker may have heard of anything
    /// meanwhile.
    fn go_on_late(&mut self) {
        if let Some(at) = self.in_flight.iter().position(|request| request.late) {
            self.pick(at);
            self.in_flight[at].late = self.dice.roll(2) == 0;
        }
    }

    /// A request ends. If it had to be told to, it has been told unless its worker has yet to hear of it.
    fn finish(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let at = self.any(self.in_flight.len());
        let request = self.in_flight.swap_remove(at);
        drop(self.workers[request.worker].streams.leave(request.token));
        let ends = request.ends.0.load(Ordering::Relaxed);
        assert!(ends <= u64::from(request.must_end), "a request was told to end {ends} times");
        self.ended += ends;
    }

    fn answer(&mut self, woken: impl IntoIterator<Item = u64>) {
        for waker in woken {
            assert!(self.waiting.remove(&waker).is_some(), "somebody was answered twice");
        }
    }

    /// Some worker, but not `deaf`, hears the next thing it was told.
    fn hear(&mut self, deaf: Option<usize>) {
        let index = self.any(self.workers.len());
        if Some(index) == deaf {
            return;
        }
        let worker = &mut self.workers[index];
        match worker.inbox.pop_front() {
            Some(Event::Added(endpoint, pointer)) => worker.hosts.add(endpoint, pointer),
            Some(Event::Removed(endpoint, pointer)) => {
                worker.hosts.remove(endpoint, pointer);
                worker.held.remove(&pointer);
            }
            // The orders of a cluster that is gone went with it.
            Some(Event::Barrier(cluster, number)) if Arc::ptr_eq(&cluster, &self.cluster) => {
                for ends in cluster.orders.take(worker.member.id(), number) {
                    worker.streams.end(&ends);
                }
                cluster.orders.done(worker.member.id(), number);
            }
            Some(Event::Replaced(cluster)) => {
                worker.held.retain(|_, of| Arc::ptr_eq(of, &cluster));
                worker.hosts = LocalHosts::default();
                worker.cluster = cluster;
            }
            Some(Event::Barrier(..)) | None => {}
        }
    }

    fn run_main_thread(&mut self, deaf: Option<usize>) {
        let adds = self.book.take_adds(4);
        self.answer(adds.over_the_cap);
        for add in adds.hosts {
            assert!(
                !self.envoy.values().any(|endpoint| *endpoint == add.endpoint),
                "two hosts at {}",
                add.endpoint
            );
            let held = |pointer: &usize| self.workers.iter().any(|worker| worker.held.contains_key(pointer));
            let pointer =
                (1..).find(|pointer| !self.envoy.contains_key(pointer) && !held(pointer)).expect("a number");
            self.envoy.insert(pointer, add.endpoint);
            self.truth.insert(pointer, add.identity);
            for worker in &mut self.workers {
                worker.inbox.push_back(Event::Added(add.endpoint, pointer));
                worker.held.insert(pointer, Arc::clone(&self.cluster));
            }
            // A worker may hear of the host before it is published.
            if self.dice.roll(2) == 0 {
                self.hear(deaf);
            }
            let host = Arc::new(Host::new(add.endpoint, add.identity, Arc::new(Usage::default())));
            self.cluster.published.publish(pointer, Arc::clone(&host));
            let woken = self.book.added(pointer, host, adds.shard, self.now);
            self.answer(woken);
        }
        let too_late = self.impatient && self.dice.roll(10) == 0;
        if let Some(hosts) = &mut self.barrier
            && (self.cluster.orders.all_passed() || too_late)
        {
            self.removable.append(hosts);
            self.barrier = None;
        }
        if self.barrier.is_none() && (self.book.has_closed() || !self.ends.is_empty()) {
            let number = self.cluster.orders.give(std::mem::take(&mut self.ends));
            self.barrier = Some(self.book.take_closed());
            for worker in &mut self.workers {
                worker.inbox.push_back(Event::Barrier(Arc::clone(&self.cluster), number));
            }
        }
    }

    fn remove(&mut self) {
        let most = usize::try_from(1 + self.dice.roll(4)).expect("small");
        for Closed { endpoint, pointer, .. } in Closed::take_batch(&mut self.removable, most) {
            self.cluster.published.withdraw(pointer);
            assert_eq!(self.envoy.remove(&pointer), Some(endpoint), "removed what was not there");
            for worker in &mut self.workers {
                worker.inbox.push_back(Event::Removed(endpoint, pointer));
            }
            self.book.removed(endpoint);
        }
    }

    /// No more requests and changes: everything that was begun comes to its end.
    fn finish_all(&mut self) {
        for _ in 0..400 {
            self.now += Duration::from_millis(50);
            self.book.take_turns(self.now);
            self.run_main_thread(None);
            for _ in 0..40 {
                self.hear(None);
            }
            self.remove();
        }
        assert!(self.waiting.is_empty(), "{:?} wait for nobody", self.waiting);
        assert_eq!(self.book.waiting(), 0);
        assert_eq!(self.book.live(), self.envoy.len());
        for request in &self.in_flight {
            let (ends, identity) = (request.ends.0.load(Ordering::Relaxed), request.host.identity());
            assert_eq!(
                ends,
                u64::from(request.must_end),
                "a request of {identity} was told to end {ends} times"
            );
            assert!(ends == 1 || self.table.contains_key(&identity), "a request outlived {identity}");
        }
    }
}

#[test]
fn at_random_no_request_reaches_a_stranger_or_a_removed_host_and_all_are_answered_and_ended() {
    let (mut picked, mut ended, mut replaced) = (0, 0, 0);
    for seed in 0..300 {
        let mut model = Model::new(seed);
        for _ in 0..1_000 {
            model.step();
        }
        model.finish_all();
        picked += model.picked;
        ended += model.ended;
        replaced += model.replaced;
    }
    assert!(picked > 5_000, "only {picked} requests found their host: the model tests nothing");
    assert!(ended > 500 && replaced > 500, "{ended} requests were ended, {replaced} clusters replaced");
}
