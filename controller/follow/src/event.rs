//! The events of a watch, as the API server writes them: one JSON text a line.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Status;
use sandgate_routes::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::{Failure, describe_json_error, shorten};
use crate::sink::{Head, Rejected};

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

#[cfg(test)]
mod tests;
