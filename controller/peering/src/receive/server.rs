//! The port, its connections, and the files behind them.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse as _;
use http::header::{RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderValue, StatusCode};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::io::InspectReader;

use super::connections::{Connections, Slot};
use super::framing::Framing;
use super::router::closing;
use super::router::{self, App, Peer};
use super::settings::TlsFiles;
use super::timeouts::Watchdog;
use super::tls;
use crate::credential::CredentialError;
use crate::reload::{PERIOD, Reloaded};

/// The largest head of a request.
const MAX_HEAD: usize = 32 << 10;
/// The connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// The server's side of TLS.
pub(super) struct Certificates {
    config: Reloaded<ServerConfig>,
    files: TlsFiles,
}

impl Certificates {
    pub(super) fn new(files: TlsFiles) -> Result<Self, CredentialError> {
        let paths = [&files.certificate, &files.key].into_iter().chain(&files.client_ca).cloned().collect();
        let loaded = files.clone();
        Ok(Self { config: Reloaded::new(paths, move || tls::server_config(&loaded))?, files })
    }
}

pub(super) struct Server {
    app: Arc<App>,
    router: Router,
    tls: Option<Certificates>,
}

impl Server {
    pub(super) fn new(app: Arc<App>, tls: Option<Certificates>) -> Self {
        Self { router: router::router(Arc::clone(&app)), app, tls }
    }

    /// Accepts connections for ever.
    pub(super) async fn accept(
        self: &Arc<Self>,
        listener: &TcpListener,
        max: usize,
        open: &mut JoinSet<()>,
        ending: &watch::Receiver<()>,
    ) {
        let connections = Connections::new(max);
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // The other side went away, or this process is out of file descriptors. Both pass.
                    tracing::warn!("refresh: a connection was not accepted: {error}");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            while open.try_join_next().is_some() {}
            let (server, mut ending) = (Arc::clone(self), ending.clone());
            ending.mark_unchanged();
            let slot = Arc::new(connections.enter(address.ip()));
            open.spawn(async move {
                server.app.status.counters.connections.up();
                tokio::select! {
                    () = server.handshake(stream, address, Arc::clone(&slot), ending) => {}
                    () = slot.evicted() => {}
                }
                server.app.status.counters.connections.down();
            });
        }
    }

    /// Lets the next process listen on the port once this one drains. Never completes.
    pub(super) async fn hand_over(&self, listener: &TcpListener) {
        while !self.app.status.is_draining() {
            self.app.status.drained.notified().await;
        }
        if let Err(error) = SockRef::from(listener).set_reuse_port(true) {
            tracing::warn!("refresh: the port is free for the next process only when this one ends: {error}");
        }
        pending::<()>().await;
    }

    /// Sets the connection up, with TLS where it is configured, and serves it.
    async fn handshake(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        slot: Arc<Slot>,
        ending: watch::Receiver<()>,
    ) {
        let timeouts = self.app.timeouts;
        let socket = SockRef::from(&stream);
        // Answers are small and waited for. Without the option they are only slower.
        let _ = socket.set_tcp_nodelay(true);
        // A peer that does not read its answers is disconnected. Without the option its silence ends the
        // connection.
        let _ = socket.set_tcp_user_timeout(Some(timeouts.head));
        let mut peer =
            Peer { address, certificate: false, watchdog: Arc::new(Watchdog::new(timeouts)), slot };
        let Some(tls) = &self.tls else { return self.serve(stream, peer, ending).await };
        let acceptor = TlsAcceptor::from(tls.config.get());
        match timeout(timeouts.head, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                peer.certificate = certificate
                    .is_some_and(|certificate| tls::is_named(certificate, &tls.files.client_names));
                if peer.certificate {
                    peer.slot.prove();
                }
                peer.watchdog = Arc::new(Watchdog::new(timeouts));
                self.serve(stream, peer, ending).await;
            }
            Ok(Err(error)) => self.app.denials.log(|more| {
                tracing::warn!(more, "refresh: {address} and we did not agree on TLS: {error}");
            }),
            Err(_) => self.app.status.counters.slow.up(),
        }
    }

    /// Answers requests until the connection ends. Once `ending` changes, it ends after the request under
    /// way.
    async fn serve<S>(&self, stream: S, peer: Peer, mut ending: watch::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let watchdog = Arc::clone(&peer.watchdog);
        let ambiguous = AtomicBool::new(false);
        let mut framing = Framing::default();
        let stream = InspectReader::new(stream, |bytes: &[u8]| {
            if !bytes.is_empty() {
                watchdog.bytes();
            }
            framing.feed(bytes);
            if framing.is_ambiguous() {
                ambiguous.store(true, Ordering::Relaxed);
            }
        });
        let router = TowerToHyperService::new(self.router.clone());
        let ambiguous = &ambiguous;
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (router, peer) = (router.clone(), peer.clone());
            // hyper has removed `Content-Length` from such a request; see `framing`.
            let chunked = request.headers().contains_key(TRANSFER_ENCODING);
            // Read before the answer is made. A connection whose answer is 204 must not close: its sender may
            // have sent the next message already.
            let draining = self.app.status.is_draining();
            async move {
                if ambiguous.load(Ordering::Relaxed) {
                    return Ok::<_, Infallible>(closing(StatusCode::BAD_REQUEST.into_response()));
                }
                peer.watchdog.request();
                request.extensions_mut().insert(peer.clone());
                let answer = router.call(request).await;
                peer.watchdog.answered();
                let Ok(mut answer) = answer;
                if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
                    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                }
                let stays = peer.slot.stays() && !chunked && !draining;
                Ok(if stays { answer } else { closing(answer) })
            }
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let overdue = watchdog.overdue();
        tokio::pin!(overdue);
        let mut is_ending = false;
        let is_slow = loop {
            tokio::select! {
                // Other ends are the peer's business: its requests were answered or not.
                ended = connection.as_mut() => break ended.is_err_and(|error| is_timeout(&error)),
                () = overdue.as_mut() => break true,
                _ = ending.changed(), if !is_ending => {
                    is_ending = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        };
        if is_slow {
            self.app.status.counters.slow.up();
        }
    }

    /// Wakes the table's subscribers for ever. Messages that are ready at the same time wake them once.
    pub(super) async fn wake_subscribers(&self) {
        loop {
            self.app.changed.notified().await;
            self.app.writer.wake();
        }
    }

    /// Follows the files with keys and certificates for ever. When they change, every open connection ends
    /// after its request, because its peer was authenticated with the old ones.
    pub(super) async fn follow_files(self: &Arc<Self>, end: &watch::Sender<()>) {
        let mut errors = [None, None];
        loop {
            sleep(PERIOD).await;
            let server = Arc::clone(self);
            let reloading = spawn_blocking(move || {
                [server.app.auth.reload(), server.tls.as_ref().and_then(|tls| tls.config.reload())]
            });
            let Ok(reloaded) = reloading.await else { return };
            for ((result, error), what) in reloaded.into_iter().zip(&mut errors).zip(["keys", "certificates"])
            {
                let Some(result) = result else { continue };
                *error = result.err().map(|reason| reason.to_string());
                if let Some(reason) = error {
                    tracing::error!("refresh: the {what} have changed and the old ones are kept: {reason}");
                    continue;
                }
                tracing::info!("refresh: the {what} have changed and are taken over");
                // An error means that no connection is open.
                let _ = end.send(());
            }
            self.app.status.error(errors.iter().flatten().next().cloned());
        }
    }
}

/// Opens the port. It is exclusive, except beside a process that drains (see [`Server::hand_over`]):
///
/// 1. The port is bound without `SO_REUSEPORT`. If that works, nobody else has it.
/// 2. If it is in use, it is bound with the option. That works only if the other process has set the option
///    too.
/// 3. The option is removed from the new listener, so that the kernel does not spread new connections over
///    both.
///
/// The draining process may keep its port. What still connects there is answered 503 and comes back.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let bind = |beside: bool| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(beside)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        SockRef::from(&listener).set_reuse_port(false)?;
        Ok(listener)
    };
    bind(false).or_else(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => bind(true).map_err(|_| error),
        _ => Err(error),
    })
}

fn is_timeout(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
}
