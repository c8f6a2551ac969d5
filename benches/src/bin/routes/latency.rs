//! How long single lookups take: percentiles of samples, idle and with a writer, in turn. The clock's own
//! cost is in every sample.

use std::hint::black_box;
use std::time::Instant;

use sandgate_benches::record::Record;
use sandgate_benches::stats::percentile;

use crate::fixture::Questions;
use crate::rivals::{Locked, Sandgate, Sharded, Table};
use crate::writes::{Pace, with_writer};

const SAMPLES: usize = 200_000;

pub(crate) fn run(record: &mut Record, quick: bool) {
    let rounds = if quick { 3 } else { 25 };
    for size in [1_000, 1_000_000] {
        let hits = Questions::hits(size, size.max(SAMPLES));
        let misses = Questions::misses(size, SAMPLES);
        let sandgate = Sandgate::filled(size);
        let locked = Locked::filled(size);
        let sharded = Sharded::filled(size);
        for round in 0..rounds {
            for (condition, pace) in [("idle", None), ("10k writes/s", Some(Pace { size, round }))] {
                for (what, questions) in [("hit", &hits), ("miss", &misses)] {
                    let asked = Asked { what, questions, size, condition, round, pace };
                    sample(record, &sandgate, &asked);
                    sample(record, &locked, &asked);
                    sample(record, &sharded, &asked);
                }
            }
        }
    }
}

struct Asked<'a> {
    what: &'static str,
    questions: &'a Questions,
    size: usize,
    condition: &'static str,
    round: usize,
    pace: Option<Pace>,
}

fn sample<T: Table>(record: &mut Record, table: &T, asked: &Asked<'_>) {
    let mut samples = with_writer(table, asked.pace, || {
        let mut samples = Vec::with_capacity(SAMPLES);
        for id in asked.questions.iter().take(SAMPLES) {
            let start = Instant::now();
            black_box(table.serves(black_box(id)));
            samples.push(start.elapsed().as_nanos() as f64);
        }
        samples
    });
    for (name, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)] {
        let measure = format!("{} {name} ns", asked.what);
        let value = percentile(&mut samples, percent);
        record.add(&measure, T::NAME, asked.size, asked.condition, asked.round, value);
    }
}
