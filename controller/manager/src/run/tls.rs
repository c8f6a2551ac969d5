//! Connections of the API: plain, or TLS by files that are followed.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use hyper_util::rt::TokioIo;
use sandgate_peering::ServerTls;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::Peer;

/// A connection.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Makes of an accepted connection what requests are read from.
pub(super) fn secure(
    tls: Option<Arc<ServerTls>>,
) -> impl Fn(TcpStream, SocketAddr) -> BoxFuture<'static, io::Result<(TokioIo<Stream>, Peer)>> {
    move |stream, address| {
        let tls = tls.clone();
        Box::pin(async move {
            let stream = match tls {
                // The files as they are now: connections that are open keep what they began with.
                Some(tls) => Stream::Tls(Box::new(TlsAcceptor::from(tls.config()).accept(stream).await?)),
                None => Stream::Plain(stream),
            };
            Ok((TokioIo::new(stream), Peer(address.ip())))
        })
    }
}

/// Reads the files again when they change, until `stop`.
pub(super) async fn follow(tls: Arc<ServerTls>, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(ServerTls::PERIOD) => {}
        }
        let tls = Arc::clone(&tls);
        match spawn_blocking(move || tls.reload()).await {
            Ok(Some(Ok(()))) => tracing::info!("the certificate of the API was replaced"),
            Ok(Some(Err(error))) => {
                tracing::error!("the certificate has changed and the old one is kept: {error}");
            }
            Ok(None) | Err(_) => {}
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
