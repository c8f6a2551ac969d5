//! One peer: what waits for it, what is in flight to it, and its metrics.
//!
//! The [`Pusher`](super::Pusher) adds messages and says whether the peer is among those that discovery finds.
//! The peer's [`Worker`](super::worker::Worker) takes messages out and records what became of them. Neither
//! waits for the other.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::queue::{Pending, Queue, Queued};
use super::{Delivery, PeerAddress};

/// The messages of one batch, and their bytes: far below the limits of a receiver.
pub(super) const BATCH_MESSAGES: usize = 500;
const BATCH_BYTES: usize = 4 << 20;
const ABSENT: &str = "not among the peers that were found";

/// Numbers about one peer since it was found.
#[derive(Clone, Debug)]
pub struct PeerMetrics {
    /// The peer.
    pub peer: PeerAddress,
    /// Messages that were delivered.
    pub sent: u64,
    /// Messages that the peer refused.
    pub refused: u64,
    /// Messages that failed in all their tries.
    pub failed: u64,
    /// Messages that were not sent because a newer one of their object was.
    pub coalesced: u64,
    /// Messages that were given up, because the queue was full or they were too old.
    pub dropped: u64,
    /// Tries after the first.
    pub retries: u64,
    /// Objects that wait.
    pub pending: u64,
    /// How long the object that waits longest has waited, in the queue or in flight.
    pub lag: Duration,
    /// Why the peer is not reached, if it is not.
    pub error: Option<String>,
}

pub(super) struct Peer {
    pub(super) address: PeerAddress,
    /// Since when the peer is not among those found; `None` while it is.
    pub(super) absent: watch::Sender<Option<Instant>>,
    /// A message was queued.
    pub(super) queued: Notify,
    state: Mutex<State>,
}

/// Under one lock, so that a message is always seen in the queue or in flight.
struct State {
    queue: Queue,
    /// Since when the oldest object in flight waits.
    in_flight: Option<Instant>,
    /// `pending` and `lag` are filled in by [`Peer::metrics`].
    metrics: PeerMetrics,
}

impl State {
    fn count(&mut self, queued: Queued) {
        match queued {
            Queued::Added => {}
            Queued::Coalesced => self.metrics.coalesced += 1,
            Queued::Displaced => self.metrics.dropped += 1,
        }
    }
}

impl Peer {
    pub(super) fn new(address: PeerAddress, max_pending: usize) -> Self {
        let metrics = PeerMetrics {
            peer: address.clone(),
            sent: 0,
            refused: 0,
            failed: 0,
            coalesced: 0,
            dropped: 0,
            retries: 0,
            pending: 0,
            lag: Duration::ZERO,
            error: None,
        };
        let state = State { queue: Queue::new(max_pending), in_flight: None, metrics };
        Self { address, absent: watch::Sender::new(None), queued: Notify::new(), state: Mutex::new(state) }
    }

    /// Queues a message and never waits. For a peer that is absent only deletes are queued, and nobody waits
    /// for their outcome. Returns whether the peer is among those found.
    pub(super) fn push(&self, mut message: Pending) -> bool {
        let is_found = self.absent.borrow().is_none();
        if !is_found {
            if !message.deletes {
                return false;
            }
            message.waiter = None;
        }
        let mut state = self.state.lock();
        let queued = state.queue.push_back(message);
        state.count(queued);
        drop(state);
        self.queued.notify_one();
        is_found
    }

    /// Discovery has found the peer.
    pub(super) fn mark_found(&self) {
        self.absent.send_if_modified(|absent| absent.take().is_some());
    }

    /// Discovery has not found the peer. Returns whether to keep it: for this long, while it lacks deletes.
    pub(super) fn mark_absent(&self, keep: Duration) -> bool {
        let mut since = Instant::now();
        let is_news = self.absent.send_if_modified(|absent| {
            let is_news = absent.is_none();
            since = *absent.get_or_insert(since);
            is_news
        });
        if is_news {
            self.retain_deletes();
            self.state.lock().metrics.error = Some(ABSENT.to_owned());
            // The worker returns what is in flight to the queue. The next call sees whether deletes are among
            // it.
            return true;
        }
        let state = self.state.lock();
        (state.queue.len() > 0 || state.in_flight.is_some()) && since.elapsed() < keep
    }

    /// Gives up everything in the queue but the deletes, because the peer is absent.
    pub(super) fn retain_deletes(&self) {
        let mut state = self.state.lock();
        state.metrics.dropped += state.queue.retain_deletes(ABSENT) as u64;
    }

    /// Takes the first message, or the first batch, out of the queue. Messages older than `keep` that are no
    /// deletes are given up.
    pub(super) fn take(&self, batches: bool, keep: Duration) -> Vec<Pending> {
        let mut state = self.state.lock();
        let max = if batches { BATCH_MESSAGES } else { 1 };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < max && bytes < BATCH_BYTES {
            let Some(mut next) = state.queue.pop() else { break };
            if !next.deletes && next.queued.elapsed() > keep {
                state.metrics.dropped += 1;
                next.resolve(Delivery::Dropped);
                continue;
            }
            bytes += next.body.len();
            taken.push(next);
        }
        state.in_flight = taken.iter().map(|message| message.since).min();
        taken
    }

    /// Returns what was taken and not delivered to the front of the queue, in its order.
    pub(super) fn put_back(&self, messages: Vec<Pending>) {
        let mut state = self.state.lock();
        for message in messages.into_iter().rev() {
            let queued = state.queue.push_front(message);
            state.count(queued);
        }
        state.in_flight = None;
    }

    /// Removes the messages that a newer one in the queue replaces.
    pub(super) fn remove_superseded(&self, messages: &mut Vec<Pending>) {
        let State { queue, metrics, .. } = &mut *self.state.lock();
        messages.retain_mut(|message| {
            let superseded = queue.supersedes(message);
            if superseded {
                metrics.coalesced += 1;
                message.resolve(Delivery::Coalesced);
            }
            !superseded
        });
    }

    /// Another try begins.
    pub(super) fn count_retry(&self) {
        self.state.lock().metrics.retries += 1;
    }

    /// Resolves a message that has its final answer.
    pub(super) fn complete(&self, message: &mut Pending, delivery: Delivery) {
        let metrics = &mut self.state.lock().metrics;
        match delivery {
            Delivery::Delivered => metrics.sent += 1,
            _ => metrics.refused += 1,
        }
        message.resolve(delivery);
    }

    /// Resolves messages that are out of tries, and those in the queue that have waited as long as a try
    /// takes: they would fare no better. All of them are kept. The first failure is logged.
    pub(super) fn fail(&self, messages: &mut [Pending], try_timeout: Duration, reason: &str) {
        let failed = Delivery::Failed { reason: reason.to_owned() };
        let mut state = self.state.lock();
        for message in messages.iter_mut().filter(|message| message.waiter.is_some()) {
            state.metrics.failed += 1;
            message.resolve(failed.clone());
        }
        state.metrics.failed += state.queue.resolve_overdue(try_timeout, &failed) as u64;
        let is_news = state.metrics.error.replace(reason.to_owned()).is_none();
        drop(state);
        if is_news {
            tracing::warn!("push: {} is not reached: {reason}", self.address);
        }
    }

    /// The peer has answered for good. Logs if it did not before.
    pub(super) fn recover(&self) {
        let error = self.state.lock().metrics.error.take();
        if error.is_some() {
            tracing::info!("push: {} is reached again", self.address);
        }
    }

    pub(super) fn metrics(&self) -> PeerMetrics {
        let state = self.state.lock();
        let oldest = state.in_flight.or(state.queue.oldest());
        PeerMetrics {
            pending: state.queue.len() as u64,
            lag: oldest.map_or(Duration::ZERO, |since| since.elapsed()),
            ..state.metrics.clone()
        }
    }
}
