//! The `auth` section as it is written. Unknown keys are refused. The comments of these types are the
//! descriptions in the JSON schema of the gateway's config.

use std::path::PathBuf;
use std::time::Duration;

use sandgate_config::{ConfigError, given, given_object};
use sandgate_follow::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{AuthSettings, JwtOrigin, JwtSettings, ReviewSettings};
use crate::https::{HttpsUrl, WELL_KNOWN};

const SECTION: &str = "auth";
const MAX_FILES: usize = 16;
const MAX_AUDIENCES: usize = 16;
const MAX_SKEW_SECONDS: u64 = 600;
const MAX_REFRESH_SECONDS: u64 = 24 * 3600;
const MAX_REFETCH_SECONDS: u64 = 3600;
const MAX_REMEMBER_SECONDS: u64 = 3600;

/// The keys that credentials of requests are checked with: at least one of these. A file is read at the
/// start, which a wrong one prevents, and again when it changes; then a wrong one changes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("minProperties" = 1))]
pub struct RawAuth {
    /// OpenSandbox's route keys, which its signed routes are made with: files of `ID=BASE64`, separated by
    /// commas or lines. All of them verify at once; no ID may be there twice.
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawFiles")]
    secure_access_keys: Option<RawFiles>,
    /// The secrets of agent-sandbox's scoped tokens: files of one secret each, of at least 32 bytes; white
    /// space around it does not count. A token is good if one of them made it.
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawFiles")]
    scoped_token: Option<RawFiles>,
    /// Bearer tokens that are good: files of one token a line.
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawFiles")]
    bearer: Option<RawFiles>,
    /// The issuer of OpenKruise's traffic access tokens (JWTs).
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawJwt")]
    traffic_jwt: Option<RawJwt>,
    /// Ask the Kubernetes API server whose bearer token it is.
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawReview")]
    token_review: Option<RawReview>,
}

/// Files with keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawFiles {
    /// Their paths. Relative ones are relative to Envoy's working folder.
    #[schemars(length(min = 1, max = MAX_FILES), inner(length(min = 1)))]
    files: Vec<String>,
}

/// Where the keys of JWTs come from: one of `discovery-url`, `jwks-url` and `jwks-file`. The last good keys
/// stay in use when newer ones cannot be had.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("oneOf" = [
    { "required": ["discovery-url"], "anyOf": [
        { "required": ["issuer"] },
        { "properties": { "discovery-url": { "pattern": "/\\.well-known/openid-configuration$" } } },
    ] },
    { "required": ["jwks-url", "issuer"] },
    { "required": ["jwks-file", "issuer"], "properties": { "ca-file": false } },
]))]
struct RawJwt {
    /// The https URL of the issuer's OpenID Connect discovery document. It names the issuer and the URL of
    /// the keys, which is https too. Redirects are not followed.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", regex(pattern = "^[Hh][Tt][Tt][Pp][Ss]://[^/?#@]+([/?][^#]*)?$"))]
    discovery_url: Option<String>,
    /// The https URL of a JSON Web Key Set.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", regex(pattern = "^[Hh][Tt][Tt][Pp][Ss]://[^/?#@]+([/?][^#]*)?$"))]
    jwks_url: Option<String>,
    /// A file with a JSON Web Key Set, read again when it changes.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    jwks_file: Option<String>,
    /// The issuer that a token names, letter by letter. Beside `discovery-url` it may be left out if that is
    /// the issuer and `/.well-known/openid-configuration`; the document must name it.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    issuer: Option<String>,
    /// A PEM file with the authorities of the URLs' certificates. If left out, the system's.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    ca_file: Option<String>,
    /// How far the issuer's clock may be from this machine's.
    #[serde(default = "default_skew")]
    #[schemars(range(max = MAX_SKEW_SECONDS))]
    clock_skew_seconds: u64,
    /// How often the keys are fetched again, give or take a tenth. A file is read every second.
    #[serde(default = "default_refresh")]
    #[schemars(range(min = 1, max = MAX_REFRESH_SECONDS))]
    refresh_seconds: u64,
    /// How long after a fetch, at the earliest, they are fetched for a token that names an unknown key.
    #[serde(default = "default_refetch")]
    #[schemars(range(min = 1, max = MAX_REFETCH_SECONDS))]
    min_refetch_seconds: u64,
}

/// A Kubernetes TokenReview.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawReview {
    /// The audiences that a token may be for: one of them is enough.
    #[schemars(length(min = 1, max = MAX_AUDIENCES), inner(length(min = 1)))]
    audiences: Vec<String>,
    /// A kubeconfig; without one, the pod's own credentials, else KUBECONFIG or ~/.kube/config.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    kubeconfig: Option<String>,
    /// The kubeconfig's context.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    context: Option<String>,
    /// How long an answer is remembered, good or bad: so long a withdrawn token stays good. That there was no
    /// answer is remembered for a third of it.
    #[serde(default = "default_remember")]
    #[schemars(range(min = 1, max = MAX_REMEMBER_SECONDS))]
    remember_seconds: u64,
}

fn default_skew() -> u64 {
    60
}

fn default_refresh() -> u64 {
    300
}

fn default_refetch() -> u64 {
    5
}

fn default_remember() -> u64 {
    30
}

fn refused(key: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::new(format!("{SECTION}.{key}"), reason)
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

fn url(key: &str, text: &str) -> Result<HttpsUrl, ConfigError> {
    text.parse().map_err(|error| refused(key, format!("{error}")))
}

fn seconds(key: &str, found: u64, max: u64) -> Result<Duration, ConfigError> {
    sandgate_config::in_range(&format!("{SECTION}.{key}"), found, max).map(Duration::from_secs)
}

impl RawAuth {
    /// Checks the section. No file is read.
    ///
    /// # Errors
    /// A key that is wrong.
    pub fn check(self) -> Result<AuthSettings, ConfigError> {
        let files = |key: &str, raw: Option<RawFiles>| raw.map_or(Ok(Vec::new()), |raw| raw.check(key));
        let settings = AuthSettings {
            signed: files("secure-access-keys", self.secure_access_keys)?,
            scoped: files("scoped-token", self.scoped_token)?,
            bearer: files("bearer", self.bearer)?,
            jwt: self.traffic_jwt.map(RawJwt::check).transpose()?,
            token_review: self.token_review.map(RawReview::check).transpose()?,
        };
        if settings == AuthSettings::default() {
            return Err(ConfigError::new(
                SECTION,
                "expected one of secure-access-keys, scoped-token, bearer, traffic-jwt and token-review",
            ));
        }
        Ok(settings)
    }
}

impl RawFiles {
    fn check(self, section: &str) -> Result<Vec<PathBuf>, ConfigError> {
        let key = format!("{section}.files");
        if !(1..=MAX_FILES).contains(&self.files.len()) {
            return Err(refused(&key, format!("expected 1 to {MAX_FILES} files")));
        }
        self.files.into_iter().map(|text| path(&key, text)).collect()
    }
}

impl RawJwt {
    fn check(self) -> Result<JwtSettings, ConfigError> {
        let ca_file = self.ca_file.map(|text| path("traffic-jwt.ca-file", text)).transpose()?;
        let issuer =
            self.issuer.map(|text| non_empty("traffic-jwt.issuer", "an issuer", text)).transpose()?;
        let named = |issuer: Option<String>| {
            issuer.ok_or_else(|| refused("traffic-jwt.issuer", "expected the issuer that tokens name"))
        };
        let origin = match (self.discovery_url, self.jwks_url, self.jwks_file) {
            (Some(text), None, None) => {
                let url = url("traffic-jwt.discovery-url", &text)?;
                if issuer.is_none() && url.issuer().is_none() {
                    return Err(refused(
                        "traffic-jwt.issuer",
                        format!(
                            "expected the document's issuer, because the URL does not end with {WELL_KNOWN}"
                        ),
                    ));
                }
                JwtOrigin::Discovery { url, issuer }
            }
            (None, Some(text), None) => {
                JwtOrigin::Url { url: url("traffic-jwt.jwks-url", &text)?, issuer: named(issuer)? }
            }
            (None, None, Some(text)) => {
                if ca_file.is_some() {
                    return Err(refused("traffic-jwt.ca-file", "expected a URL beside it, found jwks-file"));
                }
                JwtOrigin::File { path: path("traffic-jwt.jwks-file", text)?, issuer: named(issuer)? }
            }
            _ => {
                return Err(refused("traffic-jwt", "expected one of discovery-url, jwks-url and jwks-file"));
            }
        };
        if self.clock_skew_seconds > MAX_SKEW_SECONDS {
            let found = self.clock_skew_seconds;
            return Err(refused(
                "traffic-jwt.clock-skew-seconds",
                format!("expected a number from 0 to {MAX_SKEW_SECONDS}, found {found}"),
            ));
        }
        Ok(JwtSettings {
            origin,
            ca_file,
            leeway: Duration::from_secs(self.clock_skew_seconds),
            refresh: seconds("traffic-jwt.refresh-seconds", self.refresh_seconds, MAX_REFRESH_SECONDS)?,
            min_refetch: seconds(
                "traffic-jwt.min-refetch-seconds",
                self.min_refetch_seconds,
                MAX_REFETCH_SECONDS,
            )?,
        })
    }
}

impl RawReview {
    fn check(self) -> Result<ReviewSettings, ConfigError> {
        if !(1..=MAX_AUDIENCES).contains(&self.audiences.len()) || self.audiences.iter().any(String::is_empty)
        {
            let reason = format!("expected 1 to {MAX_AUDIENCES} audiences, none of them empty");
            return Err(refused("token-review.audiences", reason));
        }
        let context = self.context.map(|name| non_empty("token-review.context", "a name", name));
        Ok(ReviewSettings {
            audiences: self.audiences,
            access: Access {
                kubeconfig: self.kubeconfig.map(|text| path("token-review.kubeconfig", text)).transpose()?,
                context: context.transpose()?,
            },
            remember: seconds("token-review.remember-seconds", self.remember_seconds, MAX_REMEMBER_SECONDS)?,
        })
    }
}
