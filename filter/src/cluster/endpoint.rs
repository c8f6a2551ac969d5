//! Where a host is: an address and a port, small enough to be kept by the hundred thousand.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use envoy_proxy_dynamic_modules_rust_sdk::PackedAddress;

/// An address and a port. An IPv4 address and the IPv6 address that maps it are different, as they are to
/// Envoy.
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
