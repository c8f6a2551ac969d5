//! What the watch itself reads of an object and of an event: who it is and which version, nothing of what it says.

use std::borrow::Cow;

use sandgate_routes::{ObjectKey, Version};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::{Failure, shorten};

/// An object's name, version and UID. The version is missing where it is none: then nothing can be said about order.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) key: ObjectKey,
    pub(super) version: Option<Version>,
    /// Which object of that name it is.
    pub(super) uid: Option<Box<str>>,
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// ADDED or MODIFIED.
    Seen { head: Head, added: bool, object: &'a [u8] },
    /// DELETED, or not selected any more.
    Deleted(Head),
    /// Everything up to here has been sent. `complete` is set where a streamed list ends.
    Bookmark { version: Version, complete: bool },
    /// An object without a name that could be one: what is said about it cannot be used.
    Nameless(String),
    /// The watch is over.
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
struct RawObject<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct RawBookmark<'a> {
    #[serde(borrow)]
    metadata: RawBookmarkMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBookmarkMetadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, default, rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<Cow<'a, str>>,
}

/// The API server's words for a failure.
#[derive(Default, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) code: u16,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) details: Option<StatusDetails>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusDetails {
    #[serde(default)]
    pub(super) retry_after_seconds: u64,
}

impl Head {
    pub(super) fn read(provider: &str, object: &[u8]) -> Result<Self, String> {
        let RawObject { metadata } =
            serde_json::from_slice(object).map_err(|error| format!("metadata: {}", category(&error)))?;
        let name = metadata.name.unwrap_or_default();
        let namespace = metadata.namespace.unwrap_or_default();
        let key = ObjectKey::new(provider, &namespace, &name)
            .map_err(|error| format!("metadata of {:?}: {error}", shorten(&name)))?;
        let version = metadata.resource_version.and_then(|version| version.parse().ok());
        let uid = metadata.uid.filter(|uid| !uid.is_empty()).map(Into::into);
        Ok(Head { key, version, uid })
    }
}

impl<'a> Event<'a> {
    /// Reads a line. An error means that the line is no event at all.
    pub(super) fn read(provider: &str, line: &'a [u8]) -> Result<Self, Failure> {
        let event: RawEvent<'a> =
            serde_json::from_slice(line).map_err(|error| Failure::Garbled(category(&error).to_owned()))?;
        let object = event.object.get().as_bytes();
        Ok(match &*event.kind {
            "BOOKMARK" => bookmark(object)?,
            "ERROR" => Event::Failed(failure(object)),
            kind @ ("ADDED" | "MODIFIED" | "DELETED") => match Head::read(provider, object) {
                Ok(head) if kind == "DELETED" => Event::Deleted(head),
                Ok(head) => Event::Seen { head, added: kind == "ADDED", object },
                Err(why) => Event::Nameless(why),
            },
            kind => return Err(Failure::Garbled(format!("an event of type {:?}", shorten(kind)))),
        })
    }
}

fn bookmark(object: &[u8]) -> Result<Event<'static>, Failure> {
    let RawBookmark { metadata } = serde_json::from_slice(object)
        .map_err(|error| Failure::Garbled(format!("a bookmark: {}", category(&error))))?;
    let version = metadata
        .resource_version
        .parse()
        .map_err(|error| Failure::Garbled(format!("the version of a bookmark: {error}")))?;
    let complete = metadata.annotations.and_then(|found| found.initial_events_end);
    Ok(Event::Bookmark { version, complete: complete.as_deref() == Some("true") })
}

fn failure(object: &[u8]) -> Failure {
    let status: Status = serde_json::from_slice(object).unwrap_or_default();
    let retry_after = status.retry_after();
    let message = if status.message.is_empty() { &status.reason } else { &status.message };
    Failure::refused(status.code, message, retry_after)
}

impl Status {
    pub(super) fn retry_after(&self) -> Option<std::time::Duration> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| std::time::Duration::from_secs(seconds))
    }
}

/// What is wrong with a JSON text, without quoting it.
pub(super) fn category(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Eof => "the JSON text ends early",
        serde_json::error::Category::Syntax => "not a JSON text",
        _ => "not of the expected shape",
    }
}

#[cfg(test)]
mod tests;
