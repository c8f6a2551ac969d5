//! The config of the HTTP filter, checked once and read by every request.
//!
//! It is in this crate and not in `sandgate-config` because its values are checked with the grammar of
//! addresses, and because [`recognise`](crate::recognise()) reads its parts.

mod check;
mod guards;
mod raw;
mod route;
#[cfg(test)]
mod tests;

pub use guards::{Patience, Rate};

use guards::Guards;
use raw::RawConfig;
pub use route::RouteConfig;
use sandgate_config::{ConfigError, parse_extension_or_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Dialect;

/// The most entries of a list, few enough to be tried one after the other.
const MAX_LIST: usize = 64;
/// The most that a limit can be.
const MAX_COUNT: u32 = 1_000_000;
/// The most that the limit of a request's body can be: 1 TiB.
const MAX_REQUEST_BYTES: u64 = 1 << 40;
/// The most that the limit of a request's headers can be: Envoy's own is no higher.
const MAX_HEADER_BYTES: u32 = 8192 << 10;
/// The longest header name, domain and namespace.
const MAX_NAME: usize = 128;
const MAX_DOMAIN: usize = 253;
const MAX_NAMESPACE: usize = 63;
/// The most namespaces in which a name is looked up, one after the other.
const MAX_NAMESPACES: usize = 16;
const MAX_HEALTH_PATHS: usize = 8;
const MAX_HEALTH_PATH: usize = 128;

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

/// How a caller's bearer token is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum CallerMode {
    /// It is one of the tokens of `auth.bearer`.
    Bearer,
    /// The Kubernetes API server knows it (`auth.token-review`).
    TokenReview,
    /// It was made for this sandbox with one of the secrets of `auth.scoped-token`.
    ScopedToken,
}

/// Whose name the sandbox gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ForwardedName {
    /// The one that the client has sent.
    Client,
    /// The one that fits the sandbox's own address and port.
    Target,
}

/// Who may ask.
#[derive(Clone, Debug)]
pub struct Callers {
    pub(crate) mode: CallerMode,
    providers: Vec<String>,
    pub(crate) allow_anonymous: bool,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) groups: Vec<String>,
    pub(crate) bind_namespace: bool,
}

impl Callers {
    /// How a caller's token is judged.
    pub fn mode(&self) -> CallerMode {
        self.mode
    }

    /// Whether only known callers reach objects of this provider.
    pub(crate) fn are_for(&self, provider: &str) -> bool {
        self.providers.iter().any(|name| name == provider)
    }
}

/// A user name, or the beginning of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Named(String),
    Beginning(String),
}

impl Subject {
    pub(crate) fn matches(&self, username: &str) -> bool {
        match self {
            Self::Named(name) => name == username,
            Self::Beginning(beginning) => username.starts_with(beginning),
        }
    }
}

/// What the sandbox is told of the host that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Whose Host it gets.
    pub host: ForwardedName,
    /// Whose Origin it gets.
    pub origin: ForwardedName,
    /// Whether X-Forwarded-Host has the client's Host.
    pub forwarded_host: bool,
}

impl Forward {
    /// Whether the sandbox gets anything but what the client has sent.
    #[inline]
    pub fn changes(self) -> bool {
        self.forwarded_host || self.host == ForwardedName::Target || self.origin == ForwardedName::Target
    }
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
    pub(crate) health_paths: Vec<String>,
    enable_auth: bool,
    enable_jwt_auth: bool,
    traffic_header: String,
    require_token: bool,
    callers: Option<Callers>,
    forward: Forward,
    /// First and last of each range; none means all ports.
    allowed_ports: Vec<(u16, u16)>,
    denied_ports: Vec<(u16, u16)>,
    upstream: Upstream,
    requests_per_sandbox: u32,
    connections_per_sandbox: u32,
    percent_per_client: u32,
    guards: Guards,
    request_bytes: Option<u64>,
    request_header_bytes: Option<u32>,
    clear_route_cache: bool,
    secrets: Secrets,
}

/// The keys that Envoy has as generic secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The keys of signed routes.
    pub secure_access_keys: Option<SecretSource>,
    /// The key of scoped tokens.
    pub scoped_token: Option<SecretSource>,
    /// The bearer token.
    pub bearer: Option<SecretSource>,
}

/// Where Envoy has a generic secret from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSource {
    /// Its name there.
    pub name: String,
    /// Envoy's `ConfigSource` as JSON; `None` means the static secrets of its bootstrap config.
    pub sds_config: Option<String>,
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
    pub(crate) proxy_path: bool,
    /// No two of them are the same.
    pub(crate) agent_sandbox_namespaces: Vec<String>,
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
    /// from each other, nor that some are reserved, nor that a range of ports does not end before it begins,
    /// nor that a burst needs a rate, and a rate and a window Sandgate's own cluster.
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

    /// Whether traffic JWTs take the place of the tokens of runtimes.
    pub fn enable_jwt_auth(&self) -> bool {
        self.enable_jwt_auth
    }

    /// The header with the traffic token, in lower case.
    #[inline]
    pub fn traffic_header(&self) -> &str {
        &self.traffic_header
    }

    /// Whether sandboxes that ask for nothing are refused.
    pub fn require_token(&self) -> bool {
        self.require_token
    }

    /// Who may ask; `None` if nobody is asked who they are.
    #[inline]
    pub fn callers(&self) -> Option<&Callers> {
        self.callers.as_ref()
    }

    /// The header that the host forms are read from, in lower case.
    pub fn host_header(&self) -> &str {
        &self.host_header
    }

    /// What the sandbox is told of the host that was asked for.
    #[inline]
    pub fn forward(&self) -> Forward {
        self.forward
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

    /// How many requests a second one sandbox may get, if that is limited.
    pub fn rate_per_sandbox(&self) -> Option<Rate> {
        self.guards.rate()
    }

    /// What is waited for on behalf of a request in this dialect. `asked` is the value of X-Sandbox-Timeout,
    /// if the request has one that counts; one that is no number above 0 is passed over, as the dialect's own
    /// router does.
    pub fn patience(&self, dialect: Dialect, asked: Option<&[u8]>) -> Patience {
        let patience = self.guards.patience(dialect);
        match asked.and_then(|header| self.guards.asked(header)) {
            Some(time) => Patience { request: Some(time), ..patience },
            None => patience,
        }
    }

    /// For how many milliseconds a request in this dialect is tried again while nothing listens on its port;
    /// 0 is as long as Envoy's route says.
    pub fn connect_window(&self, dialect: Dialect) -> u32 {
        self.guards.window(dialect)
    }

    /// How many bytes the body of a request to a sandbox may have.
    pub fn request_bytes(&self) -> Option<u64> {
        self.request_bytes
    }

    /// How many bytes the headers of a request to a sandbox may have.
    pub fn request_header_bytes(&self) -> Option<u32> {
        self.request_header_bytes
    }

    /// The keys that Envoy has as generic secrets.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
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
