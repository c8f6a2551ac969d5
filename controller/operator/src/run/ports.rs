//! The ports, and what is on each: all pages on that of `--listen`, and elsewhere what the option says.

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::RunError;
use crate::{Args, Bind, Server};

/// A port, and what is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Port {
    address: SocketAddr,
    pub(super) has_probes: bool,
    pub(super) has_metrics: bool,
}

impl Port {
    fn pages(self) -> &'static str {
        match (self.has_probes, self.has_metrics) {
            (true, true) => "/healthz, /readyz and /metrics are",
            (true, false) => "/healthz and /readyz are",
            (false, _) => "/metrics is",
        }
    }

    /// Whether two ports are the same one: every address is, of IPv4 alone or of both.
    fn is(self, address: SocketAddr) -> bool {
        let is_every = |address: SocketAddr| address.ip().is_unspecified();
        let is_fixed = address.port() != 0;
        is_fixed
            && self.address.port() == address.port()
            && (self.address == address || is_every(self.address) && is_every(address))
    }
}

/// The ports that are asked for, that of `--listen` first.
fn ports(args: &Args) -> Vec<Port> {
    let Bind(probes) = args.opensandbox.health_probe_bind_address;
    let metrics = args.opensandbox.metrics_address();
    let mut ports = vec![Port { address: args.listen, has_probes: true, has_metrics: true }];
    for (address, has_probes) in [(probes, true), (metrics, false)] {
        let Some(address) = address else { continue };
        match ports.iter_mut().find(|port| port.is(address)) {
            Some(port) => {
                port.has_probes |= has_probes;
                port.has_metrics |= !has_probes;
                if address.is_ipv6() {
                    port.address = address;
                }
            }
            None => ports.push(Port { address, has_probes, has_metrics: !has_probes }),
        }
    }
    ports
}

/// Binds the ports, that of `--listen` first.
pub(super) async fn bind(args: &Args) -> Result<Vec<(Server, SocketAddr, Port)>, RunError> {
    let mut servers = Vec::new();
    for port in ports(args) {
        let address = port.address;
        let cannot = |source| RunError::Listen { address, source };
        let server = everywhere(address, Server::bind).await.map_err(cannot)?;
        let address = server.address().map_err(cannot)?;
        tracing::info!("{} on http://{address}", port.pages());
        servers.push((server, address, port));
    }
    Ok(servers)
}

/// Binds an address. `[::]` is every address, of IPv4 too. Where there is no IPv6, it is every one of IPv4.
async fn everywhere<T, F: Future<Output = io::Result<T>>>(
    address: SocketAddr,
    bind: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let error = match bind(address).await {
        Ok(bound) => return Ok(bound),
        Err(error) => error,
    };
    let is_refused = matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
    match address.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() && !is_refused => {
            bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()))).await
        }
        _ => Err(error),
    }
}
