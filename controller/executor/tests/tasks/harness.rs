//! A data folder, the executors on it, and a client that is a few lines.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Generous: a loaded machine must not fail a good build.
const DEADLINE: Duration = Duration::from_secs(30);

/// Asks until it is so.
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "not in {DEADLINE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Whether namespaces can be made here. In CI a scenario fails without root; elsewhere it is skipped, and
/// says so.
pub(crate) fn root(scenario: &str) -> bool {
    let made =
        Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).stderr(Stdio::null()).status();
    if made.is_ok_and(|status| status.success()) {
        return true;
    }
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!ci, "{scenario} needs root, and CI must run it");
    // `eprintln!` would be captured. A terminal that cannot be written to is no reason to fail.
    let _ = writeln!(std::io::stderr().lock(), "\nSKIPPED {scenario}: it needs root");
    false
}

/// A folder for a test, with the data folder in it.
pub(crate) struct Site {
    folder: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A path beside the data folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// A file of a task, if there is one.
    pub(crate) fn file(&self, task: &str, name: &str) -> Option<String> {
        fs::read_to_string(self.data().join(task).join(name)).ok()
    }

    /// The lines of a file that tasks write to.
    pub(crate) fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.path(name)).map_or(0, |text| text.lines().count())
    }

    pub(crate) fn start(&self) -> Executor {
        self.start_with(|_| {})
    }

    /// Starts an executor and waits until it listens.
    pub(crate) fn start_with(&self, change: impl FnOnce(&mut Command)) -> Executor {
        self.try_start(change).expect("it starts")
    }

    /// The same; `None` if it ends before it listens.
    pub(crate) fn try_start(&self, change: impl FnOnce(&mut Command)) -> Option<Executor> {
        self.run(Command::new(env!("CARGO_BIN_EXE_task-executor")), change)
    }

    /// Starts an executor by another program, which gets the executor and its arguments as its last ones.
    pub(crate) fn start_by(
        &self,
        program: &str,
        words: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Executor {
        let mut command = Command::new(program);
        command.args(words).arg(env!("CARGO_BIN_EXE_task-executor"));
        self.run(command, change).expect("it starts")
    }

    fn run(&self, mut command: Command, change: impl FnOnce(&mut Command)) -> Option<Executor> {
        let log =
            tempfile::NamedTempFile::new_in(self.folder.path()).unwrap().into_temp_path().keep().unwrap();
        let out = File::create(&log).unwrap();
        for variable in
            ["DATA_DIR", "LISTEN_ADDR", "TOKEN_FILE", "ENABLE_SIDECAR_MODE", "MAIN_CONTAINER_NAME"]
        {
            command.env_remove(variable);
        }
        command.args(["--listen-addr", "127.0.0.1:0", "--data-dir"]).arg(self.data());
        command.env("SANDGATE_GRACE_MILLIS", "500");
        command.stdin(Stdio::null()).stderr(out.try_clone().unwrap()).stdout(out);
        change(&mut command);
        let mut executor =
            Executor { child: Some(command.spawn().unwrap()), address: String::new(), log, token: None };
        eventually("the executor listens or has ended", || {
            if let Some(address) = executor.listening() {
                executor.address = address;
                return Some(true);
            }
            executor.has_ended().then_some(false)
        })
        .then_some(executor)
    }
}

impl Drop for Site {
    /// Ends what a test that failed has left.
    fn drop(&mut self) {
        for entry in fs::read_dir(self.data()).into_iter().flatten().flatten() {
            let pid =
                fs::read_to_string(entry.path().join("pid")).ok().and_then(|text| text.trim().parse().ok());
            // One of a test that pretends has no `start`.
            if let Some(pid) = pid.and_then(Pid::from_raw).filter(|_| entry.path().join("start").exists()) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
        }
    }
}

/// A running executor.
pub(crate) struct Executor {
    /// `None`: somebody else has started it, and ends it.
    child: Option<Child>,
    pub(crate) address: String,
    log: PathBuf,
    /// What is sent as a bearer token.
    pub(crate) token: Option<String>,
}

impl Executor {
    /// One that somebody else has started.
    pub(crate) fn known(address: &str, log: &Path) -> Self {
        Self { child: None, address: address.to_owned(), log: log.to_owned(), token: None }
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it is ours")
    }

    fn listening(&self) -> Option<String> {
        let log = self.log();
        // A whole line: the port may be written in two steps.
        let line =
            log.split_inclusive('\n').find(|line| line.contains("listening on") && line.ends_with('\n'))?;
        Some(line.trim().rsplit(' ').next()?.to_owned())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        kill_process(Pid::from_child(self.child()), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the executor ends", || self.child().try_wait().unwrap())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child().try_wait().unwrap().is_some()
    }

    /// As a machine that loses power, but for the other processes.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// The answer, or `None` if the executor died before it had given one.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let token =
            self.token.as_ref().map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{token}\r\n"
        );
        // A refusal may come before the body is read: that is no error.
        stream.write_all(head.as_bytes()).ok()?;
        let _ = stream.write_all(body.as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        Answer::read(&String::from_utf8(text).unwrap())
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask(method, path, body).unwrap_or_else(|| panic!("{method} {path}: no answer\n{}", self.log()))
    }

    /// `POST /setTasks`, which must work.
    pub(crate) fn set(&self, tasks: &Value) -> Vec<Value> {
        let answer = self.request("POST", "/setTasks", &tasks.to_string());
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json().as_array().unwrap().clone()
    }

    /// `GET /getTasks`.
    pub(crate) fn tasks(&self) -> Vec<Value> {
        let answer = self.request("GET", "/getTasks", "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json().as_array().unwrap().clone()
    }

    /// `GET /tasks/NAME`.
    pub(crate) fn task(&self, name: &str) -> Option<Value> {
        let answer = self.request("GET", &format!("/tasks/{name}"), "");
        (answer.status == 200).then(|| answer.json())
    }

    /// `POST /tasks`, which must work.
    pub(crate) fn create(&self, task: &Value) -> Value {
        let answer = self.request("POST", "/tasks", &task.to_string());
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()
    }

    /// The task once it has ended: what `terminated` says.
    pub(crate) fn terminated(&self, name: &str) -> Value {
        eventually(&format!("task {name} has ended"), || {
            let ended = self.task(name)?["processStatus"]["terminated"].clone();
            (!ended.is_null()).then_some(ended)
        })
    }

    /// Waits until there is no task.
    pub(crate) fn is_empty(&self) {
        eventually("no task is left", || self.tasks().is_empty().then_some(()));
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn read(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// An error with this status: its body has the text of the status. Returns the message.
    pub(crate) fn error(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        let body = self.json();
        assert_eq!(body["code"], code);
        body["message"].as_str().unwrap().to_owned()
    }
}

/// A task that runs a line of shell.
pub(crate) fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "process": {"command": ["/bin/sh", "-c", script]}})
}

/// Whether there is a process with this pid that has not ended.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// What a task has written to a file, once it has written a whole line.
pub(crate) fn written(path: &Path) -> String {
    eventually(&format!("{} is written", path.display()), || {
        fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))
    })
}
