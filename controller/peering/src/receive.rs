//! The receiver: the gateway's side of the protocol that the crate's docs describe.
//!
//! A pushed route is an observation like any other. The table orders it by its version with what the watch
//! brings of the same object, so a push that comes late, twice or in the wrong order changes nothing.
//!
//! What a request passes, in this order:
//!
//! 1. [`connections`]: is there room for the connection?
//! 2. [`server`]: TLS, HTTP/1.1, the time that each part may take ([`timeouts`]), one length only
//!    ([`framing`]).
//! 3. [`router`]: which of the five paths is it?
//! 4. [`router`]: is the sender authenticated ([`auth`]), and does the body fit?
//! 5. [`apply`]: what does each message ask of the table, and what is its answer? Or [`activity`]: which
//!    sandboxes were used, and when?

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sandgate_routes::{AddressPolicy, RouteWriter};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

mod activity;
mod apply;
mod auth;
mod connections;
mod framing;
mod review;
mod router;
mod server;
mod settings;
mod status;
mod timeouts;
mod tls;

#[cfg(test)]
pub(crate) mod tests;

pub use activity::{Active, Activity, Observed, Uncounted};
pub use connections::source_of;
pub use review::{Source, Sources, review_token};
pub use settings::{HmacSettings, Pushed, RawRefresh, RefreshSettings, TlsFiles, TokenReviewSettings};
pub use status::{LogLimit, RefreshDrain, RefreshStatus, RefreshStatusReader};

use activity::Asked;
use auth::Auth;
use router::App;
use server::{Certificates, Server, listen};
use status::StatusWriter;
use timeouts::Timeouts;

use crate::credential::CredentialError;
use crate::hmac::unix_now;

/// How long requests under way may take to finish when the receiver stops.
const DRAIN: Duration = Duration::from_millis(500);
/// The time between two attempts to start.
const RETRY: Duration = Duration::from_secs(1);

/// Why the receiver does not listen yet. A retry helps once the files are right or the port is free; the
/// receiver retries by itself.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Task(#[from] JoinError),
}

/// Receives what peers push and hands it to a table. A clone is the same receiver with the same status. It
/// can be run again when the first run has ended; at most one of them runs at a time.
#[derive(Clone)]
pub struct Receiver {
    settings: RefreshSettings,
    policy: AddressPolicy,
    writer: RouteWriter,
    /// What is asked about activity, where requests are counted.
    asked: Option<Arc<Asked>>,
    timeouts: Timeouts,
    /// Signatures up to this second are refused. Without it: up to the second in which the receiver starts.
    since: Option<u64>,
    status: Arc<StatusWriter>,
}

impl Receiver {
    /// Makes a receiver. It opens and reads nothing before [`run`](Self::run).
    pub fn new(settings: RefreshSettings, policy: AddressPolicy, writer: RouteWriter) -> Self {
        let status = Arc::new(StatusWriter::new(settings.methods()));
        Self { settings, policy, writer, asked: None, timeouts: Timeouts::default(), since: None, status }
    }

    /// Answers `GET /activity` about the sandboxes of these providers. Without this it is answered 501.
    #[must_use]
    pub fn reporting(self, activity: Arc<dyn Activity>, providers: BTreeSet<String>) -> Self {
        Self { asked: Some(Arc::new(Asked::new(activity, providers))), ..self }
    }

    /// A view of the status for other threads.
    pub fn status(&self) -> RefreshStatusReader {
        RefreshStatusReader(Arc::clone(&self.status))
    }

    /// A handle that announces the end of the process.
    pub fn drain(&self) -> RefreshDrain {
        RefreshDrain(Arc::clone(&self.status))
    }

    /// Runs until `stop`, then closes the port, lets requests under way finish for a moment, and returns.
    /// Needs a Tokio runtime with time and I/O enabled.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let _run = self.status.begin();
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
            started = self.start() => started,
            () = &mut stop => return,
        };
        let mut open = JoinSet::new();
        let (end, ending) = watch::channel(());
        tokio::select! {
            () = server.accept(&listener, self.settings.max_connections, &mut open, &ending) => {}
            () = server.follow_files(&end) => {}
            () = server.wake_subscribers() => {}
            () = server.hand_over(&listener) => {}
            () = stop => {}
        }
        drop(listener);
        self.status.listening(None);
        // An error means that no connection is open.
        let _ = end.send(());
        // Connections that have not ended by then are dropped.
        let _ = timeout(DRAIN, async { while open.join_next().await.is_some() {} }).await;
        self.writer.wake();
    }

    /// Reads the files and opens the port. Retries until both are done.
    async fn start(&self) -> (TcpListener, Arc<Server>) {
        let mut known = None;
        loop {
            match self.try_start().await {
                Ok(started) => {
                    self.status.error(None);
                    return started;
                }
                Err(error) => {
                    let error = error.to_string();
                    if known.as_ref() != Some(&error) {
                        tracing::error!("refresh: nothing is received yet: {error}");
                        self.status.error(Some(error.clone()));
                        known = Some(error);
                    }
                }
            }
            sleep(RETRY).await;
        }
    }

    async fn try_start(&self) -> Result<(TcpListener, Arc<Server>), StartError> {
        let settings = self.settings.clone();
        let since = self.since.unwrap_or_else(unix_now);
        let files = spawn_blocking(move || -> Result<_, CredentialError> {
            Ok((Auth::new(&settings, since)?, settings.tls.map(Certificates::new).transpose()?))
        });
        let (auth, tls) = files.await??;
        let cannot = |source| StartError::Listen { address: self.settings.listen, source };
        let listener = listen(self.settings.listen).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        self.status.listening(Some(address));
        let methods = self.settings.methods().join(", ");
        tracing::info!(
            "refresh: listening on {address}, believing {}",
            if methods.is_empty() { "anyone" } else { &methods }
        );
        let app = App {
            auth,
            reader: self.writer.reader(),
            writer: self.writer.clone(),
            pushed: self.settings.pushed.clone(),
            policy: self.policy.clone(),
            timeouts: self.timeouts,
            asked: self.asked.clone(),
            status: Arc::clone(&self.status),
            changed: Default::default(),
            permits: Default::default(),
            denials: Default::default(),
            refusals: Default::default(),
            unroutable: Default::default(),
        };
        Ok((listener, Arc::new(Server::new(Arc::new(app), tls))))
    }
}
