//! The gateway's own addresses, which are nobody's sandbox.
//!
//! A route at one of them would send a request in a circle, or to the admin pages. The addresses come from
//! the config (`own-addresses`), from the receiver of pushes, and from the connection that a request came in
//! on. They are asked for when a request's host is not there yet, so that a request to a known host pays
//! nothing. With ORIGINAL_DST nothing is known of hosts, and every request asks.
//!
//! What this cannot know, such as a Service in front of the gateway, is caught one hop later, by the headers
//! that every request to a sandbox carries.

use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Whether `target` leads to one of the gateway's own sockets. An unspecified address stands for every
/// address of this machine.
pub(crate) fn is_own(target: SocketAddr, own: impl IntoIterator<Item = SocketAddr>) -> bool {
    let ip = target.ip().to_canonical();
    own.into_iter().any(|own| {
        let address = own.ip().to_canonical();
        own.port() == target.port() && (address == ip || (address.is_unspecified() && is_local(ip)))
    })
}

/// Whether this machine has the address. A socket can be bound to no other, and binding one sends nothing.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(target: &str, addresses: &[&str]) -> bool {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
        is_own(target.parse().expect("an address"), addresses)
    }

    #[test]
    fn an_address_is_own_by_ip_and_port() {
        assert!(own("10.1.2.3:7788", &["10.1.2.3:7788"]));
        assert!(own("[::ffff:10.1.2.3]:7788", &["127.0.0.1:9901", "10.1.2.3:7788"]));
        assert!(!own("10.1.2.3:80", &["10.1.2.3:7788"]), "another port of the same machine");
        assert!(!own("10.1.2.4:7788", &["10.1.2.3:7788"]), "another machine");
        assert!(!own("10.1.2.3:80", &[]));
    }

    #[test]
    fn an_unspecified_address_is_every_address_of_this_machine_and_no_other() {
        assert!(own("127.0.0.1:7788", &["0.0.0.0:7788"]));
        assert!(own("0.0.0.0:7788", &["0.0.0.0:7788"]));
        assert!(own("127.0.0.1:7788", &["[::]:7788"]));
        assert!(!own("127.0.0.1:80", &["0.0.0.0:7788"]));
        // An address for documentation: no machine has it.
        assert!(!own("192.0.2.7:7788", &["0.0.0.0:7788"]));
    }
}
