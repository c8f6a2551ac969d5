//! Complete lists.
//!
//! **Streamed**, where the server supports it: the list is the start of a watch, object by object, and a
//! bookmark marks its end and gives its version. The watch continues on the same connection. **Paged**
//! otherwise: pages of one version, each held in memory while it is read. A page that is larger than the
//! bound is requested again with fewer objects.

use std::borrow::Cow;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use sandgate_routes::Version;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::api::Api;
use crate::event::Event;
use crate::failure::{Failure, describe_json_error};
use crate::intake::Intake;
use crate::lines::{Line, Lines};
use crate::sink::{Rejected, Sink};
use crate::status::FollowState;
use crate::target::Target;

/// A list that was read to its end and is not committed yet.
pub(crate) struct Listed {
    pub(crate) version: Version,
    /// The watch that continues a streamed list.
    pub(crate) stream: Option<Lines>,
}

/// Called when the server has begun to answer.
fn begin<S: Sink>(intake: &mut Intake<S>) {
    intake.status.update(|status| status.state = FollowState::Listing);
    intake.objects = 0;
    intake.sink.begin();
}

/// Reads a streamed list.
pub(crate) async fn streamed<S: Sink>(
    api: &Api,
    target: &Target,
    intake: &mut Intake<S>,
    seconds: u64,
) -> Result<Listed, Failure> {
    let body = api.open(&target.streamed_list(seconds)).await?;
    let mut lines = Lines::new(body, api.timing.max_line, api.timing.list_silence);
    begin(intake);
    loop {
        let line = match lines.next(None).await? {
            Line::Text(line) => line,
            Line::TooLong => {
                let mebibytes = api.timing.max_line >> 20;
                intake.unreadable(&Rejected(format!("it has more than {mebibytes} MiB")));
                continue;
            }
            Line::End | Line::Due => return Err(Failure::Incomplete),
        };
        intake.status.contact();
        match Event::read(line)? {
            Event::Seen { added, object } => {
                if let Some(decoded) = intake.decode(object) {
                    intake.objects += u64::from(added);
                    intake.apply(decoded);
                }
            }
            Event::Deleted(Ok(head)) => {
                intake.objects = intake.objects.saturating_sub(1);
                intake.delete(&head);
            }
            Event::Deleted(Err(why)) => intake.unreadable(&why),
            Event::Bookmark { version, complete: true } => {
                lines.set_silence(api.timing.watch_silence);
                return Ok(Listed { version, stream: Some(lines) });
            }
            Event::Bookmark { .. } => {}
            Event::Failed(failure) => return Err(failure),
        }
    }
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(borrow)]
    metadata: RawPageMetadata<'a>,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPageMetadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default, rename = "continue")]
    next: Option<Cow<'a, str>>,
}

/// Reads a list page by page.
pub(crate) async fn paged<S: Sink>(
    api: &Api,
    target: &Target,
    intake: &mut Intake<S>,
) -> Result<Listed, Failure> {
    let mut limit = api.timing.page.max(1);
    let mut next: Option<String> = None;
    // Every page has the version of the first one.
    let mut version: Option<Version> = None;
    loop {
        let body = match page(api, &target.page(limit, next.as_deref())).await? {
            Some(body) => body,
            None if limit > 1 => {
                limit = (limit / 4).max(1);
                continue;
            }
            None => return Err(Failure::TooLarge(api.timing.max_page)),
        };
        if version.is_none() {
            begin(intake);
        }
        intake.status.contact();
        let page = read_page(&body)?;
        for object in page.items.iter().flatten() {
            intake.objects += 1;
            if let Some(decoded) = intake.decode(object.get().as_bytes()) {
                intake.apply(decoded);
            }
        }
        let first = version.get_or_insert(page_version(&page)?).clone();
        match page.metadata.next.filter(|next| !next.is_empty()) {
            Some(token) => next = Some(token.into_owned()),
            None => return Ok(Listed { version: first, stream: None }),
        }
        // A page takes milliseconds to read: let the other followers run.
        tokio::task::yield_now().await;
    }
}

/// The current version of the API server, by a list of one object; none if even that is too large.
pub(crate) async fn current_version(api: &Api, target: &Target) -> Result<Option<Version>, Failure> {
    match page(api, &target.page(1, None)).await? {
        Some(body) => page_version(&read_page(&body)?).map(Some),
        None => Ok(None),
    }
}

fn read_page(body: &[u8]) -> Result<RawPage<'_>, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::Garbled(format!("a list: {}", describe_json_error(&error))))
}

fn page_version(page: &RawPage<'_>) -> Result<Version, Failure> {
    let version = page.metadata.resource_version.parse();
    version.map_err(|error| Failure::Garbled(format!("the version of a list: {error}")))
}

/// A page; none if it is larger than the bound.
async fn page(api: &Api, path: &str) -> Result<Option<Vec<u8>>, Failure> {
    let mut body = Limited::new(api.open(path).await?, api.timing.max_page);
    let mut page = Vec::new();
    loop {
        match timeout(api.timing.list_silence, body.frame()).await {
            Ok(Some(Ok(frame))) => page.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Ok(Some(Err(error))) if error.is::<LengthLimitError>() => return Ok(None),
            Ok(Some(Err(error))) => return Err(Failure::broken(&*error)),
            Ok(None) => return Ok(Some(page)),
            Err(_) => return Err(Failure::Silent(api.timing.list_silence)),
        }
    }
}
