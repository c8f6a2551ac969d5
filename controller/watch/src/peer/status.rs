//! What the receiver has done, for the status page.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Numbers since the start, and how the receiver is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefreshStatus {
    /// Where it listens, once it does.
    pub listening: Option<SocketAddr>,
    /// The ways to prove who one is; none if anyone is believed.
    pub methods: Vec<&'static str>,
    /// Whether anyone is believed.
    pub insecure: bool,
    /// What is wrong: the port cannot be had, or a file with keys or certificates is bad. The last good ones hold.
    pub error: Option<String>,
    /// Connections open now.
    pub connections: u64,
    /// Requests being read or answered now.
    pub under_way: u64,
    /// Messages that changed the table.
    pub applied: u64,
    /// Messages that were too old.
    pub stale: u64,
    /// Messages of old senders, without the object's name: ignored.
    pub legacy: u64,
    /// Messages that were refused as wrong, those with a bad address among them.
    pub invalid: u64,
    /// Messages with an address no sandbox may have.
    pub outside: u64,
    /// Requests with wrong or no credentials.
    pub unauthorized: u64,
    /// Requests whose credentials could not be checked, or that found every place taken.
    pub unavailable: u64,
    /// Requests with too large a body.
    pub too_large: u64,
    /// Requests that took too long to arrive.
    pub slow: u64,
    /// Batches taken.
    pub batches: u64,
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
    connections under_way applied stale legacy invalid outside unauthorized unavailable too_large slow batches
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

#[derive(Debug, Default)]
struct Health {
    listening: Option<SocketAddr>,
    error: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) counters: Counters,
    methods: Vec<&'static str>,
    health: Mutex<Health>,
}

impl Board {
    pub(crate) fn new(methods: Vec<&'static str>) -> Self {
        Self { methods, ..Self::default() }
    }

    pub(crate) fn listening(&self, at: Option<SocketAddr>) {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).listening = at;
    }

    pub(crate) fn error(&self, error: Option<String>) {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).error = error;
    }
}

/// A view of a receiver's status for other threads.
#[derive(Clone, Debug)]
pub struct RefreshStatusReader(pub(crate) Arc<Board>);

impl RefreshStatusReader {
    /// The status as it is now.
    pub fn load(&self) -> RefreshStatus {
        let Board { counters, methods, health } = &*self.0;
        let health = health.lock().unwrap_or_else(PoisonError::into_inner);
        let mut status = RefreshStatus {
            listening: health.listening,
            methods: methods.clone(),
            insecure: methods.is_empty(),
            error: health.error.clone(),
            ..RefreshStatus::default()
        };
        counters.write(&mut status);
        status
    }
}

/// Says something at most every ten seconds, and how often it was kept back.
#[derive(Debug, Default)]
pub(crate) struct Rarely(Mutex<(Option<Instant>, u64)>);

impl Rarely {
    const PAUSE: Duration = Duration::from_secs(10);

    pub(crate) fn say(&self, say: impl FnOnce(u64)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.is_some_and(|last| last.elapsed() < Self::PAUSE) {
            state.1 += 1;
            return;
        }
        let kept_back = std::mem::take(&mut state.1);
        state.0 = Some(Instant::now());
        drop(state);
        say(kept_back);
    }
}
