//! Where the keys of JWTs are fetched from.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Bytes;
use rustls::ClientConfig;
use sandgate_auth::KeySetError;
use sandgate_follow::{describe_json_error, shorten};
use serde::Deserialize;
use tokio::task::{JoinError, spawn_blocking};

use crate::error::{KeyringError, read};
use crate::https::{HttpsError, HttpsUrl, client_config, get};
use crate::settings::{JwtOrigin, JwtSettings};

#[cfg(test)]
mod tests;

/// One fetch. It ends in bounded time.
pub(super) type Fetch =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Fetched, OriginError>> + Send>> + Send + Sync>;

/// What was fetched, and nothing proven of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) issuer: String,
    /// The text of the key set.
    pub(super) keys: Bytes,
}

/// Why there are no newer keys. A retry may help: the issuer may be back, or right again.
#[derive(Debug, thiserror::Error)]
pub(super) enum OriginError {
    #[error(transparent)]
    Https(#[from] HttpsError),
    #[error("{url}: {source}")]
    Document { url: String, source: HttpsError },
    #[error("{url}: {what}")]
    Json { url: String, what: &'static str },
    #[error("{url}: the document names the issuer {}, expected {}", shorten(.found), .expected)]
    Issuer { url: String, found: String, expected: String },
    #[error("{url}: expected an https URL as jwks_uri, found {}", shorten(.found))]
    KeysUrl { url: String, found: String },
    #[error(transparent)]
    File(#[from] KeyringError),
    #[error(transparent)]
    KeySet(#[from] KeySetError),
    #[error(transparent)]
    Task(#[from] JoinError),
}

/// What we need of a discovery document. It has much more.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

pub(super) fn fetch(settings: &JwtSettings) -> Fetch {
    let settings = Arc::new(settings.clone());
    Box::new(move || {
        let settings = Arc::clone(&settings);
        Box::pin(async move { fetch_once(&settings).await })
    })
}

async fn fetch_once(settings: &JwtSettings) -> Result<Fetched, OriginError> {
    match &settings.origin {
        JwtOrigin::File { path, issuer } => {
            let path = path.clone();
            let keys = spawn_blocking(move || read(&path)).await??;
            Ok(Fetched { issuer: issuer.clone(), keys: keys.into() })
        }
        JwtOrigin::Url { url, issuer } => {
            let keys = document(url, tls(settings.ca_file.clone()).await?).await?;
            Ok(Fetched { issuer: issuer.clone(), keys })
        }
        JwtOrigin::Discovery { url, issuer } => {
            // The authorities are read for each fetch: so a file of them may change.
            let tls = tls(settings.ca_file.clone()).await?;
            let text = document(url, Arc::clone(&tls)).await?;
            let Discovery { issuer, jwks_uri } = discovered(url, issuer.as_deref(), &text)?;
            let Ok(keys_url) = jwks_uri.parse() else {
                return Err(OriginError::KeysUrl { url: url.to_string(), found: jwks_uri });
            };
            Ok(Fetched { issuer, keys: document(&keys_url, tls).await? })
        }
    }
}

async fn tls(ca_file: Option<PathBuf>) -> Result<Arc<ClientConfig>, OriginError> {
    Ok(spawn_blocking(move || client_config(ca_file.as_deref())).await??)
}

async fn document(url: &HttpsUrl, tls: Arc<ClientConfig>) -> Result<Bytes, OriginError> {
    get(url, tls).await.map_err(|source| OriginError::Document { url: url.to_string(), source })
}

/// Reads a discovery document. It must name the issuer that was asked for: else whoever can write one
/// document of a server would speak for every issuer.
fn discovered(url: &HttpsUrl, issuer: Option<&str>, text: &[u8]) -> Result<Discovery, OriginError> {
    let document: Discovery = serde_json::from_slice(text)
        .map_err(|error| OriginError::Json { url: url.to_string(), what: describe_json_error(&error) })?;
    let (found, expected) = match issuer {
        Some(issuer) => (&*document.issuer, issuer.to_owned()),
        // An issuer may end with a slash; the URL does not show it.
        None => {
            let found = document.issuer.strip_suffix('/').unwrap_or(&document.issuer);
            (found, url.issuer().unwrap_or_default())
        }
    };
    if found.is_empty() || found != expected {
        let found = document.issuer.clone();
        return Err(OriginError::Issuer { url: url.to_string(), found, expected });
    }
    Ok(document)
}
