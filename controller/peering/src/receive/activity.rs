//! Which sandboxes were used, and when: `GET /activity`.
//!
//! Whoever serves the requests knows that ([`Activity`]); here it is joined with the table and told in pages.
//!
//! | query | |
//! |---|---|
//! | `provider` | required: whose sandboxes. One that this gateway does not have is 400 |
//! | `since` | only sandboxes that were used in this second or later |
//! | `after` | only sandboxes with a greater ID: the `next` of the page before |
//! | `limit` | the lines of a page, 5,000 at most |
//!
//! # Answer
//! Lines of JSON. The first says what the others are worth: `{"start","complete","now","next"?}`, in seconds
//! since 1970 by this machine's clock. `start` tells a process from the one before it. From `complete` on
//! nothing is missing: a sandbox without a line was not used since then. `next` is there if there is another
//! page.
//!
//! The others are sandboxes in the order of their IDs: `{"id","uid","namespace","name","lastActive","open"}`.
//! `open` counts the requests in flight, and while there are some, `lastActive` is `now`. It is never too
//! early, and too late by two seconds at most. Compare it with `now` and not with a clock of your own.
//!
//! A sandbox that the table has lost, or does not show under its ID, has no line. Each page is of its own
//! moment: an object that changes its ID between two pages may be on both or on neither.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use http::StatusCode;
use sandgate_routes::{Moving, RouteReader};
use serde_json::json;

#[cfg(test)]
mod tests;

/// The most lines of one answer.
pub(crate) const PAGE: usize = 5_000;
/// The identities that are looked up before other tasks get a turn.
const TURN: usize = 512;
/// How often an identity that changes its ID meanwhile is looked up.
const TRIES: usize = 64;

/// What a process knows of the requests that it has let through to sandboxes. Times are seconds since 1970 by
/// one clock.
pub trait Activity: Send + Sync {
    /// What is known now.
    ///
    /// # Errors
    /// [`Uncounted`]: some requests were not counted.
    fn observe(&self) -> Result<Observed, Uncounted>;

    /// The ID that an observed identity has in the table now.
    fn id_of(&self, identity: u64) -> Option<Arc<str>>;
}

/// What a process knows of the activity of sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// When the process began.
    pub start: u64,
    /// From when on nothing is missing.
    pub complete: u64,
    /// When this was observed.
    pub now: u64,
    /// The identities that were used, in any order. Some may be dead.
    pub sandboxes: Vec<Active>,
}

/// An identity that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// The identity of its [`Route`](sandgate_routes::Route::identity).
    pub identity: u64,
    /// When, at the latest.
    pub last: u64,
    /// Its requests in flight.
    pub open: u32,
}

/// Requests go to sandboxes without being counted, so nobody can say that one was not used. A retry does not
/// help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requests go to sandboxes without being counted")]
pub struct Uncounted;

/// Why there is no answer. A retry helps with [`Moving`](Self::Moving) alone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error(transparent)]
    Query(#[from] BadQuery),
    #[error(
        "this gateway cannot say which sandboxes were used: it counts requests to a cluster of its own type only, \
         and not to one of the type ORIGINAL_DST"
    )]
    Uncounted,
    #[error("sandboxes were changing their IDs: ask again")]
    Moving,
}

impl Unanswered {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Query(_) => StatusCode::BAD_REQUEST,
            Self::Uncounted => StatusCode::NOT_IMPLEMENTED,
            Self::Moving => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// What is wrong with a query. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadQuery {
    #[error("{0} is given twice")]
    Twice(String),
    /// With those that there are.
    #[error("provider is missing: expected one of {0}")]
    NoProvider(String),
    /// The same.
    #[error("this gateway has no such provider: expected one of {0}")]
    OtherProvider(String),
    #[error("since: expected seconds since 1970")]
    Since,
    #[error("limit: expected a number from 1 to {PAGE}")]
    Limit,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Query {
    provider: String,
    since: u64,
    after: String,
    limit: usize,
}

impl Query {
    /// Reads a query. Keys of later askers are ignored.
    fn parse(text: &str, providers: &BTreeSet<String>) -> Result<Self, BadQuery> {
        let (mut provider, mut since, mut after, mut limit) = (None, None, None, None);
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            let place = match &*key {
                "provider" => &mut provider,
                "since" => &mut since,
                "after" => &mut after,
                "limit" => &mut limit,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(BadQuery::Twice(key.into_owned()));
            }
        }
        let names = || providers.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let provider = provider.ok_or_else(|| BadQuery::NoProvider(names()))?;
        if !providers.contains(&provider) {
            return Err(BadQuery::OtherProvider(names()));
        }
        let since = since.map_or(Ok(0), |text| text.parse()).map_err(|_| BadQuery::Since)?;
        let limit = limit.map_or(Ok(PAGE), |text| text.parse());
        let limit = limit.ok().filter(|limit| (1..=PAGE).contains(limit));
        let limit = limit.ok_or(BadQuery::Limit)?;
        Ok(Self { provider, since, after: after.unwrap_or_default(), limit })
    }
}

/// What is asked, and the providers that may be asked about.
pub(crate) struct Asked {
    activity: Arc<dyn Activity>,
    providers: BTreeSet<String>,
}

impl Asked {
    pub(crate) fn new(activity: Arc<dyn Activity>, providers: BTreeSet<String>) -> Self {
        Self { activity, providers }
    }

    /// The lines of one page.
    pub(crate) async fn report(&self, table: &RouteReader, query: &str) -> Result<String, Unanswered> {
        let query = Query::parse(query, &self.providers)?;
        let Observed { start, complete, now, mut sandboxes } =
            self.activity.observe().map_err(|Uncounted| Unanswered::Uncounted)?;
        sandboxes.retain(|active| active.last >= query.since);
        let mut lines = Vec::new();
        for some in sandboxes.chunks(TURN) {
            for active in some {
                lines.extend(self.line(table, &query, active)?);
            }
            // One more than a page, which is how we know there is more.
            if lines.len() > 2 * query.limit {
                lines.sort_unstable();
                lines.truncate(query.limit + 1);
            }
            tokio::task::yield_now().await;
        }
        lines.sort_unstable();
        let more = lines.len() > query.limit;
        lines.truncate(query.limit);
        let mut head = json!({ "start": start, "complete": complete, "now": now });
        if let (true, Some((last, _)), Some(head)) = (more, lines.last(), head.as_object_mut()) {
            head.insert("next".to_owned(), json!(last));
        }
        let mut answer = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(answer, "{head}");
        for (_, line) in &lines {
            let _ = writeln!(answer, "{line}");
        }
        Ok(answer)
    }

    /// The line of an identity, and the ID by which lines are ordered. `None` if it is not asked for.
    fn line(
        &self,
        table: &RouteReader,
        query: &Query,
        active: &Active,
    ) -> Result<Option<(String, String)>, Unanswered> {
        let look = || {
            table.find_consistent(|table| {
                let id = self.activity.id_of(active.identity)?;
                let route = table.get(&id).filter(|route| route.identity() == active.identity)?;
                let key = route.key();
                if key.provider() != query.provider || route.id() <= query.after.as_str() {
                    return Some(None);
                }
                let line = json!({
                    "id": route.id(),
                    "uid": route.uid().as_str(),
                    "namespace": key.namespace(),
                    "name": key.name(),
                    "lastActive": active.last,
                    "open": active.open,
                });
                Some(Some((route.id().to_owned(), line.to_string())))
            })
        };
        for _ in 0..TRIES {
            match look() {
                Ok(found) => return Ok(found.flatten()),
                Err(Moving) => std::thread::yield_now(),
            }
        }
        Err(Unanswered::Moving)
    }
}
