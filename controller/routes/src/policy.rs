//! Subject addresses a sandbox may have.
//!
//! A route is a promise to send a user's bytes to an address. One that names this machine, the machines
//! beside it or a cloud's metadata service would make the gateway ask its own neighbours on a stranger's
//! behalf, so every address that comes from outside (a peer's push, a watched object) passes this one policy.
//! The routes file is the operator's own word and does not.
//!
//! Without ranges only private addresses are admitted ([`PRIVATE`]): that is where pods are unless somebody
//! arranged it otherwise, and whoever did can name the ranges. With ranges only what is in one of them is
//! admitted, and an address of a special block ([`SPECIAL`]) only by a range that lies inside that block:
//! `0.0.0.0/0` does not open loopback, `127.0.0.0/8` does. Some are never admitted: unspecified, multicast,
//! broadcast, and the known metadata services.
//!
//! An IPv6 address can carry an IPv4 one, and on some networks a packet to the first arrives at the second
//! (see [`carried`]). So what is carried is judged too: no spelling of a metadata service or of loopback
//! passes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Observation;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

mod carried;

#[cfg(test)]
mod tests;

/// Where clouds answer with credentials: AWS (and most others), AWS tasks, Alibaba, Azure, Oracle; then AWS,
/// AWS pods and Google on IPv6.
const METADATA: [IpAddr; 8] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254)),
];

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length))
}

const fn v6(segments: [u16; 8], length: u8) -> IpNet {
    let [a, b, c, d, e, f, g, h] = segments;
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length))
}

/// Admitted only by a range inside them: loopback, link-local, and the blocks whose addresses stand for IPv4
/// ones.
const SPECIAL: [IpNet; 9] = [
    v4(127, 0, 0, 0, 8),
    v4(169, 254, 0, 0, 16),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    carried::NAT64,
    carried::NAT64_LOCAL,
    carried::TRANSLATED,
    carried::SIX_TO_FOUR,
    carried::TEREDO,
];

/// Admitted where no ranges are given: RFC 1918, the shared space of RFC 6598, and IPv6's unique local
/// addresses.
const PRIVATE: [IpNet; 5] = [
    v4(10, 0, 0, 0, 8),
    v4(172, 16, 0, 0, 12),
    v4(192, 168, 0, 0, 16),
    v4(100, 64, 0, 0, 10),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
];

/// Decides which addresses are routed to. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    ranges: std::sync::Arc<[IpNet]>,
}

/// Why an address is not routed to. A retry does not help, unless the pod ranges are changed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The address is one that no sandbox may have. No range admits it.
    #[error("{0} is no address that a sandbox may have, whatever `pod-ranges` says")]
    Never(IpAddr),
    /// No given range admits the address.
    #[error("{0} is outside the pod ranges")]
    OutsideRanges(IpAddr),
    /// No ranges are given, and the address is not private.
    #[error("{0} is not private, and no pod ranges are given: set `pod-ranges` if pods are there")]
    NotPrivate(IpAddr),
}

impl AddressPolicy {
    /// Admits what is in these ranges; with none, what is private.
    pub fn new(ranges: impl IntoIterator<Item = IpNet>) -> Self {
        Self { ranges: ranges.into_iter().map(|range| range.trunc()).collect() }
    }

    /// Whether ranges were given.
    pub fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether a sandbox may have this address.
    pub fn admits(&self, ip: IpAddr) -> bool {
        // An IPv4 address written as an IPv6 one is connected to as what it is.
        let ip = ip.to_canonical();
        self.may_be_reached(ip)
            && (SPECIAL.iter().any(|block| block.contains(&ip)) || self.is_home(ip))
            && carried::by(ip).all(|inner| self.may_be_reached(IpAddr::V4(inner)))
    }

    /// Neither forbidden nor in a special block that no range opens.
    fn may_be_reached(&self, ip: IpAddr) -> bool {
        let opened =
            |block: &IpNet| self.ranges.iter().any(|range| block.contains(range) && range.contains(&ip));
        !never(ip) && SPECIAL.iter().find(|block| block.contains(&ip)).is_none_or(opened)
    }

    fn is_home(&self, ip: IpAddr) -> bool {
        let ranges: &[IpNet] = if self.has_ranges() { &self.ranges } else { &PRIVATE };
        ranges.iter().any(|range| range.contains(&ip))
    }

    /// Why a sandbox may not have this address, if that is so.
    pub fn refuses(&self, ip: IpAddr) -> Option<Refused> {
        if self.admits(ip) {
            return None;
        }
        let canonical = ip.to_canonical();
        let is_never = never(canonical) || carried::by(canonical).any(|inner| never(IpAddr::V4(inner)));
        Some(match (is_never, self.has_ranges()) {
            (true, _) => Refused::Never(ip),
            (false, true) => Refused::OutsideRanges(ip),
            (false, false) => Refused::NotPrivate(ip),
        })
    }

    /// Takes an address that is not admitted away from what a source saw, so that the object is known and not
    /// routed to. Says which one it was, and why.
    pub fn screen(&self, observed: &mut Observation) -> Option<Refused> {
        let refused = self.refuses(observed.ip?)?;
        observed.ip = None;
        Some(refused)
    }
}

fn never(ip: IpAddr) -> bool {
    let nowhere = match ip {
        // All of 0/8 means "this network", which on Linux is this machine.
        IpAddr::V4(ip) => ip.octets()[0] == 0 || ip.is_broadcast(),
        // The deprecated way to write IPv4 in IPv6, `::` among it.
        IpAddr::V6(ip) => ip.segments()[..6] == [0; 6] && !ip.is_loopback(),
    };
    nowhere || ip.is_multicast() || METADATA.contains(&ip)
}
