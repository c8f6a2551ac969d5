//! Whom the gateway takes for one client, and how much of a sandbox's limits one client may have.
//!
//! One client that holds everything a sandbox may have shuts all others out, for as long as it likes. So a
//! client has a *share* of each limit. Clients are told apart by the address that Envoy says is the client's
//! (`use_remote_address` and `xff_num_trusted_hops` decide which that is); of an IPv6 address by its first 64
//! bits, because whoever has one address there has them all.
//!
//! # What it costs
//! Below a quarter of a client's share nobody is told from anybody: requests are counted by sandbox only, and
//! that is nearly every sandbox at nearly every time. From there on each new request is counted for its
//! client too, without a lock: in two rows of counters, at a place in each that a keyed hash of the address
//! names, and the lower of the two counts. Two clients meet in both rows once in 65,536. The rows are made
//! when a sandbox first needs them.
//!
//! What a client had before the counting began is not counted. So one client gets three quarters of its share
//! at least, and the whole of it at most.

use std::array;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;

use super::usage::{Entered, Exceeded};

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
pub(crate) struct Limit {
    pub(super) most: u32,
    /// From so many on requests are counted for their clients.
    pub(super) watched_from: u32,
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
    pub(super) requests: Limit,
    pub(super) connections: Limit,
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
pub(crate) struct Shares([[AtomicU64; PLACES]; 2]);

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
    pub(super) fn enter(&self, client: Client, alone: bool, limits: &Limits) -> Result<(), Exceeded> {
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

    pub(super) fn leave(&self, client: Client, alone: bool) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::usage::Usage;

    fn client(last: u8) -> Client {
        Client::of([10, 0, 0, last].into())
    }

    #[test]
    fn a_client_is_an_address_or_half_of_an_ipv6_address_whatever_the_port() {
        let at = |text: &str| Client::at(text.as_bytes());
        assert_eq!(at("10.0.0.1:80"), at("10.0.0.1:4711"));
        assert_ne!(at("10.0.0.1:80"), at("10.0.0.2:80"));
        assert_eq!(at("[2001:db8::1]:80"), at("[2001:db8::ffff:2]:81"));
        assert_ne!(at("[2001:db8::1]:80"), at("[2001:db8:0:1::1]:80"));
        assert_eq!(at("[::ffff:10.0.0.1]:80"), at("10.0.0.1:80"));
        assert_eq!((at("@/run/socket"), at(""), at("\u{e9}")), (None, None, None));
    }

    #[test]
    fn a_share_is_a_part_of_the_limit_and_never_less_than_a_few() {
        assert_eq!([share(1_000, 50), share(1_001, 50), share(1_000_000, 1)], [500, 501, 10_000]);
        assert_eq!([share(64, 50), share(20, 50), share(3, 50), share(64, 1)], [32, 16, 3, 16]);
        assert_eq!([share(1_000, 100), share(u32::MAX, 99)], [1_000, 4_252_017_623]);
    }

    #[test]
    fn one_client_gets_its_share_and_no_more_and_others_get_in() {
        let (usage, limits) = (Usage::default(), Limits::new(10_000, 1_000, 50));
        let enter = |last: u8| usage.enter(true, &limits, || Some(client(last)));
        let mut held = Vec::new();
        let refused = loop {
            match enter(1) {
                Ok(entered) => held.push(entered),
                Err(exceeded) => break exceeded,
            }
        };
        assert_eq!((refused, held.len()), (Exceeded::ClientConnections, 500));
        // Another has three quarters of its own share at the least.
        for _ in 0..375 {
            enter(2).expect("another client gets in");
        }
        assert_eq!(enter(2).err(), Some(Exceeded::ClientConnections));
        // A refusal costs nothing, and what is over makes room.
        assert_eq!(enter(1).err(), Some(Exceeded::ClientConnections));
        usage.leave(held.pop().expect("one that is counted"));
        enter(1).expect("there is room again");
    }

    #[test]
    fn a_client_that_holds_requests_without_connections_of_their_own_has_a_share_of_requests() {
        let (usage, limits) = (Usage::default(), Limits::new(1_000, 1_000, 25));
        let enter = |last: u8| usage.enter(false, &limits, || Some(client(last)));
        let held = (0..).take_while(|_| enter(1).is_ok()).count();
        assert_eq!((held, enter(1).err()), (250, Some(Exceeded::ClientRequests)));
        enter(2).expect("another client gets in");
    }

    #[test]
    fn below_a_quarter_of_the_share_and_without_a_share_nobody_asks_who_it_is() {
        let asked = || -> Option<Client> { panic!("somebody asked") };
        let (usage, limits) = (Usage::default(), Limits::new(1_000, 1_000, 50));
        let held: Vec<Entered> = (0..125).map(|_| usage.enter(true, &limits, asked).expect("room")).collect();
        held.into_iter().for_each(|entered| usage.leave(entered));
        let off = Limits::new(1_000, 1_000, 100);
        for _ in 0..1_000 {
            usage.enter(true, &off, asked).expect("room");
        }
        assert_eq!(usage.enter(true, &off, asked).err(), Some(Exceeded::Requests));
    }

    #[test]
    fn counts_come_back_to_nothing_whatever_the_order_of_threads() {
        let (usage, limits) = (Usage::default(), Limits::new(400, 400, 50));
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let (usage, limits) = (&usage, &limits);
                scope.spawn(move || {
                    for round in 0..2_000_u32 {
                        let who = client(thread / 2);
                        let entered: Vec<_> = (0..round % 200)
                            .filter_map(|_| usage.enter(true, limits, || Some(who)).ok())
                            .collect();
                        entered.into_iter().for_each(|entered| usage.leave(entered));
                    }
                });
            }
        });
        let shares = usage.shares();
        assert!(shares.0.iter().flatten().all(|place| place.load(Ordering::Relaxed) == 0));
    }
}
