//! The hosts one worker may pick.
//!
//! Edited only by that worker's membership hook. Between two runs of the hook Envoy keeps every host the worker has been
//! told of alive, so a pointer in this map is the pointer of that one host and of no other: its memory cannot have been
//! used again. That is also why [`Published`] may be asked for it: the entry under that pointer, if there is one, is this
//! very host's.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::host::{Host, Published};
use super::key::Key;

#[derive(Default)]
pub(crate) struct LocalHosts(HashMap<Key, Entry, RandomState>);

struct Entry {
    pointer: usize,
    /// Whose it is, once it was asked for.
    host: Option<Arc<Host>>,
}

impl LocalHosts {
    /// The worker has been told of a host.
    pub(crate) fn add(&mut self, key: Key, pointer: usize) {
        self.0.insert(key, Entry { pointer, host: None });
    }

    /// The worker has been told that a host is gone.
    pub(crate) fn remove(&mut self, key: Key, pointer: usize) {
        if self.0.get(&key).is_some_and(|entry| entry.pointer == pointer) {
            self.0.remove(&key);
        }
    }

    /// The host for a new request of this identity, if it takes one.
    pub(crate) fn find(&mut self, key: Key, identity: u64, published: &Published) -> Option<&Arc<Host>> {
        let entry = self.0.get_mut(&key)?;
        if entry.host.is_none() {
            entry.host = published.get(entry.pointer);
        }
        entry
            .host
            .as_ref()
            .filter(|host| host.identity() == identity && host.key() == key && !host.is_closing())
    }

    /// Envoy's pointer to a host that [`Self::find`] has found before. A host that has begun to close since is still there:
    /// it is removed only when this worker has passed a barrier.
    pub(crate) fn pointer(&self, key: Key, identity: u64) -> Option<usize> {
        let entry = self.0.get(&key)?;
        entry.host.as_ref().filter(|host| host.identity() == identity).map(|_| entry.pointer)
    }
}
