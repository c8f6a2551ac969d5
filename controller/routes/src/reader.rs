//! The reader's end: lookups that take no lock, allocate nothing and never wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crate::counts::{Counters, Counts};
use crate::served::{PinnedMap, ServedMap};
use crate::{Filter, Page, Route, digest, page};

/// What the readers and the writer share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) served: ServedMap,
    pub(crate) counters: Counters,
    pub(crate) ready: AtomicBool,
    /// Odd while an object is between two IDs. See [`RouteReader::find_consistent`].
    moves: AtomicU64,
}

impl Shared {
    /// Begins the move of an object to another ID; dropping the result ends it. The writer's lock makes it
    /// one at a time.
    pub(crate) fn begin_move(&self) -> Move<'_> {
        self.moves.fetch_add(1, Ordering::Relaxed);
        // Pairs with the acquire fence in `find_consistent`: see its step 3.
        fence(Ordering::Release);
        Move(&self.moves)
    }
}

/// An object between two IDs.
pub(crate) struct Move<'a>(&'a AtomicU64);

impl Drop for Move<'_> {
    fn drop(&mut self) {
        // Pairs with the acquire load in `find_consistent`: see its step 1.
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// An object was changing its ID during the lookup: what was not found may exist. A retry helps, at once or
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object was changing its ID")]
pub struct Moving;

/// Looks routes up. Cheap to clone and to share between threads. It cannot change the table.
#[derive(Clone)]
pub struct RouteReader(pub(crate) Arc<Shared>);

impl RouteReader {
    /// Whether the first list of every source is complete. Before that a missing route means nothing, and
    /// nothing may be served. Once true it stays true: the last known table outlives its sources.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Acquire)
    }

    /// Pins the table for this thread: routes found stay readable until the pin is dropped. The memory of
    /// replaced routes is not freed before that, so hold a pin for one request only.
    #[inline]
    pub fn pin(&self) -> Pinned<'_> {
        Pinned(self.0.served.pin())
    }

    /// Looks for an object that may have changed its ID, for callers that act on not finding it. `look` may
    /// look up several IDs. What it finds is returned. If it finds nothing, the result says whether that is
    /// certain.
    ///
    /// A move removes the old ID before it inserts the new one, and a lookup of both may fall between. The
    /// writer counts moves: once before the old ID is removed (the count becomes odd), once after the new one
    /// is inserted (even).
    /// 1. Read the count, with acquire ordering. If it is even, the new IDs of all counted moves are visible.
    /// 2. Look.
    /// 3. If nothing was found, pass an acquire fence and read the count again. The writer passes a release
    ///    fence after it has made the count odd. So if step 2 has seen an old ID removed, this reads at least
    ///    the odd count of that move.
    /// 4. If both counts are equal and even, the object does not exist.
    ///
    /// Why no object is lost: one that moved before step 1 is under its new ID in step 2. One that moved
    /// during step 2 has changed the count. A deleted object, or one not shown under its ID, is not found,
    /// and that is correct. This takes no lock and does not wait.
    ///
    /// # Errors
    /// [`Moving`]: nothing was found, and some object was between two IDs. Try again, at once or later.
    pub fn find_consistent<R>(
        &self,
        look: impl FnOnce(&Pinned<'_>) -> Option<R>,
    ) -> Result<Option<R>, Moving> {
        let before = self.0.moves.load(Ordering::Acquire);
        if let Some(found) = look(&self.pin()) {
            return Ok(Some(found));
        }
        fence(Ordering::Acquire);
        let is_still = before.is_multiple_of(2) && self.0.moves.load(Ordering::Relaxed) == before;
        if is_still { Ok(None) } else { Err(Moving) }
    }

    /// A copy of the route of an ID.
    pub fn get(&self, id: &str) -> Option<Arc<Route>> {
        self.pin().get(id).map(|route| Arc::new(route.clone()))
    }

    /// Numbers about the table.
    pub fn counts(&self) -> Counts {
        self.0.counters.read()
    }

    /// A digest of everything that readers can see, in hexadecimal. Two processes with equal tables have
    /// equal digests, whatever the order of their updates. It reveals no token. It reads every route, like
    /// [`page`](Self::page).
    pub fn digest(&self) -> String {
        digest::digest(&self.0.served)
    }

    /// Up to `limit` routes (at most [`MAX_PAGE`](crate::MAX_PAGE)) that pass the filter, with IDs greater
    /// than `after`, in order. It reads every route: for people and tools, not for requests.
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

    /// The same for an ID as a client sent it.
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
