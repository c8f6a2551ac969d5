//! Envoy as a child: started, awaited, signalled, drained, never left behind.
//!
//! **Never left behind.** Envoy is started through this program's own hidden `__exec`, which asks the kernel to send
//! it SIGTERM when its parent dies, whatever the parent dies of, and then becomes Envoy. The kernel means the thread
//! that started it, so that has to be the main thread: the runtime has no other. Where the kernel has no such request
//! (not Linux), Envoy outlives a parent that was killed.
//!
//! **Signals.** Envoy is in a process group of its own, so that Ctrl-C reaches only us. The first SIGINT or SIGTERM
//! drains: Envoy tells clients to go elsewhere, and gets SIGTERM when no request is under way or the time is up. The
//! second ends it at once. SIGHUP is passed on.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{Instant, sleep, timeout};

use super::render::{LISTENER, STAT_PREFIX};
use crate::admin::Admin;
use crate::args::Exec;
use crate::failure::Failure;
use crate::terminal::note;

#[cfg(test)]
mod tests;

/// How long Envoy may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// How to start Envoy.
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) config: PathBuf,
    /// Where Envoy writes the address of its admin pages.
    pub(super) admin_address: PathBuf,
    pub(super) log_level: Option<String>,
    pub(super) concurrency: Option<u32>,
    pub(super) drain_seconds: u64,
    pub(super) extra: Vec<OsString>,
}

impl Launch {
    fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--config-path".into(), self.config.clone().into()];
        args.extend(["--admin-address-path".into(), self.admin_address.clone().into()]);
        // Two gateways on one machine must not meet in shared memory.
        args.push("--disable-hot-restart".into());
        args.extend(["--drain-strategy", "immediate", "--drain-time-s"].map(OsString::from));
        args.push(self.drain_seconds.max(1).to_string().into());
        match &self.log_level {
            Some(level) => args.extend(["--log-level".into(), level.into()]),
            None => {
                let quiet = ["--log-level", "warning", "--component-log-level", "dynamic_modules:info"];
                args.extend(quiet.map(OsString::from));
            }
        }
        if let Some(workers) = self.concurrency {
            args.extend(["--concurrency".into(), workers.to_string().into()]);
        }
        args.extend(self.extra.iter().cloned());
        args
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

pub(super) struct Process {
    child: Child,
    pid: Pid,
    admin_address: PathBuf,
    admin: Option<Admin>,
    drain: Duration,
    signals: Signals,
    ending: bool,
}

pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
}

pub(super) enum Asked {
    End,
    Hangup,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Signals {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hangup: unix::signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::End,
            _ = self.terminate.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::Hangup,
        }
    }
}

/// What ended a wait.
enum Event {
    Ended(ExitStatus),
    Asked(Asked),
    Later,
}

impl Process {
    pub(super) fn start(launch: &Launch) -> Result<Self, String> {
        let signals = Signals::new().map_err(|error| format!("cannot listen for signals: {error}"))?;
        let own = own_program().map_err(|error| format!("cannot find this program: {error}"))?;
        let mut command = Command::new(own);
        command
            .args(["__exec", "--parent"])
            .arg(std::process::id().to_string())
            .arg(&launch.program)
            .arg("--")
            .args(launch.args())
            .stdin(std::process::Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| format!("cannot start Envoy: {error}"))?;
        let pid =
            child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or("Envoy ended as it began")?;
        Ok(Process {
            child,
            pid,
            admin_address: launch.admin_address.clone(),
            admin: None,
            drain: Duration::from_secs(launch.drain_seconds),
            signals,
            ending: false,
        })
    }

    /// Waits until the gateway serves. `None` if it was asked to end before.
    pub(super) async fn until_ready(&mut self) -> Result<Option<Ready>, Failure> {
        loop {
            match self.event(STEP).await {
                Event::Ended(status) => {
                    let message =
                        format!("Envoy ended before it was ready ({status}); its own messages above say why");
                    return Err(Failure::with_code(exit_number(status).max(1), message));
                }
                Event::Asked(Asked::Hangup) => self.send(Signal::HUP),
                Event::Asked(Asked::End) => {
                    self.send(Signal::TERM);
                    self.ending = true;
                    return Ok(None);
                }
                Event::Later => {}
            }
            if self.admin.is_none() {
                let address = std::fs::read_to_string(&self.admin_address).unwrap_or_default();
                self.admin =
                    address.trim().parse::<SocketAddr>().ok().map(|address| Admin::new(&address.to_string()));
            }
            if let Some(admin) = &self.admin
                && let Some(ready) = ready(admin).await
            {
                return Ok(Some(ready));
            }
        }
    }

    /// Waits until Envoy ends, and passes on what is asked meanwhile.
    pub(super) async fn until_end(mut self) -> ExitCode {
        while !self.ending {
            match self.event(Duration::MAX).await {
                Event::Ended(status) => return exit_code(status),
                Event::Asked(Asked::Hangup) => self.send(Signal::HUP),
                Event::Asked(Asked::End) => self.ending = true,
                Event::Later => {}
            }
            if self.ending
                && let Some(status) = self.drain().await
            {
                return exit_code(status);
            }
        }
        self.end().await
    }

    /// Lets requests under way finish, then sends SIGTERM.
    async fn drain(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + self.drain;
        let Some(admin) = self.admin.take() else {
            self.send(Signal::TERM);
            return None;
        };
        // Envoy would end itself when its own drain time is up; when to end is ours to say.
        let drained = admin.post("/drain_listeners?graceful&skip_exit").await;
        if drained.is_ok() && !self.drain.is_zero() {
            note(&format!("draining for {} s at most; once more to end at once", self.drain.as_secs()));
            while Instant::now() < deadline && requests_under_way(&admin).await != Some(0) {
                match self.event(STEP).await {
                    Event::Ended(status) => return Some(status),
                    Event::Asked(Asked::End) => {
                        self.send(Signal::KILL);
                        return None;
                    }
                    Event::Asked(Asked::Hangup) => self.send(Signal::HUP),
                    Event::Later => {}
                }
            }
        }
        self.send(Signal::TERM);
        None
    }

    /// Waits for Envoy to end after it was told to.
    async fn end(&mut self) -> ExitCode {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.event(deadline.saturating_duration_since(Instant::now())).await {
                Event::Ended(status) => return exit_code(status),
                Event::Asked(Asked::Hangup) => {}
                Event::Asked(Asked::End) | Event::Later => self.send(Signal::KILL),
            }
        }
    }

    async fn event(&mut self, at_most: Duration) -> Event {
        tokio::select! {
            biased;
            status = self.child.wait() => match status {
                Ok(status) => Event::Ended(status),
                // There is nothing left to wait for.
                Err(_) => Event::Ended(ExitStatus::from_raw(1 << 8)),
            },
            asked = self.signals.next() => Event::Asked(asked),
            () = sleep(at_most) => Event::Later,
        }
    }

    fn send(&self, signal: Signal) {
        // Until it is waited for, the process ID is the child's and nobody else's.
        if self.child.id().is_some() {
            let _ = kill_process(self.pid, signal);
        }
    }
}

/// On Linux the kernel's own link to it, which holds when the file is replaced by a new build.
fn own_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Becomes the program, to end with its parent. Returns only if it could not.
pub(crate) fn exec(exec: &Exec) -> Failure {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getppid, set_parent_process_death_signal};
        if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
            note(&format!("warning: Envoy will outlive sandgate if that is killed: {error}"));
        }
        // It may have died before it could be asked for.
        if getppid().map(Pid::as_raw_pid) != Some(exec.parent) {
            return Failure::new("sandgate ended while Envoy was being started");
        }
    }
    raise_open_files();
    let error = std::process::Command::new(&exec.program).args(&exec.args).exec();
    Failure::new(format!("cannot start {}: {error}", exec.program.display()))
}

/// Lets Envoy open as many files as the system allows: the soft limit of a shell is made for other programs.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        note(&format!("warning: Envoy may open fewer files than it was sized for: {error}"));
    }
}

async fn ready(admin: &Admin) -> Option<Ready> {
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

fn listener_address(listeners: &Value) -> Option<SocketAddr> {
    let all = listeners.get("listener_statuses")?.as_array()?;
    let ours = all.iter().find(|listener| listener.get("name").and_then(Value::as_str) == Some(LISTENER))?;
    let address = ours.pointer("/local_address/socket_address")?;
    let ip = address.get("address")?.as_str()?.parse().ok()?;
    let port = address.get("port_value")?.as_u64()?;
    Some(SocketAddr::new(ip, u16::try_from(port).ok()?))
}

/// `None` where Envoy does not say.
async fn requests_under_way(admin: &Admin) -> Option<u64> {
    let wanted = format!("^http\\.{STAT_PREFIX}\\.downstream_rq_active$");
    let query =
        form_urlencoded::Serializer::new("format=json".to_owned()).append_pair("filter", &wanted).finish();
    let stats =
        timeout(Duration::from_secs(1), admin.get(&format!("/stats?{query}"))).await.ok()?.ok()?.json()?;
    stats.get("stats")?.as_array()?.iter().find_map(|stat| stat.get("value").and_then(Value::as_u64))
}

/// Envoy's exit code; for a signal, what a shell would say.
fn exit_number(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(1)
}

fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(exit_number(status))
}
