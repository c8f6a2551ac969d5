//! Complete lists.
//!
//! **Streamed**, where the server supports it: the list is the start of a watch, object by object, and a
//! bookmark marks its end and gives its version. The watch continues on the same connection. **Paged**
//! otherwise: pages of one version, each held in memory while it is read. A page that is larger than the
//! bound is requested again with fewer objects.

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use sandgate_routes::Version;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::Follower;
use crate::api::Api;
use crate::events::{Event, Line, Lines};
use crate::failure::{Failure, describe_json_error};
use crate::sink::{Rejected, Sink};
use crate::status::FollowState;
use crate::target::Target;

impl<S: Sink> Follower<S> {
    /// Reads a list to its end, and commits nothing. Returns its version, and the watch that continues a
    /// streamed list.
    pub(super) async fn read_list(&mut self) -> Result<(Version, Option<Lines>), Failure> {
        if !self.avoid_streaming {
            match self.read_stream().await {
                Ok((version, lines)) => return Ok((version, Some(lines))),
                // The server does not support streamed lists.
                Err(Failure::Refused { code: 400 | 422, .. }) => {}
                Err(failure) => {
                    self.avoid_streaming =
                        matches!(failure, Failure::Incomplete | Failure::Silent(_) | Failure::Cut);
                    return Err(failure);
                }
            }
        }
        let version = self.read_pages().await?;
        self.avoid_streaming = false;
        Ok((version, None))
    }

    /// Called when the server has begun to answer.
    fn begin(&mut self) {
        self.status.update(|status| status.state = FollowState::Listing);
        self.objects = 0;
        self.sink.begin();
    }

    async fn read_stream(&mut self) -> Result<(Version, Lines), Failure> {
        let seconds = self.watch_seconds();
        let path = self.target.streamed_list(seconds);
        let body = self.api.open(&path).await?;
        let max_line = self.api.timing.max_line;
        let mut lines = Lines::new(body, max_line, self.api.timing.list_silence);
        self.begin();
        loop {
            let line = match lines.next(None).await? {
                Line::Text(line) => line,
                Line::TooLong => {
                    let why = Rejected(format!("it has more than {} MiB", max_line >> 20));
                    self.unreadable(None, &why);
                    continue;
                }
                Line::End | Line::Due => return Err(Failure::Incomplete),
            };
            self.status.contact();
            match Event::read(line)? {
                Event::Seen { added, object } => {
                    if let Some((_, decoded)) = self.decode(object) {
                        self.objects += u64::from(added);
                        self.apply(object, decoded);
                    }
                }
                Event::Deleted(Ok(head)) => self.delete(&head),
                Event::Deleted(Err(why)) => self.unreadable(None, &why),
                Event::Bookmark { version, complete: true } => {
                    lines.set_silence(self.api.timing.watch_silence);
                    return Ok((version, lines));
                }
                Event::Bookmark { .. } => {}
                Event::Failed(failure) => return Err(failure),
            }
        }
    }

    async fn read_pages(&mut self) -> Result<Version, Failure> {
        let mut limit = self.api.timing.page.max(1);
        let mut next: Option<String> = None;
        // Every page has the version of the first one.
        let mut version: Option<Version> = None;
        loop {
            let body = match page(&self.api, &self.target.page(limit, next.as_deref())).await? {
                Some(body) => body,
                None if limit > 1 => {
                    limit = (limit / 4).max(1);
                    continue;
                }
                None => return Err(Failure::TooLarge(self.api.timing.max_page)),
            };
            if version.is_none() {
                self.begin();
            }
            self.status.contact();
            let page = read_page(&body)?;
            for object in page.items.iter().flatten().map(|object| object.get().as_bytes()) {
                self.objects += 1;
                if let Some((_, decoded)) = self.decode(object) {
                    self.apply(object, decoded);
                }
            }
            let first = version.get_or_insert(page_version(&page)?).clone();
            next = page.metadata.continue_.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(first);
            }
            // A page takes milliseconds to read: let the other followers run.
            tokio::task::yield_now().await;
        }
    }
}

#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// The current version of the API server, by a list of one object; none if even that is too large.
pub(super) async fn current_version(api: &Api, target: &Target) -> Result<Option<Version>, Failure> {
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
    let version = page.metadata.resource_version.as_deref().unwrap_or_default();
    version.parse().map_err(|error| Failure::Garbled(format!("the version of a list: {error}")))
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
