//! One connection to one peer, kept while it lasts. One request at a time: that is what keeps the order of
//! what is pushed.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::PeerAddress;
use crate::hmac::RandomError;

/// Larger than the answer to the largest batch.
const MAX_ANSWER: usize = 4 << 20;

/// Why a try failed. Another try may help: the peer may be back, and the files of the credentials may be
/// right by then.
#[derive(Debug, thiserror::Error)]
pub(super) enum TryError {
    #[error("no connection in time")]
    ConnectTimeout,
    #[error("no answer in time")]
    AnswerTimeout,
    #[error("https needs the authorities of the peer's certificate")]
    NoAuthorities,
    #[error("the peer has no name to check its certificate by")]
    NoServerName,
    #[error("the answer to a batch was not understood")]
    BatchAnswer,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{}", root_cause(.0))]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Body(Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    Random(#[from] RandomError),
}

fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    host: HeaderValue,
}

/// What a peer said.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// When it wants to be asked again.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

/// Seconds only: nobody here answers with a date.
fn seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    pub(super) async fn open(peer: &PeerAddress, tls: Option<Arc<ClientConfig>>) -> Result<Self, TryError> {
        let stream = TcpStream::connect(peer.authority()).await?;
        // Messages are small and waited for. Without the option they are only slower.
        let _ = stream.set_nodelay(true);
        if !peer.is_secure() {
            return Self::handshake(peer, stream).await;
        }
        let tls = tls.ok_or(TryError::NoAuthorities)?;
        let name = ServerName::try_from(peer.server_name().to_owned()).map_err(|_| TryError::NoServerName)?;
        let stream = TlsConnector::from(tls).connect(name, stream).await?;
        Self::handshake(peer, stream).await
    }

    async fn handshake<S>(peer: &PeerAddress, stream: S) -> Result<Self, TryError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            // An error shows in the request that is on the connection.
            let _ = connection.await;
        });
        let host = HeaderValue::from_str(peer.authority()).map_err(http::Error::from)?;
        Ok(Self { sender, driver, host })
    }

    /// Whether another request can be tried on it.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    pub(super) async fn post(
        &mut self,
        path: &'static str,
        content_type: &'static str,
        authorization: Option<&str>,
        body: Bytes,
    ) -> Result<Answer, TryError> {
        let request = Request::post(path).header(CONTENT_TYPE, content_type);
        self.exchange(request, authorization, body, MAX_ANSWER).await
    }

    /// Asks for a path with its query. The answer has at most `max` bytes.
    pub(super) async fn get(
        &mut self,
        path: &str,
        authorization: Option<&str>,
        max: usize,
    ) -> Result<Answer, TryError> {
        self.exchange(Request::get(path), authorization, Bytes::new(), max).await
    }

    async fn exchange(
        &mut self,
        request: http::request::Builder,
        authorization: Option<&str>,
        body: Bytes,
        max: usize,
    ) -> Result<Answer, TryError> {
        let mut request = request.header(HOST, &self.host);
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::from_str(authorization).map_err(http::Error::from)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(seconds);
        let body = Limited::new(response.into_body(), max).collect().await;
        Ok(Answer { status, retry_after, body: body.map_err(TryError::Body)?.to_bytes() })
    }
}
