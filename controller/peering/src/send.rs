//! Pushing routes to peers: what a manager does when it pauses or deletes a sandbox.
//!
//! [`Pusher::push`] hands a message to every peer at once and returns; each peer has a queue and a worker of its own, so
//! none waits for another. To one peer messages go one after the other, in the order in which their objects came up, and
//! where it is slow only the newest version of an object is sent. The [`Ticket`] says what became of a message, within
//! the caller's deadline and never later; what is not settled then is still sent.
//!
//! There are ten tries, 10 ms apart at first and longer and longer after that. To connect, TLS included, may take 300 ms at
//! first, and an answer 100 ms; a peer that is slower is waited for as long as it has been seen to take (see [`pace`]). No
//! further try begins after two seconds. How many repeated tries there are in all is bounded for each peer. An answer that is about the message (400,
//! 413 and the like) is final. One that is about the moment or the sender's credentials (401, 408, 425, 429, 5xx) is not: a
//! key that is being replaced, a gateway that restarts or drains.
//!
//! After the last of them the ticket says that it failed, and the failure is counted and logged. The message is kept: a
//! peer that was cut off is tried again, a second apart at the most, and told the newest of every object that it has
//! missed. How many objects are kept is bounded by [`PushSettings::max_pending`], and for how long by
//! [`PushSettings::keep`]: what says that a sandbox lives must not arrive when the peer may have forgotten, with its
//! tombstone, that the sandbox has died since. What says that it is dead can do no harm and is kept until it is delivered.
//!
//! A peer that is not among those found any more is not spoken to: its address may be another's by now. The deletes that
//! it has not got are kept for [`PushSettings::keep_absent`], with those that come meanwhile, and sent if it returns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use parking_lot::Mutex;
use sandgate_routes::{Capability, Fate, State, verdict};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout_at};

mod address;
mod budget;
mod connection;
mod credentials;
mod discover;
mod pace;
mod queue;
mod tls;
mod worker;

#[cfg(all(test, feature = "receive"))]
mod tests;

#[cfg(all(test, feature = "receive"))]
pub(crate) use tls::client_config;

pub use address::{PeerAddress, PeerAddressError};
pub use credentials::Credentials;
pub use discover::Peers;

use credentials::Proofs;
use discover::Discovery;
use queue::Pending;
use worker::Peer;

use crate::credential::CredentialError;
use crate::message::{MessageError, RouteMessage};
use crate::reload::PERIOD;

/// How a pusher pushes.
#[derive(Clone, Debug)]
pub struct PushSettings {
    /// How often a message is tried.
    pub tries: u32,
    /// How long it may take to connect, TLS included, at first. A peer that is slower is given more time.
    pub connect_timeout: Duration,
    /// How long an answer may take, at first. A peer that is slower is given more time.
    pub try_timeout: Duration,
    /// The most time that either is ever given.
    pub max_try_timeout: Duration,
    /// How long the tries of a message may take together. The one that is under way then is the last.
    pub give_up: Duration,
    /// Between the first two tries. It doubles with each try, up to twenty times as long.
    pub pause: Duration,
    /// The longest time between two tries of a peer that is not reached. It begins with `pause` and doubles.
    pub back_off: Duration,
    /// How long a message is kept for a peer that is not reached, unless it is a delete. To be shorter than the tombstones of
    /// the receivers live (`tombstone-lifetime-seconds`, 600 unless it is set).
    pub keep: Duration,
    /// How long the deletes are kept of a peer that is not among those found any more.
    pub keep_absent: Duration,
    /// Send what waits together, as one batch, to peers that take batches.
    pub batch: bool,
    /// Objects that may wait for one peer. Past that the living go first, and deletes only where nothing else waits.
    pub max_pending: usize,
    /// How often peers are looked for.
    pub rediscover: Duration,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self {
            tries: 10,
            connect_timeout: Duration::from_millis(300),
            try_timeout: Duration::from_millis(100),
            max_try_timeout: Duration::from_secs(2),
            give_up: Duration::from_secs(2),
            pause: Duration::from_millis(10),
            back_off: Duration::from_secs(1),
            keep: Duration::from_secs(300),
            keep_absent: Duration::from_secs(600),
            batch: true,
            max_pending: 100_000,
            rediscover: Duration::from_secs(5),
        }
    }
}

/// What became of a message at one peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The peer has it: applied, or ignored because it knew as much.
    Delivered,
    /// The peer does not want it, and will not.
    Refused {
        /// Its answer.
        status: u16,
        /// What it said was wrong.
        reason: String,
    },
    /// It could not be delivered in all its tries. It is kept for when the peer is reached again.
    Failed {
        /// Why the last one failed.
        reason: String,
    },
    /// It was not sent, because something newer of the same object is.
    Coalesced,
    /// It was given up: the peer is too far behind, was not reached for too long, or is gone.
    Dropped,
    /// The deadline came first; it is still being sent.
    Pending,
}

/// Numbers about one peer since it was found.
#[derive(Clone, Debug)]
pub struct PeerMetrics {
    /// The peer.
    pub peer: PeerAddress,
    /// Messages delivered.
    pub sent: u64,
    /// Messages the peer does not want.
    pub refused: u64,
    /// Messages that failed in all their tries.
    pub failed: u64,
    /// Messages not sent because of newer ones.
    pub coalesced: u64,
    /// Messages given up for want of room, or because they were kept for too long.
    pub dropped: u64,
    /// Tries after the first.
    pub retries: u64,
    /// Objects that wait.
    pub pending: u64,
    /// How long the oldest message waits that is not settled.
    pub lag: Duration,
    /// Why the peer is not reached, if it is not.
    pub error: Option<String>,
}

/// Why a pusher cannot start. A retry helps once the files are right.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// A file with credentials is missing or wrong.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

/// Pushes routes to peers. Cheap to clone; with the last one everything ends.
#[derive(Clone)]
pub struct Pusher(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

struct Shared {
    settings: PushSettings,
    proofs: Arc<Proofs>,
    peers: Mutex<BTreeMap<PeerAddress, (Arc<Peer>, AbortHandle)>>,
    /// Whether the peers have been found once.
    found: watch::Sender<bool>,
}

impl Pusher {
    /// Starts on the current Tokio runtime: peers are looked for, and reached when there is something to tell them.
    ///
    /// # Errors
    /// When a file with credentials is missing or wrong.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(settings: PushSettings, peers: Peers, credentials: &Credentials) -> Result<Self, PushError> {
        let proofs = Arc::new(Proofs::read(credentials)?);
        let (found, _) = watch::channel(false);
        let shared = Arc::new(Shared { settings, proofs, peers: Mutex::default(), found });
        let discovering = tokio::spawn(discover(Arc::clone(&shared), Discovery::new(peers)));
        let following = tokio::spawn(follow_files(Arc::clone(&shared.proofs)));
        let tasks = vec![discovering.abort_handle(), following.abort_handle()];
        Ok(Self(Arc::new(Inner { shared, tasks })))
    }

    /// Waits until the peers have been found for the first time; says whether they were, by the deadline.
    pub async fn found(&self, deadline: Instant) -> bool {
        let mut found = self.0.shared.found.subscribe();
        let waited = timeout_at(deadline, found.wait_for(|found| *found)).await;
        waited.is_ok_and(|found| found.is_ok())
    }

    /// Hands a message to every peer there is, and returns at once. A peer that is not found any more is handed deletes, and
    /// is not on the ticket.
    ///
    /// # Errors
    /// When the message names no object or has no version: then it has no order, and is not sent.
    pub fn push(&self, message: &RouteMessage) -> Result<Ticket, MessageError> {
        // The provider is the receiver's business; here the name only tells objects apart.
        let (key, version) = message.identity("peer")?;
        let state: State = message.state.parse().map_err(|_| MessageError::State)?;
        let deletes = verdict(state, Capability::default()).fate == Fate::Delete;
        let body = Bytes::from(serde_json::to_vec(message).map_err(|_| MessageError::NotJson)?);
        let since = Instant::now();
        let peers = self.0.shared.peers.lock();
        let hand_over = |(address, (peer, _)): (&PeerAddress, &(Arc<Peer>, AbortHandle))| {
            let (waiter, delivery) = oneshot::channel();
            let found = peer.push(Pending {
                key: key.clone(),
                version: version.clone(),
                deletes,
                body: body.clone(),
                since,
                queued: since,
                waiter: Some(waiter),
            });
            found.then(|| (address.clone(), delivery))
        };
        Ok(Ticket { answers: peers.iter().filter_map(hand_over).collect() })
    }

    /// Numbers about each peer.
    pub fn metrics(&self) -> Vec<PeerMetrics> {
        self.0.shared.peers.lock().values().map(|(peer, _)| peer.metrics()).collect()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.shared.peers.lock().values().for_each(|(_, task)| task.abort());
    }
}

async fn discover(shared: Arc<Shared>, mut discovery: Discovery) {
    loop {
        match discovery.find().await {
            Ok(found) => {
                let mut peers = shared.peers.lock();
                peers.retain(|address, (peer, task)| {
                    let stays = if found.contains(address) {
                        peer.found();
                        true
                    } else {
                        peer.lost(shared.settings.keep_absent)
                    };
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for address in found {
                    peers.entry(address.clone()).or_insert_with(|| {
                        let peer = Arc::new(Peer::new(address, shared.settings.max_pending));
                        let run = Arc::clone(&peer).run(shared.settings.clone(), Arc::clone(&shared.proofs));
                        (peer, tokio::spawn(run).abort_handle())
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
            return;
        }
        sleep(shared.settings.rediscover).await;
    }
}

async fn follow_files(proofs: Arc<Proofs>) {
    loop {
        sleep(PERIOD).await;
        let proofs = Arc::clone(&proofs);
        if spawn_blocking(move || proofs.reload()).await.is_err() {
            return;
        }
    }
}

/// What will have become of a message.
#[derive(Debug)]
pub struct Ticket {
    answers: Vec<(PeerAddress, oneshot::Receiver<Delivery>)>,
}

impl Ticket {
    /// What became of it at each peer, as far as it is known by the deadline.
    pub async fn outcomes(self, deadline: Instant) -> Vec<(PeerAddress, Delivery)> {
        let mut outcomes = Vec::with_capacity(self.answers.len());
        for (peer, answer) in self.answers {
            let delivery = match timeout_at(deadline, answer).await {
                Ok(Ok(delivery)) => delivery,
                Ok(Err(_)) => Delivery::Dropped,
                Err(_) => Delivery::Pending,
            };
            outcomes.push((peer, delivery));
        }
        outcomes
    }
}
