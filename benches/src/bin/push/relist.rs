//! From a push to the request that is answered by it, while a list of a million objects is read and
//! committed.
//!
//! A gateway watches a cluster of so many sandboxes, served by [`lister`](crate::lister) from this process.
//! Again and again the watch is ended with 410, so that the gateway lists everything anew; nothing in the
//! list has changed, which is what a relist after an outage finds, but for [`LEAVERS`] sandboxes that left
//! and came back in turn. Meanwhile sandboxes that are not in the list are pushed, one push after the other,
//! as in `latency`. A push belongs to the phase in which it began: *idle*, *list* (objects are on their way)
//! or *commit* (the list's end has been written, and the gateway does not say yet that the list is in: what
//! is left in the connection's buffers, the commit, and what follows it).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use indicatif::ProgressBar;
use sandgate_benches::failure::{Doing as _, Failure, Result};
use sandgate_benches::process::{self, Running};
use sandgate_benches::record::Record;
use sandgate_benches::stats::percentile;
use sandgate_tests::Gateway;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::Common;
use crate::gateway::{Site, move_receiver, without_access_log};
use crate::lister::{Lister, Phase};
use crate::words::{Line, route};

/// Sandboxes that are not in every second list.
const LEAVERS: usize = 1_000;
/// How long a push may take to be served.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a list may take.
const LIST: Duration = Duration::from_secs(300);
/// Between two lists.
const IDLE: Duration = Duration::from_secs(2);

const LIFE: [(&str, u16); 4] = [("running", 200), ("paused", 502), ("running", 200), ("dead", 502)];

pub(crate) fn run(common: &Common, record: &mut Record) -> Result<()> {
    let objects = common.objects.unwrap_or(if common.quick { 100_000 } else { 1_000_000 });
    let folder = tempfile::tempdir().doing("making a folder")?;
    let lister = Lister::start(objects, LEAVERS.min(objects / 2))?;
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, lister.kubeconfig()).doing("writing a kubeconfig")?;
    let sandboxes = process::own(common.load_core, "__upstream");
    let (_sandboxes, upstream) =
        Running::server("the sandboxes", sandboxes, &folder.path().join("upstream.log"))?;
    let runtime = Builder::new_current_thread().enable_all().build().doing("a runtime")?;
    process::pin(common.proxy_core)?;
    let gateway = runtime.block_on(
        Gateway::builder()
            .refresh(json!({ "insecure": true, "provider": "openkruise" }))
            .kubernetes(&kubeconfig, &json!([{ "kind": "openkruise" }]))
            .concurrency(1)
            .adjust(without_access_log)
            .spawn(),
    );
    process::pin(common.load_core)?;
    let mut site = Watching { gateway, runtime, lister };
    site.runtime.block_on(site.gateway.live());
    let pushes = site.runtime.block_on(site.gateway.refresh_address());
    move_receiver(common, site.gateway.pid())?;
    let rounds = common.rounds(10);
    let bar = ProgressBar::new(rounds as u64);
    let placement = Site::placement(common);
    let mut pusher = Pusher {
        asked: Line::open(site.gateway.address())?,
        pushed: Line::open(pushes)?,
        upstream,
        // Above every version that a list has.
        version: 1 << 40,
        number: 0,
    };
    for round in 0..rounds {
        let (samples, seconds) = site.round(&mut pusher)?;
        for phase in Phase::ALL {
            let mut of: Vec<f64> =
                samples.iter().filter(|sample| sample.0 == phase).map(|sample| sample.1).collect();
            for percent in [50.0, 99.0, 100.0] {
                let measure = format!("push to its effect, p{percent:.0}, µs");
                record.add(&measure, phase.name(), objects, placement, round, percentile(&mut of, percent));
            }
            record.add("pushes", phase.name(), objects, placement, round, of.len() as f64);
        }
        record.add("the list, s", "list", objects, placement, round, seconds.0);
        record.add("the commit and the rest, s", "commit", objects, placement, round, seconds.1);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The phase in which a push began, and the microseconds until its effect.
type Sample = (Phase, f64);
/// How long the list was on its way, and how long after that it was in.
type Seconds = (f64, f64);

struct Watching {
    gateway: Gateway,
    runtime: Runtime,
    lister: Arc<Lister>,
}

impl Watching {
    /// A list, with pushes before, during and after it.
    fn round(&self, pusher: &mut Pusher) -> Result<(Vec<Sample>, Seconds)> {
        let lists = self.lists();
        let lister = Arc::clone(&self.lister);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let pushing = scope.spawn(|| {
                let mut samples = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    pusher.life(&lister, &mut samples)?;
                }
                Ok(samples)
            });
            let listed = self.list(lists);
            over.store(true, Ordering::Relaxed);
            let samples: Result<Vec<Sample>> =
                pushing.join().map_err(|_| Failure::Asked("the pusher panicked".to_owned()))?;
            Ok((samples?, listed?))
        })
    }

    fn list(&self, lists: u64) -> Result<Seconds> {
        self.wait(IDLE);
        let began = Instant::now();
        self.lister.again();
        let until = |done: &dyn Fn() -> bool| {
            while !done() {
                if began.elapsed() > LIST {
                    return Err(Failure::Asked("the list was not read in time".to_owned()));
                }
                self.wait(Duration::from_millis(5));
            }
            Ok(began.elapsed().as_secs_f64())
        };
        until(&|| self.lister.phase() != Phase::Idle)?;
        let begins = began.elapsed().as_secs_f64();
        let sent = until(&|| self.lister.phase() == Phase::Commit)?;
        let listed = until(&|| self.lists() > lists)?;
        self.lister.listed();
        self.wait(IDLE);
        Ok((sent - begins, listed - sent))
    }

    fn wait(&self, time: Duration) {
        self.runtime.block_on(async { sleep(time).await });
    }

    /// How many lists are in the table.
    fn lists(&self) -> u64 {
        let scope = self.runtime.block_on(self.gateway.scope(0));
        scope["lists"].as_u64().unwrap_or_default()
    }
}

struct Pusher {
    asked: Line,
    pushed: Line,
    upstream: u16,
    version: u64,
    number: usize,
}

impl Pusher {
    /// Pushes one sandbox through its life and times each push.
    fn life(&mut self, lister: &Lister, samples: &mut Vec<Sample>) -> Result<()> {
        self.number += 1;
        let name = format!("n{:07}", self.number);
        let host = format!("{}-bench--{name}.bench.test", self.upstream);
        for (state, status) in LIFE {
            self.version += 1;
            let body = route(&name, self.number as u64, state, address(self.number), self.version);
            let (phase, began) = (lister.phase(), Instant::now());
            self.pushed.post("/refresh", body.as_bytes());
            self.pushed.send()?;
            loop {
                self.asked.get(&host);
                self.asked.send()?;
                if self.asked.answer()?.0 == status {
                    break;
                }
                if began.elapsed() > PATIENCE {
                    return Err(Failure::Asked(format!("{host} was not answered with {status} in time")));
                }
            }
            samples.push((phase, began.elapsed().as_secs_f64() * 1e6));
            self.pushed.taken(1)?;
        }
        Ok(())
    }
}

fn address(number: usize) -> IpAddr {
    let base = u32::from(Ipv4Addr::new(127, 100, 0, 1));
    Ipv4Addr::from(base + u32::try_from(number % 1_000_000).unwrap_or(0)).into()
}
