//! The `refresh` section of a gateway's config, checked: where peers push routes to, and how they
//! authenticate.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::ServerName;
use sandgate_follow::Access;
use sandgate_routes::{Clash, TokenKind};

mod raw;

pub use raw::RawRefresh;

/// The checked `refresh` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshSettings {
    /// Where the receiver listens.
    pub listen: SocketAddr,
    /// The provider whose objects are pushed.
    pub pushed: Pushed,
    /// How long a pushed route lives that no watch covers.
    pub lease: Duration,
    /// How long a push may be ahead of a watch that is heard.
    pub confirmation: Duration,
    /// The most connections at once.
    pub max_connections: usize,
    /// The server's certificate; without it, the receiver serves plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Accept bearer tokens.
    pub token_review: Option<TokenReviewSettings>,
    /// Accept signed requests.
    pub hmac: Option<HmacSettings>,
}

impl RefreshSettings {
    /// Whether anyone may push.
    pub fn is_insecure(&self) -> bool {
        self.methods().is_empty()
    }

    /// The names of the authentication methods that are configured.
    pub fn methods(&self) -> Vec<&'static str> {
        let mtls = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        [(mtls, "mtls"), (self.token_review.is_some(), "token-review"), (self.hmac.is_some(), "hmac")]
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name))
            .collect()
    }
}

/// The provider whose objects are pushed, and its rules: the same as for the objects that a watch brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The provider's name.
    pub provider: String,
    /// What happens when two objects claim one ID.
    pub clash: Clash,
    /// Whether the object's author, and not the cluster, writes its address.
    pub ip_is_claimed: bool,
    /// Whether an object's own ID is its name alone.
    pub id_is_name: bool,
    /// What an access token is for.
    pub token_kind: TokenKind,
}

/// The files of a server's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates.
    pub client_ca: Option<PathBuf>,
    /// The names that a client certificate may have; empty: any.
    pub client_names: Vec<ServerName<'static>>,
}

/// How bearer tokens are reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenReviewSettings {
    /// The audience that a token must be for.
    pub audience: String,
    /// The user names that may push.
    pub subjects: Vec<String>,
    /// The API server that reviews them.
    pub access: Access,
}

/// The shared keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacSettings {
    /// The ID and the file of each.
    pub keys: Vec<(String, PathBuf)>,
    /// How far the time of a request may be from this machine's.
    pub window: Duration,
}
