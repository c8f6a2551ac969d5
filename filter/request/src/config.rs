//! The config of the HTTP filter, checked once and read by every request.
//!
//! It is in this crate and not in `sandgate-config` because its values are checked with the grammar of
//! addresses, and because [`recognise`](crate::recognise()) reads its parts.

mod check;
mod raw;
#[cfg(test)]
mod tests;

use raw::RawConfig;
use sandgate_config::{ConfigError, parse_extension_or_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most entries of a list, few enough to be tried one after the other.
const MAX_LIST: usize = 64;
/// The most that a limit can be.
const MAX_COUNT: u32 = 1_000_000;
/// The longest header name, domain and namespace.
const MAX_NAME: usize = 128;
const MAX_DOMAIN: usize = 253;
const MAX_NAMESPACE: usize = 63;

/// What happens to a request that is not addressed to a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Unaddressed {
    /// It goes on untouched.
    Pass,
    /// It is answered with 404.
    Refuse,
}

/// How a sandbox's address is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Upstream {
    /// Through Sandgate's own cluster, whose connections live and die with the sandbox.
    Cluster,
    /// Through a cluster of Envoy's type ORIGINAL_DST. Only this filter's routes may lead there.
    OriginalDst,
}

/// The validated config of one HTTP filter.
#[derive(Clone, Debug)]
pub struct FilterConfig {
    pub(crate) kruise: Kruise,
    pub(crate) agent_sandbox: AgentSandbox,
    pub(crate) opensandbox: OpenSandbox,
    pub(crate) sandbox_env: SandboxEnv,
    pub(crate) host_header: String,
    /// Lower case, longest first.
    pub(crate) domains: Vec<String>,
    unaddressed: Unaddressed,
    enable_auth: bool,
    /// First and last of each range; none means all ports.
    allowed_ports: Vec<(u16, u16)>,
    denied_ports: Vec<(u16, u16)>,
    upstream: Upstream,
    requests_per_sandbox: u32,
    connections_per_sandbox: u32,
    percent_per_client: u32,
    clear_route_cache: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Kruise {
    pub(crate) path: bool,
    pub(crate) headers: bool,
    pub(crate) host: bool,
    pub(crate) id_header: String,
    pub(crate) port_header: String,
    pub(crate) default_port: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct AgentSandbox {
    pub(crate) enabled: bool,
    pub(crate) default_namespace: String,
    pub(crate) default_port: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct OpenSandbox {
    pub(crate) headers: bool,
    pub(crate) host: bool,
    pub(crate) path: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SandboxEnv {
    pub(crate) headers: bool,
    pub(crate) path: bool,
}

impl FilterConfig {
    /// Reads a config. Empty input gives the defaults.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        Self::check(parse_extension_or_default(json)?)
    }

    /// The JSON schema of what [`FilterConfig::parse`] accepts. It cannot say that header names must differ
    /// from each other, nor that some are reserved, nor that a range of ports does not end before it begins.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(RawConfig).into()
    }

    /// What happens to a request that is not addressed to a sandbox.
    pub fn unaddressed(&self) -> Unaddressed {
        self.unaddressed
    }

    /// Whether the tokens of runtimes are checked, for every dialect. Those of secure access always are.
    pub fn enable_auth(&self) -> bool {
        self.enable_auth
    }

    /// Whether requests may reach this port of a sandbox.
    #[inline]
    pub fn allows_port(&self, port: u16) -> bool {
        let is_in =
            |ranges: &[(u16, u16)]| ranges.iter().any(|(first, last)| (*first..=*last).contains(&port));
        (self.allowed_ports.is_empty() || is_in(&self.allowed_ports)) && !is_in(&self.denied_ports)
    }

    /// How a sandbox's address is connected to.
    pub fn upstream(&self) -> Upstream {
        self.upstream
    }

    /// How many requests one sandbox may have in flight.
    pub fn requests_per_sandbox(&self) -> u32 {
        self.requests_per_sandbox
    }

    /// How many connections of one sandbox may be in use.
    pub fn connections_per_sandbox(&self) -> u32 {
        self.connections_per_sandbox
    }

    /// How much of a sandbox's limits one client may have, in percent; 100 is all of them.
    pub fn percent_per_client(&self) -> u32 {
        self.percent_per_client
    }

    /// Whether the route is chosen anew once the request is known to go to a sandbox.
    pub fn clear_route_cache(&self) -> bool {
        self.clear_route_cache
    }
}

impl Default for FilterConfig {
    fn default() -> Self {
        Self::check(RawConfig::default()).expect("the defaults are valid, which a test holds")
    }
}
