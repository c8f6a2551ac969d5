//! Complete lists: each is one relist of the table, committed only when its end has been seen.
//!
//! **Streamed**, where the server has it: the list is the beginning of a watch, object by object, and a bookmark says
//! that it is complete and of which version. The watch then goes on from there on the same connection. **Paged**
//! where not: pages of one version, each held in memory while it is read. A page larger than the bound is asked for
//! again in smaller ones.

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use sandgate_routes::{Relist, Version};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::num::NonZeroU64;
use tokio::time::timeout;

use super::client::Api;
use super::error::Failure;
use super::head::{Event, Head, category};
use super::lines::{Line, Lines};
use super::sink::Sink;
use super::status::ScopeState;
use super::target::Target;

/// A complete list that is not committed yet.
pub(super) struct Listed {
    pub(super) relist: Relist,
    pub(super) version: Version,
    /// The watch that goes on behind a streamed list.
    pub(super) stream: Option<Lines>,
}

/// Called when the server has begun to answer.
fn begin(sink: &mut Sink) -> Relist {
    sink.status.update(|status| status.state = ScopeState::Listing);
    sink.list += 1;
    sink.objects = 0;
    sink.held_back = 0;
    // The version is told at the end.
    sink.writer.begin_relist(sink.scope.clone(), Version::from(NonZeroU64::MIN))
}

/// Reads a streamed list.
pub(super) async fn streamed(
    api: &Api,
    target: &Target,
    sink: &mut Sink,
    seconds: u64,
) -> Result<Listed, Failure> {
    let answer = api.get(&target.streamed_list(seconds)).await?;
    let mut lines = Lines::new(answer.body, api.timing.max_line, api.timing.list_silence);
    let mut relist = begin(sink);
    let name = target.provider.clone();
    loop {
        let line = match lines.next(None).await? {
            Line::Text(line) => line,
            Line::TooLong => {
                sink.nameless(&format!("it has more than {} MiB", api.timing.max_line >> 20));
                continue;
            }
            Line::End | Line::Due => return Err(Failure::Incomplete),
        };
        sink.status.contact();
        match Event::read(&name, line)? {
            Event::Seen { head, added, object } => {
                sink.objects += u64::from(added);
                sink.observe(&mut relist, &head, object);
            }
            Event::Deleted(head) => {
                sink.objects = sink.objects.saturating_sub(1);
                sink.delete(&head);
            }
            Event::Nameless(what) => sink.nameless(&what),
            Event::Bookmark { version, complete: true } => {
                lines.set_silence(api.timing.watch_silence);
                return Ok(Listed { relist, version, stream: Some(lines) });
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
pub(super) async fn paged(api: &Api, target: &Target, sink: &mut Sink) -> Result<Listed, Failure> {
    let mut relist = None;
    let mut limit = api.timing.page.max(1);
    let mut next: Option<String> = None;
    let mut version: Option<Version> = None;
    let version = loop {
        let body = match page(api, &target.page(limit, next.as_deref())).await? {
            Some(body) => body,
            None if limit > 1 => {
                limit = (limit / 4).max(1);
                continue;
            }
            None => return Err(Failure::TooLarge(api.timing.max_page)),
        };
        let relist = relist.get_or_insert_with(|| begin(sink));
        sink.status.contact();
        let page: RawPage<'_> = read_page(&body)?;
        for object in page.items.iter().flatten() {
            let object = object.get().as_bytes();
            sink.objects += 1;
            match Head::read(&target.provider, object) {
                Ok(head) => sink.observe(relist, &head, object),
                Err(what) => sink.nameless(&what),
            }
        }
        // Every page is of the version of the first.
        let found = page_version(&page.metadata.resource_version)?;
        let version = version.get_or_insert(found).clone();
        match page.metadata.next.filter(|next| !next.is_empty()) {
            Some(token) => next = Some(token.into_owned()),
            None => break version,
        }
        // A page takes milliseconds to read; let the events of other scopes in.
        tokio::task::yield_now().await;
    };
    relist.map(|relist| Listed { relist, version, stream: None }).ok_or(Failure::Incomplete)
}

/// The version the API server is at now, by a list of one object.
pub(super) async fn current_version(api: &Api, target: &Target) -> Result<Option<Version>, Failure> {
    match page(api, &target.page(1, None)).await? {
        Some(body) => page_version(&read_page(&body)?.metadata.resource_version).map(Some),
        None => Ok(None),
    }
}

fn read_page(body: &[u8]) -> Result<RawPage<'_>, Failure> {
    serde_json::from_slice(body).map_err(|error| Failure::Garbled(format!("a list: {}", category(&error))))
}

fn page_version(text: &str) -> Result<Version, Failure> {
    text.parse().map_err(|error| Failure::Garbled(format!("the version of a list: {error}")))
}

/// A page, or nothing if it is larger than the bound.
async fn page(api: &Api, path: &str) -> Result<Option<Vec<u8>>, Failure> {
    let answer = api.get(path).await?;
    let mut body = Limited::new(answer.body, api.timing.max_page);
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
