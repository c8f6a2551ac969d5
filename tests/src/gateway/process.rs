//! The child process: its log, its signals, its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::eventually;

/// How much of the log a failed scenario shows.
const TAIL_LINES: usize = 60;

pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(super) fn spawn(mut command: Command, log: &Path) -> Self {
        let out = File::create(log).expect("create the log");
        let err = out.try_clone().expect("share the log");
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn().unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        Self { child, log: log.to_owned() }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
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
        eventually("the process ends", deadline, async || child.try_wait().expect("ask for the child"))
            .await
            .code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only for a child that has ended, which is what is wanted.
        let _ended = self.child.kill();
        let _status = self.child.wait();
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
