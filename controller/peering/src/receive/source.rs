//! Who counts as one sender, before it has proven who it is.

use std::net::{IpAddr, Ipv6Addr};

/// The source that an address belongs to: of IPv6 its /64, since a host has as many addresses of one as it likes. IPv4
/// written as IPv6 is IPv4.
pub(super) fn of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_ipv6_source_is_its_network_and_an_ipv4_source_its_address() {
        for (address, source) in [
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:3::", "2001:db8:1:3::"),
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(super::of(address.parse().unwrap()).to_string(), source);
        }
    }
}
