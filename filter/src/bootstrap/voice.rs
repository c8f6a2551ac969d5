//! Which of two processes speaks for the gateway while one takes over from the other.
//!
//! In a hot restart the new Envoy shows the sum of both processes' gauges, as it last heard of the old one's at a flush of its
//! statistics. A sum of connections is true; a sum of two tables of the same routes is not. So one of the two has all gauges at 0:
//! 1. The new process is silent until its listeners are open. The sum is the old one's word.
//! 2. The old process is silent from its drain on, which begins when the listeners of the new one are open.
//! 3. The new process speaks [`AFTER`] its listeners opened. By then it has heard of the silence if it flushes every second, as the
//!    config of `sandgate run --hot-restart` says; with Envoy's five seconds the gauges are doubled until then.
//!
//! A process that no other can take over from, or that takes over from none, speaks always.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long after its listeners have opened a new process speaks.
const AFTER: Duration = Duration::from_secs(2);

pub(super) struct Voice {
    hot_restart: HotRestart,
    opened: OnceLock<Instant>,
    drains: AtomicBool,
}

/// What Envoy's command line says of hot restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HotRestart {
    Never,
    /// Another process may take over from this one.
    First,
    /// The same, and this one takes over from another.
    Next,
}

impl Voice {
    pub(super) fn of_this_process() -> Self {
        Self::new(HotRestart::read(std::env::args_os().filter_map(|arg| arg.into_string().ok())))
    }

    fn new(hot_restart: HotRestart) -> Self {
        Self { hot_restart, opened: OnceLock::new(), drains: AtomicBool::new(false) }
    }

    /// The listeners may be open.
    pub(super) fn open(&self) {
        let _only_the_first_counts = self.opened.set(Instant::now());
    }

    /// The process drains.
    pub(super) fn drain(&self) {
        self.drains.store(true, Ordering::Relaxed);
    }

    pub(super) fn speaks(&self) -> bool {
        self.speaks_at(Instant::now())
    }

    fn speaks_at(&self, now: Instant) -> bool {
        let serves =
            || self.opened.get().is_some_and(|opened| now.saturating_duration_since(*opened) >= AFTER);
        match self.hot_restart {
            HotRestart::Never => true,
            HotRestart::First => !self.drains.load(Ordering::Relaxed),
            HotRestart::Next => serves() && !self.drains.load(Ordering::Relaxed),
        }
    }
}

impl HotRestart {
    fn read(arguments: impl Iterator<Item = String>) -> Self {
        let mut epoch = None;
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--disable-hot-restart" => return Self::Never,
                "--restart-epoch" => epoch = arguments.next(),
                other => {
                    if let Some(number) = other.strip_prefix("--restart-epoch=") {
                        epoch = Some(number.to_owned());
                    }
                }
            }
        }
        match epoch.as_deref() {
            None | Some("0") => Self::First,
            Some(_) => Self::Next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> HotRestart {
        HotRestart::read(line.split_whitespace().map(ToOwned::to_owned))
    }

    #[test]
    fn the_command_line_says_whether_another_process_takes_over() {
        assert_eq!(read("envoy --config-path x --disable-hot-restart"), HotRestart::Never);
        assert_eq!(read("envoy --config-path x"), HotRestart::First);
        assert_eq!(read("envoy --base-id 3 --restart-epoch 0"), HotRestart::First);
        assert_eq!(read("envoy --base-id 3 --restart-epoch 2"), HotRestart::Next);
        assert_eq!(read("envoy --restart-epoch=1"), HotRestart::Next);
        assert_eq!(read("envoy --restart-epoch 1 --disable-hot-restart"), HotRestart::Never);
    }

    #[test]
    fn never_do_both_processes_speak_and_one_does_before_and_after() {
        let (old, new) = (Voice::new(HotRestart::First), Voice::new(HotRestart::Next));
        let start = Instant::now();
        assert!(old.speaks_at(start) && !new.speaks_at(start));
        new.open();
        old.drain();
        assert!(!old.speaks_at(start) && !new.speaks_at(start));
        assert!(new.speaks_at(Instant::now() + AFTER));
    }

    #[test]
    fn a_process_that_is_alone_speaks_while_it_drains() {
        let alone = Voice::new(HotRestart::Never);
        alone.drain();
        assert!(alone.speaks());
    }
}
