//! The `refresh` section as it is written. Unknown keys are refused. The comments of these types are the
//! descriptions in the JSON schema of the gateway's config.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::ServerName;
use sandgate_config::{ConfigError, given};
use sandgate_follow::Access;
use sandgate_routes::ObjectKey;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{HmacSettings, Pushed, RefreshSettings, TlsFiles, TokenReviewSettings};

const MAX_CONNECTIONS: u64 = 65_536;
/// A week: longer than any sender is silent.
const MAX_LEASE_SECONDS: u64 = 7 * 24 * 3600;
const MAX_CONFIRMATION_SECONDS: u64 = 3600;
const MAX_WINDOW_SECONDS: u64 = 300;
const MAX_KEYS: usize = 16;
const MAX_KEY_ID: usize = 64;

/// Where peers push routes to (`POST /refresh`), and how they prove who they are: at least one of
/// `tls.client-ca`, `token-review` and `hmac`, or `insecure: true`. A request has to satisfy one of those
/// that are given.
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
pub struct RawRefresh {
    /// The address to listen on; `::` for every one of IPv6 and IPv4.
    #[serde(default = "default_address")]
    #[schemars(with = "String", extend("anyOf" = [{ "format": "ipv4" }, { "format": "ipv6" }]))]
    address: IpAddr,
    /// The port to listen on; 0 for a free one, which the status page tells.
    #[serde(default = "default_port")]
    port: u16,
    /// The provider whose objects are pushed: one of `kubernetes.providers`, because watch and push of one
    /// object meet under one name. Left out: the only one there. Where nothing is watched it has to be given.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", regex(pattern = r"^[A-Za-z0-9._-]{1,63}$"))]
    provider: Option<String>,
    /// How long a pushed route lives that no watch covers, from the last push of it: an equal one counts too.
    /// A route that a watch covers has no lease; the watch tells what becomes of it.
    #[serde(default = "default_lease")]
    #[schemars(range(min = 1, max = MAX_LEASE_SECONDS))]
    lease_seconds: u64,
    /// How long a push may be ahead of a watch that is heard. If the watch has no word of it by then, it is
    /// undone.
    #[serde(default = "default_confirmation")]
    #[schemars(range(min = 1, max = MAX_CONFIRMATION_SECONDS))]
    confirmation_seconds: u64,
    /// Connections at once. A quarter of them is for those that have not proven who they are, of which the
    /// oldest goes first.
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
    /// Believe only client certificates for one of these DNS names or addresses; empty: every one of the
    /// authorities'.
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
    /// The user names that may push, such as `system:serviceaccount:NAMESPACE:NAME`: any pod can get a token
    /// for any audience, so the audience alone proves nothing.
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

fn default_lease() -> u64 {
    300
}

fn default_confirmation() -> u64 {
    30
}

fn default_connections() -> u64 {
    256
}

fn default_window() -> u64 {
    30
}

fn refused(key: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::new(format!("refresh.{key}"), reason)
}

/// A text that is not empty; `what` it is.
fn non_empty(key: &str, what: &str, text: String) -> Result<String, ConfigError> {
    if text.is_empty() {
        return Err(refused(key, format!("expected {what}, found an empty text")));
    }
    Ok(text)
}

fn path(key: &str, text: String) -> Result<PathBuf, ConfigError> {
    non_empty(key, "the path of a file", text).map(PathBuf::from)
}

fn word(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn in_range(key: &str, found: u64, max: u64) -> Result<u64, ConfigError> {
    sandgate_config::in_range(&format!("refresh.{key}"), found, max)
}

fn seconds(key: &str, found: u64, max: u64) -> Result<Duration, ConfigError> {
    in_range(key, found, max).map(Duration::from_secs)
}

impl RawRefresh {
    /// Checks the section. `choose` gives the rules of the provider that is pushed, by the name that the
    /// section has, if it has one.
    ///
    /// # Errors
    /// A key that is wrong, and what `choose` says.
    pub fn check(
        self,
        tombstone_lifetime: Duration,
        choose: impl FnOnce(Option<String>) -> Result<Pushed, ConfigError>,
    ) -> Result<RefreshSettings, ConfigError> {
        if self
            .provider
            .as_ref()
            .is_some_and(|name| !word(name, 63) || ObjectKey::new(name, "", "x").is_err())
        {
            return Err(refused("provider", "expected 1 to 63 letters, digits, `.`, `_` or `-`"));
        }
        let lease = seconds("lease-seconds", self.lease_seconds, MAX_LEASE_SECONDS)?;
        let confirmation =
            seconds("confirmation-seconds", self.confirmation_seconds, MAX_CONFIRMATION_SECONDS)?;
        let max_connections = in_range("max-connections", self.max_connections, MAX_CONNECTIONS)?;
        let settings = RefreshSettings {
            listen: SocketAddr::new(self.address, self.port),
            pushed: choose(self.provider)?,
            lease,
            confirmation,
            max_connections: usize::try_from(max_connections).unwrap_or(usize::MAX),
            tls: self.tls.map(RawTls::check).transpose()?,
            token_review: self.token_review.map(RawTokenReview::check).transpose()?,
            hmac: self.hmac.map(|hmac| hmac.check(tombstone_lifetime)).transpose()?,
        };
        match (self.insecure, settings.is_insecure()) {
            (false, true) => Err(ConfigError::new(
                "refresh",
                "expected one of tls.client-ca, token-review and hmac, or insecure: true",
            )),
            (true, false) => Err(refused(
                "insecure",
                format!("expected false, because {} is given", settings.methods().join(", ")),
            )),
            _ => Ok(settings),
        }
    }
}

impl RawTls {
    fn check(self) -> Result<TlsFiles, ConfigError> {
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
    fn check(self) -> Result<TokenReviewSettings, ConfigError> {
        let audience = non_empty("token-review.audience", "an audience", self.audience)?;
        if self.subjects.is_empty() || self.subjects.iter().any(String::is_empty) {
            return Err(refused(
                "token-review.subjects",
                "expected user names such as system:serviceaccount:NAMESPACE:NAME",
            ));
        }
        let context = self.context.map(|name| non_empty("token-review.context", "a name", name));
        Ok(TokenReviewSettings {
            audience,
            subjects: self.subjects,
            access: Access {
                kubeconfig: self.kubeconfig.map(|text| path("token-review.kubeconfig", text)).transpose()?,
                context: context.transpose()?,
            },
        })
    }
}

impl RawHmac {
    fn check(self, tombstone_lifetime: Duration) -> Result<HmacSettings, ConfigError> {
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
        let window = seconds("hmac.window-seconds", self.window_seconds, MAX_WINDOW_SECONDS)?;
        // A message stays good for twice the window; one that outlives the tombstone could bring a route
        // back.
        if window * 2 > tombstone_lifetime {
            return Err(refused(
                "hmac.window-seconds",
                "expected at most half of tombstone-lifetime-seconds: an old message must not outlive a delete",
            ));
        }
        Ok(HmacSettings { keys, window })
    }
}
