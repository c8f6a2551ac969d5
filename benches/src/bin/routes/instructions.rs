//! Instructions a lookup takes, by callgrind: a figure that no neighbour disturbs. Only the lookups are
//! counted; the hash is keyed anew in each run, so runs differ by how full their tables' neighbourhoods are.

use std::hint::black_box;
use std::process::{Command, ExitCode};

use sandgate_benches::record::Record;

use crate::fixture::Questions;
use crate::rivals::{Locked, Sandgate, Sharded, Swapped, Table};

const LOOKUPS: usize = 50_000;
const RUNS: usize = 3;

pub(crate) fn run(record: &mut Record) {
    for (run, size) in (0..RUNS).flat_map(|run| [(run, 1_000), (run, 100_000)]) {
        for kind in [Sandgate::NAME, Locked::NAME, Sharded::NAME, Swapped::NAME] {
            for (condition, hit) in [("hit", true), ("miss", false)] {
                let each = counted(kind, size, hit, LOOKUPS) / LOOKUPS as f64;
                record.add("instructions a lookup", kind, size, condition, run, each);
            }
        }
    }
}

fn counted(kind: &str, size: usize, hit: bool, lookups: usize) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let lookups = format!("{}{lookups}", if hit { "" } else { "-" });
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=*instructions*counted_lookups*"])
        .arg(program)
        .args(["repeat", kind, &size.to_string(), &lookups])
        .output()
        .expect("valgrind is installed");
    let report = String::from_utf8_lossy(&output.stderr);
    let collected =
        report.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, number)| number.trim());
    collected.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("callgrind said:\n{report}"))
}

/// The child: fills a table and asks it so many times; a minus asks for what is not there.
pub(crate) fn repeat(kind: &str, size: &str, lookups: &str) -> ExitCode {
    let hit = !lookups.starts_with('-');
    let (Ok(size), Ok(lookups)) = (size.parse(), lookups.trim_start_matches('-').parse()) else {
        return ExitCode::from(2);
    };
    match kind {
        Sandgate::NAME => ask::<Sandgate>(size, hit, lookups),
        Locked::NAME => ask::<Locked>(size, hit, lookups),
        Sharded::NAME => ask::<Sharded>(size, hit, lookups),
        Swapped::NAME => ask::<Swapped>(size, hit, lookups),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

fn ask<T: Table>(size: usize, hit: bool, lookups: usize) {
    let questions = if hit { Questions::hits(size, LOOKUPS) } else { Questions::misses(size, LOOKUPS) };
    let table = T::filled(size);
    assert_eq!(counted_lookups(&table, &questions, lookups), if hit { lookups } else { 0 });
}

// Called once, and by its name what callgrind counts.
#[inline(never)]
fn counted_lookups<T: Table>(table: &T, questions: &Questions, lookups: usize) -> usize {
    questions.iter().take(lookups).filter(|id| table.serves(black_box(id))).count()
}
