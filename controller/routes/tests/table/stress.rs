//! Real threads: readers that spin, three writers, relists, sweeps, a subscriber, all at once for a while.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sandgate_routes::{
    Limits, Moving, Notice, Observation, Pinned, Route, RouteReader, RouteTable, RouteWriter, State, Version,
};

use crate::fixture::{everything, key, sandbox, version};

const OBJECTS: u64 = if cfg!(miri) { 8 } else { 64 };
const TIME: Duration = if cfg!(miri) { Duration::from_millis(100) } else { Duration::from_millis(2_500) };
/// Of each writer, also when the time is over: enough that some are stale. Miri does a few in a second.
const LEAST_WRITES: u64 = if cfg!(miri) { 12 } else { 1 };

/// One object at one version: everything about it tells its version, so that a blend of two would show. Now
/// and then it has another ID or another UID.
fn observed(object: u64, at: u64) -> Observation {
    let [low, middle, high, ..] = at.to_le_bytes();
    let ip = [10, high, middle, low];
    sandbox(&format!("o{object}"))
        .called(&id(object, at / 7 % 2))
        .with_uid(&format!("o{object}-{}", at / 64))
        .owned_by(&at.to_string())
        .with_ip(Some(ip.into()))
        .at(at)
}

fn id(object: u64, which: u64) -> String {
    format!("o{object}-{which}")
}

fn number(version: &Version) -> u64 {
    version.to_string().parse().unwrap()
}

fn assert_whole(route: &Route) -> (u64, u64) {
    let at = number(&route.version());
    let object = route.key().name()[1..].parse().unwrap();
    let expected = observed(object, at);
    assert_eq!(route.id(), expected.id);
    assert_eq!(route.uid(), expected.uid.as_str());
    assert_eq!(
        (route.owner().as_str(), route.ip(), route.state()),
        (&*expected.owner, expected.ip, State::Running)
    );
    (object, at)
}

fn read(reader: &RouteReader, stop: &AtomicBool) -> u64 {
    let mut newest = HashMap::new();
    let mut identities: HashMap<u64, String> = HashMap::new();
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) || reads == 0 {
        for asked in 0..OBJECTS * 2 {
            let pin = reader.pin();
            let Some(route) = pin.get(&id(asked / 2, asked % 2)) else { continue };
            let (object, at) = assert_whole(route);
            assert_eq!(object, asked / 2);
            let before = newest.insert(object, at).unwrap_or(0);
            assert!(at >= before, "object {object} went from {before} back to {at}");
            let uid = identities.entry(route.identity()).or_insert_with(|| route.uid().to_string());
            assert_eq!(route.uid(), uid.as_str(), "one identity, one UID");
            reads += 1;
        }
    }
    reads
}

/// Sends each object's versions, most of them late and some twice, and deletes; what it deleted must be gone
/// when it looks.
fn write(writer: &RouteWriter, clock: &AtomicU64, stop: &AtomicBool, seed: u64) -> u64 {
    let reader = writer.reader();
    let mut random = seed;
    let mut writes = 0;
    while !stop.load(Ordering::Relaxed) || writes < LEAST_WRITES {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (object, late) = ((random >> 33) % OBJECTS, (random >> 50) % 40);
        let at = clock.fetch_add(1, Ordering::Relaxed).saturating_sub(late).max(1);
        if random >> 60 == 0 {
            writer.delete(&key(&format!("o{object}")), Some(version(at)));
            for which in 0..2 {
                let found = reader.get(&id(object, which));
                assert!(
                    found.is_none_or(|route| number(&route.version()) > at),
                    "served after its delete at {at}"
                );
            }
        } else {
            writer.apply(observed(object, at));
        }
        writes += 1;
    }
    writes
}

fn relist(writer: &RouteWriter, clock: &AtomicU64, stop: &AtomicBool) -> u64 {
    let mut relists = 0;
    while !stop.load(Ordering::Relaxed) || relists == 0 {
        let at = clock.fetch_add(1, Ordering::Relaxed);
        let mut relist = writer.begin_relist(everything(), version(at));
        for object in (0..OBJECTS).filter(|object| !(object + relists).is_multiple_of(5)) {
            relist.observe(observed(object, at));
        }
        if relists % 4 == 3 {
            drop(relist);
        } else {
            relist.commit();
        }
        writer.sweep();
        relists += 1;
    }
    relists
}

#[test]
fn a_living_object_that_moves_between_ids_is_never_settled_as_gone() {
    let (writer, reader) = RouteTable::new(Limits::default());
    let ids = [id(0, 0), id(0, 1)];
    let at = |number: u64| sandbox("o0").called(&ids[usize::from(number.is_multiple_of(2))]).at(number);
    writer.apply(at(1));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let (mut found, mut moving) = (0u64, 0u64);
            while !stop.load(Ordering::Relaxed) || found == 0 {
                // Both orders: the object may come from behind.
                for order in [[0, 1], [1, 0]] {
                    let look = |table: &Pinned<'_>| {
                        order.iter().find_map(|&at: &usize| table.get(&ids[at])).map(|route| route.identity())
                    };
                    match reader.find_consistent(look) {
                        Ok(Some(_)) => found += 1,
                        Ok(None) => panic!("it lives, after {found} looks and {moving} that met a move"),
                        Err(Moving) => moving += 1,
                    }
                }
            }
            found
        });
        let end = Instant::now() + TIME / 2;
        let mut number = 1;
        while Instant::now() < end && !looking.is_finished() {
            number += 1;
            writer.apply(at(number));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(looking.join().unwrap() > 0);
    });
    writer.delete(&key("o0"), None);
    assert_eq!(
        reader.find_consistent(|table| table.get(&ids[0]).map(|_| ())),
        Ok(None),
        "nothing moves any more"
    );
}

#[test]
fn readers_see_each_object_whole_and_never_going_back() {
    // Tombstones must outlive the run: forgetting one is the only way back.
    let (writer, reader) = RouteTable::new(Limits::default());
    let (clock, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    let (clock, stop) = (&clock, &stop);
    let mut changes = writer.subscribe(64);
    thread::scope(|scope| {
        let readers = [0, 1].map(|_| scope.spawn(|| read(&reader, stop)));
        let writers = [1, 2, 3].map(|seed| {
            let writer = writer.clone();
            scope.spawn(move || write(&writer, clock, stop, seed))
        });
        let relister = scope.spawn(|| relist(&writer, clock, stop));
        let subscriber = scope.spawn(move || {
            let mut heard = 0u64;
            // On a machine that runs one thread at a time its turn may come last.
            while !stop.load(Ordering::Relaxed) || heard == 0 {
                let Some(notice) = changes.recv_timeout(Duration::from_millis(10)) else { continue };
                if let Notice::Changed(change) = notice {
                    for route in change.after().into_iter().chain(change.before()) {
                        assert_whole(route);
                    }
                }
                heard += 1;
            }
            heard
        });
        let end = Instant::now() + TIME;
        while Instant::now() < end && !readers.iter().any(|reader| reader.is_finished()) {
            thread::yield_now();
            thread::park_timeout(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
        for writer in writers {
            assert!(writer.join().unwrap() > 0);
        }
        assert!(relister.join().unwrap() > 0);
        assert!(subscriber.join().unwrap() > 0);
    });
    let counts = reader.counts();
    assert!(counts.applied > 0 && counts.stale > 0, "{counts:?}");
    assert!(counts.objects + counts.tombstones <= OBJECTS, "{counts:?}");
    assert_eq!(counts.routes, counts.objects, "no ID is contested here: {counts:?}");
}
