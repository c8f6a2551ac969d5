//! Hosts that come and go: what a change costs Envoy's main thread when a hundred thousand are live, and
//! whether requests notice.
//!
//! As many sandboxes as are to be live are pushed to the gateway and asked for once each. Then, each second,
//! so many come (a push and a first request: a host is added) and as many go (a host is removed), at the same
//! time:
//! * `--kind deletes`: any of those that live, chosen at random, is pushed as dead. Rounds with churn and
//!   without take turns: without, as many requests go to sandboxes that are there, on new connections like
//!   the first ones, so that what differs is the hosts. Some of the sandboxes that came keep their
//!   connection, and tell how long it stays open after the deletion.
//! * `--kind idle`: nobody is deleted; hosts go because nobody has used them for the idle time, which is set
//!   so that as many are live. They go in lumps, shard by shard, so what a change costs is said over all
//!   rounds too. The rounds without churn come first, while only a few are live.
//!
//! Beside it, requests to a hundred other sandboxes at a constant rate tell what anyone else notices.
//!
//! Envoy's worker has a core to itself. Its main thread and what makes the sandboxes come and go share the
//! other with the requests that are timed and with who answers those, which go first (`SCHED_RR`): so the
//! main thread does not disturb the clock, as it would not on a core of its own. Its cost is its time on a
//! core.

mod drive;
mod sandboxes;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::Pid;
use sandgate_benches::record::Record;
use sandgate_benches::stats::percentile;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::args;
use crate::cell::{BASE, Cell};
use crate::envoy_config::{self, Between, Way};
use crate::failure::{Doing as _, Failure, Result};
use crate::fleet::Asked;
use crate::generator::{Answers, Generator, Questions};
use crate::proc;
use crate::process::{self, Running};
use crate::run::stopped;
use crate::site::{Place, envoy, free_port};
use drive::{Driver, Ports, Progress};
use sandboxes::Watched;

/// How much longer than expected the hosts may take to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a change of the rate takes until it shows in what is measured.
const SETTLING: Duration = Duration::from_millis(400);
/// How many of the idle time's parts a host really lives: it is looked at in four of them, and goes after the
/// fourth to the fifth.
const LIVES: f64 = 4.5 / 4.0;
const STILL: &str = "still";
/// Who is asked for before hosts go by their idle time.
const FIRST: usize = 2_000;

/// Why hosts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Their sandboxes are deleted
    Deletes,
    /// Nobody uses them
    Idle,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Deletes => "deletes",
            Kind::Idle => "idle",
        }
    }

    /// The idle time for this.
    fn idle(self, hosts: usize, rate: u32) -> Duration {
        match self {
            Kind::Deletes => Duration::from_secs(3_600),
            Kind::Idle => Duration::from_secs_f64(hosts as f64 / f64::from(rate) / LIVES),
        }
    }
}

/// What the cluster says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    hosts: u64,
    added: u64,
    removed: u64,
    batches: u64,
    main_thread_micros: u64,
}

impl Counts {
    /// Over all clusters of the status page.
    fn read(status: &Value) -> Option<Self> {
        let clusters = status["clusters"].as_array().filter(|all| !all.is_empty())?;
        let sum = |key: &str| clusters.iter().map(|one| one[key].as_u64()).sum::<Option<u64>>();
        Some(Self {
            hosts: sum("hosts")?,
            added: sum("added")?,
            removed: sum("removed")?,
            batches: sum("batches")?,
            main_thread_micros: sum("mainThreadMicros")?,
        })
    }

    fn changes(self) -> u64 {
        self.added + self.removed
    }
}

struct Gateway {
    envoy: Running,
    admin: Admin,
    steady: (Running, u16),
    ports: Ports,
    _folder: tempfile::TempDir,
}

pub(crate) fn run(args: &args::Churn) -> Result<()> {
    let hosts = if args.quick { args.hosts.min(20_000) } else { args.hosts };
    let rounds = if args.quick { args.rounds.min(5) } else { args.rounds };
    let rate = (args.changes / 2).max(1);
    let place = Place::find(args.proxy_core, args.load_core)?;
    let watched = Watched::default();
    let mut bench = Bench {
        gateway: Gateway::start(args.kind.idle(hosts, rate), hosts, &place, &watched)?,
        record: Record::default(),
        hosts,
        steady_rate: args.rate,
        idle_nanos: 0.0,
        spent: Spent::default(),
    };
    let pid = bench.gateway.envoy.pid();
    spread(pid, args.proxy_core, args.load_core)?;
    // Until each of the steady ones has its host.
    bench.gateway.steady_slot(args.rate)?;
    let mut driver = Driver::new(bench.gateway.ports, watched.clone())?;
    let progress = Arc::clone(&driver.progress);
    let churn = Arc::new(AtomicBool::new(false));
    match args.kind {
        Kind::Deletes => {
            eprintln!("making {hosts} sandboxes");
            driver.make(hosts)?;
            eprintln!("asking for each");
            // The first ones bring what all of them share: connections to the gateway, buffers.
            let first = hosts / 20;
            driver.ask_for(0..first)?;
            bench.gateway.until(&progress, |counts| counts.hosts >= first as u64)?;
            let (before, few) = (proc::resident(pid), bench.gateway.counts()?.hosts);
            driver.ask_for(first..hosts)?;
            bench.gateway.until(&progress, |counts| counts.hosts >= hosts as u64)?;
            let grown = proc::resident(pid).saturating_sub(before) as f64;
            let more = (bench.gateway.counts()?.hosts - few) as f64;
            bench.record.add("bytes a host", "sandgate", hosts, STILL, 0, grown / more);
            driver.run(args.load_core, rate, Arc::clone(&churn), true);
            for round in 0..rounds {
                eprintln!("round {round}");
                for (condition, on) in [(STILL, false), (args.kind.name(), true)] {
                    churn.store(on, Ordering::Relaxed);
                    bench.round(condition, round, &progress)?;
                }
            }
        }
        Kind::Idle => {
            driver.make(FIRST.min(hosts))?;
            driver.ask_for(0..FIRST.min(hosts))?;
            driver.run(args.load_core, rate, Arc::clone(&churn), false);
            for round in 0..rounds {
                bench.round(STILL, round, &progress)?;
            }
            eprintln!("until {hosts} are live and the first ones go");
            churn.store(true, Ordering::Relaxed);
            let enough = hosts as u64 * 9 / 10;
            bench
                .gateway
                .until(&progress, |counts| counts.hosts >= enough && counts.removed > hosts as u64 / 10)?;
            for round in 0..rounds {
                eprintln!("round {round}");
                bench.round(args.kind.name(), round, &progress)?;
            }
        }
    }
    churn.store(false, Ordering::Relaxed);
    thread::park_timeout(SETTLING);
    bench.closed(args.kind, &watched);
    let each = bench.spent.micros / bench.spent.changes.max(1.0);
    bench.record.add(
        "main thread µs a change, over all rounds",
        "sandgate",
        hosts,
        args.kind.name(),
        0,
        each,
    );
    let failed = progress.failed.load(Ordering::Relaxed) as f64;
    bench.record.add("failed first requests", "sandgate", hosts, args.kind.name(), 0, failed);
    bench.record.summarise();
    fs::create_dir_all(&args.out).doing("making the folder")?;
    let file = format!("churn-{}.tsv", args.kind.name());
    bench.record.write(&args.out.join(&file)).doing(format!("writing {file}"))
}

/// Leaves Envoy's worker alone on its core: all its other threads go to the other one.
fn spread(pid: u32, worker_core: usize, other_core: usize) -> Result<()> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).doing("listing Envoy's threads")?;
    for task in tasks.flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let thread = task.file_name().to_str().and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
        let Some(thread) = thread else { continue };
        process::place(thread, if name.starts_with("wrk:") { worker_core } else { other_core })?;
    }
    Ok(())
}

struct Bench {
    gateway: Gateway,
    record: Record,
    hosts: usize,
    steady_rate: u32,
    /// What the main thread does without churn, a second.
    idle_nanos: f64,
    spent: Spent,
}

/// What all rounds with churn took together.
#[derive(Default)]
struct Spent {
    micros: f64,
    changes: f64,
}

impl Bench {
    fn add(&mut self, measure: &str, condition: &str, round: usize, value: f64) {
        self.record.add(measure, "sandgate", self.hosts, condition, round, value);
    }

    fn round(&mut self, condition: &str, round: usize, progress: &Progress) -> Result<()> {
        stopped()?;
        thread::park_timeout(SETTLING);
        let pid = self.gateway.envoy.pid();
        let (before, cpu, started) = (self.gateway.counts()?, proc::thread_nanos(pid, pid), Instant::now());
        let answers = self.gateway.steady_slot(self.steady_rate)?;
        let (after, cpu) = (self.gateway.counts()?, (proc::thread_nanos(pid, pid) - cpu) as f64);
        let seconds = started.elapsed().as_secs_f64();
        progress.problem()?;
        let changes = (after.changes() - before.changes()) as f64;
        if condition == STILL {
            self.idle_nanos = cpu / seconds;
        } else if changes > 0.0 {
            let batches = (after.batches - before.batches) as f64;
            let micros = (after.main_thread_micros - before.main_thread_micros) as f64;
            let more = (cpu - self.idle_nanos * seconds).max(0.0) / 1e3;
            self.spent.micros += more;
            self.spent.changes += changes;
            self.add("live hosts", condition, round, after.hosts as f64);
            self.add("hosts added a second", condition, round, (after.added - before.added) as f64 / seconds);
            self.add(
                "hosts removed a second",
                condition,
                round,
                (after.removed - before.removed) as f64 / seconds,
            );
            self.add("changes a batch", condition, round, changes / batches);
            self.add("main thread µs a change", condition, round, more / changes);
            self.add("main thread µs a change, by its own clock", condition, round, micros / changes);
        }
        if let Some(latency) = answers.latency {
            self.add("p50 µs of others", condition, round, latency.p50);
            self.add("p99 µs of others", condition, round, latency.p99);
            self.add("p99.9 µs of others", condition, round, latency.p999);
        }
        self.add("failed requests of others", condition, round, answers.failed as f64);
        Ok(())
    }

    /// How long connections stayed open after their sandbox was deleted.
    fn closed(&mut self, kind: Kind, watched: &Watched) {
        let mut samples = watched.lock().closed_after.clone();
        if samples.is_empty() {
            return;
        }
        for (measure, percent) in [("p50", 50.0), ("p99", 99.0), ("longest", 100.0)] {
            let value = percentile(&mut samples, percent);
            self.add(&format!("ms open after deletion, {measure}"), kind.name(), 0, value);
        }
        self.add("connections timed", kind.name(), 0, samples.len() as f64);
        self.add("connections left open", kind.name(), 0, watched.left_open() as f64);
    }
}

impl Progress {
    fn problem(&self) -> Result<()> {
        match self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(problem) => Err(Failure::Asked(problem)),
            None => Ok(()),
        }
    }
}

impl Gateway {
    fn start(idle: Duration, hosts: usize, place: &Place, watched: &Watched) -> Result<Self> {
        if !envoy_config::offers(Way::OwnCluster) {
            return Err(Failure::Asked("the shipped config has no cluster of Sandgate's own".to_owned()));
        }
        let folder = tempfile::tempdir().doing("making a folder")?;
        let file = |name: &str| folder.path().join(name);
        let command = process::ahead(place.load_core, "__upstream")?;
        let steady = Running::server("the sandboxes", command, &file("steady.log"))?;
        let sandboxes = sandboxes::start(place.load_core, hosts, watched.clone())?;
        let cell = Cell { addresses: 1, routes: 1, ..BASE };
        let routes = file("routes.json");
        fs::write(&routes, cell.fleet().routes_file(&[])).doing("writing routes")?;
        let push = free_port()?;
        let config = config(&place.module, &routes, cell, idle, push)?;
        let (envoy, admin, gateway) = envoy("sandgate", place, &config, folder.path())?;
        let ports = Ports { gateway, push, sandboxes, core: place.load_core };
        Ok(Self { envoy, admin, steady, ports, _folder: folder })
    }

    fn counts(&self) -> Result<Counts> {
        let status = self.admin.json("/sandgate/status");
        let counts = status.as_ref().and_then(Counts::read);
        counts.ok_or_else(|| self.envoy.failure(format!("has no clusters on its status page: {status:?}")))
    }

    fn until(&mut self, progress: &Progress, ready: impl Fn(Counts) -> bool) -> Result<()> {
        let expected = Duration::from_secs(120);
        let deadline = Instant::now() + expected + PATIENCE;
        loop {
            stopped()?;
            progress.problem()?;
            let counts = self.counts()?;
            if ready(counts) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.envoy.failure(format!("has only {counts:?}")));
            }
            thread::park_timeout(Duration::from_millis(200));
        }
    }

    /// Requests to those who stay.
    fn steady_slot(&mut self, rate: u32) -> Result<Answers> {
        let questions = Questions {
            port: self.ports.gateway,
            upstream: self.steady.1,
            asked: Asked::Beside,
            count: crate::fleet::SIDE,
            start: 0,
            seconds: 1.0,
            close: false,
        };
        let answers = Generator::OpenLoop { rate }.run_ahead(self.ports.core, &questions);
        match self.envoy.ended() {
            Some(status) => Err(self.envoy.failure(format!("ended ({status}) while it was asked"))),
            None => answers,
        }
    }
}

/// The shipped config with this idle time.
fn config(module: &Path, routes: &Path, cell: Cell, idle: Duration, push: u16) -> Result<Value> {
    let between = Between::Sandgate { module, routes, way: Way::OwnCluster, push: Some(push) };
    let mut config = envoy_config::render(&between, cell, 0)?;
    if let Some(settings) = config.pointer_mut(envoy_config::BOOTSTRAP) {
        settings["pod-ranges"] = json!(["127.0.0.0/8"]);
    }
    let clusters = config.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut);
    for cluster in clusters.into_iter().flatten() {
        let settings = cluster.pointer_mut("/cluster_type/typed_config/cluster_config/value");
        let settings = settings.and_then(Value::as_object_mut);
        let settings = settings
            .ok_or_else(|| Failure::Asked("a cluster of gateway.yaml has no cluster_config".to_owned()))?;
        settings.insert("idle-seconds".to_owned(), json!(idle.as_secs().max(1)));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_of_all_clusters_and_none_of_them_may_be_missing() {
        let cluster = |hosts: u64| json!({ "hosts": hosts, "added": 5, "removed": 2, "batches": 3, "mainThreadMicros": 40 });
        let counts = Counts::read(&json!({ "clusters": [cluster(3), cluster(4)] })).expect("counts");
        assert_eq!(counts, Counts { hosts: 7, added: 10, removed: 4, batches: 6, main_thread_micros: 80 });
        assert_eq!(counts.changes(), 14);
        assert_eq!(Counts::read(&json!({ "clusters": [] })), None);
        assert_eq!(Counts::read(&json!({ "clusters": [{ "hosts": 1 }] })), None);
    }
}
