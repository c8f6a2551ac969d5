//! The main thread with an Envoy that does what it is told and remembers it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender};

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyBuffer, EnvoyClusterScheduler, EnvoyHttpFilterScheduler};
use sandgate_config::ClusterConfig;
use sandgate_routes::{Clash, Limits, ObjectKey, Observation, RouteTable, RouteWriter, State};

use super::super::hosts::{Socket, Want};
use super::super::orders::Member;
use super::super::streams::{self, END};
use super::super::usage::Entered;
use super::super::worker::Pick;
use super::*;

mod world;

use world::*;

#[test]
fn a_wanted_host_is_added_at_once_and_goes_with_its_sandbox() {
    let mut world = World::new(100);
    world.observe("one", "u1", State::Running, 1);
    let events = world.want("one");
    world.run();
    assert_eq!(
        (world.envoy.addresses(), events.load(Ordering::Relaxed)),
        (vec!["10.0.0.1:80".to_owned()], DECIDE_AGAIN)
    );
    world.delete("one");
    world.run_until_idle();
    assert_eq!(world.envoy.addresses(), Vec::<String>::new());
    assert_eq!(world.shared.counts.ends.load(Ordering::Relaxed), 1);
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
    world.run_until_idle();
    assert_eq!(world.envoy.addresses().len(), names.len());
    let ended = world.shared.counts.ends.load(Ordering::Relaxed);

    world.delete("deleted");
    world.observe("paused", "paused", State::Paused, 3);
    world.observe("moved", "moved", State::Running, 40);
    world.observe("replaced", "another", State::Running, 5);
    world.delete("deleted-too");
    world.run_until_idle();
    assert_eq!(world.envoy.addresses(), ["10.0.0.1:80"], "more changes than the queue holds");
    // Of those who are gone the requests end, as the config says; of the paused and the moved they finish.
    assert_eq!(world.shared.counts.ends.load(Ordering::Relaxed), ended + 3);

    let events = [world.want("moved"), world.want("replaced")];
    world.run_until_idle();
    assert_eq!(world.envoy.addresses(), ["10.0.0.1:80", "10.0.0.40:80", "10.0.0.5:80"]);
    until(|| events.iter().all(|events| events.load(Ordering::Relaxed) == DECIDE_AGAIN));
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
    let events = world.want("two");
    world.main_thread.receive_messages();
    assert_eq!(events.load(Ordering::Relaxed), 0);
    for state in [State::Paused, State::Running, State::Paused] {
        world.observe("two", "two", state, 2);
    }
    world.run();
    assert_eq!(events.load(Ordering::Relaxed), DECIDE_AGAIN);
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
    let events = world.want("two");
    world.main_thread.receive_messages();
    assert_eq!(events.load(Ordering::Relaxed), 0);
    world.delete("two");
    world.main_thread.receive_changes();
    assert_eq!(events.load(Ordering::Relaxed), DECIDE_AGAIN);
    world.run_until_idle();
    assert_eq!(world.envoy.addresses(), ["10.0.0.1:80"]);
}

#[test]
fn requests_that_outlive_their_host_end_with_their_sandbox_all_the_same() {
    let mut world = World::new(100);
    world.observe("one", "u1", State::Running, 1);
    world.want("one");
    world.run_until_idle();
    // What a request in flight holds.
    let pointer = *world.envoy.hosts.lock().expect("hosts").keys().next().expect("a host");
    let in_flight = world.shared.published().get(pointer).expect("its host");
    world.observe("one", "u1", State::Paused, 1);
    world.run_until_idle();
    assert_eq!((world.envoy.addresses().len(), world.shared.counts.ends.load(Ordering::Relaxed)), (0, 0));
    world.delete("one");
    world.run_until_idle();
    assert_eq!(world.shared.counts.ends.load(Ordering::Relaxed), 1);
    drop(in_flight);
    world.observe("one", "u2", State::Running, 1);
    world.delete("one");
    assert!(world.main_thread.changes.try_recv().is_none(), "the next one is not followed");
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
        world.run_until_idle();
        assert_eq!(world.envoy.addresses(), Vec::<String>::new(), "round {round}");
    }
}

#[test]
fn a_worker_that_is_seconds_late_ends_all_that_was_to_end_meanwhile() {
    let mut world = World::with_workers(100, 2);
    for (name, last) in [("one", 1), ("two", 2), ("three", 3), ("stays", 4)] {
        world.observe(name, name, State::Running, last);
        world.want(name);
    }
    world.run_until_idle();
    let events = [1, 2, 3, 4].map(|last| world.workers[1].begin(world.host(&format!("10.0.0.{last}:80"))));
    // The second worker is busy with something.
    let (go_on, busy) = std::sync::mpsc::channel::<()>();
    drop(world.workers[1].run(move || busy.recv()));
    for name in ["one", "two", "three"] {
        let before = world.envoy.barriers.load(Ordering::Relaxed);
        world.delete(name);
        while world.envoy.barriers.load(Ordering::Relaxed) == before {
            world.run();
            world.call_workers();
            // As if it were a second later: nobody waits for the late one any longer.
            if let Some((since, _)) = &mut world.main_thread.barrier {
                *since -= BARRIER_LIMIT;
            }
        }
    }
    assert_eq!(events.each_ref().map(|events| events.load(Ordering::Relaxed)), [0; 4]);
    go_on.send(()).expect("it is busy");
    world.run_until_idle();
    until(|| events[..3].iter().all(|events| events.load(Ordering::Relaxed) == END));
    world.workers[1].run(|| ()).recv().expect("it has done everything");
    assert_eq!(events[3].load(Ordering::Relaxed), 0, "a request of a sandbox that lives was ended");
}

#[test]
fn an_identity_that_gets_another_id_keeps_its_requests_also_when_the_change_was_missed() {
    for feed in [100, 1] {
        let mut world = World::with_workers(feed, 1);
        world.observe("one", "u1", State::Running, 1);
        world.want("one");
        world.run_until_idle();
        let events = world.workers[0].begin(world.host("10.0.0.1:80"));
        world.observe_as("one", "renamed", "u1", State::Running, 1);
        world.observe_as("one", "renamed-again", "u1", State::Running, 1);
        world.run_until_idle();
        assert_eq!(
            (world.envoy.addresses(), events.load(Ordering::Relaxed)),
            (vec!["10.0.0.1:80".to_owned()], 0)
        );
        // It is known by its new ID from now on.
        world.delete("one");
        world.run_until_idle();
        until(|| events.load(Ordering::Relaxed) == END);
        assert!(world.envoy.addresses().is_empty());
    }
}

#[test]
fn a_main_thread_that_runs_while_a_sandbox_gets_another_id_ends_nothing() {
    const MOVES: u64 = if cfg!(miri) { 20 } else { 20_000 };
    for feed in [100, 1] {
        let mut world = World::with_workers(feed, 1);
        world.observe("one", "u1", State::Running, 1);
        world.want("one");
        world.run_until_idle();
        let events = world.workers[0].begin(world.host("10.0.0.1:80"));
        let (writer, version) = (world.writer.clone(), world.version);
        std::thread::scope(|scope| {
            let moves = scope.spawn(move || {
                for number in 1..=MOVES {
                    let id = format!("one-{}", number % 2);
                    writer.apply(observation("one", &id, "u1", State::Running, 1, version + number));
                }
            });
            while !moves.is_finished() {
                // As after a lag: everybody is looked for by the ID that is known.
                world.main_thread.compare_again = true;
                world.main_thread.run(&world.envoy);
            }
        });
        world.run_until_idle();
        assert_eq!(world.shared.counts.ends.load(Ordering::Relaxed), 0, "feed {feed}");
        assert_eq!((world.envoy.addresses().len(), events.load(Ordering::Relaxed)), (1, 0), "feed {feed}");
    }
}

#[test]
fn requests_that_outlive_their_host_end_also_when_the_end_of_their_sandbox_was_missed() {
    let mut world = World::with_workers(1, 1);
    for (name, last) in [("one", 1), ("two", 2)] {
        world.observe(name, name, State::Running, last);
        world.want(name);
    }
    world.run_until_idle();
    let events = world.workers[0].begin(world.host("10.0.0.1:80"));
    world.observe("one", "one", State::Paused, 1);
    world.run_until_idle();
    assert_eq!(world.envoy.addresses(), ["10.0.0.2:80"]);
    world.observe("two", "two", State::Paused, 2);
    world.delete("one");
    world.run_until_idle();
    until(|| events.load(Ordering::Relaxed) == END);
}

#[test]
fn requests_at_an_address_that_was_left_end_also_when_the_move_was_missed() {
    for feed in [100, 1] {
        let mut world = World::configured(feed, r#"{"on-delete":"end","on-pause":"end"}"#);
        world.workers.push(WorkerThread::start(&world.process));
        for (name, last) in [("moves", 1), ("stays", 2)] {
            world.observe(name, name, State::Running, last);
            world.want(name);
        }
        world.run_until_idle();
        let events = [1, 2].map(|last| world.workers[0].begin(world.host(&format!("10.0.0.{last}:80"))));
        // More changes than a short queue holds.
        world.observe("moves", "moves", State::Running, 3);
        world.observe("moves", "moves", State::Running, 4);
        world.want("moves");
        world.run_until_idle();
        until(|| events[0].load(Ordering::Relaxed) == END);
        let there = world.workers[0].begin(world.host("10.0.0.4:80"));
        world.workers[0].run(|| ()).recv().expect("it has done everything");
        assert_eq!([&events[1], &there].map(|events| events.load(Ordering::Relaxed)), [0, 0], "feed {feed}");
    }
}

#[test]
fn a_worker_that_is_late_does_not_end_what_began_after_the_sandbox_was_resumed() {
    let mut world = World::configured(1, r#"{"on-pause":"end"}"#);
    world.workers.push(WorkerThread::start(&world.process));
    world.observe("one", "u1", State::Running, 1);
    world.want("one");
    world.run_until_idle();
    let before = world.workers[0].begin(world.host("10.0.0.1:80"));
    // The pause is found by looking at the table, because changes were missed.
    world.observe("one", "u1", State::Paused, 1);
    world.observe("one", "u1", State::Creating, 1);
    while world.envoy.barriers.load(Ordering::Relaxed) == world.called {
        world.run();
    }
    // The worker has not been called yet, and nobody waits for it any longer.
    world.observe("one", "u1", State::Running, 1);
    world.want("one");
    while world.envoy.addresses().is_empty() || !world.host_is_open("10.0.0.1:80") {
        if let Some((since, _)) = &mut world.main_thread.barrier {
            *since -= BARRIER_LIMIT;
        }
        world.run();
    }
    let after = world.workers[0].begin(world.host("10.0.0.1:80"));
    world.run_until_idle();
    until(|| before.load(Ordering::Relaxed) == END);
    world.workers[0].run(|| ()).recv().expect("it has done everything");
    assert_eq!(after.load(Ordering::Relaxed), 0, "a request of a sandbox that runs was ended");
}

#[test]
fn one_run_takes_in_so_much_and_the_next_runs_take_in_the_rest() {
    let mut world = World::new(10 * MAX_PER_RUN);
    world.observe("one", "u1", State::Running, 1);
    world.want("one");
    world.run_until_idle();
    let answered = Arc::new(AtomicU64::new(0));
    struct Counts(Arc<AtomicU64>);
    impl EnvoyHttpFilterScheduler for Counts {
        fn commit(&self, _event_id: u64) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for _ in 0..2 * MAX_PER_RUN + 1 {
        world.want_by("one", Counts(Arc::clone(&answered)));
    }
    // Its host is there, so that each is answered when it is taken in.
    let most = MAX_PER_RUN as u64;
    for expected in [most, 2 * most, 2 * most + 1] {
        world.run();
        assert_eq!(answered.load(Ordering::Relaxed), expected);
    }
    for round in 0..MAX_PER_RUN {
        let state = if round % 2 == 0 { State::Paused } else { State::Running };
        world.observe("one", "u1", state, 1);
    }
    world.delete("one");
    world.run();
    assert!(world.main_thread.ends.is_empty() && world.shared.counts.ends.load(Ordering::Relaxed) == 0);
    world.run_until_idle();
    assert_eq!(world.shared.counts.ends.load(Ordering::Relaxed), 1);
}

#[test]
fn a_cluster_that_replaces_another_ends_what_the_other_had_left_to_end() {
    let mut world = World::with_workers(100, 1);
    world.observe("one", "u1", State::Running, 1);
    world.want("one");
    world.run_until_idle();
    let host = world.host("10.0.0.1:80");
    let events = world.workers[0].begin(Arc::clone(&host));
    // The old one is destroyed before it has heard of this.
    world.delete("one");
    let config = ClusterConfig::parse(b"{}").expect("a config");
    let reader = world.shared.reader().clone();
    let (shared, wants) = Shared::new(b"sandbox", config, reader, &world.process);
    let changes = world.writer.subscribe_where(100, change_filter(&world.process, &world.writer.reader()));
    world.main_thread = MainThread::new(&shared, wants, changes);
    (world.shared, world.envoy, world.called) = (shared, Envoy::default(), 0);
    assert!(host.is_closing(), "nobody goes to the hosts of the old one any more");
    world.run_until_idle();
    until(|| events.load(Ordering::Relaxed) == END);
}

#[test]
fn over_the_cap_on_hosts_unused_ones_go_and_where_all_are_in_use_those_who_wait_are_told() {
    let mut world = World::configured(1_000, r#"{"max-hosts":3}"#);
    for last in 1..=6 {
        world.observe(&format!("s{last}"), &format!("s{last}"), State::Running, last);
    }
    for last in 1..=3 {
        world.want(&format!("s{last}"));
    }
    world.run_until_idle();
    let in_use = [1, 2].map(|last| world.host(&format!("10.0.0.{last}:80")));
    in_use.iter().for_each(|host| host.enter());
    // The third is not in use, and goes once it has not been used for a while.
    let waits = world.want("s4");
    world.run_until_idle();
    assert_eq!(waits.load(Ordering::Relaxed), Wakeup::NoRoom as u64, "it was used a moment ago");
    let waits = world.want("s4");
    world.run_until_idle();
    until(|| waits.load(Ordering::Relaxed) == DECIDE_AGAIN);
    assert_eq!(world.envoy.addresses(), ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.4:80"]);
    world.host("10.0.0.4:80").enter();
    let waits = ["s5", "s6"].map(|name| world.want(name));
    world.run_until_idle();
    assert_eq!(waits.map(|events| events.load(Ordering::Relaxed)), [Wakeup::NoRoom as u64; 2]);
    assert_eq!(world.process.hosts.load(Ordering::Relaxed), 3);
    world.delete("s1");
    let waits = world.want("s5");
    world.run_until_idle();
    until(|| waits.load(Ordering::Relaxed) == DECIDE_AGAIN);
    let World { main_thread, process, .. } = world;
    drop(main_thread);
    assert_eq!(process.hosts.load(Ordering::Relaxed), 0, "a cluster that ends gives its hosts back");
}

#[test]
fn a_port_where_nothing_listens_gives_its_host_up_unless_it_is_in_use() {
    let mut world = World::new(100);
    world.observe("one", "u1", State::Running, 1);
    world.want("one");
    world.run_until_idle();
    let host = world.host("10.0.0.1:80");
    host.enter();
    world.shared.refused(host.endpoint(), host.identity());
    world.run_until_idle();
    assert_eq!(world.envoy.addresses().len(), 1, "somebody is served there");
    host.leave();
    world.shared.refused(host.endpoint(), host.identity() + 1);
    world.run_until_idle();
    assert_eq!(world.envoy.addresses().len(), 1, "another identity was refused there");
    world.shared.refused(host.endpoint(), host.identity());
    world.run_until_idle();
    assert!(world.envoy.addresses().is_empty());
}

#[test]
fn sandboxes_that_go_together_go_in_one_batch() {
    let mut world = World::new(1_000);
    for last in 1..=200 {
        let name = format!("s{last}");
        world.observe(&name, &name, State::Running, last);
        world.want(&name);
    }
    world.run_until_idle();
    assert_eq!(world.envoy.addresses().len(), 200);
    for last in 1..=200 {
        world.delete(&format!("s{last}"));
    }
    world.run_until_idle();
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
