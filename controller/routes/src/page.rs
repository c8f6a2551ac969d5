//! Routes in order of their IDs, a page at a time, for people.
//!
//! A page looks at every route and keeps at most a page of them. It is no snapshot: a route that changes meanwhile is seen before or after.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::served::ServedMap;
use crate::{MAX_PAGE, Route, State};

/// Which routes a page is of; nothing set is all.
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
    let limit = limit.clamp(1, MAX_PAGE);
    let after = after.unwrap_or_default().as_bytes();
    // The highest on top, and one more than a page, which is how we know there is more.
    let mut lowest: BinaryHeap<InOrder<'_>> = BinaryHeap::new();
    let served = served.pin();
    for route in served.iter() {
        let in_page =
            lowest.len() <= limit || lowest.peek().is_some_and(|top| route.raw_id() < top.0.raw_id());
        if !in_page || route.raw_id() <= after || !filter.admits(route) {
            continue;
        }
        lowest.push(InOrder(route));
        if lowest.len() > limit + 1 {
            lowest.pop();
        }
    }
    let mut routes = lowest.into_sorted_vec();
    // A route replaced during the walk may have been met twice.
    routes.dedup_by(|a, b| a == b);
    let more = routes.len() > limit;
    routes.truncate(limit);
    let next = routes.last().filter(|_| more).map(|last| last.0.id().to_owned());
    Page { routes: routes.into_iter().map(|route| Arc::new(route.0.clone())).collect(), next }
}
