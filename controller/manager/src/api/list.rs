//! Lists of sandboxes: filters, order and pages.

mod metadata;
#[cfg(test)]
mod tests;

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;

use super::extract::{Place, Query, Who};
use super::failure::Failure;
use super::model::ListedSandbox;
use super::openapi::Listing;
use super::{ApiState, answer};
use crate::{Filter, ShownState};
use metadata::{decoded, insert};

/// The parameters that are no filters by metadata.
const KNOWN: [&str; 8] =
    ["metadata", "state", "template", "order", "startedAfter", "limit", "nextToken", "teamID"];
/// A page has so many entries at most.
pub(super) const LONGEST: i64 = 100;
/// A page of the first version's list has so many entries at most.
const WHOLE: usize = 10_000;
/// No token is longer.
const TOKEN: usize = 1024;

/// List sandboxes
///
/// A page of the caller's own sandboxes. The header `x-next-token` says where the next page begins; without
/// it this was the last. A parameter that is not known is a filter by metadata, as OpenKruise has it.
#[utoipa::path(
    get, path = "/v2/sandboxes", tag = "sandboxes", operation_id = "listSandboxes",
    params(
        ("metadata" = Option<String>, Query, description = "Only those with all of these: `key=value&…`, \
            each key and value percent-encoded, as the SDK does it. Single encoding is understood as well."),
        ("state" = Option<String>, Query, description = "Only those in these states: `running`, `paused`, \
            separated by commas or repeated.", pattern = "^((running|paused)(,(running|paused))*)?$"),
        ("template" = Option<String>, Query, description = "Only those of this template."),
        ("startedAfter" = Option<String>, Query, format = DateTime, description = "Only those that were \
            started after this time."),
        ("order" = Option<String>, Query, description = "`asc`, oldest first (the default), or `desc`.",
            pattern = "^(asc|desc)$"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100, description = "So many at most."),
        ("nextToken" = Option<String>, Query, max_length = 1024, description = "Where the page begins."),
    ),
    responses(
        (status = 200, description = "A page.", body = [ListedSandbox], headers(("x-next-token" = String,
            description = "Where the next page begins."))),
        Listing,
    ),
)]
pub(super) async fn sandboxes_v2(
    State(state): State<ApiState>,
    Who(caller): Who,
    place: Place,
    query: Query,
) -> Result<Response, Failure> {
    let filter = filter(&query)?;
    let page = state.lifecycle.list(&caller, &filter)?;
    Ok(answer::page(page, |described| answer::listed(described, &place, &state.settings)))
}

/// List running sandboxes
///
/// The caller's own sandboxes that run, up to 10,000. Where there are more, the header `x-next-token` says
/// where to go on. Use `GET /v2/sandboxes`.
#[utoipa::path(
    get, path = "/sandboxes", tag = "sandboxes", operation_id = "listSandboxesV1",
    params(
        ("metadata" = Option<String>, Query, description = "As in `GET /v2/sandboxes`."),
        ("nextToken" = Option<String>, Query, max_length = 1024, description = "Where to go on."),
    ),
    responses(
        (status = 200, description = "Up to 10,000 of them.", body = [ListedSandbox],
            headers(("x-next-token" = String, description = "Where to go on. Without it these are all."))),
        Listing,
    ),
)]
pub(super) async fn sandboxes(
    State(state): State<ApiState>,
    Who(caller): Who,
    place: Place,
    query: Query,
) -> Result<Response, Failure> {
    let states = vec![ShownState::Running];
    let mut filter = Filter { states, limit: WHOLE, next: next(&query)?, ..Filter::default() };
    for text in query.all("metadata") {
        decoded(text, &mut filter.metadata)?;
    }
    let page = state.lifecycle.list(&caller, &filter)?;
    Ok(answer::page(page, |described| answer::listed(described, &place, &state.settings)))
}

/// What a list is asked for.
fn filter(query: &Query) -> Result<Filter, Failure> {
    let mut filter = Filter {
        states: states(query)?,
        template: query.text("template")?.map(str::to_owned),
        started_after: query.one("startedAfter")?.map(started_after).transpose()?,
        descending: match query.one("order")? {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(Failure::field("order", "expected asc or desc")),
        },
        limit: limit(query)?,
        next: next(query)?,
        ..Filter::default()
    };
    for text in query.all("metadata") {
        decoded(text, &mut filter.metadata)?;
    }
    for (key, value) in query.others(&KNOWN) {
        insert(&mut filter.metadata, key.to_owned(), value.to_owned())?;
    }
    Ok(filter)
}

/// How many entries a page has at most.
pub(super) fn limit(query: &Query) -> Result<usize, Failure> {
    let limit = query.number("limit", 1, LONGEST)?.unwrap_or(LONGEST);
    Ok(usize::try_from(limit).unwrap_or_default())
}

/// Where a page begins. Whoever made the token reads it; here it is only not too long.
pub(super) fn next(query: &Query) -> Result<Option<String>, Failure> {
    let next = query.text("nextToken")?;
    if next.is_some_and(|token| token.len() > TOKEN) {
        return Err(Failure::field("nextToken", "expected what x-next-token of the page before said"));
    }
    Ok(next.map(str::to_owned))
}

fn states(query: &Query) -> Result<Vec<ShownState>, Failure> {
    let words = query.all("state").flat_map(|value| value.split(','));
    let mut states = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        let state = match word {
            "running" => ShownState::Running,
            "paused" => ShownState::Paused,
            _ => return Err(Failure::field("state", "expected running, paused or both")),
        };
        if !states.contains(&state) {
            states.push(state);
        }
    }
    Ok(states)
}

fn started_after(text: &str) -> Result<Timestamp, Failure> {
    // A + that somebody forgot to encode arrives as a space.
    let time = text.parse().or_else(|_| text.replace(' ', "+").parse());
    time.map_err(|_| Failure::field("startedAfter", "expected a time such as 2026-01-31T12:00:00Z"))
}
