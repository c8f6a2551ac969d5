//! Where a request goes, as Envoy wants it written: `ip:port` or `[ip]:port`.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::str;

// "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535" is the longest an address can be printed.
const CAPACITY: usize = 53;

/// An address and a port as text, made on the stack: the request path asks for one per request.
#[derive(Clone, Copy)]
pub struct Authority {
    text: [u8; CAPACITY],
    length: u8,
}

impl Authority {
    pub(crate) fn new(ip: Option<IpAddr>, port: u16) -> Self {
        let mut authority = Self { text: [0; CAPACITY], length: 0 };
        match ip {
            Some(IpAddr::V4(ip)) => authority.push_v4(ip),
            // IPv6 text is rare enough, and intricate enough, to be left to the standard library.
            Some(IpAddr::V6(ip)) => {
                let _ = write!(authority, "[{ip}]");
            }
            None => return authority,
        }
        authority.push(b':');
        authority.push_number(port);
        authority
    }

    /// The text; empty if the route has no address, which a running one always has.
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.length)]
    }

    fn push(&mut self, byte: u8) {
        self.text[usize::from(self.length)] = byte;
        self.length += 1;
    }

    fn push_v4(&mut self, ip: Ipv4Addr) {
        let [first, rest @ ..] = ip.octets();
        self.push_number(first.into());
        for octet in rest {
            self.push(b'.');
            self.push_number(octet.into());
        }
    }

    fn push_number(&mut self, number: u16) {
        let mut divisor = 10_000;
        while divisor > number && divisor > 1 {
            divisor /= 10;
        }
        while divisor > 0 {
            // Below ten by the choice of the divisor.
            self.push(b'0' + (number / divisor % 10).to_le_bytes()[0]);
            divisor /= 10;
        }
    }
}

impl fmt::Write for Authority {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let at = usize::from(self.length);
        let Some(room) = self.text.get_mut(at..at + text.len()) else { return Err(fmt::Error) };
        room.copy_from_slice(text.as_bytes());
        self.length += u8::try_from(text.len()).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn authority(ip: &str, port: u16) -> String {
        Authority::new(Some(ip.parse().unwrap()), port).to_string()
    }

    #[test]
    fn an_authority_reads_as_the_standard_library_writes_it() {
        for ip in [
            "0.0.0.0",
            "10.0.200.9",
            "255.255.255.255",
            "::1",
            "2001:db8::8a2e:370:7334",
            "::ffff:255.255.255.255",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            for port in [0, 1, 9, 10, 99, 100, 8888, 9999, 10_000, 49_983, u16::MAX] {
                assert_eq!(authority(ip, port), SocketAddr::new(ip.parse().unwrap(), port).to_string());
            }
        }
    }

    #[test]
    fn no_address_is_no_authority() {
        assert_eq!(Authority::new(None, 80).as_str(), "");
    }
}
