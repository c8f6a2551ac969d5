//! What one peer has still to be told: the newest of each object, in the order in which the objects came up.
//!
//! A newer version takes the place of the older one that waits, so a slow peer is told less often and never something
//! older after something newer. What could not be delivered comes back to its place, unless something newer has come.
//! As many objects wait as there is room for; past that the living one that waits longest goes, since a peer that is this
//! far behind learns from its watch. A delete goes only where nothing but deletes wait.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use hyper::body::Bytes;
use sandgate_routes::{ObjectKey, Version};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Delivery;

/// One message on its way to one peer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) key: ObjectKey,
    pub(super) version: Version,
    pub(super) deletes: bool,
    pub(super) body: Bytes,
    /// Since when its object waits to be told of.
    pub(super) since: Instant,
    /// When it was handed over.
    pub(super) queued: Instant,
    pub(super) waiter: Option<oneshot::Sender<Delivery>>,
}

impl Pending {
    /// Gives the caller that waits the outcome, once.
    pub(super) fn resolve(&mut self, delivery: Delivery) {
        if let Some(waiter) = self.waiter.take() {
            // An error means that the caller does not wait any more.
            let _ = waiter.send(delivery);
        }
    }

    /// Whether this says more than `other` of the same object: a delete also counts at the same version.
    fn supersedes(&self, other: &Self) -> bool {
        self.version > other.version || (self.version == other.version && self.deletes && !other.deletes)
    }
}

/// What became of a message that was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    /// It waits.
    Added,
    /// It or an older one of its object was left out: one of them waits.
    Coalesced,
    /// There was no room: another object's message was given up for it, or it was, where only deletes wait.
    Displaced,
}

#[derive(Debug)]
pub(super) struct Queue {
    newest: HashMap<ObjectKey, (i64, Pending)>,
    /// The objects by their places in the order, those that live and those that are deleted.
    living: BTreeMap<i64, ObjectKey>,
    deleted: BTreeMap<i64, ObjectKey>,
    max: usize,
}

impl Queue {
    pub(super) fn new(max: usize) -> Self {
        Self { newest: HashMap::new(), living: BTreeMap::new(), deleted: BTreeMap::new(), max: max.max(1) }
    }

    pub(super) fn push(&mut self, mut message: Pending) -> Queued {
        if let Some((place, waiting)) = self.newest.get_mut(&message.key) {
            if !message.supersedes(waiting) {
                message.resolve(Delivery::Coalesced);
                return Queued::Coalesced;
            }
            waiting.resolve(Delivery::Coalesced);
            // It waits as long as its object does.
            message.since = waiting.since;
            let place = *place;
            self.put(place, message);
            return Queued::Coalesced;
        }
        let full = self.newest.len() >= self.max;
        if full {
            if self.living.is_empty() && !message.deletes {
                message.resolve(Delivery::Dropped);
                return Queued::Displaced;
            }
            if let Some(mut given_up) = self.give_up_one() {
                given_up.resolve(Delivery::Dropped);
            }
        }
        let last = self.living.last_key_value().max(self.deleted.last_key_value());
        self.put(last.map_or(0, |(place, _)| place + 1), message);
        if full { Queued::Displaced } else { Queued::Added }
    }

    /// Puts a message at its place, whatever of its object was there.
    fn put(&mut self, place: i64, message: Pending) {
        let (here, elsewhere) = if message.deletes {
            (&mut self.deleted, &mut self.living)
        } else {
            (&mut self.living, &mut self.deleted)
        };
        elsewhere.remove(&place);
        here.insert(place, message.key.clone());
        self.newest.insert(message.key.clone(), (place, message));
    }

    /// Takes the one out that can be missed best: of the living the one that waits longest, and else of the deletes.
    fn give_up_one(&mut self) -> Option<Pending> {
        let (_, key) = self.living.pop_first().or_else(|| self.deleted.pop_first())?;
        self.newest.remove(&key).map(|(_, message)| message)
    }

    /// Puts back what was taken and could not be delivered, before what has come since. Gives those there is no room for,
    /// and says how many something newer waits for.
    pub(super) fn put_back(&mut self, messages: Vec<Pending>) -> (Vec<Pending>, usize) {
        let (mut left, mut needless) = (Vec::new(), 0);
        for mut message in messages.into_iter().rev() {
            if let Some((place, waiting)) = self.newest.get_mut(&message.key) {
                needless += 1;
                if message.supersedes(waiting) {
                    waiting.resolve(Delivery::Coalesced);
                    let place = *place;
                    self.put(place, message);
                } else {
                    waiting.since = message.since;
                    message.resolve(Delivery::Coalesced);
                }
                continue;
            }
            if self.newest.len() >= self.max {
                if !message.deletes || self.living.is_empty() {
                    left.push(message);
                    continue;
                }
                left.extend(self.give_up_one());
            }
            let first = self.first().map_or(0, |(place, _)| place - 1);
            self.put(first, message);
        }
        for message in &mut left {
            message.resolve(Delivery::Dropped);
        }
        (left, needless)
    }

    /// The place and the object that come first.
    fn first(&self) -> Option<(i64, &ObjectKey)> {
        let firsts = [self.living.first_key_value(), self.deleted.first_key_value()];
        firsts.into_iter().flatten().min().map(|(place, key)| (*place, key))
    }

    /// Resolves the messages that have waited this long, and keeps them. Gives how many there were.
    pub(super) fn resolve_overdue(&mut self, waited: Duration, delivery: &Delivery) -> usize {
        let long = |message: &&mut Pending| message.waiter.is_some() && message.queued.elapsed() >= waited;
        let waiting = self.newest.values_mut().map(|(_, message)| message);
        waiting.filter(long).map(|message| message.resolve(delivery.clone())).count()
    }

    /// Gives up everything but the deletes. Whoever waits is told that it was dropped, or why it was kept. Says how many
    /// were given up.
    pub(super) fn keep_deletes(&mut self, reason: &str) -> usize {
        let before = self.newest.len();
        self.newest.retain(|_, (_, message)| {
            let deletes = message.deletes;
            let kept = || Delivery::Failed { reason: reason.to_owned() };
            message.resolve(if deletes { kept() } else { Delivery::Dropped });
            deletes
        });
        self.living.clear();
        before - self.newest.len()
    }

    /// Takes up to `max` messages, those that wait longest.
    pub(super) fn take(&mut self, max: usize) -> Vec<Pending> {
        std::iter::from_fn(|| self.take_first()).take(max).collect()
    }

    fn take_first(&mut self) -> Option<Pending> {
        let (place, key) = self.first()?;
        let key = key.clone();
        self.living.remove(&place);
        self.deleted.remove(&place);
        self.newest.remove(&key).map(|(_, message)| message)
    }

    /// Whether something waits that makes this one needless.
    pub(super) fn supersedes(&self, message: &Pending) -> bool {
        self.newest.get(&message.key).is_some_and(|(_, waiting)| waiting.supersedes(message))
    }

    pub(super) fn len(&self) -> usize {
        self.newest.len()
    }

    /// Since when the first in the queue waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let (_, key) = self.first()?;
        self.newest.get(key).map(|(_, message)| message.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, version: u64, deletes: bool) -> (Pending, oneshot::Receiver<Delivery>) {
        let (waiter, told) = oneshot::channel();
        let pending = Pending {
            key: ObjectKey::new("p", "n", name).unwrap(),
            version: version.to_string().parse().unwrap(),
            deletes,
            body: Bytes::from(format!("{name}@{version}")),
            since: Instant::now(),
            queued: Instant::now(),
            waiter: Some(waiter),
        };
        (pending, told)
    }

    fn bodies(taken: &[Pending]) -> Vec<&str> {
        taken.iter().map(|message| str::from_utf8(&message.body).unwrap()).collect()
    }

    #[test]
    fn the_newest_of_each_object_is_taken_in_the_order_of_the_objects() {
        let mut queue = Queue::new(10);
        let mut told = Vec::new();
        for (name, version) in [("a", 1), ("b", 5), ("a", 3), ("c", 1), ("a", 2), ("b", 4)] {
            let (pending, waiter) = message(name, version, false);
            queue.push(pending);
            told.push(waiter);
        }
        assert_eq!((queue.len(), bodies(&queue.take(2))), (3, vec!["a@3", "b@5"]));
        assert_eq!(bodies(&queue.take(9)), ["c@1"]);
        assert!(queue.take(1).is_empty() && queue.oldest().is_none());
        // a@1, a@2 and b@4 were left out, and their callers know.
        let left_out: Vec<bool> =
            told.iter_mut().map(|told| told.try_recv() == Ok(Delivery::Coalesced)).collect();
        assert_eq!(left_out, [true, false, false, false, true, true]);
    }

    #[test]
    fn at_one_version_a_delete_counts_and_is_not_taken_back() {
        let mut queue = Queue::new(10);
        for deletes in [false, true, false] {
            queue.push(message("a", 7, deletes).0);
        }
        let taken = queue.take(1);
        assert!(taken[0].deletes);
        queue.push(message("a", 7, false).0);
        assert!(!queue.supersedes(&taken[0]));
        queue.push(message("a", 8, false).0);
        assert!(queue.supersedes(&taken[0]));
    }

    #[test]
    fn past_its_room_the_one_that_waits_longest_is_given_up() {
        let mut queue = Queue::new(2);
        let (first, mut told) = message("a", 1, false);
        assert_eq!(queue.push(first), Queued::Added);
        assert_eq!(queue.push(message("b", 1, false).0), Queued::Added);
        assert_eq!(queue.push(message("b", 2, false).0), Queued::Coalesced);
        assert_eq!(queue.push(message("c", 1, false).0), Queued::Displaced);
        assert_eq!(told.try_recv(), Ok(Delivery::Dropped));
        assert_eq!(bodies(&queue.take(9)), ["b@2", "c@1"]);
    }

    #[test]
    fn past_its_room_a_delete_is_the_last_to_be_given_up() {
        let mut queue = Queue::new(3);
        let (living, mut told) = message("b", 1, false);
        queue.push(message("a", 1, true).0);
        queue.push(living);
        queue.push(message("c", 1, true).0);
        assert_eq!(queue.push(message("d", 1, false).0), Queued::Displaced);
        assert_eq!(told.try_recv(), Ok(Delivery::Dropped), "the living one that waits longest goes");
        assert_eq!(queue.push(message("e", 1, true).0), Queued::Displaced);
        // Only deletes are left: what lives finds no room.
        let (living, mut told) = message("f", 1, false);
        assert_eq!(queue.push(living), Queued::Displaced);
        assert_eq!(told.try_recv(), Ok(Delivery::Dropped));
        // Among deletes the one that waits longest goes.
        assert_eq!(queue.push(message("g", 1, true).0), Queued::Displaced);
        assert_eq!(bodies(&queue.take(9)), ["c@1", "e@1", "g@1"]);

        // One that was under way comes back to a full queue.
        for (name, deletes) in [("a", true), ("b", false), ("c", true)] {
            queue.push(message(name, 1, deletes).0);
        }
        let taken = queue.take(3);
        for (name, deletes) in [("d", true), ("e", false), ("f", false)] {
            queue.push(message(name, 1, deletes).0);
        }
        let (left, needless) = queue.put_back(taken);
        assert_eq!((bodies(&left), needless), (vec!["e@1", "b@1", "f@1"], 0));
        assert_eq!(bodies(&queue.take(9)), ["a@1", "c@1", "d@1"]);
    }

    #[test]
    fn a_message_that_another_took_the_place_of_counts_as_what_it_is_now() {
        let mut queue = Queue::new(2);
        for (name, version, deletes) in [("a", 1, true), ("a", 2, false), ("b", 1, false), ("b", 2, true)] {
            queue.push(message(name, version, deletes).0);
        }
        assert_eq!(queue.push(message("c", 1, true).0), Queued::Displaced);
        assert_eq!(bodies(&queue.take(9)), ["b@2", "c@1"]);
    }

    #[test]
    fn of_a_peer_that_is_gone_the_deletes_are_kept() {
        let mut queue = Queue::new(10);
        let mut told = Vec::new();
        for (name, deletes) in [("a", true), ("b", false), ("c", true)] {
            let (pending, waiter) = message(name, 1, deletes);
            queue.push(pending);
            told.push(waiter);
        }
        assert_eq!(queue.keep_deletes("gone"), 1);
        let kept = || Delivery::Failed { reason: "gone".to_owned() };
        let told: Vec<Delivery> = told.iter_mut().map(|told| told.try_recv().unwrap()).collect();
        assert_eq!(told, [kept(), Delivery::Dropped, kept()]);
        assert_eq!((queue.len(), bodies(&queue.take(9))), (2, vec!["a@1", "c@1"]));
    }

    #[test]
    fn what_comes_back_stands_first_unless_something_newer_waits_or_there_is_no_room() {
        let mut queue = Queue::new(3);
        for name in ["a", "b", "c"] {
            queue.push(message(name, 1, false).0);
        }
        let taken = queue.take(3);
        queue.push(message("d", 1, false).0);
        queue.push(message("b", 2, false).0);
        let (left, needless) = queue.put_back(taken);
        // From the last to the first, as far as there is room: c is back, b is told by b@2, a finds no room.
        assert_eq!((bodies(&left), needless), (vec!["a@1"], 1));
        assert_eq!(bodies(&queue.take(9)), ["c@1", "d@1", "b@2"]);
        // Something older that came in the meantime does not count.
        queue.push(message("e", 5, false).0);
        let taken = queue.take(1);
        queue.push(message("e", 4, false).0);
        queue.put_back(taken);
        assert_eq!(bodies(&queue.take(9)), ["e@5"]);
    }
}
