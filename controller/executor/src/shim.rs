//! The process between the executor and a command: it claims the start, starts the command, waits for it and
//! writes its exit code.
//!
//! It is this program, so a task needs no shell, and what it does is the same in every image. It leads a
//! session and a group of its own, in which the command runs, and it survives the signals that the group
//! gets.
//!
//! It reads the task from the folder and is told nothing else of it: two shims of one folder are the same,
//! and whichever claims the start does what the task says.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, openat};
use sandgate_executor_wire::Process;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failpoint::failpoint;
use crate::record::Record;
use crate::sidecar::Main;
use crate::start::{self, Started};
use crate::{clock, proc};

/// The first argument of this program when it shall be a shim. The next ones are the folder of the task
/// and, in sidecar mode, the name of the main container.
pub const SHIM: &str = "shim-of-a-task";

/// What a shell says of a command that there is not, and of one that cannot be started.
const NOT_FOUND: i32 = 127;
const NOT_STARTED: i32 = 126;

/// How long to wait before an exit code is written again that could not be.
const BREATH: Duration = Duration::from_secs(1);

/// What the shim says to the executor, in one line, as soon as it is certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It has claimed the start, and the command runs or has ended.
    Started,
    /// Another shim has claimed it.
    Lost,
    /// The task cannot start, and the start is not claimed.
    Failed(String),
}

impl Word {
    fn line(&self) -> String {
        match self {
            Self::Started => "started\n".to_owned(),
            Self::Lost => "lost\n".to_owned(),
            Self::Failed(why) => format!("failed {}\n", why.replace('\n', " ")),
        }
    }

    pub(crate) fn read(line: &str) -> Option<Self> {
        match line.strip_suffix('\n')? {
            "started" => Some(Self::Started),
            "lost" => Some(Self::Lost),
            other => other.strip_prefix("failed ").map(|why| Self::Failed(why.to_owned())),
        }
    }
}

/// Is the shim of a task.
pub fn shim(arguments: &[OsString]) -> ExitCode {
    failpoint("shim.begun");
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            tell(&Word::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Nobody may listen any more: that changes nothing here.
fn tell(word: &Word) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(word.line().as_bytes()).and_then(|()| out.flush());
    let silence = File::options().write(true).open("/dev/null");
    let _ = silence.map(rustix::stdio::dup2_stdout);
}

/// An error means that the start is not claimed.
fn run(arguments: &[OsString]) -> io::Result<ExitCode> {
    let [folder, main @ ..] = arguments else { return Err(io::Error::other("no folder")) };
    rustix::process::setsid()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _caught = {
        let _inside = runtime.enter();
        survive()?
    };
    let open = File::open(folder)?;
    let folder = open.as_fd();
    let prepared = Prepared::new(folder, Path::new(&arguments[0]), main.first().map(OsString::as_os_str))?;
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let start_time = proc::stat(pid).map(|stat| stat.start_time);
    if start_time.is_none() {
        return Err(io::Error::other("/proc does not show this process"));
    }
    failpoint("shim.claiming");
    let started = Started {
        pid,
        start_time,
        boot_id: Some(proc::boot_id()),
        pid_namespace: proc::pid_namespace(),
        at: clock::now(),
    };
    if !start::claim(folder, &started)? {
        tell(&Word::Lost);
        return Ok(ExitCode::SUCCESS);
    }
    failpoint("shim.claimed");
    // For OpenSandbox's executor, should it take over: we read the claim.
    let _ = start::write_pid(folder, pid);
    // Without it the exit code is written as soon as there is room.
    let _ = start::reserve_exit(folder);
    let code = prepared.run();
    failpoint("shim.ended");
    leave(folder, code);
    Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1)))
}

/// Writes the exit code, however long the disk has no room for it: without one the task has crashed.
fn leave(folder: BorrowedFd<'_>, code: i32) {
    while let Err(error) = start::write_exit(folder, code) {
        // The folder is gone: nobody asks for the code any more.
        if error.kind() == io::ErrorKind::NotFound {
            return;
        }
        failpoint("shim.exit-refused");
        std::thread::park_timeout(BREATH);
    }
}

/// A caught signal does not end this process, and unlike an ignored one it is not inherited by the command.
fn survive() -> io::Result<[Signal; 4]> {
    let caught = |kind| signal(kind);
    Ok([
        caught(SignalKind::terminate())?,
        caught(SignalKind::interrupt())?,
        caught(SignalKind::quit())?,
        caught(SignalKind::hangup())?,
    ])
}

/// A command, and everything that can be found wrong with it before the start is claimed.
struct Prepared {
    command: Command,
    program: String,
    place: Option<Main>,
    errors: File,
}

impl Prepared {
    fn new(folder: BorrowedFd<'_>, path: &Path, main: Option<&OsStr>) -> io::Result<Self> {
        let file = openat(folder, "task.json", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let record: Record = serde_json::from_reader(io::BufReader::new(File::from(file)))?;
        if record.is_deleting() {
            return Err(io::Error::other("the task is being deleted"));
        }
        let process = record.process.ok_or_else(|| io::Error::other("the task has no process"))?;
        let place = main.map(|name| Main::find(&name.to_string_lossy())).transpose()?;
        let mut words = process.command.iter().chain(&process.args);
        let program = words.next().ok_or_else(|| io::Error::other("the command is empty"))?;
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null());
        environment(&mut command, &process, place.as_ref());
        if !process.working_dir.is_empty() {
            if place.is_none() && !Path::new(&process.working_dir).is_dir() {
                return Err(io::Error::other(format!("workingDir {} is no folder", process.working_dir)));
            }
            command.current_dir(&process.working_dir);
        }
        let append = |name: &str| {
            let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = openat(folder, name, flags, Mode::from_raw_mode(0o644));
            file.map(File::from)
                .map_err(|error| io::Error::other(format!("{}: {error}", path.join(name).display())))
        };
        let errors = append("stderr.log")?;
        command.stdout(append("stdout.log")?).stderr(errors.try_clone()?);
        Ok(Self { program: program.clone(), command, place, errors })
    }

    /// Runs it to its end and returns its exit code.
    fn run(mut self) -> i32 {
        let spawned = match self.place.as_ref().map(Main::enter) {
            Some(Err(error)) => {
                Err((NOT_STARTED, format!("cannot enter the main container's namespaces: {error}")))
            }
            _ => self.command.spawn().map_err(|error| {
                let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
                (code, format!("cannot start {}: {error}", self.program))
            }),
        };
        failpoint("shim.spawned");
        tell(&Word::Started);
        match spawned {
            // An error cannot happen: nobody else waits for this child.
            Ok(mut child) => child.wait().map_or(NOT_STARTED, code),
            Err((code, why)) => {
                let _ = writeln!(self.errors, "task-executor: {why}");
                code
            }
        }
    }
}

/// The executor's, or the main container's, and then what the task says.
fn environment(command: &mut Command, process: &Process, place: Option<&Main>) {
    if let Some(place) = place {
        command.env_clear().envs(&place.environment);
    }
    let named = process.env.iter().filter(|variable| !variable.name.is_empty());
    command.envs(named.map(|variable| (&variable.name, &variable.value)));
}

/// As a shell says it: 128 and the signal, if it was one.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::Word;

    #[test]
    fn a_word_is_read_as_it_was_said() {
        for word in [Word::Started, Word::Lost, Word::Failed("no folder".to_owned())] {
            assert_eq!(Word::read(&word.line()), Some(word));
        }
        assert_eq!(Word::Failed("a\nb".to_owned()).line(), "failed a b\n");
    }

    #[test]
    fn half_a_word_is_none() {
        assert_eq!(Word::read("star"), None);
        assert_eq!(Word::read("failed because"), None);
    }
}
