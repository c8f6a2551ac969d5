//! How many pushes a second one gateway takes, and what so many of them do to the latency of requests.
//!
//! All pushes are of sandboxes that nobody asks for, and each changes the table; what the gateway says it has
//! applied is what counts. First as fast as they are answered: one `POST /refresh` at a time on some
//! connections, many of them written before the first is answered, and in batches as our sender makes them.
//! Then at a fixed rate, in slots that alternate with idle ones, while requests come at a constant rate from
//! a process of their own.
//!
//! The senders share the core of those requests, and what they take of it shows in the requests' latency
//! though it is nothing a gateway does. So there is a slot of its own for that: the same pushes, sent to a
//! *sink* on the gateway's core that answers and does nothing.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use sandgate_benches::failure::{Failure, Result};
use sandgate_benches::open_loop;
use sandgate_benches::record::Record;

use crate::Common;
use crate::gateway::Site;
use crate::words::{Line, change};

/// Sandboxes that the pushes are about.
const FLEET: u64 = 10_000;
/// Messages in a batch, as our sender makes them at the most.
const BATCH: u64 = 500;
/// Requests written before the first is answered.
const PIPELINE: u64 = 32;
/// How often what is due is sent.
const STEP: Duration = Duration::from_millis(1);
/// Connections of those who push at a rate.
const LINES: u64 = 4;

/// What comes in while requests are timed, and whether the gateway gets it or the sink.
const SLOTS: [(&str, Option<(Way, bool)>); 5] = [
    ("idle", None),
    ("batches to a sink", Some((Way::Batches, false))),
    ("batches", Some((Way::Batches, true))),
    ("one POST each to a sink", Some((Way::Pipelined, false))),
    ("one POST each", Some((Way::Pipelined, true))),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Single,
    Pipelined,
    Batches,
}

impl Way {
    /// Pushes that go before an answer is waited for.
    fn stride(self) -> u64 {
        match self {
            Way::Single => 1,
            Way::Pipelined => PIPELINE,
            Way::Batches => BATCH,
        }
    }

    fn send(self, line: &mut Line, changes: Range<u64>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        if self == Way::Batches {
            return line.batch(changes, FLEET, 1);
        }
        let mut rest = changes;
        while !rest.is_empty() {
            let now = rest.start..rest.end.min(rest.start + self.stride());
            rest.start = now.end;
            let count = now.end - now.start;
            for number in now {
                line.post("/refresh", change(number, FLEET, 1 + number).as_bytes());
            }
            line.send()?;
            line.taken(usize::try_from(count).unwrap_or(usize::MAX))?;
        }
        Ok(())
    }
}

pub(crate) fn run(common: &Common, record: &mut Record) -> Result<()> {
    let site = Site::start(common)?;
    let seconds = if common.quick { 0.5 } else { 2.0 };
    let rounds = common.rounds(15);
    let next = Arc::new(AtomicU64::new(0));
    let ways = [
        ("one at a time, 1 connection", Way::Single, 1),
        ("one at a time, 16 connections", Way::Single, 16),
        ("32 ahead, 4 connections", Way::Pipelined, 4),
        ("batches of 500, 1 connection", Way::Batches, 1),
        ("batches of 500, 4 connections", Way::Batches, 4),
    ];
    let capacity_rounds = rounds.min(5);
    let bar = ProgressBar::new((capacity_rounds * ways.len() + rounds * SLOTS.len()) as u64);
    for round in 0..capacity_rounds {
        for (name, way, lines) in ways {
            capacity(&site, common, record, (name, way, lines), &next, (round, seconds / 2.0))?;
            bar.inc(1);
        }
    }
    // Every sandbox has its host and connection before anything is timed.
    open_loop::run_on(common.load_core, &site.questions(1.0), common.requests)?;
    for round in 0..rounds {
        for (name, way) in SLOTS {
            beside(&site, common, record, (name, way), &next, (round, seconds))?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// As fast as they are answered.
fn capacity(
    site: &Site,
    common: &Common,
    record: &mut Record,
    (name, way, lines): (&str, Way, usize),
    next: &Arc<AtomicU64>,
    (round, seconds): (usize, f64),
) -> Result<()> {
    let (applied, cpu, envoy) = (site.applied(), site.receiver_nanos()?, site.envoy_nanos());
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(seconds);
    let senders: Vec<_> = (0..lines)
        .map(|_| {
            let (next, to) = (Arc::clone(next), site.pushes);
            thread::spawn(move || -> Result<()> {
                let mut line = Line::open(to)?;
                while Instant::now() < end {
                    let from = next.fetch_add(way.stride(), Ordering::Relaxed);
                    way.send(&mut line, from..from + way.stride())?;
                }
                Ok(())
            })
        })
        .collect();
    for sender in senders {
        joined(sender)?;
    }
    let took = began.elapsed().as_secs_f64();
    let applied = site.applied() - applied;
    let mut add = |measure, value| record.add(measure, name, lines, Site::placement(common), round, value);
    add("pushes/s", applied as f64 / took);
    add("µs of the receiver's thread a push", (site.receiver_nanos()? - cpu) as f64 / 1e3 / applied as f64);
    add("µs of Envoy a push", (site.envoy_nanos() - envoy) as f64 / 1e3 / applied as f64);
    Ok(())
}

/// Requests at a constant rate, alone or beside pushes at another.
fn beside(
    site: &Site,
    common: &Common,
    record: &mut Record,
    (name, way): (&str, Option<(Way, bool)>),
    next: &Arc<AtomicU64>,
    (round, seconds): (usize, f64),
) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let (applied, cpu, began) = (site.applied(), site.receiver_nanos()?, Instant::now());
    let sender = way.map(|(way, taken)| {
        let to = if taken { site.pushes } else { site.sink };
        let (next, stop, rate) = (Arc::clone(next), Arc::clone(&stop), common.pushes);
        thread::spawn(move || at_rate(way, to, rate, &next, &stop))
    });
    let answers = open_loop::run_on(common.load_core, &site.questions(seconds), common.requests)?;
    stop.store(true, Ordering::Relaxed);
    if let Some(sender) = sender {
        joined(sender)?;
    }
    let took = began.elapsed().as_secs_f64();
    let applied = (site.applied() - applied) as f64;
    let size = usize::try_from(common.pushes).unwrap_or(usize::MAX);
    let mut add = |measure, value| record.add(measure, name, size, Site::placement(common), round, value);
    if let Some(latency) = answers.latency {
        add("p50 µs of a request", latency.p50);
        add("p99 µs of a request", latency.p99);
        add("p99.9 µs of a request", latency.p999);
    }
    add("failed requests", answers.failed as f64);
    if way.is_some_and(|(_, taken)| taken) {
        add("pushes/s taken", applied / took);
        add("receiver's thread, of a core", (site.receiver_nanos()? - cpu) as f64 / 1e9 / took);
    }
    Ok(())
}

/// Sends what is due at every step, shared between some connections. It does not catch up without end: a step
/// is at most ten times its usual size, and what was taken is counted by the gateway.
fn at_rate(way: Way, to: SocketAddr, rate: u32, next: &AtomicU64, stop: &AtomicBool) -> Result<()> {
    let count = if way == Way::Batches { 1 } else { LINES };
    let mut lines = (0..count).map(|_| Line::open(to)).collect::<Result<Vec<Line>>>()?;
    let usual = u64::from(rate) * u64::try_from(STEP.as_millis()).unwrap_or(1) / 1000;
    let (began, mut made) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand")]
        let due = (began.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        let more = due.saturating_sub(made).min(usual * 10);
        made = due.max(made);
        let from = next.fetch_add(more, Ordering::Relaxed);
        let share = more.div_ceil(count);
        for (line, start) in
            lines.iter_mut().zip((from..).step_by(usize::try_from(share.max(1)).unwrap_or(1)))
        {
            way.send(line, start..(start + share).min(from + more).max(start))?;
        }
        thread::park_timeout(STEP);
    }
    Ok(())
}

fn joined(thread: thread::JoinHandle<Result<()>>) -> Result<()> {
    thread.join().map_err(|_| Failure::Asked("a sender panicked".to_owned()))?
}
