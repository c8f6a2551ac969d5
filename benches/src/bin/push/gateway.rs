//! The gateway under test: a real Envoy with one worker, the module, and a port for pushes, on a core of its
//! own; and its sandboxes.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use sandgate_benches::failure::{Doing as _, Failure, Result};
use sandgate_benches::fleet::{Asked, Fleet};
use sandgate_benches::process::{self, Running};
use sandgate_benches::questions::Questions;
use sandgate_tests::Gateway;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::Common;

/// Sandboxes that are asked for while pushes come in, and routes in the table.
const FLEET: Fleet = Fleet { addresses: 100, routes: 10_000 };
/// The thread that takes pushes.
const RECEIVER: &str = "sandgate-push";

pub(crate) struct Site {
    pub(crate) gateway: Gateway,
    pub(crate) pushes: SocketAddr,
    /// Where pushes are answered and nothing else is done with them, on the gateway's core.
    pub(crate) sink: SocketAddr,
    /// The port of every sandbox.
    pub(crate) upstream: u16,
    runtime: Runtime,
    _sandboxes: Running,
    _sink: Running,
    _folder: TempDir,
}

impl Site {
    pub(crate) fn start(common: &Common) -> Result<Self> {
        for variable in ["SANDGATE_ENVOY", "SANDGATE_MODULE"] {
            if !std::env::var_os(variable).is_some_and(|path| PathBuf::from(path).exists()) {
                let problem = format!("{variable} does not name a file: `make bench-push` sets it");
                return Err(Failure::Asked(problem));
            }
        }
        let folder = tempfile::tempdir().doing("making a folder")?;
        let sandboxes = process::own(common.load_core, "__upstream");
        let (sandboxes, upstream) =
            Running::server("the sandboxes", sandboxes, &folder.path().join("upstream.log"))?;
        let sink = process::own(common.receiver_core.unwrap_or(common.proxy_core), "__sink");
        let (sink_runs, sink) = Running::server("the sink", sink, &folder.path().join("sink.log"))?;
        let runtime = Builder::new_current_thread().enable_all().build().doing("a runtime")?;
        // What is started stays where it was started.
        process::pin(common.proxy_core)?;
        let (gateway, pushes) = runtime.block_on(async {
            let gateway = Gateway::builder()
                .routes(&FLEET.routes_file(&[]))
                .refresh(json!({ "insecure": true, "lease-seconds": 86_400 }))
                .concurrency(1)
                .adjust(without_access_log)
                .start()
                .await;
            let pushes = gateway.refresh_address().await;
            (gateway, pushes)
        });
        process::pin(common.load_core)?;
        move_receiver(common, gateway.pid())?;
        Ok(Self {
            gateway,
            pushes,
            sink: (Ipv4Addr::LOCALHOST, sink).into(),
            upstream,
            runtime,
            _sandboxes: sandboxes,
            _sink: sink_runs,
            _folder: folder,
        })
    }

    /// How the parts share the machine, in words.
    pub(crate) fn placement(common: &Common) -> &'static str {
        match common.receiver_core {
            Some(core) if core != common.proxy_core => "own core",
            _ => "one core",
        }
    }

    /// The host by which a request names a sandbox.
    pub(crate) fn host(&self, name: &str) -> String {
        format!("{}-bench--{name}.bench.test", self.upstream)
    }

    /// Requests to sandboxes that no push is about.
    pub(crate) fn questions(&self, seconds: f64) -> Questions {
        Questions {
            port: self.gateway.address().port(),
            upstream: self.upstream,
            asked: Asked::Served,
            count: FLEET.addresses,
            start: 0,
            seconds,
            close: false,
        }
    }

    /// How many messages have changed the table.
    pub(crate) fn applied(&self) -> u64 {
        let status = self.runtime.block_on(self.gateway.status());
        status["refresh"]["applied"].as_u64().unwrap_or_default()
    }

    /// Nanoseconds that the thread which takes pushes was on a core.
    pub(crate) fn receiver_nanos(&self) -> Result<u64> {
        let pid = self.gateway.pid();
        let thread = thread_of(pid, RECEIVER)?.as_raw_nonzero().get().unsigned_abs();
        Ok(sandgate_benches::proc::thread_nanos(pid, thread))
    }

    /// The same of all of Envoy.
    pub(crate) fn envoy_nanos(&self) -> u64 {
        sandgate_benches::proc::cpu_nanos(self.gateway.pid())
    }
}

/// Moves the thread that takes pushes, if that is asked for.
pub(crate) fn move_receiver(common: &Common, gateway: u32) -> Result<()> {
    let Some(core) = common.receiver_core else { return Ok(()) };
    let thread = thread_of(gateway, RECEIVER)?;
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(Some(thread), &set).doing("moving the receiver")
}

/// Writing one costs more than what is measured.
pub(crate) fn without_access_log(config: &mut Value) {
    let manager = "/static_resources/listeners/0/filter_chains/0/filters/1/typed_config";
    if let Some(manager) = config.pointer_mut(manager).and_then(Value::as_object_mut) {
        manager.remove("access_log");
    }
}

fn thread_of(pid: u32, name: &str) -> Result<Pid> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).doing("listing Envoy's threads")?;
    let found = tasks
        .flatten()
        .find(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name));
    let number = found.and_then(|task| task.file_name().to_str()?.parse().ok()).and_then(Pid::from_raw);
    number.ok_or_else(|| Failure::Asked(format!("Envoy has no thread {name}")))
}
