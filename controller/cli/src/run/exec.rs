//! How Envoy is started so that it is never left behind.
//!
//! Envoy is started through this program's own hidden `__exec`, which asks the kernel to send it SIGTERM when
//! its parent dies, whatever the parent dies of, and then becomes Envoy. The kernel means the thread that
//! started it, so that has to be the main thread: the runtime has no other. Where the kernel has no such
//! request (not Linux), Envoy outlives a parent that was killed.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::process::{Child, Command};

use crate::args::Exec;
use crate::failure::{Failure, failed};
use crate::terminal::note;

/// Starts the program in a process group of its own, so that Ctrl-C reaches only us.
pub(super) fn spawn(program: &Path, args: &[OsString]) -> io::Result<Child> {
    Command::new(own_program()?)
        .args(["__exec", "--parent"])
        .arg(std::process::id().to_string())
        .arg(program)
        .arg("--")
        .args(args)
        .stdin(std::process::Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// On Linux the kernel's own link to it, which holds when the file is replaced by a new build.
fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Becomes the program, to end with its parent. Returns only if it could not.
pub(crate) fn exec(exec: &Exec) -> Failure {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
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
    failed!("cannot start {}: {error}", exec.program.display())
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
