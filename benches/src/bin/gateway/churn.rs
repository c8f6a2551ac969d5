//! Hosts that come and go: what a change costs Envoy's main thread when a hundred thousand are live, and whether requests notice.
//!
//! A walk through more sandboxes than may be live, at a constant rate: each request is the first to its sandbox in a long time, so a
//! host is added for it, and a host whose idle time is over is removed for it. With the idle time that many hosts take to come at that
//! rate, as many are live as are asked for. Their sandboxes close every connection, so that files are not what runs out.
//!
//! Beside it, requests to a hundred other sandboxes tell what anyone else notices: before, and during.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sandgate_benches::record::Record;
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
use crate::site::{Place, envoy};

/// More sandboxes than are live, so that whoever is asked again has been forgotten.
const SPARE: usize = 3;
/// How much longer than expected the hosts may take to come.
const PATIENCE: u32 = 2;

/// What the cluster says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    hosts: u64,
    added: u64,
    removed: u64,
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
    port: u16,
    steady: (Running, u16),
    closing: (Running, u16),
    load_core: usize,
    _folder: tempfile::TempDir,
}

pub(crate) fn run(args: &args::Churn) -> Result<()> {
    let rate = (args.changes / 2).max(1);
    let idle = Duration::from_secs_f64(args.hosts as f64 / f64::from(rate));
    let place = Place::find(args.proxy_core, args.load_core)?;
    let mut gateway = Gateway::start(args.hosts * SPARE, idle, &place)?;
    let mut record = Record::default();
    let bar = ProgressBar::new(args.hosts as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} hosts  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));

    bar.set_message("before");
    // Until each of the steady ones has its host.
    gateway.steady_slot(args.rate)?;
    for round in 0..args.rounds {
        let answers = gateway.steady_slot(args.rate)?;
        latency(&mut record, args.hosts, "before", round, &answers);
    }
    let before = gateway.counts()?;
    let resident = proc::resident(gateway.envoy.pid());

    let settling = Duration::from_secs(args.rounds as u64 * 2 + 10);
    let questions = gateway.churn_questions(args.hosts * SPARE, idle * PATIENCE + settling);
    let load_core = args.load_core;
    // Its thread ends with its process; the process ends with this one.
    let load = thread::spawn(move || Generator::OpenLoop { rate }.run(load_core, &questions));
    let deadline = Instant::now() + idle * PATIENCE;
    bar.set_message("until they are live and the first ones go");
    loop {
        stopped()?;
        let counts = gateway.counts()?;
        bar.set_position(counts.hosts);
        let live = counts.hosts >= before.hosts + args.hosts as u64 * 98 / 100;
        if live && counts.removed > before.removed + u64::from(rate) {
            break;
        }
        if load.is_finished() || Instant::now() > deadline {
            return Err(gateway.envoy.failure(format!("has only {:?}", gateway.counts()?)));
        }
        thread::park_timeout(Duration::from_millis(200));
    }
    bar.set_message("during");
    for round in 0..args.rounds {
        stopped()?;
        gateway.round(&mut record, args, round)?;
        bar.set_position(gateway.counts()?.hosts);
    }
    let live = gateway.counts()?.hosts - before.hosts;
    let grown = proc::resident(gateway.envoy.pid()).saturating_sub(resident);
    record.add("bytes a host", "sandgate", args.hosts, "during", 0, grown as f64 / live as f64);
    bar.finish_and_clear();
    record.summarise();
    fs::create_dir_all(&args.out).doing("making the folder")?;
    record.write(&args.out.join("churn.tsv")).doing("writing churn.tsv")
}

fn latency(record: &mut Record, hosts: usize, condition: &str, round: usize, answers: &Answers) {
    let mut add = |measure, value| record.add(measure, "sandgate", hosts, condition, round, value);
    if let Some(latency) = answers.latency {
        add("p50 µs of others", latency.p50);
        add("p99 µs of others", latency.p99);
        add("p99.9 µs of others", latency.p999);
    }
    add("failed requests of others", answers.failed as f64);
}

impl Gateway {
    fn start(sandboxes: usize, idle: Duration, place: &Place) -> Result<Self> {
        if !envoy_config::offers(Way::OwnCluster) {
            return Err(Failure::Asked("the shipped config has no cluster of Sandgate's own".to_owned()));
        }
        let folder = tempfile::tempdir().doing("making a folder")?;
        let file = |name: &str| folder.path().join(name);
        let upstream = |close: bool, log: &str| {
            let mut command = process::own(place.load_core, "__upstream");
            command.args(close.then_some("--close"));
            Running::server("the sandboxes", command, &file(log))
        };
        let cell = Cell { addresses: sandboxes, routes: sandboxes, ..BASE };
        let (steady, closing) = (upstream(false, "steady.log")?, upstream(true, "closing.log")?);
        let routes = file("routes.json");
        fs::write(&routes, cell.fleet().routes_file(&[])).doing("writing routes")?;
        let config = config(&place.module, &routes, cell, idle)?;
        let (envoy, admin, port) = envoy("sandgate", place, &config, folder.path())?;
        Ok(Self { envoy, admin, port, steady, closing, load_core: place.load_core, _folder: folder })
    }

    fn counts(&self) -> Result<Counts> {
        let status = self.admin.json("/sandgate/status");
        let counts = status.as_ref().and_then(Counts::read);
        counts.ok_or_else(|| self.envoy.failure(format!("has no clusters on its status page: {status:?}")))
    }

    /// Requests to those who stay.
    fn steady_slot(&mut self, rate: u32) -> Result<Answers> {
        let asked = Asked::Beside;
        let questions = Questions {
            port: self.port,
            upstream: self.steady.1,
            asked,
            count: crate::fleet::SIDE,
            start: 0,
            seconds: 1.0,
            close: false,
        };
        Generator::OpenLoop { rate }.run(self.load_core, &questions)
    }

    /// Requests to those who come and go.
    fn churn_questions(&self, sandboxes: usize, lasting: Duration) -> Questions {
        Questions {
            port: self.port,
            upstream: self.closing.1,
            asked: Asked::Served,
            count: sandboxes,
            start: 0,
            seconds: lasting.as_secs_f64(),
            close: false,
        }
    }

    fn round(&mut self, record: &mut Record, args: &args::Churn, round: usize) -> Result<()> {
        let pid = self.envoy.pid();
        let (before, cpu, started) = (self.counts()?, proc::thread_nanos(pid, pid), Instant::now());
        let answers = self.steady_slot(args.rate)?;
        let (after, cpu) = (self.counts()?, proc::thread_nanos(pid, pid) - cpu);
        let changes = (after.changes() - before.changes()) as f64;
        let mut add = |measure, value| record.add(measure, "sandgate", args.hosts, "during", round, value);
        add("live hosts", after.hosts as f64);
        add("changes a second", changes / started.elapsed().as_secs_f64());
        if changes > 0.0 {
            let micros = (after.main_thread_micros - before.main_thread_micros) as f64;
            add("main thread µs a change, as Sandgate counts", micros / changes);
            add("main thread µs a change, all it does", cpu as f64 / 1e3 / changes);
        }
        latency(record, args.hosts, "during", round, &answers);
        Ok(())
    }
}

/// The shipped config with this idle time.
fn config(module: &Path, routes: &Path, cell: Cell, idle: Duration) -> Result<Value> {
    let between = Between::Sandgate { module, routes, way: Way::OwnCluster, push: None };
    let mut config = envoy_config::render(&between, cell, 0)?;
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
        let cluster =
            |hosts: u64| json!({ "hosts": hosts, "added": 5, "removed": 2, "mainThreadMicros": 40 });
        let counts = Counts::read(&json!({ "clusters": [cluster(3), cluster(4)] })).expect("counts");
        assert_eq!(counts, Counts { hosts: 7, added: 10, removed: 4, main_thread_micros: 80 });
        assert_eq!(counts.changes(), 14);
        assert_eq!(Counts::read(&json!({ "clusters": [] })), None);
        assert_eq!(Counts::read(&json!({ "clusters": [{ "hosts": 1 }] })), None);
    }
}
