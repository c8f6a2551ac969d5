//! The port for probes and for Prometheus.
//!
//! | page | answer |
//! |---|---|
//! | `/healthz` | 200 as long as the tasks of this process run; 503 means that a restart helps |
//! | `/readyz` | 200 once every followed resource has had its first list, also on a standby; else 503 |
//! | `/metrics` | the metrics, as OpenMetrics text |
//!
//! A 503 says what is wrong, a line each. Nothing here says anything about an object, so the port needs no
//! credentials.

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How many connections are open at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// How long a connection may be silent, also within the head of a request.
const SILENCE: Duration = Duration::from_secs(10);
/// How long answers under way may take after a stop.
const FAREWELL: Duration = Duration::from_secs(1);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where the pages come from. Called for each request; they must not block.
pub struct Pages {
    /// What is wrong with this process; nothing if it lives.
    pub ailing: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// What is missing until this process can work; nothing if it is ready.
    pub missing: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The text of the metrics.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
}

/// The server, bound to its port.
pub struct Server {
    listener: TcpListener,
    silence: Duration,
}

impl Server {
    /// Binds the port, and answers nobody before [`run`](Self::run).
    ///
    /// # Errors
    /// If the address cannot be had.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, silence: SILENCE })
    }

    /// The address, with the port that was chosen.
    ///
    /// # Errors
    /// If the operating system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`. Requests under way are answered.
    pub async fn run(self, pages: Pages, stop: CancellationToken) {
        let router = router(pages);
        let (slots, mut open) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), JoinSet::new());
        loop {
            while open.try_join_next().is_some() {}
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.accept(&slots) => accepted,
            };
            let Some((stream, slot)) = accepted else { continue };
            let (router, silence, stop) = (router.clone(), self.silence, stop.clone());
            open.spawn(async move {
                serve(stream, router, silence, &stop).await;
                drop(slot);
            });
        }
        // What has not ended by then is cut off.
        let _ = timeout(FAREWELL, async { while open.join_next().await.is_some() {} }).await;
    }

    async fn accept(&self, slots: &Arc<Semaphore>) -> Option<(TcpStream, impl Drop + Send + use<>)> {
        // Fails only if the semaphore is closed, which never happens.
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        match self.listener.accept().await {
            Ok((stream, _)) => Some((stream, slot)),
            Err(error) => {
                // The other side went away, or this process is out of file descriptors. Both pass.
                tracing::warn!("a connection was not accepted: {error}");
                sleep(Duration::from_millis(50)).await;
                None
            }
        }
    }
}

fn router(pages: Pages) -> Router {
    Router::new()
        .route("/healthz", get(async |State(pages): State<Arc<Pages>>| verdict("ok", &(pages.ailing)())))
        .route("/readyz", get(async |State(pages): State<Arc<Pages>>| verdict("ready", &(pages.missing)())))
        .route("/metrics", get(metrics))
        .fallback(async || (StatusCode::NOT_FOUND, "here are /healthz, /readyz and /metrics\n"))
        .with_state(Arc::new(pages))
}

async fn serve(stream: TcpStream, router: Router, silence: Duration, stop: &CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
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

async fn metrics(State(pages): State<Arc<Pages>>) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], (pages.metrics)()).into_response()
}
