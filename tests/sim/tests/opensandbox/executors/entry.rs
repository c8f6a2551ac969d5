//! One task of an executor.

use std::time::Duration;

use sandgate_executor_wire::{ProcessStatus, Running, Task, Terminated};
use tokio::time::Instant;

use super::Held;

/// How a task ends that is stopped.
const TERMINATED: i32 = 143;
const TIME: &str = "2026-11-19T00:00:00Z";

/// A task of an executor.
pub(super) struct Entry {
    task: Task,
    /// Whether it ends by itself: decided when it begins, so that some go on however long a run is.
    pub(super) ends: bool,
    /// How it ends by itself.
    exit_code: i32,
    /// The executor was told to stop it.
    pub(super) is_leaving: bool,
    /// Somebody has tried to tell the executor so.
    pub(super) is_to_stop: bool,
    /// It has ended, and nobody had tried to stop it.
    has_ended: bool,
    /// When an answer told of it last, and whether that said that it had ended by itself.
    told: (Instant, bool),
}

impl Entry {
    pub(super) fn new(task: &Task, ends: bool, exit_code: i32) -> Self {
        let running = Some(Running { started_at: Some(TIME.to_owned()) });
        let status = ProcessStatus { running, ..ProcessStatus::default() };
        Self {
            task: Task { process_status: Some(status), ..task.clone() },
            ends,
            exit_code,
            is_leaving: false,
            is_to_stop: false,
            has_ended: false,
            told: (Instant::now(), false),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.task.name
    }

    pub(super) fn is_among(&self, tasks: &[Task]) -> bool {
        tasks.iter().any(|task| task.name == self.task.name)
    }

    pub(super) fn runs(&self) -> bool {
        self.task.process_status.as_ref().is_some_and(|status| status.running.is_some())
    }

    fn exit_code(&self) -> Option<i32> {
        let ended = self.task.process_status.as_ref()?.terminated.as_ref()?;
        Some(ended.exit_code)
    }

    fn terminate(&mut self, exit_code: i32) {
        let terminated = Some(Terminated { exit_code, ..Terminated::default() });
        self.task.process_status = Some(ProcessStatus { terminated, ..ProcessStatus::default() });
    }

    /// It ends by itself. Says how.
    pub(super) fn end(&mut self) -> i32 {
        self.terminate(self.exit_code);
        self.has_ended = !self.is_to_stop;
        self.exit_code
    }

    /// It ends because it was stopped.
    pub(super) fn kill(&mut self) {
        self.terminate(TERMINATED);
    }

    /// It is not wanted any more.
    pub(super) fn leave(&mut self) {
        (self.is_leaving, self.is_to_stop) = (true, true);
        self.task.deletion_timestamp = Some(TIME.to_owned());
    }

    /// It is told of, in an answer that arrives.
    pub(super) fn tell(&mut self) -> Task {
        self.told = (Instant::now(), self.has_ended);
        self.task.clone()
    }

    /// Whether it has ended by itself, and whoever asks its executor for anything knows that, or has not
    /// asked for a long time.
    pub(super) fn is_known_to_have_ended(&self, long: Duration) -> bool {
        let (at, ended) = self.told;
        self.has_ended && (ended || at.elapsed() >= long)
    }

    pub(super) fn held(&self, address: &str) -> Held {
        Held {
            address: address.to_owned(),
            task: self.name().to_owned(),
            runs: self.runs(),
            is_wanted: !self.is_leaving,
            exit_code: self.exit_code(),
        }
    }
}
