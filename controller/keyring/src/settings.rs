//! The `auth` section of a gateway's config, checked: where keys come from.

use std::path::PathBuf;
use std::time::Duration;

use sandgate_follow::Access;

use crate::https::HttpsUrl;

mod raw;

pub use raw::RawAuth;

#[cfg(test)]
mod tests;

/// The checked `auth` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// Files of OpenSandbox's route keys; empty: not configured.
    pub signed: Vec<PathBuf>,
    /// Files of secrets of scoped tokens; empty: not configured.
    pub scoped: Vec<PathBuf>,
    /// Files of bearer tokens; empty: not configured.
    pub bearer: Vec<PathBuf>,
    /// Where the keys of traffic JWTs come from.
    pub jwt: Option<JwtSettings>,
    /// How bearer tokens are reviewed.
    pub token_review: Option<ReviewSettings>,
}

/// Where the keys of traffic JWTs come from, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// Where from.
    pub origin: JwtOrigin,
    /// The authorities of the certificates of the URLs; without it, the system's.
    pub ca_file: Option<PathBuf>,
    /// How far the issuer's clock may be from this machine's.
    pub leeway: Duration,
    /// The time between two fetches.
    pub refresh: Duration,
    /// The shortest time between two fetches for unknown keys.
    pub min_refetch: Duration,
}

/// Where the keys of traffic JWTs come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtOrigin {
    /// The URL of an OIDC discovery document, which names the issuer and the URL of the keys.
    Discovery {
        /// The document's URL.
        url: HttpsUrl,
        /// The issuer that the document must name; without it, the one that the URL is made from.
        issuer: Option<String>,
    },
    /// The URL of a JSON Web Key Set.
    Url {
        /// The set's URL.
        url: HttpsUrl,
        /// The issuer.
        issuer: String,
    },
    /// A file with a JSON Web Key Set.
    File {
        /// The file.
        path: PathBuf,
        /// The issuer.
        issuer: String,
    },
}

/// How bearer tokens are reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewSettings {
    /// The audiences that a token may be for: one of them.
    pub audiences: Vec<String>,
    /// The API server that reviews them.
    pub access: Access,
    /// How long its answers are remembered.
    pub remember: Duration,
}
