//! The `refresh` section: where peers push routes to, and how they prove who they are.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use rustls::pki_types::ServerName;
use sandgate_routes::ObjectKey;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{SettingsError, given, in_range};
use crate::AddressPolicy;

#[cfg(test)]
mod tests;

const MAX_CONNECTIONS: u64 = 65_536;
const MAX_WINDOW_SECONDS: u64 = 300;
const MAX_KEYS: usize = 16;
const MAX_KEY_ID: usize = 64;

/// The checked `refresh` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) provider: String,
    pub(crate) max_connections: usize,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) token_review: Option<TokenReviewSettings>,
    pub(crate) hmac: Option<HmacSettings>,
}

impl RefreshSettings {
    /// Whether anyone may push.
    pub fn is_insecure(&self) -> bool {
        self.methods().is_empty()
    }

    /// The names of the ways to prove who one is.
    pub fn methods(&self) -> Vec<&'static str> {
        let mtls = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        [(mtls, "mtls"), (self.token_review.is_some(), "token-review"), (self.hmac.is_some(), "hmac")]
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name))
            .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) client_names: Vec<ServerName<'static>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenReviewSettings {
    pub(crate) audience: String,
    pub(crate) subjects: Vec<String>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HmacSettings {
    pub(crate) keys: Vec<(String, PathBuf)>,
    pub(crate) window: Duration,
}

/// Where peers push routes to (`POST /refresh`), and how they prove who they are: at least one of `tls.client-ca`,
/// `token-review` and `hmac`, or `insecure: true`. A request has to satisfy one of those that are given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend(
    "anyOf" = [
        { "required": ["hmac"] },
        { "required": ["token-review"] },
        { "required": ["tls"], "properties": { "tls": { "required": ["client-ca"] } } },
        { "required": ["insecure"], "properties": { "insecure": { "const": true } } },
    ],
    "if" = { "required": ["insecure"], "properties": { "insecure": { "const": true } } },
    "then" = { "properties": {
        "hmac": false,
        "token-review": false,
        "tls": { "properties": { "client-ca": false } },
    } },
))]
pub(super) struct RawRefresh {
    /// The address to listen on; `::` for every one of IPv6 and IPv4.
    #[serde(default = "default_address")]
    #[schemars(with = "String", extend("anyOf" = [{ "format": "ipv4" }, { "format": "ipv6" }]))]
    address: IpAddr,
    /// The port to listen on; 0 for a free one, which the status page tells.
    #[serde(default = "default_port")]
    port: u16,
    /// The provider whose objects are pushed: watch and push of one object meet under one name.
    #[serde(default = "default_provider")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]{1,63}$"))]
    provider: String,
    /// Connections at once; more wait to be accepted.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = MAX_CONNECTIONS))]
    max_connections: u64,
    /// Serve HTTPS; with `client-ca`, a client certificate proves who pushes.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawTls")]
    tls: Option<RawTls>,
    /// Ask the Kubernetes API server whose bearer token it is.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawTokenReview")]
    token_review: Option<RawTokenReview>,
    /// Believe requests that are signed with a shared key.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawHmac")]
    hmac: Option<RawHmac>,
    /// Believe everyone who can reach the port. Whoever can then decides where your users' traffic goes.
    #[serde(default)]
    insecure: bool,
}

/// PEM files, read again when they change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawTls {
    /// The server's certificate chain.
    #[schemars(length(min = 1))]
    certificate: String,
    /// Its private key.
    #[schemars(length(min = 1))]
    key: String,
    /// The authorities whose client certificates are believed.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    client_ca: Option<String>,
    /// Believe only client certificates for one of these DNS names or addresses; empty: every one of the authorities'.
    #[serde(default)]
    client_names: Vec<String>,
}

/// A Kubernetes TokenReview.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawTokenReview {
    /// The audience a token must be for.
    #[schemars(length(min = 1))]
    audience: String,
    /// The user names that may push, such as `system:serviceaccount:NAMESPACE:NAME`: any pod can get a token for any
    /// audience, so the audience alone proves nothing.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    subjects: Vec<String>,
    /// A kubeconfig; without one, the pod's own credentials, else KUBECONFIG or ~/.kube/config.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    kubeconfig: Option<String>,
    /// The kubeconfig's context.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    context: Option<String>,
}

/// Shared keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawHmac {
    /// The keys that are believed; several while one replaces another.
    #[schemars(length(min = 1, max = MAX_KEYS))]
    keys: Vec<RawKey>,
    /// How far a request's time may be from this machine's.
    #[serde(default = "default_window")]
    #[schemars(range(min = 1, max = MAX_WINDOW_SECONDS))]
    window_seconds: u64,
}

/// One shared key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawKey {
    /// What requests call it.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]{1,64}$"))]
    id: String,
    /// A file with at least 32 bytes, read again when it changes; line ends at its end do not count.
    #[schemars(length(min = 1))]
    file: String,
}

fn default_address() -> IpAddr {
    Ipv4Addr::UNSPECIFIED.into()
}

fn default_port() -> u16 {
    7789
}

fn default_provider() -> String {
    "openkruise".to_owned()
}

fn default_connections() -> u64 {
    256
}

fn default_window() -> u64 {
    30
}

fn refused(key: &str, reason: impl Into<String>) -> SettingsError {
    SettingsError { key: format!("refresh.{key}"), reason: reason.into() }
}

fn path(key: &str, text: String) -> Result<PathBuf, SettingsError> {
    if text.is_empty() {
        return Err(refused(key, "expected the path of a file, found an empty text"));
    }
    Ok(text.into())
}

fn word(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

impl RawRefresh {
    pub(super) fn check(self, tombstone_lifetime: Duration) -> Result<RefreshSettings, SettingsError> {
        if !word(&self.provider, 63) || ObjectKey::new(&self.provider, "", "x").is_err() {
            return Err(refused("provider", "expected 1 to 63 letters, digits, `.`, `_` or `-`"));
        }
        let max_connections = in_range("refresh.max-connections", self.max_connections, MAX_CONNECTIONS)?;
        let settings = RefreshSettings {
            listen: SocketAddr::new(self.address, self.port),
            provider: self.provider,
            max_connections: usize::try_from(max_connections).unwrap_or(usize::MAX),
            tls: self.tls.map(RawTls::check).transpose()?,
            token_review: self.token_review.map(RawTokenReview::check).transpose()?,
            hmac: self.hmac.map(|hmac| hmac.check(tombstone_lifetime)).transpose()?,
        };
        match (self.insecure, settings.is_insecure()) {
            (false, true) => Err(SettingsError {
                key: "refresh".to_owned(),
                reason: "expected one of tls.client-ca, token-review and hmac, or insecure: true".to_owned(),
            }),
            (true, false) => Err(refused(
                "insecure",
                format!("expected false, because {} is given", settings.methods().join(", ")),
            )),
            _ => Ok(settings),
        }
    }
}

impl RawTls {
    fn check(self) -> Result<TlsFiles, SettingsError> {
        let names = self.client_names.into_iter().map(|name| {
            ServerName::try_from(name)
                .map_err(|_| refused("tls.client-names", "expected DNS names or addresses"))
        });
        let client_names: Vec<_> = names.collect::<Result<_, _>>()?;
        if self.client_ca.is_none() && !client_names.is_empty() {
            return Err(refused("tls.client-names", "expected client-ca beside it"));
        }
        Ok(TlsFiles {
            certificate: path("tls.certificate", self.certificate)?,
            key: path("tls.key", self.key)?,
            client_ca: self.client_ca.map(|text| path("tls.client-ca", text)).transpose()?,
            client_names,
        })
    }
}

impl RawTokenReview {
    fn check(self) -> Result<TokenReviewSettings, SettingsError> {
        if self.audience.is_empty() {
            return Err(refused("token-review.audience", "expected an audience, found an empty text"));
        }
        if self.subjects.is_empty() || self.subjects.iter().any(String::is_empty) {
            return Err(refused(
                "token-review.subjects",
                "expected user names such as system:serviceaccount:NAMESPACE:NAME",
            ));
        }
        let context = match self.context {
            Some(context) if context.is_empty() => {
                return Err(refused("token-review.context", "expected a name, found an empty text"));
            }
            context => context,
        };
        Ok(TokenReviewSettings {
            audience: self.audience,
            subjects: self.subjects,
            kubeconfig: self.kubeconfig.map(|text| path("token-review.kubeconfig", text)).transpose()?,
            context,
        })
    }
}

impl RawHmac {
    fn check(self, tombstone_lifetime: Duration) -> Result<HmacSettings, SettingsError> {
        if !(1..=MAX_KEYS).contains(&self.keys.len()) {
            return Err(refused("hmac.keys", format!("expected 1 to {MAX_KEYS} keys")));
        }
        let mut keys: Vec<(String, PathBuf)> = Vec::with_capacity(self.keys.len());
        for RawKey { id, file } in self.keys {
            if !word(&id, MAX_KEY_ID) {
                return Err(refused("hmac.keys.id", "expected 1 to 64 letters, digits, `.`, `_` or `-`"));
            }
            if keys.iter().any(|(known, _)| *known == id) {
                return Err(refused("hmac.keys.id", format!("{id} is given twice")));
            }
            keys.push((id, path("hmac.keys.file", file)?));
        }
        let window = in_range("refresh.hmac.window-seconds", self.window_seconds, MAX_WINDOW_SECONDS)?;
        let window = Duration::from_secs(window);
        // A message stays good for twice the window; one that outlives the tombstone could bring a route back.
        if window * 2 > tombstone_lifetime {
            return Err(refused(
                "hmac.window-seconds",
                "expected at most half of tombstone-lifetime-seconds: an old message must not outlive a delete",
            ));
        }
        Ok(HmacSettings { keys, window })
    }
}

/// The `pod-ranges` key.
pub(super) fn check_ranges(ranges: Option<Vec<String>>) -> Result<AddressPolicy, SettingsError> {
    let ranges = ranges.map(|ranges| {
        if ranges.is_empty() {
            return Err(
                "expected at least one range; leave the key out to admit every ordinary address".to_owned()
            );
        }
        let parse = |(at, text): (usize, &String)| {
            text.parse::<IpNet>().map_err(|_| {
                format!("expected ranges such as 10.244.0.0/16 or fd00::/48; number {} is none", at + 1)
            })
        };
        ranges.iter().enumerate().map(parse).collect::<Result<Vec<_>, _>>()
    });
    let ranges =
        ranges.transpose().map_err(|reason| SettingsError { key: "pod-ranges".to_owned(), reason })?;
    Ok(AddressPolicy::new(ranges.unwrap_or_default()))
}
