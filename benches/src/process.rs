//! Processes of a run: pinned to a core, in a group of their own, and never left behind.
//!
//! A child is started through this program's own `__pinned`, which pins itself, asks the kernel for SIGKILL
//! when its parent dies (of whatever), and then becomes the program. Ctrl-C reaches only us; children are
//! ended when what holds them is dropped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::failure::{Doing as _, Failure, Result};

const TAIL_LINES: usize = 20;

/// A command that will run on this core and end with this process.
pub fn pinned(core: usize, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["__pinned", &core.to_string(), &std::process::id().to_string()]).arg(program);
    command.process_group(0).stdin(Stdio::null());
    command
}

/// The same for a subcommand of this program.
pub fn own(core: usize, subcommand: &str) -> Command {
    let mut command = pinned(core, "/proc/self/exe");
    command.arg(subcommand);
    command
}

/// The same, and it goes before every thread of ordinary rank there. For that it takes root's rights.
///
/// # Errors
/// When this program cannot be found.
pub fn ahead(core: usize, subcommand: &str) -> Result<Command> {
    let mut command = pinned(core, "chrt");
    command
        .args(["--rr", "1"])
        .arg(std::env::current_exe().doing("looking for this program")?)
        .arg(subcommand);
    Ok(command)
}

/// Becomes the program. Returns only if it could not.
pub fn become_pinned(core: usize, parent: i32, program: &OsStr, args: &[std::ffi::OsString]) -> Failure {
    let prepared = pin(core).and_then(|()| {
        set_parent_process_death_signal(Some(Signal::KILL)).doing("asking to end with the parent")
    });
    if let Err(failure) = prepared {
        return failure;
    }
    // It may have died before it could be asked for.
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return Failure::Interrupted;
    }
    let error = Command::new(program).args(args).exec();
    Failure::System { what: format!("starting {}", program.display()), source: error }
}

/// Keeps this thread, and those it will start, on one core.
pub fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).doing(format!("pinning to core {core}"))
}

/// Keeps a thread of any process on one core.
///
/// # Errors
/// When the system refuses.
pub fn place(thread: Pid, core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(Some(thread), &set).doing(format!("pinning a thread to core {core}"))
}

/// A child that runs until it is dropped.
pub struct Running {
    name: String,
    child: Child,
    log: PathBuf,
    stdin: Option<ChildStdin>,
}

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let out = File::create(log).doing(format!("creating {}", log.display()))?;
        let err = out.try_clone().doing("sharing a log")?;
        command.stdout(out).stderr(err);
        let child = command.spawn().doing(format!("starting {name}"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned(), stdin: None })
    }

    /// Starts a server of ours, which says its port in the first line.
    pub fn server(name: &str, mut command: Command, log: &Path) -> Result<(Self, u16)> {
        let err = File::create(log).doing(format!("creating {}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(err);
        let mut child = command.spawn().doing(format!("starting {name}"))?;
        let stdout = child.stdout.take();
        let stdin = child.stdin.take();
        let running = Self { name: name.to_owned(), child, log: log.to_owned(), stdin };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line).doing(format!("reading the port of {name}"))?;
        }
        match line.trim().parse() {
            Ok(port) => Ok((running, port)),
            Err(_) => Err(running.failure(format!("said {line:?} instead of its port"))),
        }
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says a line to a server of ours.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        let name = &self.name;
        match &mut self.stdin {
            Some(stdin) => writeln!(stdin, "{line}").doing(format!("telling {name} {line:?}")),
            None => Err(Failure::Asked(format!("{name} does not listen"))),
        }
    }

    /// Waits until `ready` has something.
    pub fn until<T>(&mut self, patience: Duration, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(found) = ready() {
                return Ok(found);
            }
            if let Some(status) = self.ended() {
                return Err(self.failure(format!("ended ({status}) before it was ready")));
            }
            if Instant::now() > deadline {
                return Err(self.failure(format!("was not ready after {} s", patience.as_secs())));
            }
            thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// A failure of it, with the end of its log.
    pub fn failure(&self, problem: impl Into<String>) -> Failure {
        let log = String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        Failure::Process { name: self.name.clone(), problem: problem.into(), log: tail }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Not reaped yet, so the group is still its own.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_with_what_holds_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sleep");
        command.arg("600").process_group(0);
        let running = Running::start("sleep", command, &folder.path().join("log")).expect("sleep starts");
        let proc = PathBuf::from(format!("/proc/{}", running.pid()));
        assert!(proc.exists());
        drop(running);
        assert!(!proc.exists());
    }

    #[test]
    fn one_that_ends_early_is_told_of_with_its_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such config >&2; exit 3"]).process_group(0);
        let mut running = Running::start("envoy", command, &folder.path().join("log")).expect("sh starts");
        let failure = running
            .until(Duration::from_secs(30), || None::<()>)
            .expect_err("it never gets ready")
            .to_string();
        assert!(failure.contains("envoy ended") && failure.contains("no such config"), "{failure}");
    }
}
