//! A child process that cannot outlive this one.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use crate::{DEADLINE, Tries, process_exists};

/// How much of the log a failed scenario shows.
const TAIL_LINES: usize = 40;

/// A running program, its log, and what ends it.
///
/// The kernel signals it when the thread that started it ends, so one thread starts them all and lives as
/// long as the process. Dropping it kills it, and shows the end of its log when the scenario has failed.
#[derive(Debug)]
pub struct Daemon {
    what: String,
    child: Child,
    log: PathBuf,
}

/// How long a program that is told to end may take.
const PATIENCE: Duration = Duration::from_secs(60);

type Start = (Command, Sender<std::io::Result<Child>>);

static STARTER: LazyLock<Sender<Start>> = LazyLock::new(|| {
    let (sender, starts) = mpsc::channel::<Start>();
    let serve = move || {
        for (mut command, answer) in starts {
            // Whoever asked has gone: dropping the child would leave it running.
            if let Err(mpsc::SendError(Ok(mut child))) = answer.send(command.spawn()) {
                let _ended = child.kill();
            }
        }
    };
    std::thread::Builder::new().name("starter".to_owned()).spawn(serve).expect("start a thread");
    sender
});

impl Daemon {
    /// Starts a program. Its output goes to `log`, after what is there. `signal` is what it gets when this
    /// process dies.
    pub fn start(what: &str, command: &Command, log: &Path, signal: &str) -> Self {
        let mut bound = Command::new("setpriv");
        bound.args(["--pdeathsig", signal, "--"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => bound.env(name, value),
                None => bound.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            bound.current_dir(folder);
        }
        let out = OpenOptions::new().create(true).append(true).open(log).expect("open the log");
        let err: File = out.try_clone().expect("share the log");
        // A group of its own: what the terminal says to ours is not for it.
        std::os::unix::process::CommandExt::process_group(&mut bound, 0);
        bound.stdin(Stdio::piped()).stdout(out).stderr(err);
        let (sender, answer) = mpsc::channel();
        STARTER.send((bound, sender)).expect("the starter lives");
        let child = answer.recv().expect("an answer of the starter");
        let child = child.unwrap_or_else(|e| panic!("start {what}: {e}"));
        Self { what: what.to_owned(), child, log: log.to_owned() }
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written so far, in this life and in earlier ones.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// How it ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("ask for the child")
    }

    /// Fails, with the log, when it has ended by itself.
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.status() {
            panic!("{} ended ({status}):\n{}", self.what, self.tail());
        }
    }

    /// Waits for a line of the log, among those after the first `skip`.
    pub(crate) async fn says(&mut self, line: &str, skip: usize) {
        let what = format!("{} says {line:?}", self.what);
        let mut tries = Tries::new(&what, DEADLINE * 3);
        while !self.log().lines().skip(skip).any(|said| said == line) {
            self.assert_alive();
            tries.next().await;
        }
    }

    /// The number of lines of the log.
    pub(crate) fn lines(&self) -> usize {
        self.log().lines().count()
    }

    /// Writes a line to its standard input.
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").unwrap_or_else(|e| panic!("tell {}: {e}", self.what));
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.expect("run kill").success(), "signal {name} to {}", self.what);
    }

    /// Asks it to end (SIGTERM), and waits until it has.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        let what = format!("{} ends", self.what);
        let mut tries = Tries::new(&what, DEADLINE);
        loop {
            tries.next().await;
            if let Some(status) = self.status() {
                return status;
            }
        }
    }

    /// Ends its standard input, which tells it to end, and gives it some time for that.
    pub(crate) fn end(&mut self) {
        drop(self.child.stdin.take());
        self.wait_or_kill();
    }

    /// Asks it to end (SIGTERM), and gives it some time for that.
    pub(crate) fn terminate(&mut self) {
        if self.status().is_none() {
            self.signal("TERM");
        }
        self.wait_or_kill();
    }

    fn wait_or_kill(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.status().is_none() && Instant::now() < deadline {
            #[expect(
                clippy::disallowed_methods,
                reason = "between two looks at a condition, where nothing awaits"
            )]
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }

    /// Ends it with no time to do anything (SIGKILL).
    pub fn kill(&mut self) {
        // Fails only for a child that has ended, which is what is wanted.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        debug_assert!(!process_exists(self.pid()), "a waited child is gone");
    }

    fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the end of the log of {} ---\n{}\n---", self.what, self.tail());
        }
    }
}
