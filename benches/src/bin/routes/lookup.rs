//! Mean cost of a lookup, hashing and pinning included: many in a row, at three sizes, alone, beside a
//! writer, beside another reader.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use sandgate_benches::record::Record;
use sandgate_benches::rng::Rng;

use crate::fixture::Questions;
use crate::rivals::{Locked, Sandgate, Sharded, Swapped, Table};
use crate::writes::{Pace, with_writer};

const LOOKUPS: usize = 200_000;

pub(crate) fn run(record: &mut Record, quick: bool) {
    let rounds = if quick { 3 } else { 25 };
    for size in [1_000, 100_000, 1_000_000] {
        // Not one set a round: a table is not allowed to know the questions.
        let questions = size.max(LOOKUPS * 4);
        let hits = Questions::hits(size, questions);
        let misses = Questions::misses(size, questions);
        let sandgate = Sandgate::filled(size);
        let locked = Locked::filled(size);
        let sharded = Sharded::filled(size);
        let swapped = Swapped::filled(size);
        let far = Far::new(size);
        for round in 0..rounds {
            record.add("one far load ns", "memory", size, "idle", round, far.timed());
            for (measure, questions) in [("hit ns", &hits), ("miss ns", &misses)] {
                let mut all = |beside: Beside, condition: &str| {
                    let mut one = |name: &str, ns: f64| record.add(measure, name, size, condition, round, ns);
                    one(Sandgate::NAME, timed(&sandgate, questions, round, beside));
                    one(Locked::NAME, timed(&locked, questions, round, beside));
                    one(Sharded::NAME, timed(&sharded, questions, round, beside));
                    one(Swapped::NAME, timed(&swapped, questions, round, beside));
                };
                all(Beside::Nobody, "idle");
                all(Beside::Writer(Pace { size, round }), "10k writes/s");
                all(Beside::Reader, "second reader");
            }
        }
    }
}

/// Who uses the table at the same time.
#[derive(Clone, Copy)]
enum Beside {
    Nobody,
    Writer(Pace),
    Reader,
}

fn timed<T: Table>(table: &T, questions: &Questions, round: usize, beside: Beside) -> f64 {
    let skip = round * LOOKUPS % (questions.iter().count() - LOOKUPS + 1);
    let bench = || {
        // Some before the clock starts, to be past what the bench before left behind.
        ask(table, questions, skip, LOOKUPS / 10);
        let start = Instant::now();
        ask(table, questions, skip, LOOKUPS);
        start.elapsed().as_nanos() as f64 / LOOKUPS as f64
    };
    let stop = &AtomicBool::new(false);
    match beside {
        Beside::Nobody => bench(),
        Beside::Writer(pace) => with_writer(table, Some(pace), bench),
        Beside::Reader => thread::scope(|scope| {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    ask(table, questions, LOOKUPS / 2, 1_000);
                }
            });
            let result = bench();
            stop.store(true, Ordering::Relaxed);
            result
        }),
    }
}

fn ask<T: Table>(table: &T, questions: &Questions, skip: usize, count: usize) {
    for id in questions.iter().skip(skip).take(count) {
        black_box(table.serves(black_box(id)));
    }
}

/// The yardstick: loads that each wait for the one before, all over as much memory as the routes take. A
/// lookup cannot cost less than a few.
struct Far(Vec<[usize; 8]>);

impl Far {
    fn new(size: usize) -> Self {
        // One cache line each, four to a route.
        let mut order: Vec<usize> = (0..size * 4).collect();
        Rng::new(5).shuffle(&mut order);
        let mut lines = vec![[0; 8]; order.len()];
        for (at, &line) in order.iter().enumerate() {
            lines[line][0] = order[(at + 1) % order.len()];
        }
        Self(lines)
    }

    fn timed(&self) -> f64 {
        let start = Instant::now();
        let mut at = 0;
        for _ in 0..LOOKUPS {
            at = self.0[at][0];
        }
        black_box(at);
        start.elapsed().as_nanos() as f64 / LOOKUPS as f64
    }
}
