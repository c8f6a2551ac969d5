//! The lines of a response body, as they arrive, in bounded memory.
//!
//! The buffer holds one line and at most one piece of the body behind it. A line that is longer than the
//! bound is reported once and skipped. A body that ends within a line was cut off: the part of the line is
//! dropped.

use std::ops::Range;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;

/// The capacity that an empty buffer may keep.
const KEEP: usize = 256 << 10;

pub(crate) struct Lines {
    body: Body,
    buffer: Vec<u8>,
    /// Where the current line starts, and how far it was searched for its end.
    start: usize,
    searched: usize,
    max_line: usize,
    /// Whether the rest of a line that is too long is being skipped.
    skipping: bool,
    silence: Duration,
}

/// What [`Lines::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Text(&'a [u8]),
    /// A line is longer than the bound, and is skipped.
    TooLong,
    /// The body ended after a whole line.
    End,
    /// The time `due` came first.
    Due,
}

impl Lines {
    /// `silence` is the longest time between two pieces of the body.
    pub(crate) fn new(body: Body, max_line: usize, silence: Duration) -> Self {
        Lines { body, buffer: Vec::new(), start: 0, searched: 0, max_line, skipping: false, silence }
    }

    pub(crate) fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// The next line that is not empty. Waits until `due` at most. Cancel safe.
    pub(crate) async fn next(&mut self, due: Option<Instant>) -> Result<Line<'_>, Failure> {
        let found = loop {
            if let Some(found) = self.find() {
                break found;
            }
            self.make_room();
            let silent = Instant::now() + self.silence;
            let until = due.map_or(silent, |due| due.min(silent));
            match timeout_at(until, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(error))) => return Err(Failure::broken(&error)),
                Ok(None) if self.start < self.buffer.len() || self.skipping => return Err(Failure::Cut),
                Ok(None) => return Ok(Line::End),
                Err(_) if until < silent => return Ok(Line::Due),
                Err(_) => return Err(Failure::Silent(self.silence)),
            }
        };
        Ok(match found {
            Some(line) => Line::Text(&self.buffer[line]),
            None => Line::TooLong,
        })
    }

    /// Where in the buffer the next line is. `Some(None)` is a line that is too long.
    fn find(&mut self) -> Option<Option<Range<usize>>> {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            let (from, to) = (self.start, self.searched + at);
            self.start = to + 1;
            self.searched = self.start;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if to - from > self.max_line {
                return Some(None);
            }
            if !self.buffer[from..to].trim_ascii().is_empty() {
                return Some(Some(from..to));
            }
        }
        self.searched = self.buffer.len();
        if self.buffer.len() - self.start > self.max_line {
            self.start = self.buffer.len();
            // Reported once, when the line first exceeds the bound.
            return (!std::mem::replace(&mut self.skipping, true)).then_some(None);
        }
        None
    }

    fn make_room(&mut self) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Lines {
        Lines::new(Body::from(text.as_bytes().to_vec()), 8, Duration::from_secs(5))
    }

    async fn all(text: &str) -> (Vec<String>, Option<Failure>) {
        let mut lines = lines(text);
        let mut seen = Vec::new();
        loop {
            match lines.next(None).await {
                Ok(Line::Text(text)) => seen.push(String::from_utf8_lossy(text).into_owned()),
                Ok(Line::TooLong) => seen.push("too long".to_owned()),
                Ok(Line::End | Line::Due) => return (seen, None),
                Err(failure) => return (seen, Some(failure)),
            }
        }
    }

    #[tokio::test]
    async fn lines_come_one_by_one_and_empty_ones_do_not() {
        let (seen, failure) = all("one\n\n \r\ntwo\n12345678\n").await;
        assert_eq!(seen, ["one", "two", "12345678"]);
        assert!(failure.is_none());
    }

    #[tokio::test]
    async fn an_end_within_a_line_is_a_cut() {
        let (seen, failure) = all("one\ntw").await;
        assert_eq!(seen, ["one"]);
        assert!(matches!(failure, Some(Failure::Cut)), "{failure:?}");
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_reported_once_and_those_behind_it_are_read() {
        let (seen, failure) = all("one\n123456789\ntwo\n").await;
        assert_eq!(seen, ["one", "too long", "two"]);
        assert!(failure.is_none());
        let (seen, failure) = all("one\n1234567890123").await;
        assert_eq!(seen, ["one", "too long"]);
        assert!(matches!(failure, Some(Failure::Cut)), "{failure:?}");
    }
}
