//! The task that sends to one peer.
//!
//! One message, or one batch, is in flight at a time. It is tried again until each of its messages is
//! delivered, refused, out of tries, or superseded by a newer one of its object that waits.
//!
//! What is out of tries returns to the queue, and the peer counts as not reached. While it does, the worker
//! makes one try at a time. The time between two of them doubles, and a new message ends it early while the
//! [`Budget`] lasts.
//!
//! While the peer is absent, which means that discovery does not find it, the worker sends nothing. What is
//! in flight when that begins returns to the queue, of which only the deletes stay.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep};

use super::budget::Budget;
use super::client::{Client, Status};
use super::peer::Peer;
use super::queue::Pending;
use super::{Delivery, PushSettings, Shared};

/// The longest pause between two tries of a message, in units of [`PushSettings::pause`].
const MAX_PAUSES: u32 = 20;

pub(super) struct Worker {
    peer: Arc<Peer>,
    settings: PushSettings,
    client: Client,
    budget: Budget,
    /// Kept here, and not in a future, so that nothing is lost when the peer becomes absent during a try.
    in_flight: Vec<Pending>,
    /// While the peer is not reached: the time before the last try.
    back_off: Option<Duration>,
}

impl Worker {
    pub(super) fn new(peer: Arc<Peer>, shared: Arc<Shared>) -> Self {
        let settings = shared.settings.clone();
        let client = Client::new(peer.address.clone(), shared);
        let budget = Budget::new(Instant::now());
        Self { peer, settings, client, budget, in_flight: Vec::new(), back_off: None }
    }

    /// Sends for ever.
    pub(super) async fn run(mut self) {
        let mut absent = self.peer.absent.subscribe();
        loop {
            // The sender is part of the peer, so waiting does not fail.
            drop(absent.wait_for(Option::is_none).await);
            let is_absent = tokio::select! {
                () = self.send_next() => false,
                _ = absent.wait_for(Option::is_some) => true,
            };
            if is_absent {
                self.put_back();
                self.client.disconnect();
                self.back_off = None;
                self.peer.retain_deletes();
            }
        }
    }

    /// Waits for messages and sends them. After a failure, waits until the next try is due.
    async fn send_next(&mut self) {
        loop {
            self.in_flight = self.peer.take(self.client.batches, self.settings.keep);
            if !self.in_flight.is_empty() {
                break;
            }
            self.peer.queued.notified().await;
        }
        let delivered = self.deliver().await;
        self.put_back();
        if delivered {
            self.back_off = None;
            return;
        }
        let wait = self.back_off.map_or(self.settings.pause, |last| last * 2).max(self.retry_after());
        let wait = wait.min(self.settings.back_off).max(Duration::from_millis(1));
        self.back_off = Some(wait);
        self.rest(wait).await;
    }

    /// Tries the messages in flight. Those that have an outcome leave; returns whether all have. The others
    /// are resolved as failed, and stay.
    async fn deliver(&mut self) -> bool {
        let tries = if self.back_off.is_some() { 1 } else { self.settings.tries.max(1) };
        let since = Instant::now();
        self.budget.first(since);
        let mut reason = String::new();
        // Tries since a message last had its outcome.
        let mut vain = 0;
        while vain < tries && (vain == 0 || since.elapsed() < self.settings.give_up) {
            if vain > 0 {
                if !self.budget.again(Instant::now()) {
                    reason.push_str("; not tried again, too much of that lately");
                    break;
                }
                let pause = self.settings.pause * (1 << (vain - 1).min(16)).min(MAX_PAUSES);
                sleep(pause.max(self.retry_after())).await;
                self.peer.remove_superseded(&mut self.in_flight);
                if self.in_flight.is_empty() {
                    return true;
                }
                self.peer.count_retry();
            }
            let before = self.in_flight.len();
            reason = match self.client.send(&self.in_flight).await {
                Ok(statuses) => self.complete(statuses),
                Err(error) => error.to_string(),
            };
            if self.in_flight.len() < before {
                self.peer.recover();
                vain = 0;
            } else {
                vain += 1;
            }
            if self.in_flight.is_empty() {
                return true;
            }
        }
        self.peer.fail(&mut self.in_flight, self.settings.try_timeout, &reason);
        false
    }

    /// Removes the messages in flight whose status is final. Returns why another try is needed, if it is.
    fn complete(&mut self, statuses: Vec<Status>) -> String {
        let (mut statuses, mut reason) = (statuses.into_iter(), String::new());
        self.in_flight.retain_mut(|message| {
            let Some((status, error)) = statuses.next() else { return true };
            let delivery = if status.is_success() {
                Delivery::Delivered
            } else if is_final(status) {
                Delivery::Refused { status: status.as_u16(), reason: error }
            } else {
                reason = format!("the peer answered {}", status.as_u16());
                return true;
            };
            self.peer.complete(message, delivery);
            false
        });
        reason
    }

    fn put_back(&mut self) {
        self.peer.put_back(std::mem::take(&mut self.in_flight));
    }

    /// How long the peer has asked to be left alone, within bounds.
    fn retry_after(&mut self) -> Duration {
        self.client.retry_after.take().unwrap_or_default().min(self.settings.back_off)
    }

    /// Waits until the next try is due, or a message is queued and there is budget to try it.
    async fn rest(&mut self, wait: Duration) {
        let waited = sleep(wait);
        tokio::pin!(waited);
        loop {
            tokio::select! {
                () = &mut waited => return,
                () = self.peer.queued.notified() => if self.budget.again(Instant::now()) {
                    self.peer.count_retry();
                    return;
                },
            }
        }
    }
}

/// Whether a status is about the message itself, so that another try gets the same.
fn is_final(status: StatusCode) -> bool {
    let passing = [
        // The key or the token is being replaced, or the peer has just started.
        StatusCode::UNAUTHORIZED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_client_error() && !passing.contains(&status)
}
