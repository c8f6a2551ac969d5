//! The lines of a response body, as they arrive, in bounded memory; and the events that the lines of a watch
//! are.
//!
//! The buffer holds one line and at most one piece of the body behind it. A line that is longer than the
//! bound is reported once and skipped. A body that ends within a line was cut off: the part of the line is
//! dropped.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use kube::core::Status;
use sandgate_routes::Version;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::failure::{Failure, describe_json_error, shorten};
use crate::sink::{Head, Rejected};

#[cfg(test)]
mod tests;

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

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// ADDED or MODIFIED.
    Seen { added: bool, object: &'a [u8] },
    /// DELETED: the object is gone, or the selector does not select it any more.
    Deleted(Result<Head, Rejected>),
    /// Everything up to this version has been sent. `complete` marks the end of a streamed list.
    Bookmark { version: Version, complete: bool },
    /// ERROR: the watch is over.
    Failed(Failure),
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct RawBookmark {
    metadata: ObjectMeta,
}

impl<'a> Event<'a> {
    /// Reads a line. The object of an ADDED or MODIFIED event is not read.
    ///
    /// # Errors
    /// If the line is not an event.
    pub(crate) fn read(line: &'a [u8]) -> Result<Self, Failure> {
        let event: RawEvent<'a> = serde_json::from_slice(line)
            .map_err(|error| Failure::Garbled(describe_json_error(&error).to_owned()))?;
        let object = event.object.get().as_bytes();
        Ok(match &*event.kind {
            "BOOKMARK" => bookmark(object)?,
            "ERROR" => Event::Failed(failure(object)),
            "DELETED" => Event::Deleted(Head::read(object)),
            kind @ ("ADDED" | "MODIFIED") => Event::Seen { added: kind == "ADDED", object },
            kind => return Err(Failure::Garbled(format!("an event of type {:?}", shorten(kind)))),
        })
    }
}

fn bookmark(object: &[u8]) -> Result<Event<'static>, Failure> {
    let RawBookmark { metadata } = serde_json::from_slice(object)
        .map_err(|error| Failure::Garbled(format!("a bookmark: {}", describe_json_error(&error))))?;
    let version = metadata.resource_version.unwrap_or_default().parse();
    let version = version.map_err(|error| Failure::Garbled(format!("the version of a bookmark: {error}")))?;
    let annotations = metadata.annotations.unwrap_or_default();
    let complete = annotations.get("k8s.io/initial-events-end").is_some_and(|value| value == "true");
    Ok(Event::Bookmark { version, complete })
}

fn failure(object: &[u8]) -> Failure {
    let status: Status = serde_json::from_slice(object).unwrap_or_default();
    let message = if status.message.is_empty() { &status.reason } else { &status.message };
    Failure::refused(status.code, message, retry_after(&status))
}

/// How long the server asks to wait, if it does.
pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}
