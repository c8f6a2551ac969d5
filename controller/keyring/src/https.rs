//! One document from an HTTPS server.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use sandgate_peering::pem;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower::Service as _;

use crate::error::KeyringError;

#[cfg(test)]
pub(crate) mod tests;

/// How long a document may take, from the first packet to the last.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest document.
const MAX_DOCUMENT: usize = 1 << 20;

/// What OpenID Connect Discovery appends to an issuer.
pub(crate) const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// An absolute https URL without user info and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsUrl(Uri);

/// Why a text is no such URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an https:// URL without a user")]
pub struct HttpsUrlError;

impl FromStr for HttpsUrl {
    type Err = HttpsUrlError;

    fn from_str(text: &str) -> Result<Self, HttpsUrlError> {
        let uri: Uri = text.parse().map_err(|_| HttpsUrlError)?;
        let authority = uri.authority().ok_or(HttpsUrlError)?;
        // The parser takes a port that is none.
        let port = authority.as_str().strip_prefix(authority.host()).ok_or(HttpsUrlError)?;
        let good = uri.scheme() == Some(&http::uri::Scheme::HTTPS)
            && (port.is_empty() || authority.port_u16().is_some())
            && !text.contains('#')
            && ServerName::try_from(server_name(authority.host())).is_ok();
        good.then_some(Self(uri)).ok_or(HttpsUrlError)
    }
}

impl fmt::Display for HttpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl HttpsUrl {
    /// The issuer whose discovery document is at this URL, without a slash at its end.
    pub(crate) fn issuer(&self) -> Option<String> {
        self.to_string().strip_suffix(WELL_KNOWN).map(ToOwned::to_owned)
    }

    fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }
}

fn server_name(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Why a document could not be had. A retry may help with all of them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpsError {
    #[error(transparent)]
    Authorities(#[from] KeyringError),
    #[error("the system has no authorities that certificates could be checked with: give ca-file")]
    NoAuthorities,
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Timeout,
    #[error("no connection: {0}")]
    Connect(String),
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("{}", root_cause(.0))]
    Http(#[from] hyper::Error),
    #[error("{0}: redirects are not followed")]
    Redirect(StatusCode),
    #[error("{0}")]
    Status(StatusCode),
    #[error("larger than 1 MiB")]
    TooLarge,
    #[error("the answer was cut off")]
    Cut,
    #[error("the URL cannot be asked for")]
    Request(#[from] http::Error),
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// What servers are checked with: the authorities of a file, else the system's. Blocks.
pub(crate) fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, HttpsError> {
    let roots = match ca_file {
        Some(file) => pem::authorities(file).map_err(KeyringError::from)?,
        None => system()?,
    };
    // TLS 1.2 and 1.3 are all that rustls has.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpsError::Tls(io::Error::other(error)))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn system() -> Result<Arc<RootCertStore>, HttpsError> {
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be used is one authority fewer.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(HttpsError::NoAuthorities) } else { Ok(Arc::new(roots)) }
}

/// Gets a document: status 200, at most 1 MiB, within ten seconds.
pub(crate) async fn get(url: &HttpsUrl, config: Arc<ClientConfig>) -> Result<Bytes, HttpsError> {
    timeout(PATIENCE, ask(url, config)).await.unwrap_or(Err(HttpsError::Timeout))
}

async fn ask(url: &HttpsUrl, config: Arc<ClientConfig>) -> Result<Bytes, HttpsError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let stream = connector.call(url.0.clone()).await.map_err(|e| HttpsError::Connect(root_cause(&e)))?;
    let name = ServerName::try_from(server_name(url.host()).to_owned())
        .map_err(|error| HttpsError::Connect(error.to_string()))?;
    let stream = TlsConnector::from(config).connect(name, stream.into_inner());
    let stream = stream.await.map_err(HttpsError::Tls)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let path = url.0.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(HOST, url.0.authority().map_or("", |authority| authority.as_str()))
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("sandgate/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        match response.status() {
            StatusCode::OK => {}
            status if status.is_redirection() => return Err(HttpsError::Redirect(status)),
            status => return Err(HttpsError::Status(status)),
        }
        if response.body().size_hint().lower() > MAX_DOCUMENT as u64 {
            return Err(HttpsError::TooLarge);
        }
        let body = Limited::new(response.into_body(), MAX_DOCUMENT).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| {
            if error.is::<LengthLimitError>() { HttpsError::TooLarge } else { HttpsError::Cut }
        })
    };
    tokio::pin!(answer);
    // The connection ends with the answer: this future owns both.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        result = connection => match result {
            // Everything was read, and the answer has what there was.
            Ok(()) => answer.await,
            Err(error) => Err(error.into()),
        }
    }
}
