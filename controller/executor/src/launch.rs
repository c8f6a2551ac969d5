//! Starting a shim, and what it says.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, wait};

use crate::failpoint::failpoint;
use crate::shim::{SHIM, Word};

/// How long the manager waits for a shim's word. One that is slower is not given up: what it does is seen
/// later.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts a shim for the task of this folder. `None`: it has said nothing yet.
pub(crate) fn launch(folder: &Path, main_container: Option<&str>) -> Option<Word> {
    // The program as it was started, even if its file has been replaced.
    let mut command = Command::new("/proc/self/exe");
    command.arg(SHIM).arg(folder).args(main_container.map(OsStr::new));
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    failpoint("start.spawned");
    // The child is not waited for here: `reap` does.
    match spawned.map(|mut child| child.stdout.take()) {
        Ok(Some(said)) => listen(said),
        Ok(None) => None,
        Err(error) => Some(Word::Failed(format!("no process could be started: {error}"))),
    }
}

fn listen(mut said: ChildStdout) -> Option<Word> {
    let deadline = Instant::now() + PATIENCE;
    let mut heard = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok()?;
        match poll(&mut [PollFd::new(&said, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        match said.read(&mut buffer) {
            Ok(0) => return Some(Word::Failed("the shim ended without a word".to_owned())),
            Ok(count) => heard.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        if let Some(word) = Word::read(&String::from_utf8_lossy(&heard)) {
            return Some(word);
        }
    }
}

/// Takes note of every child that has ended, so that none stays a zombie: shims, and if this is the first
/// process of its container whatever they leave behind.
pub(crate) fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}
