//! The filter's config: JSON as Envoy hands it over, checked once, then read by every request.
//!
//! [`raw`] is what may be written, with its defaults; its types refuse bad values where they stand, so that an error can
//! name key, line and column. [`FilterConfig`] is what the request path reads: switches folded together, names lower
//! case, domains in the order they are tried.

mod raw;
#[cfg(test)]
mod tests;
mod value;

use raw::RawConfig;

/// The largest config that is read, in bytes.
pub const MAX_CONFIG: usize = 64 * 1024;

/// Headers that carry secrets or steer the gateway. None of them may hold an ID: IDs are shown in replies.
const RESERVED: [&str; 8] = [
    "authorization",
    "cookie",
    "e2b-traffic-access-token",
    "opensandbox-secure-access",
    "proxy-authorization",
    "x-access-token",
    "x-envoy-original-dst-host",
    "x-sandgate-route",
];

/// Why a config was refused. Trying again does not help: the config has to change.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// More than [`MAX_CONFIG`] bytes.
    #[error("filter config: expected at most {MAX_CONFIG} bytes, found {found}")]
    TooLarge {
        /// The size of the config.
        found: usize,
    },
    /// A key or its value is wrong.
    #[error("filter config: {key}: {reason}")]
    Invalid {
        /// The path of the key, such as `dialects.kruise.default-port`.
        key: String,
        /// What was expected and what was found.
        reason: String,
    },
}

/// What happens to a request that is not addressed to a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unaddressed {
    /// It goes on untouched, to whatever else the gateway routes.
    Pass,
    /// It is answered with 404.
    Refuse,
}

/// How a sandbox's address is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// Through Sandgate's own cluster.
    Cluster,
    /// Through a cluster of Envoy's type ORIGINAL_DST.
    OriginalDst,
}

/// The validated config of one HTTP filter.
#[derive(Clone, Debug)]
pub struct FilterConfig {
    pub(crate) kruise: Kruise,
    pub(crate) agent_sandbox: AgentSandbox,
    pub(crate) opensandbox: OpenSandbox,
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

impl FilterConfig {
    /// Reads a config. Empty input gives the defaults.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        if json.len() > MAX_CONFIG {
            return Err(ConfigError::TooLarge { found: json.len() });
        }
        if json.trim_ascii().is_empty() {
            return Self::validate(RawConfig::default());
        }
        Self::validate(RawConfig::parse(json)?)
    }

    /// The JSON schema of what [`FilterConfig::parse`] accepts. It cannot say that header names must differ from each
    /// other, nor that some are reserved, nor that a range of ports does not end before it begins.
    pub fn schema() -> serde_json::Value {
        raw::schema()
    }

    fn validate(raw: RawConfig) -> Result<Self, ConfigError> {
        check_header_names(&raw)?;
        let (kruise, agent_sandbox, opensandbox) =
            (raw.dialects.kruise, raw.dialects.agent_sandbox, raw.dialects.opensandbox);
        let kruise_host = kruise.enabled && kruise.host;
        let opensandbox_host = opensandbox.enabled && opensandbox.host;
        let mut domains: Vec<String> = raw.domains.into_names();
        // Every sandbox has an origin of its own then, which a path form would share out.
        let path = domains.is_empty() || !(kruise_host || opensandbox_host);
        domains.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        domains.dedup();
        Ok(Self {
            kruise: Kruise {
                path: kruise.enabled && kruise.path.unwrap_or(path),
                headers: kruise.enabled && kruise.headers,
                host: kruise_host,
                id_header: kruise.sandbox_header_name.into_string(),
                port_header: kruise.sandbox_port_header.into_string(),
                default_port: kruise.default_port.into(),
            },
            agent_sandbox: AgentSandbox {
                enabled: agent_sandbox.enabled,
                default_namespace: agent_sandbox.default_namespace.into_string(),
                default_port: agent_sandbox.default_port.into(),
            },
            opensandbox: OpenSandbox {
                headers: opensandbox.enabled && opensandbox.headers,
                host: opensandbox_host,
                path: opensandbox.enabled && opensandbox.path.unwrap_or(path),
            },
            host_header: raw.host_header_name.into_string(),
            domains,
            unaddressed: match raw.unaddressed {
                raw::Unaddressed::Pass => Unaddressed::Pass,
                raw::Unaddressed::Refuse => Unaddressed::Refuse,
            },
            enable_auth: raw.enable_auth,
            allowed_ports: raw.allowed_ports.into_ranges(),
            denied_ports: raw.denied_ports.into_ranges(),
            upstream: match raw.upstream {
                raw::Upstream::Cluster => Upstream::Cluster,
                raw::Upstream::OriginalDst => Upstream::OriginalDst,
            },
            requests_per_sandbox: raw.limits.requests_per_sandbox.into(),
            connections_per_sandbox: raw.limits.connections_per_sandbox.into(),
            percent_per_client: raw.limits.percent_per_client.into(),
            clear_route_cache: raw.clear_route_cache,
        })
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
        Self::validate(RawConfig::default()).expect("the defaults are valid, which a test holds")
    }
}

fn check_header_names(raw: &RawConfig) -> Result<(), ConfigError> {
    let names = [
        ("host-header-name", raw.host_header_name.as_str()),
        ("dialects.kruise.sandbox-header-name", raw.dialects.kruise.sandbox_header_name.as_str()),
        ("dialects.kruise.sandbox-port-header", raw.dialects.kruise.sandbox_port_header.as_str()),
    ];
    for (index, (key, name)) in names.iter().enumerate() {
        if RESERVED.contains(name) {
            let reason =
                format!("expected a header that carries no secret and is not Sandgate's own, found {name:?}");
            return Err(ConfigError::Invalid { key: (*key).into(), reason });
        }
        if let Some((other, _)) = names[..index].iter().find(|(_, earlier)| earlier == name) {
            let reason = format!("expected a header other than that of {other}, found {name:?} in both");
            return Err(ConfigError::Invalid { key: (*key).into(), reason });
        }
    }
    Ok(())
}
