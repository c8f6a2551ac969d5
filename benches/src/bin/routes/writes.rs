//! Mutations: how many a second, and the steady writer that other benches run beside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sandgate_benches::record::Record;
use sandgate_benches::rng::Rng;
use sandgate_routes::{Outcome, Scope};

use crate::fixture;
use crate::rivals::{Locked, Sandgate, Sharded, Swapped, Table};

/// A writer's work beside a bench.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) size: usize,
    pub(crate) round: usize,
}

// Versions of all writers in a run, so that each is newer than the last.
static VERSION: AtomicU64 = AtomicU64::new(2);

fn newer() -> u64 {
    VERSION.fetch_add(1, Ordering::Relaxed)
}

#[expect(clippy::disallowed_methods, reason = "a pace is time, and this is a thread of our own")]
fn rest(time: Duration) {
    thread::sleep(time);
}

/// Runs a bench, with a writer at 10,000 mutations a second beside it if asked: ten a millisecond, of which
/// one object in ten is deleted and comes back.
pub(crate) fn with_writer<T: Table, R>(table: &T, pace: Option<Pace>, bench: impl FnOnce() -> R) -> R {
    let Some(Pace { size, round }) = pace else { return bench() };
    // A table that is copied for a write cannot keep the pace; what it does instead is measured under
    // "writes".
    let each = if T::COPIES && size > 1_000 { 1 } else { 10 };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Rng::new(round as u64);
            let start = Instant::now();
            for tick in 1.. {
                for _ in 0..each {
                    let number = rng.below(size);
                    if rng.below(10) == 0 {
                        table.remove(number, newer());
                    }
                    table.put(number, newer());
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                rest(Duration::from_millis(tick).saturating_sub(start.elapsed()));
            }
        });
        let result = bench();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

pub(crate) fn run(record: &mut Record, quick: bool) {
    let rounds = if quick { 2 } else { 15 };
    let size = if quick { 100_000 } else { 1_000_000 };
    let count = 100_000;
    let sandgate = Sandgate::filled(size);
    let locked = Locked::filled(size);
    let sharded = Sharded::filled(size);
    let swapped = Swapped::filled(size);
    for round in 0..rounds {
        let mut add = |measure: &str, name: &str, per_second: f64| {
            record.add(measure, name, size, "alone", round, per_second);
        };
        // What the writer does with a message; its decoding is the source's.
        add("updates/s", Sandgate::NAME, prepared(&sandgate, size, count, round));
        add("stale/s", Sandgate::NAME, stale(&sandgate, size, count, round));
        // With making the message, for all alike.
        add("made updates/s", Sandgate::NAME, made(&sandgate, size, count, round));
        add("made updates/s", Locked::NAME, made(&locked, size, count, round));
        add("made updates/s", Sharded::NAME, made(&sharded, size, count, round));
        add("made updates/s", Swapped::NAME, made(&swapped, size, 5, round));
        add("made delete+add/s", Sandgate::NAME, returning(&sandgate, size, count / 2, round));
        add("made delete+add/s", Locked::NAME, returning(&locked, size, count / 2, round));
        add("made delete+add/s", Sharded::NAME, returning(&sharded, size, count / 2, round));
        if round % 5 == 0 {
            add("relisted objects/s", Sandgate::NAME, relisted(&sandgate, size));
        }
    }
    longest_wait(record, quick);
}

fn per_second(count: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    count as f64 / start.elapsed().as_secs_f64()
}

fn numbers(size: usize, count: usize, round: usize) -> Vec<usize> {
    let mut rng = Rng::new(100 + round as u64);
    (0..count).map(|_| rng.below(size)).collect()
}

fn prepared(table: &Sandgate, size: usize, count: usize, round: usize) -> f64 {
    let messages: Vec<_> =
        numbers(size, count, round).into_iter().map(|n| fixture::observation(n, newer())).collect();
    per_second(count, || {
        for message in messages {
            assert!(table.writer.apply(message).is_applied());
        }
    })
}

fn stale(table: &Sandgate, size: usize, count: usize, round: usize) -> f64 {
    let messages: Vec<_> =
        numbers(size, count, round).into_iter().map(|n| fixture::observation(n, 1)).collect();
    per_second(count, || {
        for message in messages {
            assert_eq!(table.writer.apply(message), Outcome::Stale);
        }
    })
}

fn made<T: Table>(table: &T, size: usize, count: usize, round: usize) -> f64 {
    let numbers = numbers(size, count, round);
    per_second(count, || numbers.iter().for_each(|&number| table.put(number, newer())))
}

fn returning<T: Table>(table: &T, size: usize, count: usize, round: usize) -> f64 {
    let numbers = numbers(size, count, round);
    per_second(2 * count, || {
        for &number in &numbers {
            table.remove(number, newer());
            table.put(number, newer());
        }
    })
}

fn relisted(table: &Sandgate, size: usize) -> f64 {
    let at = newer();
    per_second(size, || {
        let mut relist = table.writer.begin_relist(Scope::new("kruise", None, ""), fixture::version(at));
        for number in 0..size {
            relist.observe(fixture::observation(number, 1));
        }
        assert_eq!(relist.commit().deleted, 0);
    })
}

/// How long one writer waits while another commits relists that look at everything and delete a tenth.
fn longest_wait(record: &mut Record, quick: bool) {
    let size = if quick { 100_000 } else { 1_000_000 };
    let table = Sandgate::filled(size);
    for round in 0..if quick { 1 } else { 5 } {
        let at = newer();
        let mut relist = table.writer.begin_relist(Scope::new("kruise", None, ""), fixture::version(at));
        for number in (0..size).filter(|number| number % 10 != round) {
            relist.observe(fixture::observation(number, 1));
        }
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                let mut rng = Rng::new(9);
                while !done.load(Ordering::Relaxed) {
                    let message = fixture::observation(rng.below(size) / 10 * 10 + (round + 1) % 10, newer());
                    let start = Instant::now();
                    table.writer.apply(message);
                    longest = longest.max(start.elapsed());
                    rest(Duration::from_micros(50));
                }
                longest
            });
            let start = Instant::now();
            let summary = relist.commit();
            let took = start.elapsed();
            done.store(true, Ordering::Relaxed);
            assert!(summary.deleted > 0);
            let waited = waits.join().expect("the waiting writer");
            record.add("commit ms", Sandgate::NAME, size, "a tenth gone", round, took.as_secs_f64() * 1e3);
            record.add(
                "longest write ms",
                Sandgate::NAME,
                size,
                "during commit",
                round,
                waited.as_secs_f64() * 1e3,
            );
        });
        for number in (0..size).filter(|number| number % 10 == round) {
            table.put(number, newer());
        }
    }
}
