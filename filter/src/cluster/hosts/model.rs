//! The book, the workers' hosts and an Envoy of a few lines, run at random.
//!
//! This Envoy is as mean as the real one: it knows one host an address, tells each worker of changes only when that worker
//! gets round to it, and gives a new host the smallest pointer that nobody holds any more, so that pointers are used again
//! as soon as they can be. What must hold: no worker picks a host of another identity than it asked for, none picks one that
//! Envoy has removed, and everybody who waits is answered. A request that another filter holds between its decision and the
//! choice may find its host gone, and never a stranger's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Book, Closed, Socket, Want};
use crate::cluster::host::{Host, Published, Usage};
use crate::cluster::key::Key;
use crate::cluster::local::{LocalHosts, Pick};

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

#[derive(Clone, Copy)]
enum Event {
    Added(Key, usize),
    Removed(Key, usize),
    Barrier(u64),
}

#[derive(Default)]
struct Worker {
    hosts: LocalHosts,
    /// What Envoy has told it and it has not heard yet.
    inbox: VecDeque<Event>,
    /// The hosts that Envoy holds for it.
    held: BTreeMap<usize, usize>,
    passed: u64,
}

struct Model {
    dice: Dice,
    now: Instant,
    book: Book<u64>,
    published: Published,
    workers: Vec<Worker>,
    /// Envoy's hosts: pointer to address.
    envoy: BTreeMap<usize, Key>,
    /// Who really is at each pointer, which no part of the code under test can see.
    truth: BTreeMap<usize, u64>,
    /// The table: identity to the last byte of its address.
    table: BTreeMap<u64, u8>,
    barrier: Option<(u64, Vec<Closed>)>,
    removable: Vec<Closed>,
    next_identity: u64,
    next_waker: u64,
    waiting: BTreeMap<u64, (u64, u16)>,
    picked: u64,
    /// Requests that another filter holds: worker, what was found, address and identity.
    late: Vec<(usize, Pick, Key, u64)>,
}

const ADDRESSES: u64 = 6;
const PORTS: u64 = 3;
const MOST_SERVED: usize = 5;

impl Model {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            now: Instant::now(),
            book: Book::new(2 + usize::try_from(seed % 2).expect("small")),
            published: Published::default(),
            workers: (0..3).map(|_| Worker::default()).collect(),
            envoy: BTreeMap::new(),
            truth: BTreeMap::new(),
            table: BTreeMap::new(),
            barrier: None,
            removable: Vec::new(),
            next_identity: 1,
            next_waker: 1,
            waiting: BTreeMap::new(),
            picked: 0,
            late: Vec::new(),
        }
    }

    fn key(&self, identity: u64, port: u16) -> Option<Key> {
        self.table.get(&identity).map(|last| Key::new([10, 0, 0, *last].into(), port))
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(20));
        match self.dice.roll(42) {
            40..=41 => self.go_on_late(),
            0 => self.appear(),
            1 => self.disappear(),
            2 => self.move_away(),
            3 => self.book.take_turns(self.now),
            4 => self.book.sweep(1),
            5..=8 => self.remove(),
            9..=14 => self.run_main_thread(None),
            15..=24 => (0..6).for_each(|_| self.hear(None)),
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
        let count = self.table.len() as u64;
        if count == 0 {
            return None;
        }
        let index = usize::try_from(self.dice.roll(count)).expect("small");
        self.table.keys().nth(index).copied()
    }

    fn disappear(&mut self) {
        let Some(identity) = self.anyone() else { return };
        self.table.remove(&identity);
        let woken = self.book.forget(identity, None);
        self.answer(woken);
    }

    fn move_away(&mut self) {
        let Some(identity) = self.anyone() else { return };
        let last = u8::try_from(self.dice.roll(ADDRESSES)).expect("small");
        self.table.insert(identity, last);
        let woken = self.book.forget(identity, Some([10, 0, 0, last].into()));
        self.answer(woken);
    }

    /// A request on some worker: what it picks must be its own sandbox's and must be there.
    fn request(&mut self) {
        let Some(identity) = self.anyone() else { return };
        let port = u16::try_from(80 + self.dice.roll(PORTS)).expect("small");
        let Some(key) = self.key(identity, port) else { return };
        let worker = usize::try_from(self.dice.roll(self.workers.len() as u64)).expect("small");
        let hosts = &mut self.workers[worker].hosts;
        if let Some((host, pick)) = hosts.find(key, identity, &self.published) {
            host.enter();
            host.leave();
            if self.dice.roll(8) == 0 {
                self.late.push((worker, pick, key, identity));
            }
            // Between the filter's decision and the router's choice this worker hears nothing; the others go on.
            for _ in 0..self.dice.roll(6) {
                match self.dice.roll(4) {
                    0 => self.disappear(),
                    1 => self.run_main_thread(Some(worker)),
                    2 => self.remove(),
                    _ => self.hear(Some(worker)),
                }
            }
            let hosts = &self.workers[worker].hosts;
            let pointer = hosts.pointer(pick, key, identity).expect("what is found has a pointer");
            assert_eq!(self.truth.get(&pointer), Some(&identity), "a request went to a stranger");
            assert_eq!(self.envoy.get(&pointer), Some(&key), "a request went to a host that was removed");
            self.picked += 1;
            return;
        }
        let waker = self.next_waker;
        self.next_waker += 1;
        self.waiting.insert(waker, (identity, port));
        let want = Want { key, identity, id: "id".into(), socket: Socket::default(), since: self.now, waker };
        let woken = self.book.want(want);
        self.answer(woken);
    }

    /// A request that was held goes on: its worker may have heard of anything meanwhile.
    fn go_on_late(&mut self) {
        let Some((worker, pick, key, identity)) = self.late.pop() else { return };
        let worker = &self.workers[worker];
        if let Some(pointer) = worker.hosts.pointer(pick, key, identity) {
            assert_eq!(self.truth.get(&pointer), Some(&identity), "a late request went to a stranger");
            assert!(worker.held.contains_key(&pointer), "a late request's pointer leads nowhere");
        }
    }

    fn answer(&mut self, woken: impl IntoIterator<Item = u64>) {
        for waker in woken {
            assert!(self.waiting.remove(&waker).is_some(), "somebody was answered twice");
        }
    }

    /// Some worker, but not `deaf`, hears the next thing it was told.
    fn hear(&mut self, deaf: Option<usize>) {
        let index = usize::try_from(self.dice.roll(self.workers.len() as u64)).expect("small");
        if Some(index) == deaf {
            return;
        }
        let worker = &mut self.workers[index];
        match worker.inbox.pop_front() {
            Some(Event::Added(key, pointer)) => worker.hosts.add(key, pointer),
            Some(Event::Removed(key, pointer)) => {
                worker.hosts.remove(key, pointer);
                worker.held.remove(&pointer);
            }
            Some(Event::Barrier(number)) => worker.passed = number,
            None => {}
        }
    }

    fn run_main_thread(&mut self, deaf: Option<usize>) {
        let adds = self.book.take_adds(4);
        self.answer(adds.over_the_cap);
        for add in adds.hosts {
            assert!(!self.envoy.values().any(|key| *key == add.key), "two hosts at {}", add.key);
            let held = |pointer: &usize| self.workers.iter().any(|worker| worker.held.contains_key(pointer));
            let pointer =
                (1..).find(|pointer| !self.envoy.contains_key(pointer) && !held(pointer)).expect("a number");
            self.envoy.insert(pointer, add.key);
            self.truth.insert(pointer, add.identity);
            for worker in &mut self.workers {
                worker.inbox.push_back(Event::Added(add.key, pointer));
                worker.held.insert(pointer, 1);
            }
            // A worker may hear of the host before it is published.
            if self.dice.roll(2) == 0 {
                self.hear(deaf);
            }
            let host = Arc::new(Host::new(add.key, add.identity, Arc::new(Usage::default())));
            self.published.publish(pointer, Arc::clone(&host));
            let woken = self.book.added(pointer, host, adds.shard, self.now);
            self.answer(woken);
        }
        if let Some((number, hosts)) = &mut self.barrier
            && self.workers.iter().all(|worker| worker.passed >= *number)
        {
            self.removable.append(hosts);
            self.barrier = None;
        }
        if self.barrier.is_none() && self.book.has_closed() {
            let number = self.workers.iter().map(|worker| worker.passed).max().unwrap_or(0) + 1;
            self.barrier = Some((number, self.book.take_closed()));
            for worker in &mut self.workers {
                worker.inbox.push_back(Event::Barrier(number));
            }
        }
    }

    fn remove(&mut self) {
        let most = usize::try_from(1 + self.dice.roll(4)).expect("small");
        for Closed { key, pointer, .. } in Closed::take_batch(&mut self.removable, most) {
            self.published.withdraw(pointer);
            assert_eq!(self.envoy.remove(&pointer), Some(key), "removed what was not there");
            for worker in &mut self.workers {
                worker.inbox.push_back(Event::Removed(key, pointer));
            }
            self.book.removed(key);
        }
    }

    /// No more requests and changes: everything that was begun comes to its end.
    fn settle(&mut self) {
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
    }
}

#[test]
fn at_random_no_request_reaches_a_stranger_or_a_removed_host_and_all_are_answered() {
    let mut picked = 0;
    for seed in 0..300 {
        let mut model = Model::new(seed);
        for _ in 0..1_000 {
            model.step();
        }
        model.settle();
        picked += model.picked;
    }
    assert!(picked > 5_000, "only {picked} requests found their host: the model tests nothing");
}
