//! A WebSocket client, over HTTP/1.1 and over HTTP/2.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use hyper::client::conn::http2;
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::{Request, generate_key};
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::Https;
use crate::DEADLINE;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Why no further text comes. The WebSocket has ended; a retry needs a new one.
#[derive(Debug, thiserror::Error)]
pub enum SocketEnd {
    /// The other side ended the connection without a close.
    #[error("closed")]
    Closed,
    /// A close, or another message that is no text.
    #[error("{0:?}")]
    Other(Message),
    /// The connection or the protocol broke.
    #[error(transparent)]
    Broken(#[from] Error),
}

/// An open WebSocket.
pub struct WebSocket(WebSocketStream<Box<dyn Stream>>);

impl WebSocket {
    /// Opens a WebSocket at `path`, with these headers beside the usual ones; `host` replaces the server's
    /// address.
    ///
    /// # Errors
    /// When the server answers with something else than an upgrade.
    pub async fn open(
        server: SocketAddr,
        host: Option<&str>,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let mut request = format!("ws://{server}{path}").into_client_request()?;
        if let Some(host) = host {
            request.headers_mut().insert("host", HeaderValue::from_str(host)?);
        }
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a header name");
            request.headers_mut().insert(name, HeaderValue::from_str(value)?);
        }
        Self::upgrade(request, Box::new(TcpStream::connect(server).await?)).await
    }

    /// Opens a WebSocket at `path` of the host, over TLS and HTTP/1.1.
    ///
    /// # Errors
    /// When the handshake fails, or the server answers with something else than an upgrade.
    pub async fn over_tls(tls: &Https, server: SocketAddr, host: &str, path: &str) -> Result<Self, Error> {
        let stream = tls.clone().speaking(&["http/1.1"]).stream(server, host).await?;
        Self::upgrade(format!("wss://{host}{path}").into_client_request()?, Box::new(stream)).await
    }

    async fn upgrade(request: Request, stream: Box<dyn Stream>) -> Result<Self, Error> {
        let (socket, _) =
            timeout(DEADLINE, client_async(request, stream)).await.expect("an upgrade in time")?;
        Ok(Self(socket))
    }

    /// Opens a WebSocket on a stream of an HTTP/2 connection (RFC 8441), with the key that HTTP/2 itself does
    /// not need and a server of HTTP/1.1 does, as a proxy in front of the gateway hands it on.
    ///
    /// # Errors
    /// The status, when it is not 200.
    pub async fn over_http2(server: SocketAddr, host: &str, path: &str) -> Result<Self, u16> {
        let stream = TcpStream::connect(server).await.expect("connect");
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .handshake::<_, http_body_util::Empty<hyper::body::Bytes>>(TokioIo::new(stream))
            .await
            .expect("an HTTP/2 connection");
        tokio::spawn(connection);
        let request = hyper::Request::connect(format!("http://{host}{path}"))
            .extension(Protocol::from_static("websocket"))
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", generate_key())
            .body(http_body_util::Empty::new())
            .expect("a request");
        sender.ready().await.expect("an HTTP/2 connection");
        let response = timeout(DEADLINE, sender.send_request(request)).await.expect("an answer in time");
        let response = response.expect("an answer");
        if response.status() != 200 {
            return Err(response.status().as_u16());
        }
        let upgraded = hyper::upgrade::on(response).await.expect("an upgrade");
        let stream: Box<dyn Stream> = Box::new(TokioIo::new(upgraded));
        Ok(Self(WebSocketStream::from_raw_socket(stream, Role::Client, None).await))
    }

    /// Sends a text.
    pub async fn send(&mut self, text: &str) {
        self.try_send(text).await.expect("send on the WebSocket");
    }

    /// Sends a text on a WebSocket that may have ended.
    ///
    /// # Errors
    /// When it has.
    pub async fn try_send(&mut self, text: &str) -> Result<(), Error> {
        self.0.send(Message::text(text)).await
    }

    /// The next text, or `None` when the other side has closed.
    pub async fn next(&mut self) -> Option<String> {
        let message = timeout(DEADLINE, self.0.next()).await.expect("a message within the deadline");
        match message {
            Some(Ok(Message::Text(text))) => Some(text.as_str().to_owned()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => None,
            Some(Ok(other)) => panic!("expected a text, got {other:?}"),
        }
    }

    /// The next text, or why there is none and will be none.
    ///
    /// # Errors
    /// What ended it.
    pub async fn receive(&mut self) -> Result<String, SocketEnd> {
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => Ok(text.as_str().to_owned()),
            Some(Ok(other)) => Err(SocketEnd::Other(other)),
            Some(Err(error)) => Err(error.into()),
            None => Err(SocketEnd::Closed),
        }
    }

    /// Closes it and waits for the other side to agree.
    pub async fn close(self) {
        self.try_close().await.expect("close the WebSocket");
    }

    /// The same where it may have ended.
    ///
    /// # Errors
    /// When it has.
    pub async fn try_close(mut self) -> Result<(), Error> {
        self.0.close(None).await?;
        while let Some(Ok(_)) = timeout(DEADLINE, self.0.next()).await.expect("a close in time") {}
        Ok(())
    }

    /// Closes it where nothing is under way any more, and waits for the other side's own close.
    ///
    /// # Errors
    /// When anything else comes.
    pub(crate) async fn say_goodbye(&mut self) -> Result<(), Error> {
        self.0.close(None).await?;
        match self.0.next().await {
            Some(Ok(Message::Close(_))) => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Err(Error::AlreadyClosed),
        }
    }
}
