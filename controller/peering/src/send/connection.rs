//! One connection to one peer, kept while it lasts. One request at a time: that is what keeps the order.

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

use super::{PeerAddress, root_cause};

/// Larger than the answer to the largest batch.
const MAX_ANSWER: usize = 4 << 20;

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
    pub(super) async fn open(peer: &PeerAddress, tls: Option<Arc<ClientConfig>>) -> Result<Self, String> {
        let stream = TcpStream::connect(peer.authority()).await.map_err(|error| error.to_string())?;
        // Messages are small and waited for.
        let _slower_without = stream.set_nodelay(true);
        if !peer.is_secure() {
            return Self::shake_hands(peer, stream).await;
        }
        let tls = tls.ok_or("https needs the authorities of the peer's certificate")?;
        let name = ServerName::try_from(peer.server_name().to_owned())
            .map_err(|_| "the peer has no name to check its certificate by")?;
        let stream =
            TlsConnector::from(tls).connect(name, stream).await.map_err(|error| error.to_string())?;
        Self::shake_hands(peer, stream).await
    }

    async fn shake_hands<S>(peer: &PeerAddress, stream: S) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| root_cause(&error))?;
        let driver = tokio::spawn(async move {
            // How it ends shows in the request that is on it.
            let _ended = connection.await;
        });
        let host = HeaderValue::from_str(peer.authority()).map_err(|error| error.to_string())?;
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
    ) -> Result<Answer, String> {
        let mut request = Request::post(path).header(HOST, &self.host).header(CONTENT_TYPE, content_type);
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::from_str(authorization).map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        self.sender.ready().await.map_err(|error| root_cause(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| root_cause(&error))?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(seconds);
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        Ok(Answer { status, retry_after, body: body.map_err(|error| error.to_string())?.to_bytes() })
    }
}
