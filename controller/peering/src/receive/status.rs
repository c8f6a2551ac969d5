//! The status of the receiver: its counters, its address, its error, and whether it drains.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Counters since the start, and the state of the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefreshStatus {
    /// The address that it listens on, once it does.
    pub listening: Option<SocketAddr>,
    /// The authentication methods; none if anyone may push.
    pub methods: Vec<&'static str>,
    /// Whether anyone may push.
    pub insecure: bool,
    /// What is wrong: the port is in use, or a file with keys or certificates is bad. The last good files
    /// stay in use.
    pub error: Option<String>,
    /// Whether this process is about to end: what is pushed is applied, and not acknowledged.
    pub draining: bool,
    /// Connections open now.
    pub connections: u64,
    /// Requests being read or answered now.
    pub under_way: u64,
    /// Messages that changed the table.
    pub applied: u64,
    /// Messages that were too old.
    pub stale: u64,
    /// Messages of old senders, without the name of an object: they are ignored.
    pub legacy: u64,
    /// Messages that were refused as wrong. If their object and version are good, its older route is
    /// withdrawn.
    pub invalid: u64,
    /// Messages with an address that the policy does not allow: their objects are known and not routed to.
    pub outside: u64,
    /// Requests with wrong or no credentials.
    pub unauthorized: u64,
    /// Requests whose credentials could not be checked, or that found no room.
    pub unavailable: u64,
    /// Requests with too large a body.
    pub too_large: u64,
    /// Requests that took too long to arrive.
    pub slow: u64,
    /// Batches that were applied.
    pub batches: u64,
    /// Answers about the activity of sandboxes.
    pub reports: u64,
}

macro_rules! counters {
    ($($name:ident)*) => {
        /// The numbers of a [`RefreshStatus`], as they are counted.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter),* }

        impl Counters {
            fn write(&self, status: &mut RefreshStatus) {
                $(status.$name = self.$name.0.load(Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    connections under_way applied stale legacy invalid outside unauthorized unavailable too_large slow batches reports
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The receiver's side of its status. [`RefreshStatusReader`] reads it.
#[derive(Debug, Default)]
pub(crate) struct StatusWriter {
    pub(crate) counters: Counters,
    methods: Vec<&'static str>,
    listening: ArcSwapOption<SocketAddr>,
    error: Mutex<Option<String>>,
    draining: AtomicBool,
    pub(crate) drained: Notify,
}

impl StatusWriter {
    pub(crate) fn new(methods: Vec<&'static str>) -> Self {
        Self { methods, ..Self::default() }
    }

    /// A run begins with no connection: an earlier run may have ended without counting its own down.
    pub(crate) fn begin(&self) -> Run<'_> {
        self.counters.connections.0.store(0, Ordering::Relaxed);
        self.counters.under_way.0.store(0, Ordering::Relaxed);
        Run(self)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn listening(&self, at: Option<SocketAddr>) {
        self.listening.store(at.map(Arc::new));
    }

    pub(crate) fn error(&self, error: Option<String>) {
        *self.error.lock() = error;
    }
}

/// A run of the receiver. When it ends, also by a panic, the status says that nobody listens.
pub(crate) struct Run<'a>(&'a StatusWriter);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.0.listening(None);
    }
}

/// A view of a receiver's status for other threads.
#[derive(Clone, Debug)]
pub struct RefreshStatusReader(pub(crate) Arc<StatusWriter>);

impl RefreshStatusReader {
    /// Where the receiver listens, once it does. For the request path: it takes no lock, and allocates only
    /// on a thread's first call.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.0.listening.load().as_deref().copied()
    }

    /// The status as it is now.
    pub fn load(&self) -> RefreshStatus {
        let StatusWriter { counters, methods, error, .. } = &*self.0;
        let mut status = RefreshStatus {
            listening: self.listening(),
            methods: methods.clone(),
            insecure: methods.is_empty(),
            error: error.lock().clone(),
            draining: self.0.is_draining(),
            ..RefreshStatus::default()
        };
        counters.write(&mut status);
        status
    }
}

/// Announces that the process is about to end and that another may take its place.
#[derive(Clone, Debug)]
pub struct RefreshDrain(pub(crate) Arc<StatusWriter>);

impl RefreshDrain {
    /// From here on nothing is acknowledged. What is pushed is still applied, because requests are still
    /// served. The answer is 503, so that the sender pushes to the next process too. `/readyz` is 503, and
    /// another process may listen on the port beside this one.
    pub fn begin(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        self.0.drained.notify_one();
    }
}

/// Logs at most every ten seconds, with how many lines were left out.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<(Option<Instant>, u64)>);

impl LogLimit {
    const PAUSE: Duration = Duration::from_secs(10);

    /// Calls `log` with the number of lines that were left out before it, unless it is to be left out too.
    pub fn log(&self, log: impl FnOnce(u64)) {
        let mut state = self.0.lock();
        if state.0.is_some_and(|last| last.elapsed() < Self::PAUSE) {
            state.1 += 1;
            return;
        }
        let left_out = std::mem::take(&mut state.1);
        state.0 = Some(Instant::now());
        drop(state);
        log(left_out);
    }
}
