//! What each sandbox has in use, the limits of that, and how much of the limits one client may have.
//!
//! A usage that is held also makes its identity *followed*: the cluster receives the changes of that identity
//! ([`Usages`]). One that is not held any more is kept for a while, because it knows when its sandbox was
//! last used ([`activity`](mod@super::activity)).
//!
//! # Shares
//! One client that holds everything a sandbox may have shuts all others out. So a client has a *share* of
//! each limit. A client is the address that Envoy says is the client's (`use_remote_address` and
//! `xff_num_trusted_hops` decide which that is). Of an IPv6 address the first 64 bits count, because a host
//! usually has all addresses below them.
//!
//! # What a share costs
//! Below a quarter of a client's share requests are counted by sandbox only; nearly every sandbox is there at
//! nearly every time. From there on each new request is counted for its client too, without a lock: in two
//! rows of counters, at a place in each that a keyed hash of the address names. The lower of the two counts
//! is the client's. Two clients meet in both rows once in 65,536. The rows are made when a sandbox first
//! needs them.
//!
//! What a client had before the counting began is not counted. So one client gets at least three quarters of
//! its share, and at most the whole of it.

mod all;
mod rate;
#[cfg(test)]
mod tests;

use std::array;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use foldhash::quality::RandomState;
use parking_lot::Mutex;

use super::activity::{Clock, Second};

pub(crate) use all::{Usages, Used};
use rate::Bucket;
pub(crate) use rate::Rate;

/// What one sandbox identity has in use, over all its ports and clusters.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// The sandbox's ID in the table, or the last one it had.
    id: Mutex<Arc<str>>,
    requests: AtomicU32,
    connections: AtomicU32,
    /// When a request ended last.
    last_end: AtomicU32,
    /// Whether the table has lost the identity for good.
    is_gone: AtomicBool,
    clock: Arc<Clock>,
    /// What is left of its rate of requests, where that is limited.
    bucket: Bucket,
    /// What its clients have, once that matters.
    shares: OnceLock<Box<Shares>>,
}

/// Which limit a request would have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Requests,
    Connections,
    ClientRequests,
    ClientConnections,
}

/// How a request was counted. It has to be given back with [`Usage::leave`], once.
#[derive(Debug)]
pub(crate) struct Entered {
    /// Whether it has a connection to itself.
    alone: bool,
    /// For whom it was counted, if it was.
    client: Option<Client>,
}

impl Usage {
    fn new(id: &str, clock: &Arc<Clock>) -> Self {
        Self { id: Mutex::new(id.into()), clock: Arc::clone(clock), ..Self::default() }
    }

    /// Counts a request, and the connection it needs for itself if `alone`. Whose it is, is asked only where
    /// the sandbox has so much in use that it matters.
    pub(crate) fn enter(
        &self,
        alone: bool,
        limits: &Limits,
        client: impl FnOnce() -> Option<Client>,
    ) -> Result<Entered, Exceeded> {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        if requests >= limits.requests.most {
            self.requests.fetch_sub(1, Ordering::Relaxed);
            return Err(Exceeded::Requests);
        }
        let connections = if alone { self.connections.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let mut entered = Entered { alone, client: None };
        if alone && connections >= limits.connections.most {
            self.leave(entered);
            return Err(Exceeded::Connections);
        }
        let watched = requests >= limits.requests.watched_from
            || (alone && connections >= limits.connections.watched_from);
        if watched && let Some(client) = client() {
            if let Err(exceeded) = self.shares().enter(client, alone, limits) {
                self.leave(entered);
                return Err(exceeded);
            }
            entered.client = Some(client);
        }
        Ok(entered)
    }

    /// Takes one request out of what the sandbox gets in a second, or says in how many seconds there is one.
    pub(crate) fn take(&self, rate: Rate) -> Result<(), u32> {
        self.bucket.take(rate, rate::now())
    }

    pub(crate) fn leave(&self, Entered { alone, client }: Entered) {
        // Most requests end in the second in which another has ended: a load, and nothing is written.
        let now = self.clock.now();
        if self.last_end.load(Ordering::Relaxed) != now.0 {
            self.last_end.store(now.0, Ordering::Relaxed);
        }
        // Release: who sees that nothing is in flight sees when the last request ended (`activity`).
        self.requests.fetch_sub(1, Ordering::Release);
        if alone {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(client) = client {
            self.shares().leave(client, alone);
        }
    }

    fn shares(&self) -> &Shares {
        self.shares.get_or_init(Box::default)
    }

    /// The requests in flight, and when the last one ended, if one has.
    fn activity(&self) -> (u32, Option<Second>) {
        // Acquire: in this order a request that ends meanwhile is seen in flight or by its end.
        let open = self.requests.load(Ordering::Acquire);
        let last_end = Second(self.last_end.load(Ordering::Relaxed));
        (open, (last_end != Second::NEVER).then_some(last_end))
    }
}

/// So much of every limit one client may have, however small its share.
const ALWAYS: u32 = 16;

/// How much of a limit one client may have.
pub(crate) fn share(most: u32, percent: u32) -> u32 {
    if percent >= 100 {
        return most;
    }
    let part = (u64::from(most) * u64::from(percent)).div_ceil(100);
    u32::try_from(part).unwrap_or(most).max(ALWAYS).min(most)
}

/// A client, told from nearly all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client(u32);

impl Client {
    /// The client at an address that Envoy writes as `ip:port`; `None` if that is no IP address.
    pub(crate) fn at(address: &[u8]) -> Option<Self> {
        let address: SocketAddr = std::str::from_utf8(address).ok()?.parse().ok()?;
        Some(Self::of(address.ip()))
    }

    fn of(ip: IpAddr) -> Self {
        // Keyed, so that nobody can choose an address that meets another's.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::default);
        let network = match ip.to_canonical() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => u64::try_from(ip.to_bits() >> 64).unwrap_or_default() | 1 << 63,
        };
        Self(u32::try_from(KEYS.hash_one(network) >> 32).unwrap_or_default())
    }
}

/// One limit of a sandbox, and what of it one client may have.
#[derive(Clone, Copy, Debug)]
struct Limit {
    most: u32,
    /// From so many on requests are counted for their clients.
    watched_from: u32,
    /// How many that are counted one client may have.
    counted: u32,
}

impl Limit {
    fn new(most: u32, percent: u32) -> Self {
        let share = share(most, percent);
        if share == most {
            return Self { most, watched_from: u32::MAX, counted: u32::MAX };
        }
        let watched_from = share / 4;
        Self { most, watched_from, counted: share - watched_from }
    }
}

/// What one sandbox may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    requests: Limit,
    connections: Limit,
}

impl Limits {
    /// `percent` is what one client may have of the others.
    pub(crate) fn new(requests: u32, connections: u32, percent: u32) -> Self {
        Self { requests: Limit::new(requests, percent), connections: Limit::new(connections, percent) }
    }
}

const PLACES: usize = 256;

/// What the clients of one sandbox have: the lower 32 bits of a counter are requests, the upper ones
/// connections.
#[derive(Debug)]
struct Shares([[AtomicU64; PLACES]; 2]);

impl Default for Shares {
    fn default() -> Self {
        Self(array::from_fn(|_| array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Shares {
    fn places(&self, client: Client) -> [&AtomicU64; 2] {
        let [first, second, ..] = client.0.to_ne_bytes();
        let [one, other] = &self.0;
        [&one[usize::from(first)], &other[usize::from(second)]]
    }

    /// Counts a request for its client.
    fn enter(&self, client: Client, alone: bool, limits: &Limits) -> Result<(), Exceeded> {
        let places = self.places(client);
        let before = places.map(|place| place.fetch_add(counts(alone), Ordering::Relaxed));
        let least = |part: fn(u64) -> u64| before.map(part).into_iter().min().unwrap_or_default();
        let exceeded = if least(|count| count & u64::from(u32::MAX)) >= u64::from(limits.requests.counted) {
            Exceeded::ClientRequests
        } else if alone && least(|count| count >> 32) >= u64::from(limits.connections.counted) {
            Exceeded::ClientConnections
        } else {
            return Ok(());
        };
        self.leave(client, alone);
        Err(exceeded)
    }

    fn leave(&self, client: Client, alone: bool) {
        for place in self.places(client) {
            place.fetch_sub(counts(alone), Ordering::Relaxed);
        }
    }
}

fn counts(alone: bool) -> u64 {
    1 | u64::from(alone) << 32
}

impl Entered {
    /// A request that is counted for nobody.
    #[cfg(test)]
    pub(crate) fn uncounted(alone: bool) -> Self {
        Self { alone, client: None }
    }
}
