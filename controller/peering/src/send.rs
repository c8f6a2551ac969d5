//! The sender: the manager's side of the protocol that the crate's docs describe. An operator's side is
//! beside it: [`ActivityClient`] asks the gateways which sandboxes were used.
//!
//! [`Pusher::push`] queues a message for every peer and returns at once. Each peer has its own queue and
//! worker, so no peer waits for another. The [`Ticket`] gives the outcome at each peer, by the caller's
//! deadline; a message that has none by then is still sent.
//!
//! # Order
//! A peer gets one request at a time. Objects go out in the order in which they came up. Of one object only
//! the newest message is sent, and never an older one after a newer one ([`queue`]).
//!
//! # Tries
//! A message has ten tries within two seconds. The pause between two of them is 10 ms at first and grows. A
//! connection may take 300 ms and an answer 100 ms; a peer that is slower gets more time ([`pace`]). The
//! tries after the first are bounded for each peer ([`budget`]). A status that is about the message, such as
//! 400 or 413, is final. One that is about the moment or the credentials (401, 408, 425, 429, 5xx) is not: a
//! key may be on its way, or the gateway may restart.
//!
//! # Failure
//! After the last try the ticket says [`Delivery::Failed`], and the failure is counted and logged. The
//! message stays in the queue, and the peer is tried again, at most a second apart, until it has the newest
//! message of every object. [`PushSettings::max_pending`] bounds the objects that wait.
//!
//! [`PushSettings::keep`] bounds how long a message waits that is no delete. The sandbox may have died since,
//! and the peer may have forgotten that with its tombstone; a late message would then revive the route. A
//! delete does no such harm, and waits until it is delivered.
//!
//! # Absent peers
//! A peer that discovery does not find any more gets no requests, because its address may be another's by
//! now. Its deletes, and those that are pushed meanwhile, are kept for [`PushSettings::keep_absent`] and sent
//! if it returns.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::body::Bytes;
use parking_lot::Mutex;
use sandgate_routes::{Capability, Fate, State, verdict};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout_at};

mod activity;
mod address;
mod budget;
mod client;
mod connection;
mod credentials;
mod discover;
mod pace;
mod peer;
mod queue;
mod settings;
mod ticket;
mod worker;

#[cfg(all(test, feature = "receive"))]
mod tests;

#[cfg(all(test, feature = "receive"))]
pub(crate) use credentials::client_config;

pub use activity::{ActiveSandbox, ActivityClient, ActivitySettings, AskError, Known};
pub use address::{PeerAddress, PeerAddressError};
pub use credentials::Credentials;
pub use discover::{DiscoveryError, Peers, PeersError};
pub use peer::PeerMetrics;
pub use settings::PushSettings;
pub use ticket::{Delivery, Ticket};

use credentials::Proofs;
use discover::Discovery;
use peer::Peer;
use queue::Pending;
use worker::Worker;

use crate::credential::CredentialError;
use crate::message::{MessageError, RouteMessage};
use crate::reload::PERIOD;

/// Why a pusher cannot start. A retry helps once the files are right.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// A file with credentials is missing or wrong.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

/// Pushes routes to peers. Clones share one state. When the last one is dropped, every task ends.
#[derive(Clone)]
pub struct Pusher(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    /// They end when the set is dropped.
    _tasks: JoinSet<()>,
}

struct Shared {
    settings: PushSettings,
    proofs: Proofs,
    peers: Mutex<BTreeMap<PeerAddress, (Arc<Peer>, AbortHandle)>>,
    /// Whether discovery has succeeded once.
    found: watch::Sender<bool>,
}

impl Pusher {
    /// Starts on the current Tokio runtime. Discovery begins at once; a peer is connected to when there is a
    /// message for it.
    ///
    /// # Errors
    /// When a file with credentials is missing or wrong.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(settings: PushSettings, peers: Peers, credentials: &Credentials) -> Result<Self, PushError> {
        let proofs = Proofs::read(credentials)?;
        let found = watch::Sender::new(false);
        let shared = Arc::new(Shared { settings, proofs, peers: Mutex::default(), found });
        let mut tasks = JoinSet::new();
        tasks.spawn(discover(Arc::clone(&shared), Discovery::new(peers)));
        tasks.spawn(follow_files(Arc::clone(&shared)));
        Ok(Self(Arc::new(Inner { shared, _tasks: tasks })))
    }

    /// Waits until discovery has succeeded once. Returns whether it has by the deadline.
    pub async fn found(&self, deadline: Instant) -> bool {
        let mut found = self.0.shared.found.subscribe();
        let waited = timeout_at(deadline, found.wait_for(|found| *found)).await;
        waited.is_ok_and(|found| found.is_ok())
    }

    /// Queues a message for every peer, and returns at once. A peer that is absent gets deletes only, and is
    /// not on the ticket.
    ///
    /// # Errors
    /// When the message names no object or has no version: then it has no order, and is not sent.
    pub fn push(&self, message: &RouteMessage) -> Result<Ticket, MessageError> {
        // The receiver chooses the provider. Here the key only tells objects apart.
        let (key, version) = message.identity("peer")?;
        let state: State = message.state.parse().map_err(|_| MessageError::State)?;
        let deletes = verdict(state, Capability::default()).fate == Fate::Delete;
        let body = Bytes::from(serde_json::to_vec(message).map_err(|_| MessageError::NotJson)?);
        let now = Instant::now();
        let peers = self.0.shared.peers.lock();
        let queue = |(address, (peer, _)): (&PeerAddress, &(Arc<Peer>, AbortHandle))| {
            let (waiter, outcome) = oneshot::channel();
            let is_found = peer.push(Pending {
                key: key.clone(),
                version: version.clone(),
                deletes,
                body: body.clone(),
                since: now,
                queued: now,
                waiter: Some(waiter),
            });
            is_found.then(|| (address.clone(), outcome))
        };
        Ok(Ticket { outcomes: peers.iter().filter_map(queue).collect() })
    }

    /// Numbers about each peer.
    pub fn metrics(&self) -> Vec<PeerMetrics> {
        self.0.shared.peers.lock().values().map(|(peer, _)| peer.metrics()).collect()
    }
}

/// Looks for the peers again and again, and runs a worker for each. The workers end with this task.
async fn discover(shared: Arc<Shared>, mut discovery: Discovery) {
    let mut workers = JoinSet::new();
    loop {
        match discovery.find().await {
            Ok(found) => {
                let mut peers = shared.peers.lock();
                peers.retain(|address, (peer, worker)| {
                    if found.contains(address) {
                        peer.mark_found();
                        return true;
                    }
                    let stays = peer.mark_absent(shared.settings.keep_absent);
                    if !stays {
                        worker.abort();
                    }
                    stays
                });
                for address in found {
                    peers.entry(address.clone()).or_insert_with(|| {
                        let peer = Arc::new(Peer::new(address, shared.settings.max_pending));
                        let worker = Worker::new(Arc::clone(&peer), Arc::clone(&shared));
                        (peer, workers.spawn(worker.run()))
                    });
                }
                drop(peers);
                shared.found.send_replace(true);
            }
            Err(error) => {
                tracing::warn!("push: the peers stay as they are, they cannot be looked up: {error}");
            }
        }
        if discovery.is_fixed() {
            return std::future::pending().await;
        }
        sleep(shared.settings.rediscover).await;
        while workers.try_join_next().is_some() {}
    }
}

/// Reads the files with credentials again when they change.
async fn follow_files(shared: Arc<Shared>) {
    loop {
        sleep(PERIOD).await;
        let shared = Arc::clone(&shared);
        if spawn_blocking(move || shared.proofs.reload()).await.is_err() {
            return;
        }
    }
}
