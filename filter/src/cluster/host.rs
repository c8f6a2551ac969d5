//! One host, as the main thread and the workers share it, and the table by which a worker learns whose a host
//! is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use foldhash::fast::RandomState;

use super::client::Client;
use super::endpoint::Endpoint;
use super::usage::Usage;

/// The phases of a host, in order.
const OPEN: u8 = 0;
const CLOSING: u8 = 1;
const REMOVED: u8 = 2;

/// Whether it was used since the main thread last looked.
const UNUSED: u8 = 0;
const USED: u8 = 1;
/// Not yet, and the main thread has not looked: whoever waited for it is on the way.
const NEW: u8 = 2;

static MADE: AtomicU64 = AtomicU64::new(0);

/// A port of one sandbox identity that Envoy has as a host. It belongs to that identity for as long as it
/// lives.
///
/// The main thread makes it and closes it; workers count their requests on it.
#[derive(Debug)]
pub(crate) struct Host {
    endpoint: Endpoint,
    identity: u64,
    /// Its number among all hosts of the process.
    number: u64,
    usage: Arc<Usage>,
    /// Who asked for it first, where that matters.
    opened_by: Option<Client>,
    phase: AtomicU8,
    recent_use: AtomicU8,
    /// How often in a row nobody had used it when the main thread asked.
    quiet: AtomicU8,
    in_flight: AtomicU32,
}

impl Host {
    pub(crate) fn new(endpoint: Endpoint, identity: u64, usage: Arc<Usage>) -> Self {
        Self {
            endpoint,
            identity,
            number: MADE.fetch_add(1, Ordering::Relaxed) + 1,
            usage,
            opened_by: None,
            phase: AtomicU8::new(OPEN),
            recent_use: AtomicU8::new(NEW),
            quiet: AtomicU8::new(0),
            in_flight: AtomicU32::new(0),
        }
    }

    /// The same, asked for by this client.
    #[must_use]
    pub(crate) fn opened_by(self, client: Option<Client>) -> Self {
        Self { opened_by: client, ..self }
    }

    pub(crate) fn opener(&self) -> Option<Client> {
        self.opened_by
    }

    /// How many hosts have been made so far: those that are made later have a higher [number](Self::number).
    pub(crate) fn made() -> u64 {
        MADE.load(Ordering::Relaxed)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Whether it takes no new requests.
    pub(crate) fn is_closing(&self) -> bool {
        self.phase.load(Ordering::Acquire) != OPEN
    }

    /// From now on it takes no new requests. What a worker was about to do when this is called is done with
    /// once the worker has passed the next barrier.
    pub(crate) fn close(&self) {
        self.phase.fetch_max(CLOSING, Ordering::AcqRel);
    }

    /// Whether Envoy is about to lose it, or has: a request that was let through before must not go there any
    /// more.
    pub(crate) fn is_removed(&self) -> bool {
        self.phase.load(Ordering::Acquire) == REMOVED
    }

    fn remove(&self) {
        self.phase.store(REMOVED, Ordering::Release);
    }

    /// A request begins.
    pub(crate) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        // Most requests find it set: a load leaves the cache line shared between workers.
        if self.recent_use.load(Ordering::Relaxed) != USED {
            self.recent_use.store(USED, Ordering::Relaxed);
        }
    }

    /// A request has ended.
    pub(crate) fn leave(&self) {
        self.recent_use.store(USED, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether somebody uses it, or is about to: the request that it was made for may not have begun yet.
    pub(crate) fn is_held(&self) -> bool {
        self.in_flight() > 0 || self.recent_use.load(Ordering::Relaxed) == NEW
    }

    /// How often in a row nobody had used it between two looks.
    pub(crate) fn quiet(&self) -> u8 {
        self.quiet.load(Ordering::Relaxed)
    }

    /// The main thread looks whether it was used since the last look, or is in use. Says what [`Self::quiet`]
    /// is now.
    pub(crate) fn look(&self) -> u8 {
        let used = self.recent_use.swap(UNUSED, Ordering::Relaxed) != UNUSED || self.in_flight() > 0;
        let quiet = if used { 0 } else { self.quiet().saturating_add(1) };
        self.quiet.store(quiet, Ordering::Relaxed);
        quiet
    }
}

/// Which host each of Envoy's host pointers is, written by the main thread and read by workers without a
/// lock.
///
/// An entry is there from just after Envoy took the host until just before Envoy is told to remove it.
/// Pointers are kept as numbers: they are compared, never followed.
#[derive(Default)]
pub(crate) struct Published(papaya::HashMap<usize, Arc<Host>, RandomState>);

impl Published {
    pub(crate) fn publish(&self, pointer: usize, host: Arc<Host>) {
        self.0.pin().insert(pointer, host);
    }

    /// Envoy is about to remove the host of this pointer.
    pub(crate) fn withdraw(&self, pointer: usize) {
        if let Some(host) = self.0.pin().remove(&pointer) {
            host.remove();
        }
    }

    /// The host of a pointer that the asking worker holds.
    pub(crate) fn get(&self, pointer: usize) -> Option<Arc<Host>> {
        self.0.pin().get(&pointer).cloned()
    }
}
