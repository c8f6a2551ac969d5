//! What the module's own part of a request takes: read the address, look it up, decide. Envoy's part, the
//! reading of a header through its ABI, is not in it: headers here are a short list.
//!
//! Instructions are counted by callgrind, which no neighbour disturbs; nanoseconds are of this machine.

use std::fs;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use sandgate_benches::record::Record;
use sandgate_request::{Decision, FilterConfig, Keyless, Recognition, choose_reading, decide, recognise};
use sandgate_routes::{Clash, Limits, ObjectKey, Observation, RouteReader, RouteTable, State};

use crate::failure::{Doing as _, Failure, Result};
use crate::fleet::{SIDE, Walk, address, host, id};

const REQUESTS: usize = 20_000;
const SIZES: [usize; 2] = [1_000, 100_000];
/// A million routes under callgrind take minutes to fill.
const TIMED_SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];
const RUNS: usize = 2;
const TIMED_RUNS: usize = 15;

/// How a request names its sandbox, and what becomes of it.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    letter: char,
    by_header: bool,
    forwarded: bool,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "host, running", letter: 's', by_header: false, forwarded: true },
    Shape { name: "header, running", letter: 's', by_header: true, forwarded: true },
    Shape { name: "host, unknown", letter: 'u', by_header: false, forwarded: false },
    Shape { name: "host, paused", letter: 'p', by_header: false, forwarded: false },
];

pub(crate) fn run(out: &Path) -> Result<()> {
    fs::create_dir_all(out).doing(format!("making {}", out.display()))?;
    let mut record = Record::default();
    for (run, size) in (0..RUNS).flat_map(|run| SIZES.map(|size| (run, size))) {
        for shape in SHAPES {
            let each = counted(shape.name, size)? / REQUESTS as f64;
            record.add("instructions a request", "hook", size, shape.name, run, each);
        }
    }
    for size in TIMED_SIZES {
        let table = Table::filled(size)?;
        for run in 0..TIMED_RUNS {
            for shape in SHAPES {
                let requests = requests(shape, size);
                let started = Instant::now();
                assert_eq!(counted_hooks(&table, &requests), expected(shape));
                let each = started.elapsed().as_nanos() as f64 / REQUESTS as f64;
                record.add("ns a request", "hook", size, shape.name, run, each);
            }
        }
    }
    record.summarise();
    record.write(&out.join("hook.tsv")).doing("writing hook.tsv")
}

fn counted(shape: &str, size: usize) -> Result<f64> {
    // Not /proc/self/exe, which would be valgrind.
    let program = std::env::current_exe().doing("finding this program")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=*hook*counted_hooks*"])
        .arg(program)
        .args(["__hook", shape, &size.to_string()])
        .output()
        .doing("starting valgrind")?;
    let report = String::from_utf8_lossy(&output.stderr);
    let collected =
        report.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    let count = collected.and_then(|count| count.parse().ok()).filter(|&count: &f64| count > 0.0);
    count.ok_or_else(|| Failure::Asked(format!("callgrind said:\n{report}")))
}

/// The child under callgrind.
pub(crate) fn child(shape: &str, size: usize) -> Result<()> {
    let shape = SHAPES.into_iter().find(|one| one.name == shape);
    let shape = shape.ok_or_else(|| Failure::Asked("no such shape".to_owned()))?;
    let table = Table::filled(size)?;
    let requests = requests(shape, size);
    assert_eq!(counted_hooks(&table, &requests), expected(shape));
    Ok(())
}

fn expected(shape: Shape) -> usize {
    if shape.forwarded { REQUESTS } else { 0 }
}

struct Table {
    reader: RouteReader,
    config: FilterConfig,
    door: Keyless,
}

impl Table {
    fn filled(size: usize) -> Result<Self> {
        let (writer, reader) = RouteTable::new(Limits::default());
        let running = (0..size).map(|number| ('s', number, State::Running));
        let paused = (0..SIDE).map(|number| ('p', number, State::Paused));
        for (letter, number, state) in running.chain(paused) {
            let applied = writer.apply(observation(letter, number, state)?).is_applied();
            assert!(applied, "the table takes a sandbox of ours");
        }
        writer.set_ready();
        let config = FilterConfig::parse(b"{}").map_err(|error| Failure::Asked(error.to_string()))?;
        Ok(Self { reader, config, door: Keyless::default() })
    }
}

fn observation(letter: char, number: usize, state: State) -> Result<Observation> {
    let key = ObjectKey::new("bench", "bench", &format!("{letter}{number:07}"));
    Ok(Observation {
        key: key.map_err(|error| Failure::Asked(error.to_string()))?,
        id: id(letter, number),
        uid: format!("{letter}{number:035}"),
        owner: String::new(),
        state,
        version: NonZeroU64::MIN.into(),
        ip: Some(address(number).into()),
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: true,
    })
}

type Request = Vec<(&'static str, String)>;

fn requests(shape: Shape, size: usize) -> Vec<Request> {
    let mut walk = Walk { count: if shape.letter == 's' { size } else { SIDE }, at: 0 };
    let mut one = || {
        let number = walk.next_number();
        let mut headers = vec![(":method", "GET".to_owned()), (":path", "/".to_owned())];
        if shape.by_header {
            headers.push((":authority", "gateway.test".to_owned()));
            headers.push(("e2b-sandbox-id", id(shape.letter, number)));
            headers.push(("e2b-sandbox-port", "8080".to_owned()));
        } else {
            headers.push((":authority", host(8080, shape.letter, number)));
        }
        headers
    };
    (0..REQUESTS).map(|_| one()).collect()
}

// By its name what callgrind counts.
#[inline(never)]
fn counted_hooks(table: &Table, requests: &[Request]) -> usize {
    let hook = |request: &&Request| forwards(table, black_box(request));
    requests.iter().filter(hook).count()
}

/// What the filter does before it tells Envoy.
fn forwards(table: &Table, request: &Request) -> bool {
    let headers = request.as_slice();
    let Recognition::Addressed(mut address) = recognise(headers, &table.config) else {
        return false;
    };
    let ready = table.reader.is_ready();
    let pinned = table.reader.pin();
    if choose_reading(&mut address, &pinned, headers, &table.config, &table.door).is_err() {
        return false;
    }
    match decide(&address, &pinned, ready, headers, &table.config, &table.door) {
        Decision::Forward(pass) => {
            black_box(pass.route.authority(address.port()));
            true
        }
        Decision::Wait(_) => false,
        Decision::Refuse(refusal) => {
            black_box(refusal);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_is_decided_as_it_says() {
        let table = Table::filled(1_000).expect("a table");
        for shape in SHAPES {
            assert_eq!(counted_hooks(&table, &requests(shape, 1_000)), expected(shape), "{}", shape.name);
        }
    }
}
