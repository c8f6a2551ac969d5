//! The messages that wait for one peer: the newest of each object, in the order in which the objects came up.
//!
//! - A newer message replaces the one of its object that waits, in its place. So a slow peer gets fewer
//!   messages, and never an older one after a newer one.
//! - A message that could not be delivered returns to the front, unless a newer one of its object waits.
//! - A queue that is full gives up the living object that waits longest: a peer this far behind learns of it
//!   from its watch. It gives up a delete, the one that waits longest, only if nothing but deletes wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use hyper::body::Bytes;
use sandgate_routes::{ObjectKey, Version};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Delivery;

#[cfg(test)]
mod tests;

/// One message on its way to one peer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) key: ObjectKey,
    pub(super) version: Version,
    pub(super) deletes: bool,
    pub(super) body: Bytes,
    /// Since when the peer lacks news of the object.
    pub(super) since: Instant,
    /// When this message was pushed.
    pub(super) queued: Instant,
    pub(super) waiter: Option<oneshot::Sender<Delivery>>,
}

impl Pending {
    /// Gives the outcome to the caller that waits. Later outcomes of the same message are not reported.
    pub(super) fn resolve(&mut self, delivery: Delivery) {
        if let Some(waiter) = self.waiter.take() {
            // An error means that the caller does not wait any more.
            let _ = waiter.send(delivery);
        }
    }

    /// Whether this message replaces `other` of the same object. At one version a delete replaces what is
    /// none.
    fn supersedes(&self, other: &Self) -> bool {
        self.version > other.version || (self.version == other.version && self.deletes && !other.deletes)
    }
}

/// What happened when a message was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    /// It waits.
    Added,
    /// Its object had a message already. The newer of the two waits.
    Coalesced,
    /// The queue was full, so one message was given up: this one or another.
    Displaced,
}

#[derive(Debug)]
pub(super) struct Queue {
    order: BTreeMap<i64, Pending>,
    /// Where the message of each object stands.
    places: HashMap<ObjectKey, i64>,
    /// The places of messages that are no deletes.
    living: BTreeSet<i64>,
    max: usize,
}

impl Queue {
    pub(super) fn new(max: usize) -> Self {
        Self { order: BTreeMap::new(), places: HashMap::new(), living: BTreeSet::new(), max: max.max(1) }
    }

    /// Queues a new message.
    pub(super) fn push_back(&mut self, message: Pending) -> Queued {
        let last = self.order.last_key_value().map_or(0, |(place, _)| place + 1);
        self.push(last, message)
    }

    /// Queues a message again that was taken and not delivered.
    pub(super) fn push_front(&mut self, message: Pending) -> Queued {
        let first = self.order.first_key_value().map_or(0, |(place, _)| place - 1);
        self.push(first, message)
    }

    fn push(&mut self, place: i64, mut message: Pending) -> Queued {
        let known = self.places.get(&message.key).copied();
        if let Some((place, waiting)) = known.and_then(|at| Some((at, self.order.get_mut(&at)?))) {
            let since = waiting.since.min(message.since);
            if message.supersedes(waiting) {
                waiting.resolve(Delivery::Coalesced);
                message.since = since;
                self.put(place, message);
            } else {
                waiting.since = since;
                message.resolve(Delivery::Coalesced);
            }
            return Queued::Coalesced;
        }
        self.put(place, message);
        if self.order.len() <= self.max {
            return Queued::Added;
        }
        let longest = self.living.first().or_else(|| self.order.keys().next()).copied();
        if let Some(mut given_up) = longest.and_then(|place| self.remove(place)) {
            given_up.resolve(Delivery::Dropped);
        }
        Queued::Displaced
    }

    /// Puts a message at a place. It replaces the message that is there, which is of the same object.
    fn put(&mut self, place: i64, message: Pending) {
        if message.deletes {
            self.living.remove(&place);
        } else {
            self.living.insert(place);
        }
        self.places.insert(message.key.clone(), place);
        self.order.insert(place, message);
    }

    fn remove(&mut self, place: i64) -> Option<Pending> {
        let message = self.order.remove(&place)?;
        self.living.remove(&place);
        self.places.remove(&message.key);
        Some(message)
    }

    /// Takes the first message.
    pub(super) fn pop(&mut self) -> Option<Pending> {
        let first = *self.order.first_key_value()?.0;
        self.remove(first)
    }

    /// Resolves the messages that have waited this long, and keeps them. Returns how many there were.
    pub(super) fn resolve_overdue(&mut self, waited: Duration, delivery: &Delivery) -> usize {
        let overdue = |message: &&mut Pending| message.waiter.is_some() && message.queued.elapsed() >= waited;
        self.order.values_mut().filter(overdue).map(|message| message.resolve(delivery.clone())).count()
    }

    /// Gives up everything but the deletes, and returns how many messages that were. Resolves what it gives
    /// up as dropped, and what it keeps as failed for this reason.
    pub(super) fn retain_deletes(&mut self, reason: &str) -> usize {
        let given_up = std::mem::take(&mut self.living);
        for place in &given_up {
            if let Some(mut message) = self.remove(*place) {
                message.resolve(Delivery::Dropped);
            }
        }
        for message in self.order.values_mut() {
            message.resolve(Delivery::Failed { reason: reason.to_owned() });
        }
        given_up.len()
    }

    /// Whether a message waits that replaces this one.
    pub(super) fn supersedes(&self, message: &Pending) -> bool {
        let waiting = self.places.get(&message.key).and_then(|place| self.order.get(place));
        waiting.is_some_and(|waiting| waiting.supersedes(message))
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Since when the first message's object waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.order.first_key_value().map(|(_, message)| message.since)
    }
}
