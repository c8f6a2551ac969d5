//! Memory by route and by tombstone: resident bytes of a process of its own that holds nothing else, so that
//! allocators' rounding and tables' spare room are all in.

use std::process::{Command, ExitCode};

use sandgate_benches::machine::resident;
use sandgate_benches::record::Record;

use crate::fixture;
use crate::rivals::{Locked, Sandgate, Sharded, Swapped, Table};

const KINDS: [&str; 6] = ["route", "route with token", "tombstone", "rwlock", "dashmap", "arc-swap"];

pub(crate) fn run(record: &mut Record, quick: bool) {
    let rounds = if quick { 1 } else { 3 };
    let sizes = if quick { vec![100_000] } else { vec![100_000, 700_000, 1_000_000] };
    for round in 0..rounds {
        for &size in &sizes {
            for kind in KINDS {
                let bytes = held(kind, size);
                record.add("resident bytes each", kind, size, "own process", round, bytes);
            }
        }
    }
    // Ten times what is kept: the tables stay as they are at the cap.
    let flood = if quick { 1_000_000 } else { 10_000_000 };
    let bytes = held("tombstone", flood);
    record.add("resident MB", "tombstones", flood, "cap 1M", 0, bytes * flood as f64 / 1e6);
}

fn held(kind: &str, size: usize) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let output =
        Command::new(program).args(["hold", kind, &size.to_string()]).output().expect("the holder starts");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("the holder prints a number")
}

/// The child: fills a table of one kind and prints what each entry took.
pub(crate) fn hold(kind: &str, size: &str) -> ExitCode {
    let Ok(size) = size.parse::<usize>() else { return ExitCode::from(2) };
    match kind {
        "route" => weigh(size, || Sandgate::filled(size)),
        "route with token" => weigh(size, || {
            let table = Sandgate::empty();
            for number in 0..size {
                assert!(table.writer.apply(fixture::with_token(number, 1)).is_applied());
            }
            table
        }),
        "tombstone" => weigh(size, || {
            let table = Sandgate::empty();
            for number in 0..size {
                table.remove(number, 1);
            }
            table
        }),
        "rwlock" => weigh(size, || Locked::filled(size)),
        "dashmap" => weigh(size, || Sharded::filled(size)),
        "arc-swap" => weigh(size, || Swapped::filled(size)),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

fn weigh<T>(size: usize, fill: impl FnOnce() -> T) {
    let before = resident();
    let table = fill();
    let after = resident();
    println!("{}", (after - before) as f64 / size as f64);
    drop(table);
}
