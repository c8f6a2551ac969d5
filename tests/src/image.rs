//! Scenarios on the image: with `SANDGATE_IMAGE_ROOT` set, every Envoy and every `sandgate` runs inside it.
//!
//! `make test-image` unpacks the image and sets `SANDGATE_ENVOY` and `SANDGATE_BIN` to scripts
//! (`tests/image/bin`) that become bwrap, which starts the program in the image. So a scenario's child is
//! bwrap, and the program is the only child of that. Signals are for the program: bwrap passes none on, and
//! ends with the program's exit code.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Where the image has Envoy.
pub(crate) const ENVOY: &str = "/usr/local/bin/envoy";
/// Where the image has the module.
pub(crate) const MODULE: &str = "/usr/local/lib/libsandgate.so";

/// How long bwrap may take to start a program, on a busy machine.
const START: Duration = Duration::from_secs(20);

/// The unpacked image, if scenarios run in one.
pub fn root() -> Option<PathBuf> {
    let root = PathBuf::from(std::env::var_os("SANDGATE_IMAGE_ROOT")?);
    assert!(root.join(&ENVOY[1..]).is_file(), "SANDGATE_IMAGE_ROOT={} has no {ENVOY}", root.display());
    Some(root)
}

/// The process ID of the program that a child was started for: the child's own, or that of bwrap's only
/// child.
pub(crate) fn program(child: &mut Child) -> u32 {
    if root().is_some() { only_child(child) } else { child.id() }
}

/// The process that bwrap has started; bwrap itself if it has ended.
///
/// # Panics
/// When it has not started one in time.
pub fn only_child(child: &mut Child) -> u32 {
    let end = Instant::now() + START;
    // A child that has ended is what the caller finds out next.
    while child.try_wait().is_ok_and(|ended| ended.is_none()) {
        let is_bwrap = std::fs::read_to_string(format!("/proc/{}/comm", child.id()))
            .is_ok_and(|name| name.trim() == "bwrap");
        if is_bwrap && let [program] = children(child.id())[..] {
            return program;
        }
        assert!(Instant::now() < end, "bwrap has not started its program within {START:?}");
        #[expect(
            clippy::disallowed_methods,
            reason = "between two looks at a condition, where nothing awaits"
        )]
        std::thread::sleep(Duration::from_millis(1));
    }
    child.id()
}

/// The exit code of the program; `None` when a signal ended it, which bwrap tells as a shell would.
pub(crate) fn exit_code(status: ExitStatus) -> Option<i32> {
    status.code().filter(|code| *code < 128 || root().is_none())
}

/// The processes that a process has started and that still run.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Ends a child and the program it was started for, whatever they are at, and waits for it.
pub(crate) fn end(child: &mut Child, program: u32) {
    // Fails only for what has ended, which is what is wanted.
    if program != child.id() && child.try_wait().is_ok_and(|ended| ended.is_none()) {
        let _sent = Command::new("kill").args(["-KILL", &program.to_string()]).output();
    }
    let _ended = child.kill();
    let _status = child.wait();
}
