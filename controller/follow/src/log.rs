//! Bounded log lines.

use std::time::{Duration, Instant};

/// At most so many warnings ...
const LINES: u32 = 10;
/// ... in so much time.
const WINDOW: Duration = Duration::from_secs(10);

/// The log of one follower or sink. Warnings about objects are limited: a thousand malformed objects are ten
/// lines and a count. A failure that repeats is logged once.
pub struct BoundedLog {
    /// The start of each line.
    name: String,
    since: Instant,
    written: u32,
    left_out: u64,
    failure: Option<String>,
}

impl BoundedLog {
    /// Lines start with `name`.
    pub fn new(name: String) -> Self {
        BoundedLog { name, since: Instant::now(), written: 0, left_out: 0, failure: None }
    }

    /// Logs a warning that may be one of very many.
    pub fn warn(&mut self, text: &str) {
        if self.since.elapsed() >= WINDOW {
            if self.left_out > 0 {
                tracing::warn!("{}: {} more such lines were left out", self.name, self.left_out);
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

    /// Logs a failure. The same failure again is a line for debugging only.
    pub(crate) fn failed(&mut self, text: &str) {
        if self.failure.as_deref() == Some(text) {
            tracing::debug!("{}: still: {text}", self.name);
        } else {
            tracing::warn!("{}: {text}", self.name);
            self.failure = Some(text.to_owned());
        }
    }

    /// Logs that the failure is over, if there was one.
    pub(crate) fn works(&mut self) {
        if self.failure.take().is_some() {
            tracing::info!("{}: works again", self.name);
        }
    }

    pub(crate) fn info(&self, text: &str) {
        tracing::info!("{}: {text}", self.name);
    }

    /// Logs an error.
    pub fn error(&self, text: &str) {
        tracing::error!("{}: {text}", self.name);
    }
}
