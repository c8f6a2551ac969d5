//! A server of HTTP/1.1 that ends in order, and the pages for probes and for Prometheus.
//!
//! | page | answer |
//! |---|---|
//! | `/healthz` | 200 as long as the tasks of this process run; 503 means that a restart helps |
//! | `/readyz` | 200 once every followed resource has had its first list, also on a standby; else 503 |
//! | `/metrics` | the metrics, as OpenMetrics text |
//!
//! A 503 says what is wrong, a line each. A port may have the probes, the metrics or both. Nothing here asks
//! for credentials. The probes say nothing about an object; metrics may name some, so whoever opens a port
//! to others decides whether they are on it.

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::AddExtension;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Layer as _;

/// How much a server puts up with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many connections are open at a time; more wait to be accepted.
    pub connections: usize,
    /// How long a connection may be silent, also within the head of a request.
    pub silence: Duration,
    /// How long answers under way may take after a stop.
    pub farewell: Duration,
}

/// Of the port for probes.
const PROBES: Limits =
    Limits { connections: 64, silence: Duration::from_secs(10), farewell: Duration::from_secs(1) };
/// How many connections wait to be accepted.
const BACKLOG: u32 = 1024;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The pages of a port: what is none is not there. Called for each request; they must not block.
#[derive(Default)]
pub struct Pages {
    /// `/healthz` and `/readyz`.
    pub probes: Option<Probes>,
    /// The text of `/metrics`.
    pub metrics: Option<Box<dyn Fn() -> String + Send + Sync>>,
}

/// What the probes are answered from.
pub struct Probes {
    /// What is wrong with this process; nothing if it lives.
    pub ailing: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// What is missing until this process can work; nothing if it is ready.
    pub missing: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

/// A port that is this process's, where nobody can connect yet.
pub struct Reserved(TcpSocket);

impl Reserved {
    /// Takes the port.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self(socket))
    }

    /// The address, with the port that was chosen.
    ///
    /// # Errors
    /// If the operating system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Lets clients connect.
    ///
    /// # Errors
    /// If another process listens there by now.
    pub fn listen(self) -> io::Result<Server> {
        Ok(Server { listener: self.0.listen(BACKLOG)? })
    }
}

/// The server, bound to its port.
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Binds the port, and answers nobody before [`run`](Self::run) or [`serve`](Self::serve).
    ///
    /// # Errors
    /// If the address cannot be had.
    #[expect(clippy::unused_async, reason = "it needs the runtime that serves")]
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Reserved::new(address)?.listen()
    }

    /// The address, with the port that was chosen.
    ///
    /// # Errors
    /// If the operating system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the pages until `stop`. Requests under way are answered.
    pub async fn run(self, pages: Pages, stop: CancellationToken) {
        self.serve(router(pages), PROBES, async |stream, _| Ok((TokioIo::new(stream), ())), stop).await;
    }

    /// Serves this router until `stop`. `secure` makes of a connection what requests are read from, such as
    /// TLS, and an extension of each of these requests; it has as long as a connection may be silent. After a
    /// stop nothing is accepted, connections without a request are closed, and requests under way are
    /// answered, as long as the limits allow.
    pub async fn serve<S, E, F>(
        self,
        router: Router,
        limits: Limits,
        secure: impl Fn(TcpStream, SocketAddr) -> F,
        stop: CancellationToken,
    ) where
        S: Read + Write + Unpin + Send + 'static,
        E: Clone + Send + Sync + 'static,
        F: Future<Output = io::Result<(S, E)>> + Send + 'static,
    {
        let (slots, mut open) = (Arc::new(Semaphore::new(limits.connections)), JoinSet::new());
        loop {
            while open.try_join_next().is_some() {}
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.accept(&slots) => accepted,
            };
            let Some((stream, address, slot)) = accepted else { continue };
            let (secured, router, stop) = (secure(stream, address), router.clone(), stop.clone());
            open.spawn(async move {
                // A handshake that fails or takes too long is its client's business.
                if let Ok(Ok((stream, extension))) = timeout(limits.silence, secured).await {
                    let service = Extension(extension).layer(router);
                    serve(stream, service, limits.silence, &stop).await;
                }
                drop(slot);
            });
        }
        // Nobody connects any more, also while the rest is answered.
        drop(self.listener);
        // What has not ended by then is cut off.
        let _ = timeout(limits.farewell, async { while open.join_next().await.is_some() {} }).await;
    }

    async fn accept(
        &self,
        slots: &Arc<Semaphore>,
    ) -> Option<(TcpStream, SocketAddr, impl Drop + Send + use<>)> {
        // Fails only if the semaphore is closed, which never happens.
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        match self.listener.accept().await {
            Ok((stream, address)) => {
                // Answers are small, and are waited for.
                let _ = stream.set_nodelay(true);
                Some((stream, address, slot))
            }
            Err(error) => {
                // The other side went away, or this process is out of file descriptors. Both pass.
                tracing::warn!("a connection was not accepted: {error}");
                sleep(Duration::from_millis(50)).await;
                None
            }
        }
    }
}

fn router(Pages { probes, metrics }: Pages) -> Router {
    let (mut router, mut here) = (Router::new(), Vec::new());
    if let Some(Probes { ailing, missing }) = probes {
        let (ailing, missing) = (Arc::new(ailing), Arc::new(missing));
        router = router
            .route("/healthz", get(async move || verdict("ok", &ailing())))
            .route("/readyz", get(async move || verdict("ready", &missing())));
        here.extend(["/healthz", "/readyz"]);
    }
    if let Some(metrics) = metrics {
        let metrics = Arc::new(metrics);
        router = router.route("/metrics", get(async move || ([(CONTENT_TYPE, OPEN_METRICS)], metrics())));
        here.push("/metrics");
    }
    let here = format!("here is {}\n", here.join(", "));
    router.fallback(async move || (StatusCode::NOT_FOUND, here))
}

/// A router that gives each request an extension.
type Served<E> = AddExtension<Router, E>;

async fn serve<S, E>(stream: S, service: Served<E>, silence: Duration, stop: &CancellationToken)
where
    S: Read + Write + Unpin + Send + 'static,
    E: Clone + Send + Sync + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .serve_connection(stream, TowerToHyperService::new(service));
    tokio::pin!(connection);
    // How a connection ends is its client's business.
    let _ = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}

/// 200 with `good`, or 503 with what is wrong, a line each.
fn verdict(good: &str, wrong: &[String]) -> Response {
    if wrong.is_empty() {
        return format!("{good}\n").into_response();
    }
    let lines: String = wrong.iter().map(|line| format!("{line}\n")).collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines).into_response()
}
