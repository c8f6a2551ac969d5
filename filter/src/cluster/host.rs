//! One host, as the main thread and the workers share it; the table by which a worker learns whose a host is; and what each
//! sandbox has in use, by which the route table's writer learns whether anybody minds what becomes of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foldhash::fast::{FixedState, RandomState};

use super::key::Key;

/// A port of one sandbox identity that Envoy has as a host. It belongs to that identity for as long as it lives.
///
/// The main thread makes it and closes it; workers count their requests on it.
#[derive(Debug)]
pub(crate) struct Host {
    key: Key,
    identity: u64,
    usage: Arc<Usage>,
    closing: AtomicBool,
    used: AtomicBool,
    /// How often in a row nobody had used it when the main thread asked.
    quiet: AtomicU8,
    in_flight: AtomicU32,
}

impl Host {
    pub(crate) fn new(key: Key, identity: u64, usage: Arc<Usage>) -> Self {
        Self {
            key,
            identity,
            usage,
            closing: AtomicBool::new(false),
            used: AtomicBool::new(true),
            quiet: AtomicU8::new(0),
            in_flight: AtomicU32::new(0),
        }
    }

    pub(crate) fn key(&self) -> Key {
        self.key
    }

    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Whether it takes no new requests.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// From now on it takes no new requests. What a worker was about to do when this is called is done with once the
    /// worker has passed the next barrier.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// A request begins.
    pub(crate) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        // Most requests find it set: a load leaves the cache line shared between workers.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// A request has ended.
    pub(crate) fn leave(&self) {
        self.used.store(true, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// How often in a row nobody had used it between two looks.
    pub(crate) fn quiet(&self) -> u8 {
        self.quiet.load(Ordering::Relaxed)
    }

    /// The main thread looks whether it was used since the last look, or is in use. Says what [`Self::quiet`] is now.
    pub(crate) fn look(&self) -> u8 {
        let used = self.used.swap(false, Ordering::Relaxed) || self.in_flight() > 0;
        let quiet = if used { 0 } else { self.quiet().saturating_add(1) };
        self.quiet.store(quiet, Ordering::Relaxed);
        quiet
    }
}

/// What one sandbox identity has in use, over all its ports and clusters.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    requests: AtomicU32,
    connections: AtomicU32,
}

/// Which limit a request would have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Requests,
    Connections,
}

impl Usage {
    /// Counts a request, and the connection it needs for itself if `alone`.
    pub(crate) fn enter(&self, alone: bool, max_requests: u32, max_connections: u32) -> Result<(), Exceeded> {
        if self.requests.fetch_add(1, Ordering::Relaxed) >= max_requests {
            self.requests.fetch_sub(1, Ordering::Relaxed);
            return Err(Exceeded::Requests);
        }
        if alone && self.connections.fetch_add(1, Ordering::Relaxed) >= max_connections {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            self.requests.fetch_sub(1, Ordering::Relaxed);
            return Err(Exceeded::Connections);
        }
        Ok(())
    }

    pub(crate) fn leave(&self, alone: bool) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        if alone {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

static USAGES: Mutex<Usages> = Mutex::new(Usages(HashMap::with_hasher(FixedState::with_seed(0))));

/// The usage of an identity, one for the whole process. The identity [is minded](is_minded) for as long as it is held.
pub(crate) fn usage(identity: u64) -> Arc<Usage> {
    lock().of(identity)
}

/// Whether an identity has a host in some cluster, a request that waits for one, or a request in flight: whether anybody
/// minds what becomes of it.
///
/// Who has just taken its usage and then finds it served in the table is told of whatever happens to it later: the one who
/// changes the table asks this after the change.
pub(crate) fn is_minded(identity: u64) -> bool {
    lock().0.get(&identity).is_some_and(|usage| usage.strong_count() > 0)
}

fn lock() -> MutexGuard<'static, Usages> {
    USAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The usage of every identity that somebody minds. Its keys are numbers of our own making.
struct Usages(HashMap<u64, Weak<Usage>, FixedState>);

impl Usages {
    fn of(&mut self, identity: u64) -> Arc<Usage> {
        if let Some(usage) = self.0.get(&identity).and_then(Weak::upgrade) {
            return usage;
        }
        // The forgotten are let go before the map would grow for them.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|_, usage| usage.strong_count() > 0);
        }
        let usage = Arc::<Usage>::default();
        self.0.insert(identity, Arc::downgrade(&usage));
        usage
    }
}

/// Which host each of Envoy's host pointers is, written by the main thread and read by workers without a lock.
///
/// An entry is there from just after Envoy took the host until just before Envoy is told to remove it. Pointers are kept
/// as numbers: they are compared, never followed.
#[derive(Default)]
pub(crate) struct Published(papaya::HashMap<usize, Arc<Host>, RandomState>);

impl Published {
    pub(crate) fn publish(&self, pointer: usize, host: Arc<Host>) {
        self.0.pin().insert(pointer, host);
    }

    pub(crate) fn withdraw(&self, pointer: usize) {
        self.0.pin().remove(&pointer);
    }

    /// The host of a pointer that the asking worker holds.
    pub(crate) fn get(&self, pointer: usize) -> Option<Arc<Host>> {
        self.0.pin().get(&pointer).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_may_have_as_many_as_it_may_and_no_more() {
        let usage = Usage::default();
        for _ in 0..3 {
            assert_eq!(usage.enter(true, 5, 3), Ok(()));
        }
        assert_eq!(usage.enter(true, 5, 3), Err(Exceeded::Connections));
        assert_eq!(usage.enter(false, 5, 3), Ok(()), "a request that shares its connection needs none");
        assert_eq!(usage.enter(false, 5, 3), Ok(()));
        assert_eq!(usage.enter(false, 5, 3), Err(Exceeded::Requests));
        usage.leave(true);
        assert_eq!(usage.enter(true, 5, 3), Ok(()));
    }

    #[test]
    fn one_identity_has_one_usage_for_as_long_as_somebody_holds_it() {
        let mut usages = Usages(HashMap::default());
        let (one, other) = (usages.of(1), usages.of(2));
        assert!(Arc::ptr_eq(&one, &usages.of(1)) && !Arc::ptr_eq(&one, &other));
        let before = Arc::downgrade(&one);
        drop(one);
        assert!(!Weak::ptr_eq(&before, &Arc::downgrade(&usages.of(1))));
        for identity in 3..10_000 {
            usages.of(identity);
        }
        assert!(usages.0.len() < 100, "{} usages that nobody has", usages.0.len());
    }
}
