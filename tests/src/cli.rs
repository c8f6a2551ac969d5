//! The `sandgate` command, run as a person would run it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use crate::{DEADLINE, eventually, image, locations};

/// What a finished command left.
#[derive(Debug)]
pub struct Cli {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(locations::cli());
    command
        .args(arguments)
        .env("SANDGATE_ENVOY", locations::envoy_of_cli())
        .env("SANDGATE_MODULE", locations::module())
        .stdin(Stdio::null());
    command
}

impl Cli {
    /// Runs `sandgate` with these arguments until it ends.
    pub async fn run(arguments: &[&str]) -> Self {
        Self::finish(command(arguments)).await
    }

    /// Runs a line of shell until it ends.
    pub async fn shell(line: &str) -> Self {
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).stdin(Stdio::null());
        Self::finish(command).await
    }

    /// Runs any command until it ends.
    pub async fn finish(command: Command) -> Self {
        Self::finish_within(DEADLINE, command).await
    }

    /// The same with a deadline of the caller's own.
    pub async fn finish_within(deadline: Duration, command: Command) -> Self {
        let running = tokio::process::Command::from(command).kill_on_drop(true).output();
        let output = timeout(deadline, running).await.expect("the command ends within the deadline");
        let output = output.expect("run the command");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: image::exit_code(output.status),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// A command that runs until it is told to end. Dropping it ends it and what it started.
pub struct Running {
    child: Child,
    pid: u32,
    folder: TempDir,
}

impl Running {
    /// Starts `sandgate` as process 1 of a PID namespace of its own, as in a container. Needs root.
    pub fn start_as_process_1(arguments: &[&str]) -> Self {
        let plain = command(arguments);
        let mut inside = Command::new("unshare");
        inside.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        inside.arg(plain.get_program()).args(plain.get_args()).stdin(Stdio::null());
        inside.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::spawn(inside)
    }

    /// Starts `sandgate` with these arguments, its output going to files.
    pub fn start(arguments: &[&str]) -> Self {
        Self::spawn(command(arguments))
    }

    /// The same, with so many files that it, and what it starts, may open.
    pub fn start_with_files(files: u32, arguments: &[&str]) -> Self {
        let plain = command(arguments);
        let mut limited = Command::new("sh");
        limited.arg("-c").arg(format!("ulimit -n {files} && exec \"$@\"")).arg("sh");
        limited.arg(plain.get_program()).args(plain.get_args()).stdin(Stdio::null());
        limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::spawn(limited)
    }

    /// Starts another copy of the command, which has to find its module by itself.
    pub fn start_copy(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).env("SANDGATE_ENVOY", locations::envoy()).env_remove("SANDGATE_MODULE");
        command.stdin(Stdio::null());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let folder = TempDir::with_prefix("sandgate-cli-").expect("create a folder");
        let file = |name| File::create(folder.path().join(name)).expect("create a file");
        // What it writes goes away with it, also when it had no time to clean up.
        command.env("TMPDIR", folder.path()).stdout(file("stdout")).stderr(file("stderr"));
        let mut child = command.spawn().expect("start sandgate");
        let pid = image::program(&mut child);
        Self { child, pid, folder }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder().join(name)).unwrap_or_default()).into_owned()
    }

    /// Waits for what `find` looks for in the output.
    pub async fn printed<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        eventually(what, DEADLINE, async || {
            let found = find(&self.stdout());
            let ended = found.is_none() && self.child.try_wait().expect("ask for the child").is_some();
            assert!(!ended, "sandgate ended:\n{}\n{}", self.stdout(), self.stderr());
            found
        })
        .await
    }

    /// Waits for the address on the line of the output that begins with `word`, as in `gateway
    /// http://127.0.0.1:1234`.
    pub async fn address(&mut self, word: &str) -> SocketAddr {
        self.printed(&format!("the address of the {word}"), |output| {
            let mut lines = output.lines().map(str::trim);
            let url = lines.find_map(|line| line.strip_prefix(word)?.split_once("http://"))?.1;
            url.split(|c: char| c.is_whitespace() || c == '/').next()?.parse().ok()
        })
        .await
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        signal("TERM", self.pid());
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(name, self.pid());
    }

    /// Waits until it has said this on standard error.
    pub async fn said(&self, words: &str) {
        eventually(&format!("it says {words:?}"), DEADLINE, async || {
            self.stderr().contains(words).then_some(())
        })
        .await;
    }

    /// Ends it with no time to do anything (SIGKILL), and nothing of what it started.
    pub fn kill(&self) {
        signal("KILL", self.pid());
    }

    /// Waits until it has ended, and returns its exit code (`None`: ended by a signal).
    pub async fn ended(&mut self) -> Option<i32> {
        let child = &mut self.child;
        let status =
            eventually("sandgate ends", DEADLINE, async || child.try_wait().expect("ask for the child"));
        image::exit_code(status.await)
    }

    /// The processes it has started and that still run.
    pub fn children(&self) -> Vec<u32> {
        image::children(self.pid())
    }
}

/// Whether a process exists.
pub fn process_exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(sent.expect("run kill").success(), "signal {name} to {pid}");
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // Envoy first: it is the command's child and nobody would end it after the command is gone.
            for pid in self.children() {
                signal("KILL", pid);
            }
        }
        image::end(&mut self.child, self.pid);
        if std::thread::panicking() {
            eprintln!("--- sandgate's output ---\n{}\n{}\n---", self.stdout(), self.stderr());
        }
    }
}
