//! One Envoy: how it is started, when it serves, how it ends.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Child;
use tokio::time::timeout;

use super::RunError;
use super::exec::spawn;
use super::render::{LISTENER, STAT_PREFIX};
use crate::admin::Admin;

#[cfg(test)]
mod tests;

/// How to start Envoy.
#[derive(Clone)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) config: PathBuf,
    /// Where Envoy writes the address of its admin pages.
    pub(super) admin_address: PathBuf,
    pub(super) log_level: Option<String>,
    pub(super) concurrency: Option<u32>,
    pub(super) drain: Drain,
    pub(super) epoch: Epoch,
    pub(super) extra: Vec<OsString>,
}

/// How long a gateway that ends goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    /// It serves so long as if nothing were, because those who send requests hear of the end only now.
    pub(super) delay: Duration,
    /// Requests under way then may take so long.
    pub(super) time: Duration,
}

impl Drain {
    pub(super) fn total(self) -> Duration {
        self.delay + self.time
    }
}

/// Which Envoy this is of those that take over from each other.
#[derive(Clone, Debug)]
pub(super) enum Epoch {
    /// The only one. It must not meet another gateway of this machine in shared memory.
    Only,
    /// The first. It chooses the name of the shared memory and writes it to this file.
    First { base_id: PathBuf },
    /// One that takes over from the one before.
    Next { base_id: u32, number: u32 },
}

impl Launch {
    pub(super) fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--config-path".into(), self.config.clone().into()];
        args.extend(["--admin-address-path".into(), self.admin_address.clone().into()]);
        let seconds: OsString = self.drain.total().as_secs().max(1).to_string().into();
        match &self.epoch {
            Epoch::Only => args.push("--disable-hot-restart".into()),
            Epoch::First { base_id } => {
                args.extend(["--use-dynamic-base-id".into(), "--base-id-path".into(), base_id.into()]);
            }
            Epoch::Next { base_id, number } => {
                args.extend(["--base-id".into(), base_id.to_string().into()]);
                args.extend(["--restart-epoch".into(), number.to_string().into()]);
            }
        }
        if !matches!(self.epoch, Epoch::Only) {
            // Taken from the parent by its successor, who counts from the moment at which it serves.
            args.extend(["--parent-shutdown-time-s".into(), seconds.clone()]);
        }
        args.extend(["--drain-strategy", "immediate", "--drain-time-s"].map(OsString::from));
        args.push(seconds);
        args.extend(self.verbosity());
        if let Some(workers) = self.concurrency {
            args.extend(["--concurrency".into(), workers.to_string().into()]);
        }
        args.extend(self.extra.iter().cloned());
        args
    }

    /// How much Envoy logs.
    pub(super) fn verbosity(&self) -> Vec<OsString> {
        match &self.log_level {
            Some(level) => vec!["--log-level".into(), level.into()],
            None => ["--log-level", "warning", "--component-log-level", "dynamic_modules:info"]
                .map(OsString::from)
                .into(),
        }
    }
}

/// A gateway that serves.
pub(super) struct Ready {
    pub(super) listener: SocketAddr,
    /// The URL of the admin pages.
    pub(super) admin: String,
    /// Routes in the table, if it could be asked.
    pub(super) routes: Option<u64>,
}

/// A running Envoy.
pub(super) struct Process {
    child: Child,
    pid: Pid,
    admin_address: PathBuf,
    admin: Option<Admin>,
}

impl Process {
    pub(super) fn start(launch: &Launch) -> Result<Self, RunError> {
        let child = spawn(&launch.program, &launch.args()).map_err(RunError::start(&launch.program))?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or(RunError::Ended)?;
        Ok(Self { child, pid, admin_address: launch.admin_address.clone(), admin: None })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> ExitStatus {
        // After an error there is nothing left to wait for.
        self.child.wait().await.unwrap_or_else(|_| ExitStatus::from_raw(1 << 8))
    }

    pub(super) fn send(&self, signal: Signal) {
        // Until it is waited for, the process ID is the child's and nobody else's.
        if self.child.id().is_some() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Its admin pages, once it has them.
    pub(super) fn admin(&mut self) -> Option<&Admin> {
        if self.admin.is_none() {
            let address = std::fs::read_to_string(&self.admin_address).unwrap_or_default();
            self.admin =
                address.trim().parse::<SocketAddr>().ok().map(|address| Admin::new(&address.to_string()));
        }
        self.admin.as_ref()
    }

    /// What there is to say of it once it serves.
    pub(super) async fn ready(&mut self) -> Option<Ready> {
        let admin = self.admin()?;
        let live = admin.get("/ready").await.ok()?;
        if live.status != 200 {
            return None;
        }
        let listeners = admin.get("/listeners?format=json").await.ok()?.json()?;
        let listener = listener_address(&listeners)?;
        let status = admin.get("/sandgate/status").await.ok().and_then(|answer| answer.json());
        let routes = status.and_then(|status| status.pointer("/routes/total").and_then(Value::as_u64));
        Some(Ready { listener, admin: admin.url().to_owned(), routes })
    }

    /// Begins to drain: `/ready` says 503, so that no more requests are sent here; clients are told to go
    /// elsewhere; the module does not acknowledge pushes any more. `false` if Envoy could not be told.
    pub(super) async fn begin_drain(&mut self) -> bool {
        let Some(admin) = self.admin() else { return false };
        let post = async |path| admin.post(path).await.is_ok_and(|answer| answer.status == 200);
        // Envoy would end itself when its own drain time is up; when to end is ours to say.
        post("/healthcheck/fail").await && post("/drain_listeners?graceful&skip_exit").await
    }

    /// `None` where Envoy does not say.
    pub(super) async fn requests_under_way(&mut self) -> Option<u64> {
        let admin = self.admin()?;
        let wanted = format!("^http\\.{STAT_PREFIX}\\.downstream_rq_active$");
        let query = form_urlencoded::Serializer::new("format=json".to_owned())
            .append_pair("filter", &wanted)
            .finish();
        let page = format!("/stats?{query}");
        let stats = timeout(Duration::from_secs(1), admin.get(&page)).await.ok()?.ok()?.json()?;
        stats.get("stats")?.as_array()?.iter().find_map(|stat| stat.get("value").and_then(Value::as_u64))
    }
}

fn listener_address(listeners: &Value) -> Option<SocketAddr> {
    let all = listeners.get("listener_statuses")?.as_array()?;
    let ours = all.iter().find(|listener| listener.get("name").and_then(Value::as_str) == Some(LISTENER))?;
    let address = ours.pointer("/local_address/socket_address")?;
    let ip = address.get("address")?.as_str()?.parse().ok()?;
    let port = address.get("port_value")?.as_u64()?;
    Some(SocketAddr::new(ip, u16::try_from(port).ok()?))
}

/// Envoy's exit code; for a signal, what a shell would say.
pub(super) fn exit_number(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(1)
}

pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(exit_number(status))
}
