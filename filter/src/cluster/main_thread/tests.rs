//! The main thread with an Envoy that does what it is told and remembers it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use envoy_proxy_dynamic_modules_rust_sdk::abi::envoy_dynamic_module_type_host_health as Health;
use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyBuffer, EnvoyClusterScheduler, EnvoyHttpFilterScheduler};
use sandgate_request::UpstreamConfig;
use sandgate_routes::{Clash, Limits, ObjectKey, Observation, RouteTable, RouteWriter, State};

use super::super::hosts::Socket;
use super::*;

type HostPtr = *mut c_void;
type Added = Option<Vec<HostPtr>>;
type Triples = [(String, String, String)];

#[derive(Default)]
struct Envoy {
    hosts: Mutex<BTreeMap<usize, String>>,
    barriers: AtomicU64,
    removals: AtomicU64,
}

impl Envoy {
    fn addresses(&self) -> Vec<String> {
        let mut all: Vec<String> = self.hosts.lock().expect("hosts").values().cloned().collect();
        all.sort();
        all
    }
}

impl EnvoyCluster for Envoy {
    fn add_hosts_with_hostnames_and_locality_to_priority(
        &self,
        _priority: u32,
        addresses: &[String],
        _hostnames: &[String],
        _weights: &[u32],
        _localities: &Triples,
        _metadata: &[Vec<(String, String, String)>],
    ) -> Added {
        let mut hosts = self.hosts.lock().expect("hosts");
        let add = |address: &String| {
            assert!(!hosts.values().any(|known| known == address), "{address} is there already");
            let pointer = hosts.last_key_value().map_or(1, |(last, _)| last + 1);
            hosts.insert(pointer, address.clone());
            pointer as HostPtr
        };
        Some(addresses.iter().map(add).collect())
    }

    fn remove_hosts(&self, hosts: &[HostPtr]) -> usize {
        self.removals.fetch_add(1, Ordering::Relaxed);
        let mut known = self.hosts.lock().expect("hosts");
        hosts.iter().filter(|host| known.remove(&(**host as usize)).is_some()).count()
    }

    fn run_on_all_workers(&self, _event_id: u64) {
        self.barriers.fetch_add(1, Ordering::Relaxed);
    }

    fn find_host_by_address(&self, _address: &str) -> Option<HostPtr> {
        None
    }

    fn add_hosts(&self, _: &[String], _: &[u32]) -> Added {
        unreachable!("not how hosts are added")
    }

    fn add_hosts_with_hostnames(&self, _: &[String], _: &[String], _: &[u32]) -> Added {
        unreachable!("not how hosts are added")
    }

    fn add_hosts_with_locality(
        &self,
        _: &[String],
        _: &[u32],
        _: &Triples,
        _: &[Vec<(String, String, String)>],
    ) -> Added {
        unreachable!("not how hosts are added")
    }

    fn add_hosts_to_priority(&self, _: u32, _: &[String], _: &[u32]) -> Added {
        unreachable!("not how hosts are added")
    }

    fn add_hosts_with_locality_to_priority(
        &self,
        _: u32,
        _: &[String],
        _: &[u32],
        _: &Triples,
        _: &[Vec<(String, String, String)>],
    ) -> Added {
        unreachable!("not how hosts are added")
    }

    fn update_host_health(&self, _: HostPtr, _: Health) -> bool {
        unreachable!("hosts have no health here")
    }

    fn pre_init_complete(&self) {}

    fn new_scheduler(&self) -> Box<dyn EnvoyClusterScheduler> {
        unreachable!("the test runs the main thread itself")
    }

    fn get_cluster_name<'a>(&'a self) -> EnvoyBuffer<'a> {
        unreachable!("the test names the cluster")
    }

    fn use_persistent_host_map(&self) {}
}

/// A request that remembers what it was told.
struct Held(Arc<AtomicU64>);

impl EnvoyHttpFilterScheduler for Held {
    fn commit(&self, event_id: u64) {
        self.0.store(event_id, Ordering::Relaxed);
    }
}

struct World {
    writer: RouteWriter,
    shared: Arc<Shared>,
    main_thread: MainThread,
    envoy: Envoy,
    version: u64,
}

impl World {
    /// As many changes as `feed` may wait for the main thread.
    fn new(feed: usize) -> Self {
        let (writer, reader) = RouteTable::new(Limits::default());
        writer.set_ready();
        let config = UpstreamConfig::parse(br#"{"on-delete":"end","on-pause":"finish"}"#).expect("a config");
        let (shared, wants) = Shared::new(b"sandbox", config, reader);
        let changes = writer.subscribe_where(feed, cares);
        let main_thread = MainThread::new(&shared, wants, changes);
        Self { writer, shared, main_thread, envoy: Envoy::default(), version: 0 }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("test", "default", name).expect("a key")
    }

    fn observe(&mut self, name: &str, uid: &str, state: State, last: u8) {
        self.version += 1;
        self.writer.apply(Observation {
            key: Self::key(name),
            id: name.to_owned(),
            uid: uid.to_owned(),
            owner: String::new(),
            state,
            version: self.version.to_string().parse().expect("a version"),
            ip: Some(ip(last)),
            token: None,
            require_traffic_auth: false,
            clash: Clash::NewestServes,
        });
    }

    fn delete(&mut self, name: &str) {
        self.version += 1;
        let version = self.version.to_string().parse().expect("a version");
        self.writer.delete(&Self::key(name), Some(version));
    }

    fn run(&mut self) {
        self.main_thread.run(&self.envoy);
    }

    /// Runs until no host waits for its batch. There are no workers, so a barrier is passed as soon as it is raised.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.run();
            let waits = self.main_thread.barrier.is_some()
                || !self.main_thread.removable.is_empty()
                || self.main_thread.book.has_vacant();
            if !waits {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("hosts wait for ever");
    }

    /// A request wants the host of a sandbox: what it is told in the end.
    fn want(&self, name: &str) -> Arc<AtomicU64> {
        let told = Arc::new(AtomicU64::new(0));
        self.want_by(name, Held(Arc::clone(&told)));
        told
    }

    fn want_by(&self, name: &str, held: impl EnvoyHttpFilterScheduler + 'static) {
        let table = self.shared.reader().pin();
        let route = table.get(name).expect("in the table");
        self.shared.want(Want {
            key: Key::new(route.ip().expect("an address"), 80),
            identity: route.identity(),
            id: name.into(),
            socket: Socket::default(),
            since: Instant::now(),
            waker: Waker::new(Box::new(held)),
        });
    }
}

/// Waits for what other threads do.
fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "it never comes");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

const DECIDE_AGAIN: u64 = Answer::DecideAgain as u64;

#[test]
fn a_wanted_host_is_added_at_once_and_goes_with_its_sandbox() {
    let mut world = World::new(100);
    world.observe("one", "u1", State::Running, 1);
    let told = world.want("one");
    world.run();
    assert_eq!(
        (world.envoy.addresses(), told.load(Ordering::Relaxed)),
        (vec!["10.0.0.1:80".to_owned()], DECIDE_AGAIN)
    );
    world.delete("one");
    world.settle();
    assert_eq!(world.envoy.addresses(), Vec::<String>::new());
    assert_eq!(world.shared.counts.ended.load(Ordering::Relaxed), 1);
}

#[test]
fn after_changes_were_missed_every_host_is_held_against_the_table() {
    let mut world = World::new(4);
    let names = ["stays", "deleted", "paused", "moved", "replaced", "deleted-too"];
    for (last, name) in (1..).zip(names) {
        world.observe(name, name, State::Running, last);
        world.run();
    }
    for name in names {
        world.want(name);
    }
    world.settle();
    assert_eq!(world.envoy.addresses().len(), names.len());
    let ended = world.shared.counts.ended.load(Ordering::Relaxed);

    world.delete("deleted");
    world.observe("paused", "paused", State::Paused, 3);
    world.observe("moved", "moved", State::Running, 40);
    world.observe("replaced", "another", State::Running, 5);
    world.delete("deleted-too");
    world.settle();
    assert_eq!(world.envoy.addresses(), ["10.0.0.1:80"], "more changes than the queue holds");
    // Of those who are gone the requests end, as the config says; of the paused and the moved they finish.
    assert_eq!(world.shared.counts.ended.load(Ordering::Relaxed), ended + 3);

    let told = [world.want("moved"), world.want("replaced")];
    world.settle();
    assert_eq!(world.envoy.addresses(), ["10.0.0.1:80", "10.0.0.40:80", "10.0.0.5:80"]);
    until(|| told.iter().all(|told| told.load(Ordering::Relaxed) == DECIDE_AGAIN));
}

#[test]
fn those_whose_hosts_come_together_go_on_one_after_the_other_and_without_the_main_thread() {
    /// A request that remembers when it went on.
    struct Goes(Arc<Mutex<Vec<Instant>>>);

    impl EnvoyHttpFilterScheduler for Goes {
        fn commit(&self, _event_id: u64) {
            self.0.lock().expect("moments").push(Instant::now());
        }
    }

    let (mut world, moments) = (World::new(100), Arc::<Mutex<Vec<Instant>>>::default());
    world.observe("one", "u1", State::Running, 1);
    for _ in 0..40 {
        world.want_by("one", Goes(Arc::clone(&moments)));
    }
    world.run();
    let gone_on = || moments.lock().expect("moments").clone();
    assert!(!gone_on().is_empty(), "the first ones go at once");
    until(|| gone_on().len() == 40);
    // Time can only make this longer: five of forty at a time at most, a millisecond after one another.
    let moments = gone_on();
    let took = moments[39] - moments[0];
    assert!(took > Duration::from_millis(5), "all within {took:?}");
}

#[test]
fn those_who_wait_for_what_is_gone_are_told_also_when_the_change_was_missed() {
    let mut world = World::new(2);
    for (name, last) in [("one", 1), ("two", 2)] {
        world.observe(name, name, State::Running, last);
    }
    world.run();
    // The first batch was just made, so that the next ones wait for theirs.
    world.want("one");
    world.run();
    let told = world.want("two");
    world.main_thread.take_wants();
    assert_eq!(told.load(Ordering::Relaxed), 0);
    for state in [State::Paused, State::Running, State::Paused] {
        world.observe("two", "two", state, 2);
    }
    world.run();
    assert_eq!(told.load(Ordering::Relaxed), DECIDE_AGAIN);
    assert_eq!(world.envoy.addresses(), ["10.0.0.1:80"]);
}

#[test]
fn of_sandboxes_that_nobody_asks_for_the_main_thread_hears_nothing() {
    let mut world = World::new(100);
    for state in [State::Running, State::Paused, State::Running] {
        world.observe("one", "u1", state, 1);
    }
    world.observe("one", "another", State::Running, 2);
    world.delete("one");
    assert!(world.main_thread.changes.try_recv().is_none());
    world.run();
    assert_eq!(world.envoy.barriers.load(Ordering::Relaxed), 0, "no worker was asked to end anything");
}

#[test]
fn who_waits_for_a_host_is_told_that_its_sandbox_is_gone() {
    let mut world = World::new(100);
    for (name, last) in [("one", 1), ("two", 2)] {
        world.observe(name, name, State::Running, last);
    }
    // The first batch was just made, so that the next one is waited for.
    world.want("one");
    world.run();
    let told = world.want("two");
    world.main_thread.take_wants();
    assert_eq!(told.load(Ordering::Relaxed), 0);
    world.delete("two");
    world.main_thread.take_changes();
    assert_eq!(told.load(Ordering::Relaxed), DECIDE_AGAIN);
    world.settle();
    assert_eq!(world.envoy.addresses(), ["10.0.0.1:80"]);
}

#[test]
fn requests_that_outlive_their_host_end_with_their_sandbox_all_the_same() {
    let mut world = World::new(100);
    world.observe("one", "u1", State::Running, 1);
    world.want("one");
    world.settle();
    // What a request in flight holds.
    let pointer = *world.envoy.hosts.lock().expect("hosts").keys().next().expect("a host");
    let in_flight = world.shared.published().get(pointer).expect("its host");
    world.observe("one", "u1", State::Paused, 1);
    world.settle();
    assert_eq!((world.envoy.addresses().len(), world.shared.counts.ended.load(Ordering::Relaxed)), (0, 0));
    world.delete("one");
    world.settle();
    assert_eq!(world.shared.counts.ended.load(Ordering::Relaxed), 1);
    drop(in_flight);
    world.observe("one", "u2", State::Running, 1);
    world.delete("one");
    assert!(world.main_thread.changes.try_recv().is_none(), "nobody minds the next one");
}

#[test]
fn a_sandbox_that_goes_just_as_its_host_is_wanted_leaves_none_behind() {
    const ROUNDS: usize = if cfg!(miri) { 10 } else { 1_500 };
    let mut world = World::new(100);
    for round in 0..ROUNDS {
        world.observe("one", &format!("u{round}"), State::Running, 1);
        world.want("one");
        let writer = world.writer.clone();
        let version = (world.version + 1).to_string().parse().expect("a version");
        world.version += 1;
        let begin = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                // At another moment each time.
                (0..round % 300).for_each(|_| std::hint::spin_loop());
                writer.delete(&World::key("one"), Some(version))
            });
            begin.wait();
            world.main_thread.run(&world.envoy);
        });
        world.settle();
        assert_eq!(world.envoy.addresses(), Vec::<String>::new(), "round {round}");
    }
}

#[test]
fn sandboxes_that_go_together_go_in_one_batch() {
    let mut world = World::new(1_000);
    for last in 1..=200 {
        let name = format!("s{last}");
        world.observe(&name, &name, State::Running, last);
        world.want(&name);
    }
    world.settle();
    assert_eq!(world.envoy.addresses().len(), 200);
    for last in 1..=200 {
        world.delete(&format!("s{last}"));
    }
    world.settle();
    assert_eq!(world.envoy.addresses().len(), 0);
    assert_eq!(world.envoy.removals.load(Ordering::Relaxed), 1);
    assert_eq!(world.envoy.barriers.load(Ordering::Relaxed), 1);
}

#[test]
fn all_shards_have_their_turn_within_the_time_and_not_all_at_once() {
    let second = Duration::from_secs(1);
    assert_eq!(sweep_step(75 * second, 1), (1, 75 * second), "one shard: once a turn");
    assert_eq!(sweep_step(75 * second, 0), (0, 75 * second));
    for shards in [2, 100, 800, 1024] {
        for turn in [second / 4, second, 75 * second] {
            let (count, step) = sweep_step(turn, shards);
            let steps = u32::try_from(shards.div_ceil(count)).expect("few");
            assert!(step * steps <= turn + turn / 100, "{shards} shards in {turn:?}: {count} every {step:?}");
            assert!(step >= SWEEP_STEP.min(turn), "{step:?}");
        }
    }
    assert_eq!(sweep_step(25 * second, 800), (8, second / 4));
}
