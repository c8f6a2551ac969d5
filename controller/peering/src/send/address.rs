//! Where a peer is: `http://HOST:PORT`, `https://HOST:PORT`, or `HOST:PORT` for the first.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The port where OpenKruise and Sandgate listen.
pub(super) const PORT: u16 = 7789;

/// The address of one peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress {
    authority: String,
    secure: bool,
    server_name: String,
}

/// Why a text is no peer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected http://HOST:PORT or https://HOST:PORT")]
pub struct PeerAddressError;

impl PeerAddress {
    /// A peer that was found at an address; its certificate is checked for `server_name`, or for the address
    /// itself.
    pub fn at(address: SocketAddr, secure: bool, server_name: Option<&str>) -> Self {
        let server_name = server_name.map_or_else(|| address.ip().to_string(), ToOwned::to_owned);
        Self { authority: address.to_string(), secure, server_name }
    }

    /// The same peer, whose certificate is checked for another name.
    #[must_use]
    pub fn named(mut self, server_name: &str) -> Self {
        server_name.clone_into(&mut self.server_name);
        self
    }

    /// `HOST:PORT`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    pub(super) fn server_name(&self) -> &str {
        &self.server_name
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

impl FromStr for PeerAddress {
    type Err = PeerAddressError;

    fn from_str(text: &str) -> Result<Self, PeerAddressError> {
        let (secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(PeerAddressError),
            None => (false, text),
        };
        let authority: http::uri::Authority =
            rest.strip_suffix('/').unwrap_or(rest).parse().map_err(|_| PeerAddressError)?;
        let host = authority.host();
        let port = match authority.as_str().strip_prefix(host).filter(|_| !host.is_empty()) {
            Some("") => PORT,
            Some(port) => {
                port.strip_prefix(':').and_then(|port| port.parse().ok()).ok_or(PeerAddressError)?
            }
            None => return Err(PeerAddressError),
        };
        let server_name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { authority: format!("{host}:{port}"), secure, server_name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for (text, expected) in [
            ("10.0.0.1:7789", "http://10.0.0.1:7789"),
            ("http://gateway", "http://gateway:7789"),
            ("https://gateway.svc:8443/", "https://gateway.svc:8443"),
            ("[::1]:80", "http://[::1]:80"),
        ] {
            assert_eq!(text.parse::<PeerAddress>().unwrap().to_string(), expected);
        }
        assert_eq!("https://[::1]:80".parse::<PeerAddress>().unwrap().server_name(), "::1");
        for text in ["", "http://", "ftp://a", "http://a/b", "a:b", "a:70000", "u@a:1", "a:", "a b"] {
            assert_eq!(text.parse::<PeerAddress>(), Err(PeerAddressError), "{text:?}");
        }
    }
}
