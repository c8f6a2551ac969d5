//! The `manager` section: where the E2B API is, and which requests are for it.
//!
//! A gateway with this section is one door for both planes: what is meant for the API goes to the manager,
//! everything else to sandboxes as before. `sandgate run` makes Envoy's routes of it and `sandgate explain`
//! judges a request by [`Manager::takes`], so the two must agree; a scenario holds them to it.

use std::path::PathBuf;

use sandgate_config::{ConfigError, given, given_object};
use sandgate_request::Headers;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::tls::{file, is_domain};

#[cfg(test)]
mod tests;

/// The API under every host: this path, and all below it.
pub(crate) const PATH: &str = "/kruise/api";
/// What the API's own host begins with.
pub(crate) const HOST: &str = "api.";

const ADDRESS: &str = r"^(\[[0-9A-Fa-f:.]+\]|([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";
const NAME: &str =
    r"^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$";
const MAX_NAME: usize = 253;
const MAX_ADDRESS: usize = 260;

/// The checked section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manager {
    /// A name of DNS, or an IP address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// How the manager is spoken to with TLS. Nobody has looked at the file yet.
    pub(crate) tls: Option<ManagerTls>,
}

/// TLS to the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerTls {
    pub(crate) ca: PathBuf,
    /// The name that the manager's certificate must have.
    pub(crate) server_name: String,
}

/// The manager of sandboxes, which serves the E2B API. With this section requests to the path /kruise/api,
/// and to hosts that begin with "api.", go to it; without it there is no such place behind the gateway.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "Manager")]
struct RawManager {
    /// Where it listens: a name or an address, and a port, such as sandgate-manager.sandgate-system.svc:80. A
    /// name may stand for several managers.
    #[schemars(length(max = MAX_ADDRESS), regex(pattern = ADDRESS))]
    address: String,
    /// Speak TLS to it. Left out: plain HTTP, for a network that nobody else listens in.
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawManagerTls")]
    tls: Option<RawManagerTls>,
}

/// TLS to the manager.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
struct RawManagerTls {
    /// The authorities of the manager's certificate, PEM. The file is read when Envoy starts.
    #[schemars(length(min = 1))]
    ca: String,
    /// The name that its certificate must have. Left out: the host of the address.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(max = MAX_NAME), regex(pattern = NAME))]
    server_name: Option<String>,
}

impl Manager {
    /// Reads the section.
    pub(crate) fn parse(section: &Value) -> Result<Self, ConfigError> {
        Self::check(sandgate_config::parse(section.to_string().as_bytes())?)
    }

    fn check(raw: RawManager) -> Result<Self, ConfigError> {
        let (host, port) = split(&raw.address).ok_or_else(|| {
            let reason = "expected a name or an address, and a port, such as \
                          sandgate-manager.sandgate-system.svc:80 or [2001:db8::1]:8080";
            ConfigError::new("address", reason)
        })?;
        let tls = raw.tls.map(|tls| {
            let server_name = tls.server_name.unwrap_or_else(|| host.trim_end_matches('.').to_owned());
            if !is_domain(&server_name) || server_name.starts_with('*') {
                let reason = "expected a name such as manager.example.com";
                return Err(ConfigError::new("tls.server-name", reason));
            }
            Ok(ManagerTls { ca: file("tls.ca", &tls.ca)?, server_name })
        });
        Ok(Self { host, port, tls: tls.transpose()? })
    }

    /// Whether a request is for the manager: by its path, or by its host. `domains` are those of the filter,
    /// in lower case and without a dot before them; without any, every domain will do.
    pub(crate) fn takes<H: Headers + ?Sized>(headers: &H, domains: &[String]) -> bool {
        let of_path = headers.with(":path", |path| {
            let path = path.unwrap_or_default();
            let below = path.strip_prefix(PATH.as_bytes());
            below.is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b'?')))
        });
        of_path || headers.with(":authority", |host| is_api_host(host.unwrap_or_default(), domains))
    }

    /// The JSON schema of what [`Manager::parse`] accepts.
    #[cfg(test)]
    fn schema() -> Value {
        schemars::schema_for!(RawManager).into()
    }
}

fn is_api_host(host: &[u8], domains: &[String]) -> bool {
    let host = host.to_ascii_lowercase();
    let Some(domain) = host.strip_prefix(HOST.as_bytes()).filter(|domain| !domain.is_empty()) else {
        return false;
    };
    if domains.is_empty() {
        return true;
    }
    domains.iter().any(|wanted| {
        let rest = domain.strip_prefix(wanted.as_bytes());
        let rest = rest.map(|rest| rest.strip_prefix(b".").unwrap_or(rest));
        rest.is_some_and(|rest| rest.is_empty() || (rest.len() > 1 && rest.starts_with(b":")))
    })
}

/// Host and port of an address.
fn split(address: &str) -> Option<(String, u16)> {
    let (host, digits) = address.rsplit_once(':')?;
    let canonical = (1..=5).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0');
    let port = digits.parse().ok().filter(|_| canonical)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Some(inner) = inner {
        return inner.parse::<std::net::Ipv6Addr>().ok().map(|ip| (ip.to_string(), port));
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    (is_domain(name) && !name.starts_with('*')).then(|| (host.to_ascii_lowercase(), port))
}
