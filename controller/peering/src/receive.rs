//! Routes that peers push: `POST /refresh`, as OpenKruise's manager sends it.
//!
//! Whoever paused or deleted a sandbox knows it before any watch tells; it pushes the route to every gateway. A pushed
//! route is an observation like any other: the table orders it by its version with whatever the watch brings of the
//! same object, so a push that comes late, twice or in the wrong order changes nothing.
//!
//! **Who is believed** is decided by [`auth`]; strangers get 401 before anything of theirs is parsed. **What is routed
//! to** is decided by [`AddressPolicy`](sandgate_routes::AddressPolicy). **How much** anyone can make the gateway do is bounded:
//! connections (see [`connections`]), bodies, messages read at once, and the time each part of a request may take (see
//! [`guard`]).

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
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
use sandgate_routes::RouteWriter;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

mod auth;
mod batch;
mod connections;
mod framing;
mod guard;
mod meaning;
mod replay;
mod review;
mod serve;
mod settings;
mod source;
mod status;

#[cfg(test)]
pub(crate) mod tests;

pub use settings::{
    HmacSettings, Pushed, RawRefresh, RefreshSettings, RefreshSettingsError, TlsFiles, TokenReviewSettings,
};
pub use status::{RefreshDrain, RefreshStatus, RefreshStatusReader};

use auth::Auth;
use connections::{Connections, Seat};
use guard::{Guarded, Patience};
use serve::{App, Peer};
use status::Board;

use crate::hmac::unix_now;
use crate::reload::{LOOK, Reloaded};
use crate::tls;
use sandgate_routes::AddressPolicy;

/// How long requests under way may take to finish when the receiver stops.
const DRAIN: Duration = Duration::from_millis(500);
/// The most a request's head may have.
const MAX_HEAD: usize = 32 << 10;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Between two tries to begin.
const AGAIN: Duration = Duration::from_secs(1);

/// Receives what peers push and hands it to a table. A clone is the same receiver, with the same status, to be run again
/// when its run has ended; at most one of them runs at a time.
#[derive(Clone)]
pub struct Receiver {
    settings: RefreshSettings,
    policy: AddressPolicy,
    writer: RouteWriter,
    patience: Patience,
    /// What was signed up to this second is not believed; if nothing is said, up to the second in which it begins.
    since: Option<u64>,
    board: Arc<Board>,
}

impl Receiver {
    /// Nothing is opened or read before [`run`](Self::run).
    pub fn new(settings: RefreshSettings, policy: AddressPolicy, writer: RouteWriter) -> Self {
        let board = Arc::new(Board::new(settings.methods()));
        Self { settings, policy, writer, patience: Patience::default(), since: None, board }
    }

    /// A view of the status for other threads.
    pub fn status(&self) -> RefreshStatusReader {
        RefreshStatusReader(Arc::clone(&self.board))
    }

    /// To be told when the process is about to end.
    pub fn drain(&self) -> RefreshDrain {
        RefreshDrain(Arc::clone(&self.board))
    }

    /// Runs until `stop`, then closes the port, lets requests under way finish for a moment, and returns. Needs a Tokio
    /// runtime with time and I/O enabled.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let _until_it_ends = self.board.begin();
        if self.settings.is_insecure() {
            tracing::warn!(
                "refresh: insecure is true: whoever reaches {} decides where requests go",
                self.settings.listen
            );
        } else if self.settings.tls.is_none() && self.settings.token_review.is_some() {
            tracing::warn!("refresh: tokens are sent in the clear: give tls a certificate and a key");
        }
        tokio::pin!(stop);
        let (listener, server) = tokio::select! {
            begun = self.begin() => begun,
            () = &mut stop => return,
        };
        let mut open = JoinSet::new();
        let (end, ending) = watch::channel(());
        tokio::select! {
            () = server.accept(&listener, self.settings.max_connections, &mut open, &ending) => {}
            () = server.look(&end) => {}
            () = server.wake() => {}
            () = server.hand_over(&listener) => {}
            () = stop => {}
        }
        drop(listener);
        self.board.listening(None);
        // Nobody listens when nothing is open.
        let _open = end.send(());
        let _ended = timeout(DRAIN, async { while open.join_next().await.is_some() {} }).await;
        self.writer.wake();
    }

    /// Reads the files and opens the port, again until both are done.
    async fn begin(&self) -> (TcpListener, Arc<Server>) {
        let mut said = None;
        loop {
            match self.try_begin().await {
                Ok(begun) => {
                    self.board.error(None);
                    return begun;
                }
                Err(error) if said.as_ref() == Some(&error) => {}
                Err(error) => {
                    tracing::error!("refresh: nothing is received yet: {error}");
                    self.board.error(Some(error.clone()));
                    said = Some(error);
                }
            }
            sleep(AGAIN).await;
        }
    }

    async fn try_begin(&self) -> Result<(TcpListener, Arc<Server>), String> {
        let settings = self.settings.clone();
        let since = self.since.unwrap_or_else(unix_now);
        let read = spawn_blocking(move || -> Result<_, String> {
            Ok((Auth::new(&settings, since)?, settings.tls.map(Certificates::new).transpose()?))
        });
        let (auth, tls) = read.await.map_err(|error| error.to_string())??;
        let cannot = |error: io::Error| format!("cannot listen on {}: {error}", self.settings.listen);
        let listener = listen(self.settings.listen).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        self.board.listening(Some(address));
        let by = self.settings.methods().join(", ");
        tracing::info!(
            "refresh: listening on {address}, believing {}",
            if by.is_empty() { "anyone" } else { &by }
        );
        let app = Arc::new(App {
            auth,
            reader: self.writer.reader(),
            writer: self.writer.clone(),
            pushed: self.settings.pushed.clone(),
            policy: self.policy.clone(),
            patience: self.patience,
            board: Arc::clone(&self.board),
            changed: Default::default(),
            places: Default::default(),
            strangers: Default::default(),
            mistakes: Default::default(),
            outsiders: Default::default(),
        });
        Ok((listener, Arc::new(Server { router: serve::router(Arc::clone(&app)), app, tls })))
    }
}

/// The server's side of TLS.
struct Certificates {
    config: Reloaded<ServerConfig>,
    files: TlsFiles,
}

impl Certificates {
    fn new(files: TlsFiles) -> Result<Self, String> {
        let paths = [&files.certificate, &files.key].into_iter().chain(&files.client_ca).cloned().collect();
        let load = {
            let files = files.clone();
            move || tls::server_config(&files)
        };
        Ok(Self { config: Reloaded::new(paths, load)?, files })
    }
}

struct Server {
    app: Arc<App>,
    router: Router,
    tls: Option<Certificates>,
}

impl Server {
    /// Takes connections for ever.
    async fn accept(
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
                    // The other side went away, or we are out of files: either passes.
                    tracing::warn!("refresh: a connection was not accepted: {error}");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            while open.try_join_next().is_some() {}
            let (server, mut ending) = (Arc::clone(self), ending.clone());
            ending.mark_unchanged();
            let seat = Arc::new(connections.enter(address.ip()));
            open.spawn(async move {
                server.app.board.counters.connections.up();
                tokio::select! {
                    () = server.greet(stream, address, Arc::clone(&seat), ending) => {}
                    () = seat.cut() => {}
                }
                server.app.board.counters.connections.down();
            });
        }
    }

    /// Lets the next process listen on the port when this one is about to end. Never ends itself.
    async fn hand_over(&self, listener: &TcpListener) {
        while !self.app.board.is_draining() {
            self.app.board.drained.notified().await;
        }
        if let Err(error) = SockRef::from(listener).set_reuse_port(true) {
            tracing::warn!("refresh: the port is free for the next process only when this one ends: {error}");
        }
        pending::<()>().await;
    }

    async fn greet(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        seat: Arc<Seat>,
        ending: watch::Receiver<()>,
    ) {
        // Answers are small and waited for.
        let _slower_without = stream.set_nodelay(true);
        let mut peer = Peer { address, certificate: false, phase: Arc::default(), seat };
        let Some(tls) = &self.tls else { return self.converse(stream, peer, ending).await };
        let acceptor = TlsAcceptor::from(tls.config.get());
        match timeout(self.app.patience.head, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                peer.certificate = certificate
                    .is_some_and(|certificate| tls::is_named(certificate, &tls.files.client_names));
                if peer.certificate {
                    peer.seat.befriend();
                }
                self.converse(stream, peer, ending).await;
            }
            Ok(Err(error)) => self.app.strangers.say(|more| {
                tracing::warn!(more, "refresh: {address} and we did not agree on TLS: {error}");
            }),
            Err(_) => self.app.board.counters.slow.up(),
        }
    }

    /// Answers requests until the connection ends, or is asked to after the request under way.
    async fn converse<S>(&self, stream: S, peer: Peer, mut ending: watch::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = Guarded::new(stream, Arc::clone(&peer.phase), self.app.patience);
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (router, peer) = (router.clone(), peer.clone());
            // hyper has taken the other header away; see `framing`.
            let encoded = request.headers().contains_key(TRANSFER_ENCODING);
            // Asked before the answer is made, so that one that says 204 does not end the connection: its sender may have
            // sent the next message already.
            let draining = self.app.board.is_draining();
            async move {
                if peer.phase.is_ambiguous() {
                    return Ok::<_, Infallible>(serve::last(StatusCode::BAD_REQUEST.into_response()));
                }
                peer.phase.busy();
                request.extensions_mut().insert(peer.clone());
                let answer = router.call(request).await;
                peer.phase.done();
                let Ok(mut answer) = answer;
                if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
                    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                }
                let stays = peer.seat.stays() && !encoded && !draining;
                Ok(if stays { answer } else { serve::last(answer) })
            }
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        // How a connection ends is its peer's business; what it asked for was answered or not.
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            _ = ending.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if ended.is_err_and(|error| is_timeout(&error)) {
            self.app.board.counters.slow.up();
        }
    }

    /// Wakes the table's subscribers for ever: after everyone who has a message now, since it waits for its turn.
    async fn wake(&self) {
        loop {
            self.app.changed.notified().await;
            self.app.writer.wake();
        }
    }

    /// Follows the files with keys and certificates for ever. New certificates are for new connections, so those that
    /// are open are asked to end.
    async fn look(self: &Arc<Self>, end: &watch::Sender<()>) {
        let mut errors = [None, None];
        loop {
            sleep(LOOK).await;
            let server = Arc::clone(self);
            let looked = spawn_blocking(move || {
                [server.app.auth.look(), server.tls.as_ref().and_then(|tls| tls.config.look())]
            });
            let Ok(looked) = looked.await else { return };
            if looked.iter().all(Option::is_none) {
                continue;
            }
            for ((result, error), what) in looked.into_iter().zip(&mut errors).zip(["keys", "certificates"]) {
                match result {
                    None => {}
                    Some(Ok(())) => {
                        tracing::info!("refresh: the {what} have changed and are taken over");
                        *error = None;
                        let _open = end.send(());
                    }
                    Some(Err(reason)) => {
                        tracing::error!(
                            "refresh: the {what} have changed and the old ones are kept: {reason}"
                        );
                        *error = Some(reason);
                    }
                }
            }
            self.app.board.error(errors.iter().flatten().next().cloned());
        }
    }
}

/// Opens the port, which nobody else may have: but for a process that is about to end and lets it go
/// ([`Server::hand_over`]). That one may keep it as long as it likes; whoever connects from here on mostly comes here, and
/// the others are told to come back.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let bind = |beside: bool| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(beside)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        // So that connections come here, and not to the other by turns.
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
