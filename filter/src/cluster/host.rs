//! One host, as the main thread and the workers share it; where it is; and the table by which a worker learns
//! whose a host is.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use envoy_proxy_dynamic_modules_rust_sdk::PackedAddress;
use foldhash::fast::RandomState;

use super::usage::{Client, Usage};

/// Where a host is: an address and a port, small because there are a hundred thousand. An IPv4 address and
/// the IPv6 address that maps it are different, as they are to Envoy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    high: u64,
    low: u64,
    port: u16,
    v6: bool,
}

impl Endpoint {
    /// The lowest and the highest there can be, in their order.
    pub(crate) const FIRST: Self = Self { high: 0, low: 0, port: 0, v6: false };
    pub(crate) const LAST: Self = Self { high: u64::MAX, low: u64::MAX, port: u16::MAX, v6: true };

    pub(crate) fn new(ip: IpAddr, port: u16) -> Self {
        match ip {
            IpAddr::V4(ip) => Self { high: 0, low: u64::from(ip.to_bits()), port, v6: false },
            IpAddr::V6(ip) => Self::from_v6(ip, port),
        }
    }

    fn from_v6(ip: Ipv6Addr, port: u16) -> Self {
        let [a, b, c, d, e, f, g, h, rest @ ..] = ip.octets();
        Self {
            high: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            low: u64::from_be_bytes(rest),
            port,
            v6: true,
        }
    }

    pub(crate) fn ip(self) -> IpAddr {
        if self.v6 {
            return Ipv6Addr::from(u128::from(self.high) << 64 | u128::from(self.low)).into();
        }
        let [_, _, _, _, octets @ ..] = self.low.to_be_bytes();
        Ipv4Addr::from(octets).into()
    }

    pub(crate) fn port(self) -> u16 {
        self.port
    }
}

impl From<PackedAddress> for Endpoint {
    fn from(address: PackedAddress) -> Self {
        match address {
            PackedAddress::V4(octets, port) => Self::new(Ipv4Addr::from(octets).into(), port),
            PackedAddress::V6(octets, port) => Self::new(Ipv6Addr::from(octets).into(), port),
        }
    }
}

impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.high);
        state.write_u64(self.low);
        state.write_u32(u32::from(self.port) << 1 | u32::from(self.v6));
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip(), self.port).fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

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

    /// Main thread: checks whether the host was used since the last check, or is in use. Returns
    /// [`Self::quiet`] as it is now.
    pub(crate) fn check_use(&self) -> u8 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was() {
        for text in
            ["127.0.0.1:80", "255.255.255.255:65535", "[::1]:8080", "[2001:db8::ff]:1", "[::ffff:10.0.0.1]:9"]
        {
            let address: SocketAddr = text.parse().expect("an address");
            let endpoint = Endpoint::new(address.ip(), address.port());
            assert_eq!(
                (endpoint.ip(), endpoint.port(), endpoint.to_string().as_str()),
                (address.ip(), address.port(), text)
            );
        }
    }

    #[test]
    fn an_address_and_the_one_that_maps_it_are_two() {
        let (v4, v6) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
        assert_ne!(Endpoint::new(v4.into(), 80), Endpoint::new(v6.into(), 80));
    }
}
