//! Routes in order of their IDs, a page at a time, for people.
//!
//! A page looks at every route and keeps at most a page of them. It is no snapshot: a route that changes
//! meanwhile is seen before or after.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::served::ServedMap;
use crate::{MAX_PAGE, Route, State};

/// Subject routes a page is of; nothing set is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this provider.
    pub provider: Option<String>,
    /// In this namespace.
    pub namespace: Option<String>,
    /// In this state.
    pub state: Option<State>,
    /// With an ID that begins so.
    pub prefix: Option<String>,
}

impl Filter {
    fn admits(&self, route: &Route) -> bool {
        fn is<T: ?Sized + PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        let key = route.raw_key();
        self.state.is_none_or(|state| state == route.state())
            && self.prefix.as_ref().is_none_or(|prefix| route.raw_id().starts_with(prefix.as_bytes()))
            && is(self.namespace.as_ref().map(String::as_bytes), key.namespace)
            && is(self.provider.as_ref().map(String::as_bytes), key.provider)
    }
}

/// Routes in order of their IDs.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The routes.
    pub routes: Vec<Arc<Route>>,
    /// What to give as `after` for the next page, if there is more.
    pub next: Option<String>,
}

#[derive(Clone, Copy)]
struct InOrder<'a>(&'a Route);

impl Ord for InOrder<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.raw_id().cmp(other.0.raw_id())
    }
}

impl PartialOrd for InOrder<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InOrder<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InOrder<'_> {}

pub(crate) fn page(served: &ServedMap, filter: &Filter, after: Option<&str>, limit: usize) -> Page {
    let served = served.pin();
    first(served.iter(), filter, after, limit)
}

/// The page of these routes, which may name one ID twice: a route that is replaced during a walk may be met
/// before and after.
fn first<'a>(
    routes: impl Iterator<Item = &'a Route>,
    filter: &Filter,
    after: Option<&str>,
    limit: usize,
) -> Page {
    let limit = limit.clamp(1, MAX_PAGE);
    let after = after.unwrap_or_default().as_bytes();
    // One more than a page, which is how we know there is more. A set, so that an ID met twice counts once.
    let mut lowest: BTreeSet<InOrder<'_>> = BTreeSet::new();
    for route in routes {
        let in_page =
            lowest.len() <= limit || lowest.last().is_some_and(|last| route.raw_id() < last.0.raw_id());
        if !in_page || route.raw_id() <= after || !filter.admits(route) {
            continue;
        }
        lowest.insert(InOrder(route));
        if lowest.len() > limit + 1 {
            lowest.pop_last();
        }
    }
    let more = lowest.len() > limit;
    let routes: Vec<Arc<Route>> =
        lowest.into_iter().take(limit).map(|route| Arc::new(route.0.clone())).collect();
    let next = routes.last().filter(|_| more).map(|last| last.id().to_owned());
    Page { routes, next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clash, Limits, ObjectKey, Observation, RouteTable};

    fn observed(id: &str) -> Observation {
        Observation {
            key: ObjectKey::new("file", "default", id).expect("a key"),
            id: id.to_owned(),
            uid: id.to_owned(),
            owner: String::new(),
            state: State::Paused,
            version: "1".parse().expect("a version"),
            ip: None,
            ip_is_claimed: false,
            own_id: false,
            created: None,
            token: None,
            traffic_token: None,
            require_traffic_auth: false,
            clash: Clash::default(),
        }
    }

    #[test]
    fn a_route_that_is_met_twice_does_not_end_the_pages_early() {
        let (writer, reader) = RouteTable::new(Limits::default());
        for name in ["a", "b", "c", "d", "e"] {
            writer.apply(observed(name));
        }
        let all = reader.page(&Filter::default(), None, 100).routes;
        let twice = || all.iter().chain(&all).map(|route| &**route);
        for limit in 1..=6 {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = first(twice(), &Filter::default(), after.as_deref(), limit);
                seen.extend(page.routes.iter().map(|route| route.id().to_owned()));
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            assert_eq!(seen, ["a", "b", "c", "d", "e"], "by {limit}");
        }
    }
}
