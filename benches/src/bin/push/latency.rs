//! From a push to the request that is answered by it.
//!
//! The clock starts before the push is written (or handed to the library) and stops when the first answer
//! that tells of it has been read. Between the two one request after the other is sent on a kept connection,
//! so the figure is too large by up to one round trip of a request, which is measured beside it (*a
//! request*). A new sandbox needs, besides its route, a host in Envoy and a connection to it: both are in the
//! figure. *To its answer* stops when the push itself is answered.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use sandgate_benches::failure::{Failure, Result};
use sandgate_benches::record::Record;
use sandgate_benches::stats::percentile;
use sandgate_peering::RouteMessage;

use crate::Common;
use crate::gateway::Site;
use crate::sender::Library;
use crate::words::{Line, route};

/// Pushes of each kind in a round.
const PUSHES: usize = 1000;
/// How long a push may take to be served.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is pushed of a sandbox, and what it changes the answer to.
const LIFE: [(&str, &str, u16); 4] = [
    ("new to served", "running", 200),
    ("paused to refused", "paused", 502),
    ("resumed to served", "running", 200),
    ("dead to gone", "dead", 502),
];

pub(crate) fn run(common: &Common, record: &mut Record) -> Result<()> {
    let site = Site::start(common)?;
    let pushes = if common.quick { 200 } else { PUSHES };
    let rounds = common.rounds(10);
    let bar = ProgressBar::new((rounds * 2 * pushes) as u64);
    let mut asked = Line::open(site.gateway.address())?;
    let mut pushed = Line::open(site.pushes)?;
    let library = Library::start(site.pushes)?;
    let placement = Site::placement(common);
    let (mut version, mut number) = (1_u64, 0_usize);
    for round in 0..rounds {
        for subject in ["one POST", "library"] {
            let mut samples: Vec<Vec<f64>> = vec![Vec::new(); LIFE.len()];
            let (mut answered, mut polls) = (Vec::new(), Vec::new());
            for _ in 0..pushes {
                number += 1;
                let name = format!("n{number:07}");
                let ip = address(number);
                let host = site.host(&name);
                for (life, samples) in LIFE.iter().zip(&mut samples) {
                    version += 1;
                    let body = route(&name, number as u64, life.1, ip, version);
                    let began = Instant::now();
                    match subject {
                        "library" => library.push(&parsed(&body)?)?,
                        _ => {
                            pushed.post("/refresh", body.as_bytes());
                            pushed.send()?;
                        }
                    }
                    let served = until(&mut asked, &host, life.2, began, &mut polls)?;
                    samples.push(served);
                    if subject != "library" {
                        pushed.taken(1)?;
                    }
                }
                bar.inc(1);
            }
            let mut add = |measure: &str, samples: &mut [f64]| {
                for percent in [50.0, 99.0, 100.0] {
                    let value = percentile(samples, percent);
                    record.add(
                        &format!("{measure}, p{percent:.0}, µs"),
                        subject,
                        pushes,
                        placement,
                        round,
                        value,
                    );
                }
            };
            for ((what, ..), mut samples) in LIFE.iter().zip(samples) {
                add(what, &mut samples);
            }
            add("a request", &mut polls);
            if subject != "library" {
                for _ in 0..pushes {
                    version += 1;
                    let body = route("answered", 1, "running", address(0), version);
                    let began = Instant::now();
                    pushed.post("/refresh", body.as_bytes());
                    pushed.send()?;
                    pushed.taken(1)?;
                    answered.push(micros(began));
                }
                add("to its answer", &mut answered);
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Asks until the answer is this one; microseconds since it began. How long each request took goes to
/// `polls`.
fn until(line: &mut Line, host: &str, status: u16, began: Instant, polls: &mut Vec<f64>) -> Result<f64> {
    while began.elapsed() < PATIENCE {
        let asked = Instant::now();
        line.get(host);
        line.send()?;
        let answer = line.answer()?.0;
        polls.push(micros(asked));
        if answer == status {
            return Ok(micros(began));
        }
    }
    Err(Failure::Asked(format!("{host} was not answered with {status} within {PATIENCE:?}")))
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn parsed(body: &str) -> Result<RouteMessage> {
    RouteMessage::parse(body.as_bytes()).map_err(|error| Failure::Asked(error.to_string()))
}

/// An address of its own for each of them.
fn address(number: usize) -> IpAddr {
    let base = u32::from(Ipv4Addr::new(127, 100, 0, 1));
    Ipv4Addr::from(base + u32::try_from(number % 1_000_000).unwrap_or(0)).into()
}
