//! Log lines of one scope, bounded: a thousand bad objects are a few lines and a count.

use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(10);
const LINES: u32 = 10;

pub(super) struct Notes {
    /// What the lines are about.
    name: String,
    since: Instant,
    written: u32,
    left_out: u64,
    failure: Option<String>,
}

impl Notes {
    pub(super) fn new(name: String) -> Self {
        Notes { name, since: Instant::now(), written: 0, left_out: 0, failure: None }
    }

    /// A line that may be one of very many.
    pub(super) fn warn(&mut self, text: &str) {
        if self.since.elapsed() >= WINDOW {
            if self.left_out > 0 {
                tracing::warn!("{}: {} more of such lines were left out", self.name, self.left_out);
            }
            (self.since, self.written, self.left_out) = (Instant::now(), 0, 0);
        }
        if self.written < LINES {
            self.written += 1;
            tracing::warn!("{}: {text}", self.name);
        } else {
            self.left_out += 1;
        }
    }

    /// Something failed. The same failure again is worth a line only to those who debug.
    pub(super) fn failed(&mut self, text: &str) {
        if self.failure.as_deref() == Some(text) {
            tracing::debug!("{}: still: {text}", self.name);
        } else {
            tracing::warn!("{}: {text}", self.name);
            self.failure = Some(text.to_owned());
        }
    }

    /// It works again, if it did not.
    pub(super) fn works(&mut self) {
        if self.failure.take().is_some() {
            tracing::info!("{}: works again", self.name);
        }
    }

    pub(super) fn info(&self, text: &str) {
        tracing::info!("{}: {text}", self.name);
    }

    pub(super) fn error(&self, text: &str) {
        tracing::error!("{}: {text}", self.name);
    }
}
