//! Which of two processes reports the gauges during a hot restart.
//!
//! The new Envoy shows the sum of both processes' gauges, with the old one's values as of its last flush of
//! statistics. A sum of connections is right; a sum of two tables with the same routes is not. So one of the
//! two reports 0 in every gauge:
//! 1. The new process reports 0 until its listeners are open. The sum is the old process's value.
//! 2. The old process reports 0 from its drain on, which begins when the new one's listeners are open.
//! 3. The new process reports [`AFTER`] its listeners opened. By then it has read the old one's zeros if it
//!    flushes every second, as the config of `sandgate run --hot-restart` does. With Envoy's default of five
//!    seconds the gauges are doubled until then.
//!
//! A process without hot restart reports always.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long after its listeners opened a new process begins to report.
const AFTER: Duration = Duration::from_secs(2);

pub(super) struct Reporter {
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

impl Reporter {
    pub(super) fn of_this_process() -> Self {
        Self::new(HotRestart::read(std::env::args_os().filter_map(|arg| arg.into_string().ok())))
    }

    fn new(hot_restart: HotRestart) -> Self {
        Self { hot_restart, opened: OnceLock::new(), drains: AtomicBool::new(false) }
    }

    /// The listeners may be open.
    pub(super) fn open(&self) {
        // Only the first call counts.
        let _ = self.opened.set(Instant::now());
    }

    /// The process drains.
    pub(super) fn drain(&self) {
        self.drains.store(true, Ordering::Relaxed);
    }

    pub(super) fn reports(&self) -> bool {
        self.reports_at(Instant::now())
    }

    fn reports_at(&self, now: Instant) -> bool {
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
    fn never_do_both_processes_report_and_one_does_before_and_after() {
        let (old, new) = (Reporter::new(HotRestart::First), Reporter::new(HotRestart::Next));
        let start = Instant::now();
        assert!(old.reports_at(start) && !new.reports_at(start));
        new.open();
        old.drain();
        assert!(!old.reports_at(start) && !new.reports_at(start));
        assert!(new.reports_at(Instant::now() + AFTER));
    }

    #[test]
    fn a_process_that_is_alone_reports_while_it_drains() {
        let alone = Reporter::new(HotRestart::Never);
        alone.drain();
        assert!(alone.reports());
    }
}
