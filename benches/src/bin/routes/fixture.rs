//! A fleet of sandboxes, the same on every run: 60-byte IDs, UUIDs, pod addresses.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;

use sandgate_benches::rng::{Rng, scramble};
use sandgate_routes::{Clash, ObjectKey, Observation, Secret, State, Version};

/// Length of every ID.
pub(crate) const ID: usize = 60;

pub(crate) fn namespace(number: usize) -> String {
    format!("team-{:04}", number % 1000)
}

pub(crate) fn name(number: usize) -> String {
    let hash = scramble(number as u64);
    format!("code-interpreter-{:08x}-{hash:016x}-{:06x}", scramble(hash) >> 32, number)
}

/// The ID of a sandbox: its namespace and name, as the providers make it.
pub(crate) fn id(number: usize) -> String {
    let id = format!("{}--{}", namespace(number), name(number));
    debug_assert_eq!(id.len(), ID);
    id
}

/// An ID of the same shape that no sandbox has.
pub(crate) fn missing_id(number: usize) -> String {
    let mut id = id(number);
    id.replace_range(0..4, "none");
    id
}

fn uid(number: usize) -> String {
    let (a, b) = (scramble(number as u64 ^ 1), scramble(number as u64 ^ 2));
    let mut uid = String::with_capacity(36);
    let _ = write!(
        uid,
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 48,
        b & 0xffff_ffff_ffff
    );
    uid
}

pub(crate) fn ip(number: usize) -> IpAddr {
    let [a, b, c, ..] = number.to_le_bytes();
    Ipv4Addr::new(10, c, b, a.max(1)).into()
}

pub(crate) fn key(number: usize) -> ObjectKey {
    ObjectKey::new("kruise", &namespace(number), &name(number)).expect("a fixture's key")
}

pub(crate) fn version(number: u64) -> Version {
    NonZeroU64::new(number).expect("versions begin at 1").into()
}

pub(crate) fn observation(number: usize, at: u64) -> Observation {
    Observation {
        key: key(number),
        id: id(number),
        uid: uid(number),
        owner: uid(number % 1000),
        state: State::Running,
        version: version(at),
        ip: Some(ip(number)),
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: true,
    }
}

pub(crate) fn with_token(number: usize, at: u64) -> Observation {
    Observation { token: Some(Secret::new(uid(number ^ 0x5555))), ..observation(number, at) }
}

/// IDs to look up, in the order they will be: as in a request, the ID asked for is at hand and the table is
/// what is far.
pub(crate) struct Questions {
    text: String,
}

impl Questions {
    pub(crate) fn hits(size: usize, count: usize) -> Self {
        let mut order: Vec<usize> = (0..size).collect();
        Rng::new(7).shuffle(&mut order);
        Self::of(order.iter().cycle().take(count).map(|&number| id(number)))
    }

    pub(crate) fn misses(size: usize, count: usize) -> Self {
        let mut rng = Rng::new(8);
        Self::of((0..count).map(|_| missing_id(rng.below(size))))
    }

    fn of(ids: impl Iterator<Item = String>) -> Self {
        Self { text: ids.collect() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.text.len() / ID).map(|at| &self.text[at * ID..(at + 1) * ID])
    }
}
