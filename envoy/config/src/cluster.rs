//! The config of the cluster extension: the lifetime of hosts, and what happens to their requests.

#[cfg(test)]
mod tests;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ConfigError, in_range, objects, parse_extension_or_default};

const MAX_IDLE_SECONDS: u64 = 86_400;
const MAX_PORTS: u64 = 65_535;
const MAX_WAIT_MILLISECONDS: u64 = 600_000;
const MAX_HOSTS: u64 = 1_000_000;
const MAX_HELD: u64 = 1_000_000;

/// What becomes of requests in flight when their sandbox is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Ending {
    /// They go on to their end; only unused connections are closed.
    Finish,
    /// They are answered with 503 at once, or cut off where the answer has begun.
    End,
}

/// Sandgate's cluster: how long hosts live and what happens to their requests.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Sandgate cluster config")]
struct RawCluster {
    /// How long a port of a sandbox may be unused before its connections are closed and it is forgotten.
    #[schemars(range(min = 1, max = MAX_IDLE_SECONDS))]
    idle_seconds: u64,
    /// How many ports of one sandbox may be in use at one time.
    #[schemars(range(min = 1, max = MAX_PORTS))]
    max_ports_per_sandbox: u64,
    /// How long a request may wait until Envoy has taken the sandbox's address.
    #[schemars(range(min = 1, max = MAX_WAIT_MILLISECONDS))]
    max_wait_milliseconds: u64,
    /// How many ports of all sandboxes the gateway may have as hosts, over all its clusters. Over it unused
    /// ones are let go, and where there are none the answer is 503.
    #[schemars(range(min = 1, max = MAX_HOSTS))]
    max_hosts: u64,
    /// How many requests the gateway may hold until their hosts are there, over all its clusters; one more is
    /// answered with 503.
    #[schemars(range(min = 1, max = MAX_HELD))]
    max_held_requests: u64,
    /// Requests in flight when their sandbox pauses or changes its address.
    on_pause: Ending,
    /// Requests in flight when their sandbox is deleted, or replaced by another of its name.
    on_delete: Ending,
    /// Whether requests share connections, as with HTTP/2: the filter's connections-per-sandbox does not
    /// count them then.
    shares_connections: bool,
    /// Ports that are spoken to with TLS. The first rule that fits decides; without one there is no TLS.
    #[serde(deserialize_with = "objects")]
    tls: Vec<RawTlsRule>,
}

/// Which ports of which sandboxes are spoken to with TLS, and how.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
struct RawTlsRule {
    /// Only sandboxes of this provider; without it, of any.
    #[serde(default)]
    #[schemars(length(min = 1))]
    provider: Option<String>,
    /// Only these ports; without them, every port.
    #[serde(default)]
    #[schemars(inner(range(min = 1, max = 65535)))]
    ports: Vec<u16>,
    /// The value of the key sandgate in the match of one of the cluster's transport_socket_matches.
    #[serde(rename = "match")]
    #[schemars(length(min = 1))]
    socket: String,
    /// The server's name where that transport socket has auto_host_sni: {id}, {namespace}, {name} and {uid}
    /// are the sandbox's.
    #[serde(default)]
    #[schemars(length(min = 1))]
    server_name: Option<String>,
}

impl Default for RawCluster {
    fn default() -> Self {
        Self {
            idle_seconds: 60,
            max_ports_per_sandbox: 64,
            max_wait_milliseconds: 5_000,
            max_hosts: 200_000,
            max_held_requests: 20_000,
            on_pause: Ending::Finish,
            on_delete: Ending::End,
            shares_connections: false,
            tls: Vec::new(),
        }
    }
}

/// Which ports of which sandboxes are spoken to with TLS.
#[derive(Clone, Debug)]
pub struct TlsRule {
    provider: Option<String>,
    ports: Vec<u16>,
    socket: String,
    server_name: Option<String>,
}

impl TlsRule {
    /// What the cluster's `transport_socket_matches` call it.
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// The server's name for one sandbox, where the rule gives one.
    pub fn server_name(&self, id: &str, namespace: &str, name: &str, uid: &str) -> Option<String> {
        let fill = |template: &String| {
            template
                .replace("{id}", id)
                .replace("{namespace}", namespace)
                .replace("{name}", name)
                .replace("{uid}", uid)
        };
        self.server_name.as_ref().map(fill)
    }

    fn fits(&self, provider: &str, port: u16) -> bool {
        self.provider.as_deref().is_none_or(|wanted| wanted == provider)
            && (self.ports.is_empty() || self.ports.contains(&port))
    }
}

/// The checked config of one cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// How long a host may be unused.
    pub idle: Duration,
    /// How many hosts one sandbox may have.
    pub max_ports: usize,
    /// How long a request may wait for its host.
    pub max_wait: Duration,
    /// How many hosts the gateway may have.
    pub max_hosts: usize,
    /// How many requests the gateway may hold.
    pub max_held: usize,
    /// Requests in flight when the sandbox pauses or moves.
    pub on_pause: Ending,
    /// Requests in flight when the sandbox is gone.
    pub on_delete: Ending,
    /// Whether requests share connections.
    pub shares_connections: bool,
    tls: Vec<TlsRule>,
}

impl ClusterConfig {
    /// Reads a config. Empty input gives the defaults.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        Self::check(parse_extension_or_default(json)?)
    }

    /// The JSON schema of what [`ClusterConfig::parse`] accepts.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(RawCluster).into()
    }

    /// How a port of a provider's sandbox is spoken to with TLS, if it is.
    pub fn tls(&self, provider: &str, port: u16) -> Option<&TlsRule> {
        self.tls.iter().find(|rule| rule.fits(provider, port))
    }

    fn check(raw: RawCluster) -> Result<Self, ConfigError> {
        let idle = in_range("idle-seconds", raw.idle_seconds, MAX_IDLE_SECONDS)?;
        let ports = in_range("max-ports-per-sandbox", raw.max_ports_per_sandbox, MAX_PORTS)?;
        let wait = in_range("max-wait-milliseconds", raw.max_wait_milliseconds, MAX_WAIT_MILLISECONDS)?;
        let hosts = in_range("max-hosts", raw.max_hosts, MAX_HOSTS)?;
        let held = in_range("max-held-requests", raw.max_held_requests, MAX_HELD)?;
        let tls = raw
            .tls
            .into_iter()
            .enumerate()
            .map(|(index, rule)| tls_rule(index, rule))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            idle: Duration::from_secs(idle),
            max_ports: usize::try_from(ports).unwrap_or(usize::MAX),
            max_wait: Duration::from_millis(wait),
            max_hosts: usize::try_from(hosts).unwrap_or(usize::MAX),
            max_held: usize::try_from(held).unwrap_or(usize::MAX),
            on_pause: raw.on_pause,
            on_delete: raw.on_delete,
            shares_connections: raw.shares_connections,
            tls,
        })
    }
}

fn tls_rule(index: usize, raw: RawTlsRule) -> Result<TlsRule, ConfigError> {
    let given = [
        ("provider", raw.provider.as_deref()),
        ("match", Some(raw.socket.as_str())),
        ("server-name", raw.server_name.as_deref()),
    ];
    if let Some((key, _)) = given.iter().find(|(_, value)| *value == Some("")) {
        return Err(ConfigError::new(format!("tls[{index}].{key}"), "expected a text, found an empty one"));
    }
    if raw.ports.contains(&0) {
        let reason = "expected ports from 1 to 65535, found 0";
        return Err(ConfigError::new(format!("tls[{index}].ports"), reason));
    }
    Ok(TlsRule { provider: raw.provider, ports: raw.ports, socket: raw.socket, server_name: raw.server_name })
}
