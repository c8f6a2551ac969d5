//! What a read of the cache costs, with 100,000 sandboxes in it: by name, by ID, and the first that wait in
//! the pool. They are asked for in random order, so that a read has to fetch what it reads from memory. The
//! time is that of the thread on its core: what others do there meanwhile is not in it.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use sandgate_benches::record::Record;
use sandgate_benches::rng::Rng;
use sandgate_benches::{machine, stats::Spread};
use sandgate_cache::Key;
use sandgate_objects::openkruise::resources::SandboxFacts;

use crate::Common;
use crate::objects::{self, NAMESPACE, id, key};

/// Reads in a round.
const READS: usize = 200_000;

pub(crate) fn run(common: &Common, record: &mut Record) {
    let size = common.sandboxes(100_000);
    let before = machine::resident();
    let cache = objects::cache(size, true);
    let each = (machine::resident() - before) as f64 / size as f64;
    record.add("resident, bytes/sandbox", "cache", size, "", 0, each);
    let mut rng = Rng::new(7);
    let chosen: Vec<usize> = (0..READS).map(|_| rng.below(size)).collect();
    let keys: Vec<Key> = chosen.iter().map(|number| key(*number)).collect();
    let ids: Vec<String> = chosen.iter().map(|number| id(number - number % 10 + 1 + number % 9)).collect();
    for round in 0..common.rounds(20) {
        let mut add = |what: &str, began: f64, reads: usize| {
            let each = (on_core() - began) / reads as f64;
            record.add("a read, ns", "cache", size, what, round, each);
        };
        let began = on_core();
        for key in &keys {
            black_box(cache.get::<SandboxFacts>(key).expect("it is there"));
        }
        add("by name", began, READS);
        let began = on_core();
        for id in &ids {
            black_box(cache.claimed(Some(NAMESPACE), id).expect("it is there"));
        }
        add("by ID", began, READS);
        let began = on_core();
        for _ in 0..READS / 100 {
            black_box(cache.available(Some(NAMESPACE), "base", None, 16));
        }
        add("16 of the pool", began, READS / 100);
    }
    for what in ["by name", "by ID"] {
        let spread = Spread::of(&record.rounds("a read, ns", "cache", size, what));
        println!("{what}: {spread} ns (wanted: 1000)");
    }
}

/// Nanoseconds that this thread was on a core.
fn on_core() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
