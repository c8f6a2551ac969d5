//! The composition root: what the manager is made of, in which order it starts, and how it ends.
//!
//! # Start
//! 1. Options are checked, files and credentials are read, both ports are taken: what is wrong is an error at
//!    once. Probes are answered from here on.
//! 2. The cache lists every resource. A resource that the API server does not know is waited for; `/readyz`
//!    says which.
//! 3. The tasks start, and the API listens. `/readyz` is 200.
//!
//! # End
//! No task ends by itself. If one does, the others are stopped, and [`Service::run`] returns which it was. A
//! stop goes backwards, so that no request is cut off by a part that ended before it:
//! 1. `/readyz` fails, and the API goes on for `--drain-delay`: whoever routes to it stops doing so.
//! 2. The API accepts nothing more, and requests under way are answered.
//! 3. Creates that nobody waits for any more finish, or take back what they did.
//! 4. The tasks and the cache end; last the probes.
//!
//! Steps 2 and 3 share `--drain-timeout`. Requests have four fifths of it at most: a create that is cut off
//! then has the rest to take back what it did.

mod parts;
#[cfg(test)]
mod tests;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandgate_cache::{BuildError, Cache, Group, Running};
use sandgate_follow::{AccessError, Timing};
use sandgate_peering::{CredentialError, PushError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{Args, ArgsError, Manager};

/// Why the manager did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Options that do not fit together.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// No client could be made.
    #[error("no access to a cluster: {0}")]
    Access(#[from] AccessError),
    /// The namespace or the selector.
    #[error(transparent)]
    Cache(#[from] BuildError),
    /// The certificate of the API, or its key.
    #[error(transparent)]
    Tls(#[from] CredentialError),
    /// The credentials for the gateways.
    #[error(transparent)]
    Push(#[from] PushError),
    /// A port cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address of `--listen` or `--probe-listen`.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The signals of the process cannot be had.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    /// A task ended that must not.
    #[error("{0}, which must not happen; see the log")]
    Ended(String),
    /// A second signal.
    #[error("ended at once by a second signal; what was under way is taken back by the other replicas")]
    Aborted,
}

/// Runs the manager until SIGTERM or SIGINT.
///
/// # Errors
/// See [`RunError`].
pub async fn run(args: Args) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let mut signalled = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let stop = CancellationToken::new();
    let service = tokio::select! {
        service = Service::start(&args, Timing::default()) => service?,
        () = signalled() => return Ok(()),
    };
    let running = service.run(stop.clone());
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => return ended,
        () = signalled() => tracing::info!("stopping; a second signal ends at once"),
    }
    stop.cancel();
    tokio::select! {
        ended = running => ended,
        () = signalled() => Err(RunError::Aborted),
    }
}

/// A manager that was started.
pub struct Service {
    address: SocketAddr,
    probes: SocketAddr,
    manager: Manager,
    cache: Cache,
    running: Running,
    ready: Arc<Readiness>,
    delay: Duration,
    farewell: Duration,
    api: Group,
    tasks: Group,
    probe: Group,
}

/// Whether this process takes requests.
#[derive(Default)]
struct Readiness {
    serving: AtomicBool,
    ending: AtomicBool,
}

impl Readiness {
    /// What is missing until it does.
    fn missing(&self, cache: &Cache) -> Vec<String> {
        if self.ending.load(Ordering::Acquire) {
            return vec!["this process is ending".to_owned()];
        }
        if self.serving.load(Ordering::Acquire) {
            return Vec::new();
        }
        match cache.healthy() {
            Ok(()) => vec!["the API does not listen yet".to_owned()],
            Err(problems) => problems,
        }
    }
}

impl Service {
    /// Starts everything, and returns when the API listens.
    ///
    /// # Errors
    /// See [`RunError`].
    pub async fn start(args: &Args, timing: Timing) -> Result<Self, RunError> {
        args.check()?;
        parts::assemble(args, timing).await
    }

    /// Where the API is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where `/healthz`, `/readyz` and `/metrics` are.
    pub fn probe_address(&self) -> SocketAddr {
        self.probes
    }

    /// Runs until `stop`, and ends in order.
    ///
    /// # Errors
    /// [`RunError::Ended`], after everything else has been stopped.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), RunError> {
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            name = self.api.ended() => Some(name),
            name = self.tasks.ended() => Some(name),
            name = self.probe.ended() => Some(name),
            error = self.running.ended() => Some(error.to_string()),
        };
        self.ready.ending.store(true, Ordering::Release);
        match &ended {
            Some(ended) => tracing::error!("{ended}: stopping"),
            None => sleep(self.delay).await,
        }
        if !wind_down(self.farewell, self.api.stop(), self.manager.drain()).await {
            tracing::warn!("creates were under way for too long; what is left of them is swept later");
        }
        self.tasks.stop().await;
        self.cache.stop().await;
        self.probe.stop().await;
        ended.map_or(Ok(()), |ended| Err(RunError::Ended(ended)))
    }
}

/// How much of the time for requests and creates is for requests.
fn of_requests(within: Duration) -> Duration {
    within - within / 5
}

/// Waits for requests and then for creates, for both together no longer than `within`. Says whether they have
/// ended.
async fn wind_down(
    within: Duration,
    requests: impl Future<Output = ()>,
    creates: impl Future<Output = ()>,
) -> bool {
    let both = async {
        requests.await;
        creates.await;
    };
    timeout(within, both).await.is_ok()
}
