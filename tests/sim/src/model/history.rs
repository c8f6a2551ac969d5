//! What happened, for watchers: bounded, as the API server's is.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::{Place, Refusal, Selector};

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was made.
    Added,
    /// It is different now.
    Modified,
    /// It is gone.
    Deleted,
}

impl Change {
    /// As a watch writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision that it made.
    pub revision: u64,
    /// Which object it is about.
    pub place: Place,
    /// What happened to it.
    pub change: Change,
    /// The object, as it is since; of a deleted one, as it was last, with the version of the deletion.
    pub object: Arc<Value>,
    /// The object, as it was before.
    before: Option<Arc<Value>>,
}

impl Event {
    /// The event as a watcher of these labels sees it: an object that begins to have them is added, one that
    /// loses them is deleted.
    pub fn seen_by(&self, selector: &Selector) -> Option<Change> {
        let after = self.change != Change::Deleted && selector.selects(&self.object);
        let before = self.before.as_deref().is_some_and(|before| selector.selects(before));
        match (before, after) {
            (false, true) => Some(Change::Added),
            (true, true) => Some(Change::Modified),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        }
    }
}

/// The newest changes.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Event>,
    /// Nobody learns any more what happened up to this revision.
    compacted: u64,
    limit: usize,
}

impl History {
    pub(super) fn new(limit: usize) -> Self {
        Self { events: VecDeque::new(), compacted: 0, limit }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push_back(event);
        if self.events.len() > self.limit
            && let Some(oldest) = self.events.pop_front()
        {
            self.compacted = oldest.revision;
        }
    }

    pub(super) fn compact(&mut self, up_to: u64) {
        while self.events.front().is_some_and(|event| event.revision <= up_to) {
            self.events.pop_front();
        }
        self.compacted = self.compacted.max(up_to);
    }

    pub(super) fn since(&self, revision: u64) -> Result<impl Iterator<Item = &Event>, Refusal> {
        if revision < self.compacted {
            return Err(Refusal::expired(revision, self.compacted));
        }
        let start = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(start..))
    }
}

pub(super) fn event(
    place: &Place,
    revision: u64,
    before: Option<Arc<Value>>,
    after: Option<Arc<Value>>,
    last: Arc<Value>,
) -> Event {
    let change = match (&before, &after) {
        (None, _) => Change::Added,
        (Some(_), Some(_)) => Change::Modified,
        (Some(_), None) => Change::Deleted,
    };
    Event { revision, place: place.clone(), change, object: after.unwrap_or(last), before }
}
