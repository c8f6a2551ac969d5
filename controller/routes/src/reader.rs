//! The reader's end: lookups that take no lock, allocate nothing and never wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::counts::{Counters, Counts};
use crate::served::{PinnedMap, ServedMap};
use crate::{Filter, Page, Route, digest, page};

/// What readers and the writer have in common.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) served: ServedMap,
    pub(crate) counters: Counters,
    pub(crate) ready: AtomicBool,
}

/// Looks routes up. Cheap to clone, one for each thread or shared as you like; it cannot change anything.
#[derive(Clone)]
pub struct RouteReader(pub(crate) Arc<Shared>);

impl RouteReader {
    /// Whether the first list of every source is in. Before that a missing route means nothing, and nothing may be served. Once true,
    /// always true: the last known table outlives its sources.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Acquire)
    }

    /// Pins the table for this thread: routes found stay readable, without counting, until the pin is dropped. Memory of routes
    /// replaced meanwhile is held back that long, so a pin is for one request and not for keeping.
    #[inline]
    pub fn pin(&self) -> Pinned<'_> {
        Pinned(self.0.served.pin())
    }

    /// The route of an ID, to keep: a copy.
    pub fn get(&self, id: &str) -> Option<Arc<Route>> {
        self.pin().get(id).map(|route| Arc::new(route.clone()))
    }

    /// Numbers about the table.
    pub fn counts(&self) -> Counts {
        self.0.counters.read()
    }

    /// A digest of everything that readers can see, in hexadecimal: equal in any two processes that see the same, whatever brought it there
    /// and in whatever order. It shows no token. Looks at every route, like [`page`](Self::page).
    pub fn digest(&self) -> String {
        digest::digest(&self.0.served)
    }

    /// Up to `limit` routes (at most [`MAX_PAGE`](crate::MAX_PAGE)) that pass the filter, with IDs behind `after`, in their order.
    /// Looks at every route: for people and tools, not for requests.
    pub fn page(&self, filter: &Filter, after: Option<&str>, limit: usize) -> Page {
        page::page(&self.0.served, filter, after, limit)
    }
}

impl fmt::Debug for RouteReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteReader")
            .field("ready", &self.is_ready())
            .field("counts", &self.counts())
            .finish()
    }
}

/// A pinned table. See [`RouteReader::pin`].
pub struct Pinned<'a>(PinnedMap<'a>);

impl Pinned<'_> {
    /// The route of an ID as of now (not as of the pin).
    #[inline]
    pub fn get(&self, id: &str) -> Option<&Route> {
        self.get_bytes(id.as_bytes())
    }

    /// The same for an ID as it came from a client: bytes, which match only if they are the ID's.
    #[inline]
    pub fn get_bytes(&self, id: &[u8]) -> Option<&Route> {
        self.0.find(id)
    }
}

impl fmt::Debug for Pinned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}
