//! Who the peers are: a fixed list, the addresses of a DNS name, or the endpoints of a Kubernetes Service.
//!
//! The last two are asked every few seconds. While nobody answers, the last known peers stay.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, ListParams};
use sandgate_follow::{Access, AccessError};
use tokio::net::lookup_host;

use super::PeerAddress;
use super::address::PORT;

/// How long it may take to read the credentials for the API server.
const CONNECT: Duration = Duration::from_secs(10);

/// Where to find the peers.
#[derive(Clone, Debug)]
pub enum Peers {
    /// These.
    Static(Vec<PeerAddress>),
    /// Every address of a name, as a headless Service has one for each pod.
    Dns {
        /// The name.
        host: String,
        /// The port on each.
        port: u16,
        /// `https`, with certificates for the name.
        secure: bool,
    },
    /// The endpoints of a Service that serve, those that are ending among them. Who asks which sandboxes were
    /// used asks those too that are ending and serve no more: they may have requests in flight.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The port on each: without it, the port named `refresh`, or the only one.
        port: Option<u16>,
        /// `https`, with certificates for `NAME.NAMESPACE.svc`.
        secure: bool,
        /// The cluster that it is in.
        access: Access,
    },
}

/// Why a text says no peers. A retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct PeersError(&'static str);

impl Peers {
    /// The addresses of a name: `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    /// If the text is something else.
    pub fn dns(text: &str, secure: bool) -> Result<Self, PeersError> {
        let (host, port) = host_and_port(text).ok_or(PeersError("HOST:PORT"))?;
        Ok(Self::Dns { host: host.to_owned(), port: port.unwrap_or(PORT), secure })
    }

    /// The endpoints of a Service: `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`.
    ///
    /// # Errors
    /// If the text is something else.
    pub fn service(text: &str, secure: bool, access: Access) -> Result<Self, PeersError> {
        let parts =
            text.split_once('/').and_then(|(namespace, rest)| Some((namespace, host_and_port(rest)?)));
        let Some((namespace, (name, port))) = parts.filter(|(namespace, _)| is_label(namespace)) else {
            return Err(PeersError("NAMESPACE/NAME or NAMESPACE/NAME:PORT"));
        };
        Ok(Self::Service { namespace: namespace.to_owned(), name: name.to_owned(), port, secure, access })
    }
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port != 0)?)),
        None => (text, None),
    };
    is_label(host).then_some((host, port))
}

/// Why the peers were not found. A retry may help; until then the last known peers stay.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The name has no addresses, or nobody says which.
    #[error("{host}: {source}")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The credentials for the API server cannot be had.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The API server does not say which endpoints there are.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

pub(super) struct Discovery {
    peers: Peers,
    /// Whether endpoints that are ending are found, though they do not serve.
    draining: bool,
    client: Option<Client>,
}

impl Discovery {
    pub(super) fn new(peers: Peers) -> Self {
        Self { peers, draining: false, client: None }
    }

    /// Finds those too that drain and do not serve any more. What they know counts; nobody has to wait until
    /// such a one has taken a push.
    pub(super) fn and_draining(self) -> Self {
        Self { draining: true, ..self }
    }

    /// Whether the answer can change.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.peers, Peers::Static(_))
    }

    pub(super) async fn find(&mut self) -> Result<BTreeSet<PeerAddress>, DiscoveryError> {
        match &self.peers {
            Peers::Static(peers) => Ok(peers.iter().cloned().collect()),
            Peers::Dns { host, port, secure } => {
                let found = lookup_host((host.as_str(), *port))
                    .await
                    .map_err(|source| DiscoveryError::Dns { host: host.clone(), source })?;
                Ok(found.map(|address| PeerAddress::at(address, *secure, Some(host))).collect())
            }
            Peers::Service { namespace, name, port, secure, access } => {
                let client = match &self.client {
                    Some(client) => client,
                    None => self.client.insert(access.connect(CONNECT).await?),
                };
                let selector = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
                let slices = Api::namespaced(client.clone(), namespace).list(&selector).await?;
                let server_name = format!("{name}.{namespace}.svc");
                let found = addresses(&slices.items, *port, self.draining);
                Ok(found.into_iter().map(|a| PeerAddress::at(a, *secure, Some(&server_name))).collect())
            }
        }
    }
}

/// The addresses of the endpoints that serve, or drain if that is asked for, with this port or the slice's
/// own.
fn addresses(slices: &[EndpointSlice], port: Option<u16>, draining: bool) -> BTreeSet<SocketAddr> {
    let mut found = BTreeSet::new();
    for slice in slices {
        let Some(port) = port.or_else(|| refresh_port(slice)) else { continue };
        for endpoint in &slice.endpoints {
            // A pod that is ending still answers requests, from a table that must stay true.
            let conditions = endpoint.conditions.as_ref();
            let serves = conditions.and_then(|known| known.serving.or(known.ready)).unwrap_or(true);
            let drains = conditions.and_then(|known| known.terminating) == Some(true);
            if serves || (draining && drains) {
                let addresses = endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
                found.extend(addresses.map(|ip| SocketAddr::new(ip, port)));
            }
        }
    }
    found
}

/// The only port of a slice, or the one named `refresh`.
fn refresh_port(slice: &EndpointSlice) -> Option<u16> {
    let port = match slice.ports.as_deref().unwrap_or_default() {
        [only] => only,
        ports => ports.iter().find(|port| port.name.as_deref() == Some("refresh"))?,
    };
    port.port?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn addresses(items: &serde_json::Value, port: Option<u16>) -> Vec<String> {
        let slices: Vec<EndpointSlice> = serde_json::from_value(items.clone()).unwrap();
        super::addresses(&slices, port, false).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_asks_what_was_used_asks_those_that_drain_too() {
        let items = json!([{
            "ports": [{ "name": "refresh", "port": 7789 }],
            "endpoints": [
                { "addresses": ["10.0.0.1"], "conditions": { "ready": true, "serving": true, "terminating": false } },
                { "addresses": ["10.0.0.2"], "conditions": { "ready": false, "serving": false, "terminating": true } },
                { "addresses": ["10.0.0.3"], "conditions": { "ready": false, "serving": true, "terminating": true } },
                { "addresses": ["10.0.0.4"], "conditions": { "ready": false, "serving": false, "terminating": false } },
                { "addresses": ["10.0.0.5"], "conditions": { "ready": false } },
            ],
        }]);
        assert_eq!(addresses(&items, None), ["10.0.0.1:7789", "10.0.0.3:7789"]);
        let slices: Vec<EndpointSlice> = serde_json::from_value(items).unwrap();
        let found = super::addresses(&slices, None, true);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1:7789", "10.0.0.2:7789", "10.0.0.3:7789"]);
    }

    #[test]
    fn endpoints_that_serve_are_peers_once_each() {
        let items = json!([
            {
                "ports": [{ "name": "http", "port": 7788 }, { "name": "refresh", "port": 7789 }],
                "endpoints": [
                    { "addresses": ["10.0.0.1"], "conditions": { "ready": true } },
                    { "addresses": ["10.0.0.2"], "conditions": { "ready": false } },
                    { "addresses": ["10.0.0.3"], "conditions": { "ready": false, "serving": true, "terminating": true } },
                    { "addresses": ["10.0.0.4"], "conditions": {} },
                    { "addresses": ["10.0.0.5"], "conditions": { "serving": false } },
                ],
            },
            { "ports": [{ "name": "", "port": 9000 }], "endpoints": [{ "addresses": ["fd00::1", "10.0.0.1"] }] },
            { "ports": [], "endpoints": [{ "addresses": ["10.0.0.9"] }] },
            { "ports": null, "endpoints": null },
        ]);
        let expected = ["10.0.0.1:7789", "10.0.0.1:9000", "10.0.0.3:7789", "10.0.0.4:7789", "[fd00::1]:9000"];
        assert_eq!(addresses(&items, None), expected);
        let expected = ["10.0.0.1:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.9:1", "[fd00::1]:1"];
        assert_eq!(addresses(&items, Some(1)), expected);
    }

    #[tokio::test]
    async fn a_name_is_every_address_it_has() {
        let mut discovery =
            Discovery::new(Peers::Dns { host: "localhost".to_owned(), port: 7789, secure: true });
        let found = discovery.find().await.unwrap();
        assert!(
            found.contains(&PeerAddress::at(([127, 0, 0, 1], 7789).into(), true, Some("localhost"))),
            "{found:?}"
        );
        let mut nowhere =
            Discovery::new(Peers::Dns { host: "nowhere.invalid".to_owned(), port: 1, secure: false });
        assert!(nowhere.find().await.is_err());
    }
}
