//! The IPv4 addresses that an IPv6 address can stand for.
//!
//! Each of these forms is turned into IPv4 by something on the way: a NAT64 or SIIT translator, a 6to4 or
//! Teredo relay, an ISATAP router. Which of them a network has, the gateway cannot know, so every reading
//! counts.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::v6;

/// NAT64 by the well-known prefix, and by prefixes of the network's own (RFC 6052, RFC 8215).
pub(super) const NAT64: IpNet = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
pub(super) const NAT64_LOCAL: IpNet = v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48);
/// IPv4-translated addresses (RFC 7915).
pub(super) const TRANSLATED: IpNet = v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96);
/// 6to4 (RFC 3056) and Teredo (RFC 4380).
pub(super) const SIX_TO_FOUR: IpNet = v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);
pub(super) const TEREDO: IpNet = v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32);

/// The interface identifiers of ISATAP (RFC 5214), with the bit for a global address and without.
const ISATAP: [[u8; 4]; 2] = [[0, 0, 0x5e, 0xfe], [2, 0, 0x5e, 0xfe]];

/// Every IPv4 address that `ip` may stand for; none for an IPv4 address, and none for most.
pub(super) fn by(ip: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
    readings(ip).into_iter().flatten()
}

fn readings(ip: IpAddr) -> [Option<Ipv4Addr>; 4] {
    let IpAddr::V6(six) = ip else { return [None; 4] };
    let b = six.octets();
    let at = |places: [usize; 4]| Some(Ipv4Addr::from(places.map(|place| b[place])));
    let last = at([12, 13, 14, 15]);
    if NAT64.contains(&ip) || TRANSLATED.contains(&ip) {
        return [last, None, None, None];
    }
    if NAT64_LOCAL.contains(&ip) {
        // The network chooses how long its prefix is within the block; byte 8 is skipped (RFC 6052, 2.2).
        return [at([6, 7, 9, 10]), at([7, 9, 10, 11]), at([9, 10, 11, 12]), last];
    }
    if SIX_TO_FOUR.contains(&ip) {
        return [at([2, 3, 4, 5]), None, None, None];
    }
    if TEREDO.contains(&ip) {
        // The server, and the client with every bit inverted.
        return [at([4, 5, 6, 7]), last.map(|client| Ipv4Addr::from(!client.to_bits())), None, None];
    }
    let isatap = ISATAP.iter().any(|identifier| b[8..12] == identifier[..]);
    [last.filter(|_| isatap), None, None, None]
}
