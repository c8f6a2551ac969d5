//! The server's process, or processes: started with a pipe as standard input, whose end is their end.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::flags::Flags;
use crate::locations;

/// How much of the log a failed scenario shows.
const TAIL_LINES: usize = 40;

/// Names a folder that goes when the process ends: for the server that no `Drop` of ours will end.
const REMOVE: &str = "SANDGATE_REMOVE_AT_END";

/// Ends a program that knows nothing of our pipe, when the pipe ends.
const GUARD: &str = r#""$@" & child=$!
cat >/dev/null
kill -9 "$child"
wait "$child" 2>/dev/null
[ -z "${SANDGATE_REMOVE_AT_END:-}" ] || rm -rf "$SANDGATE_REMOVE_AT_END""#;

pub(super) struct Process {
    children: Vec<Child>,
    guarded: bool,
    log: PathBuf,
}

impl Process {
    /// Starts the server. With `remove`, its folder goes when it ends.
    pub(super) fn start(flags: &Flags, folder: &Path, remove: bool) -> Self {
        let log = folder.join("server.log");
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let assets = assets.filter(|_| flags.controllers.is_none());
        let guarded = assets.is_some();
        let commands = match assets {
            Some(assets) => {
                vec![
                    guard(&assets.join("etcd"), &flags.etcd),
                    guard(&assets.join("kube-apiserver"), &flags.apiserver),
                ]
            }
            None => {
                let mut command = Command::new(locations::cluster());
                command.arg("control-plane").args(&flags.etcd).arg("--").args(&flags.apiserver);
                if let Some(controllers) = &flags.controllers {
                    command.arg("--").args(controllers);
                }
                vec![command]
            }
        };
        let children = commands.into_iter().map(|mut command| {
            if remove {
                command.env(REMOVE, folder);
            }
            let out = appended(&log);
            command.stdin(Stdio::piped()).stderr(out.try_clone().expect("share the log")).stdout(out);
            command.spawn().unwrap_or_else(|e| panic!("start {command:?}: {e}"))
        });
        Self { children: children.collect(), guarded, log }
    }

    /// Fails, with the log, when the server has ended by itself.
    pub(super) fn assert_alive(&mut self) {
        for child in &mut self.children {
            if let Some(status) = child.try_wait().expect("ask for the child") {
                panic!("the API server ended ({status}):\n{}", tail(&self.log));
            }
        }
    }

    /// Ends it at once, with no chance to say goodbye to its clients.
    pub(super) fn kill(&mut self) {
        for mut child in self.children.drain(..) {
            drop(child.stdin.take());
            if !self.guarded {
                // Fails only for a child that has ended, which is what is wanted.
                let _ended = child.kill();
            }
            let _status = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the end of the API server's log ---\n{}\n---", tail(&self.log));
        }
    }
}

fn guard(program: &Path, flags: &[String]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "guard"]).arg(program).args(flags);
    command
}

fn appended(log: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(log).expect("open the log")
}

fn tail(log: &Path) -> String {
    let log = std::fs::read(log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
