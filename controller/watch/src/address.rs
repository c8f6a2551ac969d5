//! Which addresses a sandbox may have.
//!
//! A route is a promise to send a user's bytes to an address. One that names this machine, the machines beside it or a
//! cloud's metadata service would make the gateway ask its own neighbours on a stranger's behalf, so every address that
//! comes from outside (a peer's push, a watched object) passes this one policy. The routes file is the operator's own
//! word and does not.
//!
//! Without ranges everything is admitted but the special blocks. With ranges only what is in one of them is, and an
//! address of a special block only by a range that lies inside that block: `0.0.0.0/0` does not open loopback,
//! `127.0.0.0/8` does. Some are never admitted: unspecified, multicast, broadcast, and the known metadata services.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sandgate_routes::Observation;

#[cfg(test)]
mod tests;

/// Where clouds answer with credentials: AWS (and most others), AWS tasks, Alibaba, Azure, Oracle; then AWS and Google on IPv6.
const METADATA: [IpAddr; 7] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254)),
];

/// Loopback and link-local: admitted only by a range inside them.
const SPECIAL: [IpNet; 4] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10)),
];

/// Decides which addresses are routed to. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    ranges: std::sync::Arc<[IpNet]>,
}

impl AddressPolicy {
    /// Admits what is in these ranges; with none, everything but the special blocks.
    pub fn new(ranges: impl IntoIterator<Item = IpNet>) -> Self {
        Self { ranges: ranges.into_iter().map(|range| range.trunc()).collect() }
    }

    /// Whether a sandbox may have this address.
    pub fn admits(&self, ip: IpAddr) -> bool {
        // An IPv4 address written as an IPv6 one is connected to as what it is.
        let ip = ip.to_canonical();
        if never(ip) {
            return false;
        }
        match SPECIAL.iter().find(|block| block.contains(&ip)) {
            Some(block) => self.ranges.iter().any(|range| block.contains(range) && range.contains(&ip)),
            None => self.ranges.is_empty() || self.ranges.iter().any(|range| range.contains(&ip)),
        }
    }

    /// Takes an address that is not admitted away from what a source saw, so that the object is known and not routed to.
    /// Says which one it was.
    pub fn screen(&self, observed: &mut Observation) -> Option<IpAddr> {
        let refused = observed.ip.filter(|ip| !self.admits(*ip))?;
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
