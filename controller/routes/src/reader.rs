//! The reader's end: lookups that take no lock, allocate nothing and never wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crate::counts::{Counters, Counts};
use crate::served::{PinnedMap, ServedMap};
use crate::{Filter, Page, Route, digest, page};

/// What readers and the writer have in common.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) served: ServedMap,
    pub(crate) counters: Counters,
    pub(crate) ready: AtomicBool,
    /// Odd while an object is between two IDs. See [`RouteReader::settled`].
    moves: AtomicU64,
}

impl Shared {
    /// An object leaves its ID for another one, until what this gives is dropped. Under the writer's lock: one at a time.
    pub(crate) fn begin_move(&self) -> Move<'_> {
        self.moves.fetch_add(1, Ordering::Relaxed);
        // Whoever sees that the old ID is free sees the odd number, if it looks behind a fence of its own.
        fence(Ordering::Release);
        Move(&self.moves)
    }
}

/// An object between two IDs.
pub(crate) struct Move<'a>(&'a AtomicU64);

impl Drop for Move<'_> {
    fn drop(&mut self) {
        // Whoever reads the even number finds the new ID in its place.
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// An object was changing its ID during the lookup: what was not found may exist. A retry helps, at once or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object was changing its ID")]
pub struct Moving;

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

    /// Looks for an object that may have changed its ID, for those who act on not finding it. `look` may ask for several IDs. What it
    /// finds is given back as it is; where it finds nothing this says whether that can be believed.
    ///
    /// A move takes the old ID away before the new one is put in place, and a look at both may fall between. So the writer counts before
    /// the first and after the second, and the number is odd between them. Here it is read before the look and, where nothing was found,
    /// after it:
    /// - The first reading acquires what the writer released with it: of an even number, every new ID of the moves it counts.
    /// - The second stands behind an acquire fence, and the writer's first count before a release fence: a look that has seen an old ID
    ///   taken away reads at least the odd number of that move.
    ///
    /// So with the same even number twice no object was missed on its way. One that is deleted, or not shown under its ID, is not
    /// found, and that is true. Takes no lock and does not wait: the caller looks again, or later.
    ///
    /// # Errors
    /// Nothing was found, and an object was between two IDs meanwhile; not always the one that was looked for.
    pub fn settled<R>(&self, look: impl FnOnce(&Pinned<'_>) -> Option<R>) -> Result<Option<R>, Moving> {
        let before = self.0.moves.load(Ordering::Acquire);
        if let Some(found) = look(&self.pin()) {
            return Ok(Some(found));
        }
        fence(Ordering::Acquire);
        let is_still = before.is_multiple_of(2) && self.0.moves.load(Ordering::Relaxed) == before;
        if is_still { Ok(None) } else { Err(Moving) }
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
