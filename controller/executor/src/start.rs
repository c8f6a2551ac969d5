//! The claim of a task's start: the file `start`, which one process makes, once.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{AtFlags, Mode, OFlags, fsync, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::failpoint::fault;

const START: &str = "start";
const PID: &str = "pid";
const PID_NEW: &str = "pid.tmp";
const EXIT: &str = "exit";
const EXIT_NEW: &str = "exit.tmp";

/// In place of a pid: the executor itself, so that nobody starts the task any more.
const CANCELLED: i32 = 0;
/// In place of a pid: somebody has, and nobody can tell who.
const UNKNOWN: i32 = -1;
/// As many bytes as an exit code can have.
const ROOM: &[u8] = b"    ";

/// Who has claimed a start, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    /// The shim, or [`CANCELLED`], or [`UNKNOWN`].
    pub(crate) pid: i32,
    /// When the shim started, in ticks; with the pid it names one process. OpenSandbox's executor writes
    /// none.
    #[serde(default)]
    pub(crate) start_time: Option<u64>,
    /// Which start of the machine that was in.
    #[serde(default)]
    pub(crate) boot_id: Option<String>,
    /// In which PID namespace. A container that is restarted has a new one, which counts from 1 again.
    #[serde(default)]
    pub(crate) pid_namespace: Option<String>,
    /// When.
    pub(crate) at: Timestamp,
}

impl Started {
    /// One of whom no more than the pid is known.
    fn by(pid: i32, at: Timestamp) -> Self {
        Self { pid, start_time: None, boot_id: None, pid_namespace: None, at }
    }

    /// Whether the executor has claimed it so that nobody starts the task.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.pid == CANCELLED
    }
}

/// Claims the start of the task in this folder. False if another process has.
///
/// The file is complete before it has its name: it is written under another one and linked.
pub(crate) fn claim(folder: BorrowedFd<'_>, started: &Started) -> io::Result<bool> {
    let own = format!("start.{}", rustix::process::getpid().as_raw_nonzero());
    write_at(folder, &own, serde_json::to_string(started)?.as_bytes())?.sync_all()?;
    let linked = linkat(folder, &own, folder, START, AtFlags::empty());
    unlinkat(folder, &own, AtFlags::empty())?;
    match linked {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    fsync(folder)?;
    Ok(true)
}

/// Claims it so that the task never starts. False if it has.
pub(crate) fn cancel(folder: &Path, now: Timestamp) -> io::Result<bool> {
    claim(File::open(folder)?.as_fd(), &Started::by(CANCELLED, now))
}

fn write_at(folder: BorrowedFd<'_>, name: &str, content: &[u8]) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, Mode::from_raw_mode(0o644))?);
    file.write_all(content)?;
    Ok(file)
}

/// Writes the pid as OpenSandbox's executor does. It is for that one, should it take over while the process
/// lives: it need not outlive the machine.
pub(crate) fn write_pid(folder: BorrowedFd<'_>, pid: i32) -> io::Result<()> {
    write_at(folder, PID_NEW, pid.to_string().as_bytes())?;
    renameat(folder, PID_NEW, folder, PID)?;
    Ok(())
}

/// Takes the room that the exit code needs, so that it can be written when the command has filled the disk.
pub(crate) fn reserve_exit(folder: BorrowedFd<'_>) -> io::Result<()> {
    write_at(folder, EXIT_NEW, ROOM)?.sync_all()
}

/// Writes the exit code as OpenSandbox's shim does, but at once: nobody sees half of it.
pub(crate) fn write_exit(folder: BorrowedFd<'_>, code: i32) -> io::Result<()> {
    fault("save.exit")?;
    let text = code.to_string();
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    // Not truncated before it is written: that would give the room back.
    let mut file = File::from(openat(folder, EXIT_NEW, flags, Mode::from_raw_mode(0o644))?);
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    file.sync_all()?;
    renameat(folder, EXIT_NEW, folder, EXIT)?;
    fsync(folder)?;
    Ok(())
}

/// Who has claimed the start, if anybody has. Where OpenSandbox's executor started the task there is no
/// claim, but a pid or an exit code.
///
/// A claim or a pid that makes no sense is one all the same: the task may have run, and is not run again.
pub(crate) fn read(folder: &Path) -> io::Result<Option<Started>> {
    if let Some(at) = modified(&folder.join(START))? {
        let text = fs::read(folder.join(START))?;
        return Ok(Some(serde_json::from_slice(&text).unwrap_or_else(|_| Started::by(UNKNOWN, at))));
    }
    if let Some(at) = modified(&folder.join(PID))? {
        // Theirs is empty when the machine stopped while it was written.
        let pid = String::from_utf8_lossy(&fs::read(folder.join(PID))?).trim().parse();
        return Ok(Some(Started::by(pid.ok().filter(|pid| *pid > 0).unwrap_or(UNKNOWN), at)));
    }
    Ok(modified(&folder.join(EXIT))?.map(|at| Started::by(UNKNOWN, at)))
}

/// The exit code and when it was written.
pub(crate) fn read_exit(folder: &Path) -> io::Result<Option<(i32, Timestamp)>> {
    let path = folder.join(EXIT);
    let Some(at) = modified(&path)? else { return Ok(None) };
    let text = fs::read(&path)?;
    // OpenSandbox's shim writes it in two steps: an empty file is one that is being written.
    Ok(String::from_utf8_lossy(&text).trim().parse().ok().map(|code| (code, at)))
}

fn modified(path: &Path) -> io::Result<Option<Timestamp>> {
    let modified = match fs::metadata(path) {
        Ok(metadata) => metadata.modified()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Timestamp::try_from(modified).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;

    use super::{Started, cancel, claim, read, read_exit, reserve_exit, write_exit, write_pid};
    use crate::clock;

    fn started(pid: i32) -> Started {
        Started {
            pid,
            start_time: Some(5),
            boot_id: Some("b".to_owned()),
            pid_namespace: Some("n".to_owned()),
            at: clock::now(),
        }
    }

    #[test]
    fn one_claims_the_start_and_no_second_one() {
        let folder = tempfile::tempdir().unwrap();
        let open = File::open(folder.path()).unwrap();
        let first = started(7);
        assert!(claim(open.as_fd(), &first).unwrap());
        assert!(!claim(open.as_fd(), &started(8)).unwrap());
        assert!(!cancel(folder.path(), clock::now()).unwrap());
        assert_eq!(read(folder.path()).unwrap(), Some(first));
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["start"], "nothing else is left behind");
    }

    #[test]
    fn a_start_that_was_cancelled_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        assert!(cancel(folder.path(), clock::now()).unwrap());
        assert!(!claim(File::open(folder.path()).unwrap().as_fd(), &started(7)).unwrap());
        assert!(read(folder.path()).unwrap().unwrap().is_cancelled());
    }

    #[test]
    fn a_claim_that_makes_no_sense_is_somebodys() {
        for (file, text) in
            [("start", ""), ("start", "{\"pid\": 7"), ("start", "\u{7f}"), ("pid", ""), ("pid", "0")]
        {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(file), text).unwrap();
            let started = read(folder.path()).unwrap().unwrap();
            assert!(!started.is_cancelled() && started.pid < 0, "{file} {text:?}: {started:?}");
        }
    }

    #[test]
    fn the_files_of_opensandboxs_executor_say_that_the_task_has_started() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), None);
        fs::write(folder.path().join("exit"), "0").unwrap();
        assert!(!read(folder.path()).unwrap().unwrap().is_cancelled());
        fs::write(folder.path().join("pid"), "4711\n").unwrap();
        assert_eq!(read(folder.path()).unwrap().unwrap().pid, 4711);
    }

    #[test]
    fn what_we_write_is_what_opensandboxs_executor_reads() {
        let folder = tempfile::tempdir().unwrap();
        let open = File::open(folder.path()).unwrap();
        write_pid(open.as_fd(), 12).unwrap();
        reserve_exit(open.as_fd()).unwrap();
        assert_eq!(read_exit(folder.path()).unwrap(), None, "room for a code is none");
        write_exit(open.as_fd(), 143).unwrap();
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((text("pid"), text("exit")), ("12".to_owned(), "143".to_owned()));
        assert_eq!(read_exit(folder.path()).unwrap().unwrap().0, 143);
    }

    #[test]
    fn an_exit_code_that_is_being_written_is_none_yet() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("exit"), "").unwrap();
        assert_eq!(read_exit(folder.path()).unwrap(), None);
    }
}
