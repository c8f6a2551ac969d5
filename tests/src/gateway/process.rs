//! The child process: its log, its signals, its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{eventually, image};

/// How much of the log a failed scenario shows.
const TAIL_LINES: usize = 60;

pub(super) struct Process {
    child: Child,
    pid: u32,
    log: PathBuf,
}

impl Process {
    pub(super) fn spawn(mut command: Command, log: &Path) -> Self {
        let out = File::create(log).expect("create the log");
        let err = out.try_clone().expect("share the log");
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        let pid = image::program(&mut child);
        Self { child, pid, log: log.to_owned() }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// The log, without the list of its extensions that Envoy begins with.
    pub(super) fn log(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        log.split_inclusive('\n').filter(|line| !line.contains("server/server.cc:467]")).collect()
    }

    pub(super) fn signal(&self, name: &str) {
        // The child is ours and not reaped, so the number is still its own.
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.expect("run kill").success(), "signal {name}");
    }

    pub(super) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("ask for the child").is_none()
    }

    pub(super) async fn ended(&mut self, deadline: Duration) -> Option<i32> {
        let child = &mut self.child;
        let status =
            eventually("the process ends", deadline, async || child.try_wait().expect("ask for the child"));
        image::exit_code(status.await)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        image::end(&mut self.child, self.pid);
        if std::thread::panicking() {
            let log = self.log();
            // Envoy begins with a list of its extensions that says nothing about the failure.
            let lines: Vec<&str> =
                log.lines().filter(|line| !line.contains("server/server.cc:467]")).collect();
            let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            eprintln!("--- the end of Envoy's log ---\n{}\n---", tail.join("\n"));
        }
    }
}
