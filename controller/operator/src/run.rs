//! The composition root: what the operator is made of, in which order it starts, and how it ends.
//!
//! # Start
//! 1. Options are checked, the credentials are read, the port is bound: what is wrong is an error at once.
//! 2. The followers fill the view, and the view marks keys in the queues.
//! 3. Once every resource has had its first list, this process stands for election, and the workers work
//!    while it leads.
//!
//! # End
//! No task ends by itself. If one does, the others are stopped, and [`Operator::run`] returns which it was.
//! A stop goes backwards, so that nothing is done without leadership and the next leader waits for nothing:
//! 1. the queues hand out nothing more, and what runs may finish;
//! 2. waiting events are sent;
//! 3. the lease is given up;
//! 4. followers and server end.

mod followers;
mod parts;
mod ports;
mod settings;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sandgate_cache::Group;
use sandgate_follow::{AccessError, Timing};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{Args, Key, Queue, TimesError};

/// How long reading the credentials may take, plugins included.
const CREDENTIALS: Duration = Duration::from_secs(30);

/// Why the operator did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The durations of the election.
    #[error(transparent)]
    Times(#[from] TimesError),
    /// No client could be made.
    #[error("no access to a cluster: {0}")]
    Access(#[from] AccessError),
    /// The port cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// `--task-executor-token-file`.
    #[error("--task-executor-token-file: {0}")]
    Token(crate::TokenError),
    /// The options about gateways.
    #[error(transparent)]
    Activity(#[from] crate::ActivityArgsError),
    /// The credentials for gateways.
    #[error("--gateway-activity: {0}")]
    Gateways(sandgate_peering::PushError),
    /// The signals of the process cannot be had.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    /// `--strict-recovery`, and a batch has annotations that cannot be read.
    #[error("--strict-recovery: the annotations about the allocation of {0} cannot be read")]
    Malformed(Key),
    /// Controllers of environments, and no `--local-cluster-id`.
    #[error(
        "--local-cluster-id: name the cluster that this is, as environments name it; the controller {0} writes only \
         its part of an environment"
    )]
    NoCluster(&'static str),
    /// A task ended that must not.
    #[error("{0}, which must not happen; see the log")]
    Ended(String),
    /// A second signal.
    #[error("ended at once by a second signal; the lease ends by itself")]
    Aborted,
}

/// Runs the operator until SIGTERM or SIGINT.
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
    let operator = tokio::select! {
        operator = Operator::start(&args, Timing::default()) => operator?,
        () = signalled() => return Ok(()),
    };
    let running = operator.run(stop.clone());
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

/// An operator that was started.
pub struct Operator {
    address: SocketAddr,
    queues: Vec<Queue>,
    workers: Group,
    events: Group,
    election: Group,
    /// The followers and the servers.
    service: Group,
    /// Completes if a batch keeps this process from working.
    malformed: BoxFuture<'static, Key>,
}

impl Operator {
    /// Starts everything. Nothing is written before this process leads and every resource has been listed.
    ///
    /// # Errors
    /// See [`RunError`].
    pub async fn start(args: &Args, timing: Timing) -> Result<Self, RunError> {
        let times = args.times()?;
        let client = args.access().connect(CREDENTIALS).await?;
        parts::assemble(args, times, client, timing).await
    }

    /// The port of `--listen`, where `/healthz`, `/readyz` and `/metrics` are.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs until `stop`, and ends in order.
    ///
    /// # Errors
    /// [`RunError::Ended`] or [`RunError::Malformed`], after everything else has been stopped.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), RunError> {
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            batch = &mut self.malformed => Some(RunError::Malformed(batch)),
            name = self.workers.ended() => Some(RunError::Ended(name)),
            name = self.events.ended() => Some(RunError::Ended(name)),
            name = self.election.ended() => Some(RunError::Ended(name)),
            name = self.service.ended() => Some(RunError::Ended(name)),
        };
        if let Some(ended) = &ended {
            tracing::error!("{ended}: stopping");
        }
        self.queues.iter().for_each(Queue::stop);
        for group in [&mut self.workers, &mut self.events, &mut self.election, &mut self.service] {
            group.stop().await;
        }
        ended.map_or(Ok(()), Err)
    }
}
