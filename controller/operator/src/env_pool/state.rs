//! What is remembered of a pool from one look to the next. Nothing of it is needed after a start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::Key;
use crate::autoscale::ScaleSession;
use crate::failures::Failures;

/// How long a pod is left alone after the API server refused a write to it.
const REFUSED: SignedDuration = SignedDuration::from_secs(30);
/// How often a pool tells of such refusals at most.
const TOLD: SignedDuration = SignedDuration::from_mins(5);

/// What is remembered of one pool.
#[derive(Debug, Default)]
pub(super) struct State {
    uid: Arc<str>,
    generation: Option<i64>,
    /// The pods that have to be looked at.
    pub(super) todo: BTreeSet<Key>,
    /// When other pods have to be.
    pub(super) waits: BTreeMap<Key, Timestamp>,
    /// The pods to which a write was refused, and until when they are left alone.
    refused: BTreeMap<Key, Timestamp>,
    /// When such a refusal was told last.
    told: Option<Timestamp>,
    /// Whether it was told that pods without a controller name this pool.
    pub(super) has_strays: bool,
    /// How its pods have failed.
    pub(super) failures: Failures,
    /// How far its scale-down is, as people are told of it.
    pub(super) session: ScaleSession,
}

impl State {
    /// Makes this the state of the pool of this UID. Whether every pod of it has to be looked at: the pool is
    /// another one, or asks for something else.
    pub(super) fn be_of(&mut self, uid: &Arc<str>, generation: Option<i64>) -> bool {
        if self.uid != *uid {
            *self = Self { uid: Arc::clone(uid), generation, ..Self::default() };
            return true;
        }
        std::mem::replace(&mut self.generation, generation) != generation
    }

    /// The pods that have to be looked at now, at most so many, and whether there are more.
    pub(super) fn due(&mut self, now: Timestamp, limit: usize) -> (Vec<Key>, bool) {
        let due = self.waits.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone());
        let due: Vec<_> = due.collect();
        for key in due {
            self.waits.remove(&key);
            self.todo.insert(key);
        }
        self.refused.retain(|_, until| *until > now);
        for (key, until) in &self.refused {
            if self.todo.remove(key) {
                self.waits.insert(key.clone(), *until);
            }
        }
        let keys: Vec<_> = self.todo.iter().take(limit).cloned().collect();
        let has_more = self.todo.len() > keys.len();
        (keys, has_more)
    }

    /// A pod was looked at, and has to be again at this time.
    pub(super) fn looked(&mut self, key: &Key, again: Option<Timestamp>) {
        self.todo.remove(key);
        match again {
            Some(again) => drop(self.waits.insert(key.clone(), again)),
            None => drop(self.waits.remove(key)),
        }
    }

    /// A write to a pod was refused. Whether people are told of it.
    pub(super) fn refused(&mut self, key: &Key, now: Timestamp) -> bool {
        let until = now.checked_add(REFUSED).unwrap_or(Timestamp::MAX);
        self.looked(key, Some(until));
        self.refused.insert(key.clone(), until);
        let is_news = self.told.is_none_or(|told| now.duration_since(told) >= TOLD);
        if is_news {
            self.told = Some(now);
        }
        is_news
    }

    /// The names of the pods that are left alone now.
    pub(super) fn left_alone(&self, now: Timestamp) -> BTreeSet<Arc<str>> {
        let held = self.refused.iter().filter(|(_, until)| **until > now);
        held.map(|(key, _)| Arc::clone(&key.name)).collect()
    }

    /// When the next pod has to be looked at.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.waits.values().min().copied()
    }
}
