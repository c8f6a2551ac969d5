//! What a read of the cache costs, with 100,000 sandboxes in it: by name, by ID, and the first that wait in
//! the pool. They are asked for in random order, so that a read has to fetch what it reads from memory.
//!
//! *At rest* is the time that the thread was on its core: what others do there meanwhile is not in it. *While
//! 1,000 a second change* is the time that passed, with another thread that takes changes in, so what a read
//! waits for a writer is in it, and what it waits for a core too.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use sandgate_benches::record::Record;
use sandgate_benches::rng::Rng;
use sandgate_benches::{machine, stats::Spread};
use sandgate_cache::{Cache, Key};
use sandgate_follow::Sink as _;
use sandgate_objects::openkruise::resources::SandboxFacts;

use crate::Common;
use crate::objects::{self, NAMESPACE, id, key, sandbox};
use crate::pace::Pace;

/// Reads in a round.
const READS: usize = 200_000;
/// Changes a second.
const CHANGES: u32 = 1_000;
const AT_REST: &str = "at rest";
const CHANGING: &str = "while 1,000 a second change";
const BY_NAME: &str = "by name";
const BY_ID: &str = "by ID";
const POOL: &str = "16 of the pool";

/// What is asked for, in a random order.
struct Asked {
    keys: Vec<Key>,
    ids: Vec<String>,
}

pub(crate) fn run(common: &Common, record: &mut Record) {
    let size = common.sandboxes(100_000);
    let before = machine::resident();
    let cache = objects::cache(size, true);
    let each = (machine::resident() - before) as f64 / size as f64;
    record.add("resident, bytes/sandbox", "cache", size, "", 0, each);
    let mut rng = Rng::new(7);
    let chosen: Vec<usize> = (0..READS).map(|_| rng.below(size)).collect();
    let asked = Asked {
        keys: chosen.iter().map(|number| key(*number)).collect(),
        ids: chosen.iter().map(|number| id(number - number % 10 + 1 + number % 9)).collect(),
    };
    let mut version = size + 1;
    for round in 0..common.rounds(20) {
        for (what, each) in read(&cache, &asked, on_core) {
            record.add(&format!("a read, {what}, ns"), "cache", size, AT_REST, round, each);
        }
        let began = Instant::now();
        let passed = || began.elapsed().as_secs_f64() * 1e9;
        for (what, each) in while_it_changes(&cache, size, &mut version, || read(&cache, &asked, passed)) {
            record.add(&format!("a read, {what}, ns"), "cache", size, CHANGING, round, each);
        }
    }
    for what in [BY_NAME, BY_ID, POOL] {
        let measure = format!("a read, {what}, ns");
        let [rest, changing] = [AT_REST, CHANGING]
            .map(|condition| Spread::of(&record.rounds(&measure, "cache", size, condition)));
        println!("{what}: {rest} ns; {CHANGING} {changing} ns (wanted, for one: 1000)");
    }
}

/// Nanoseconds that each kind of read takes.
fn read(cache: &Cache, asked: &Asked, clock: impl Fn() -> f64) -> [(&'static str, f64); 3] {
    let timed = |reads: usize, each: &mut dyn FnMut()| {
        let began = clock();
        each();
        (clock() - began) / reads as f64
    };
    [
        (
            BY_NAME,
            timed(READS, &mut || {
                for key in &asked.keys {
                    black_box(cache.get::<SandboxFacts>(key).expect("it is there"));
                }
            }),
        ),
        (
            BY_ID,
            timed(READS, &mut || {
                for id in &asked.ids {
                    black_box(cache.claimed(Some(NAMESPACE), id).expect("it is there"));
                }
            }),
        ),
        (
            POOL,
            timed(READS / 100, &mut || {
                for _ in 0..READS / 100 {
                    black_box(cache.available(Some(NAMESPACE), "base", None, 16));
                }
            }),
        ),
    ]
}

/// Does this while another thread takes changes in.
fn while_it_changes<R>(cache: &Cache, size: usize, version: &mut usize, work: impl FnOnce() -> R) -> R {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let changes = threads.spawn(|| {
            let mut feed = cache.feed::<SandboxFacts>();
            let mut pace = Pace::of(CHANGES);
            while !is_over.load(Ordering::Relaxed) {
                *version += 1;
                let bytes = sandbox(*version % size, *version, true).to_string();
                let (_, object) = feed.decode(bytes.as_bytes()).expect("a sandbox");
                pace.wait();
                feed.apply(object).expect("a sandbox");
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        changes.join().expect("changes");
        done
    })
}

/// Nanoseconds that this thread was on a core.
fn on_core() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
