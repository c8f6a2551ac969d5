//! Lists, a page at a time.
//!
//! A list is sorted by a time and, where two are equal, by the ID. The token of a page names the last item
//! before it, so what comes and goes between two pages moves nothing else from one to the other.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use sandgate_cache::{Cache, Seen};
use sandgate_objects::openkruise::resources::SandboxFacts;
use sandgate_objects::sandbox_env::resources::EnvPod;
use serde::{Deserialize, Serialize};

use crate::describe::{describe, id, says, shown, started, template_name};
use crate::envs::Environments;
use crate::{Caller, Described, Error, Filter, Page};

/// Where an item stands in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) at: Timestamp,
    pub(crate) id: String,
}

#[derive(Serialize, Deserialize)]
struct Token {
    key: String,
    id: String,
}

impl Place {
    /// As a token.
    pub(crate) fn token(&self) -> String {
        let token = serde_json::json!(Token { key: self.at.to_string(), id: self.id.clone() });
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    /// From a token.
    ///
    /// # Errors
    /// It is none of ours.
    pub(crate) fn parse(token: &str) -> Result<Self, Error> {
        let place = || {
            let json = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
            let Token { key, id } = serde_json::from_slice(&json).ok()?;
            Some(Self { at: key.parse().ok()?, id })
        };
        place().ok_or_else(|| Error::invalid("nextToken", "expected the token of an earlier page"))
    }
}

/// One page of items that stand at these places.
pub(crate) fn page<T>(
    mut items: Vec<(Place, T)>,
    descending: bool,
    limit: usize,
    next: Option<&str>,
) -> Result<Page<T>, Error> {
    let after = next.map(Place::parse).transpose()?;
    let comes_after = |place: &Place| match &after {
        None => true,
        Some(after) if descending => place < after,
        Some(after) => place > after,
    };
    items.retain(|(place, _)| comes_after(place));
    items.sort_by(|(one, _), (other, _)| if descending { other.cmp(one) } else { one.cmp(other) });
    let limit = limit.max(1);
    let next = (items.len() > limit).then(|| items[limit - 1].0.token());
    items.truncate(limit);
    Ok(Page { items: items.into_iter().map(|(_, item)| item).collect(), next })
}

/// One page of the caller's sandboxes, as the cache has them: those with an object of their own, and pods of
/// environments.
pub(crate) fn list(
    cache: &Cache,
    envs: Option<&Environments>,
    namespace: Option<&str>,
    caller: &Caller,
    filter: &Filter,
    now: Timestamp,
) -> Result<Page<Described>, Error> {
    enum Item {
        Sandbox(Arc<Seen<SandboxFacts>>),
        Pod(Arc<Seen<EnvPod>>),
    }
    let owned = cache.sandboxes(namespace, Some(&caller.owner));
    let wanted = owned.into_iter().filter(|sandbox| fits(cache, sandbox, filter, now));
    let place = |sandbox: &Seen<SandboxFacts>| Place { at: started(sandbox), id: id(sandbox) };
    let sandboxes = wanted.map(|sandbox| (place(&sandbox), Item::Sandbox(sandbox)));
    let pods = envs.into_iter().flat_map(|envs| envs.listed(caller, filter));
    let placed = sandboxes.chain(pods.map(|(place, pod)| (place, Item::Pod(pod))));
    let page = page(placed.collect(), filter.descending, filter.limit, filter.next.as_deref())?;
    let described = page.items.iter().filter_map(|item| match item {
        Item::Sandbox(sandbox) => Some(describe(cache, sandbox, now)),
        Item::Pod(pod) => envs.map(|envs| envs.describe(pod)),
    });
    let items = described.collect();
    Ok(Page { items, next: page.next })
}

fn fits(cache: &Cache, sandbox: &Seen<SandboxFacts>, filter: &Filter, now: Timestamp) -> bool {
    let Some(state) = shown(sandbox, now) else { return false };
    (filter.states.is_empty() || filter.states.contains(&state))
        && filter.template.as_deref().is_none_or(|template| template == template_name(sandbox))
        && filter.started_after.is_none_or(|after| started(sandbox) > after)
        && says(cache, sandbox, &filter.metadata)
}
