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
pub(crate) struct LocalHosts {
    hosts: HashMap<Key, Entry, RandomState>,
    /// Rises with every removal.
    removals: u64,
}

/// Envoy's pointer to a host as a decision found it. It is good for as long as the worker has lost no host since: the host
/// is then still there. After that it is looked up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pointer: usize,
    removals: u64,
}

#[cfg(test)]
impl Pick {
    /// One that is looked up in any case.
    pub(crate) const fn none() -> Self {
        Self { pointer: 0, removals: u64::MAX }
    }
}

struct Entry {
    pointer: usize,
    /// Whose it is, once it was asked for.
    host: Option<Arc<Host>>,
}

impl LocalHosts {
    /// The worker has been told of a host.
    pub(crate) fn add(&mut self, key: Key, pointer: usize) {
        self.hosts.insert(key, Entry { pointer, host: None });
    }

    /// The worker has been told that a host is gone.
    pub(crate) fn remove(&mut self, key: Key, pointer: usize) {
        self.removals += 1;
        if self.hosts.get(&key).is_some_and(|entry| entry.pointer == pointer) {
            self.hosts.remove(&key);
        }
    }

    /// The host for a new request of this identity, if it takes one.
    pub(crate) fn find(
        &mut self,
        key: Key,
        identity: u64,
        published: &Published,
    ) -> Option<(&Arc<Host>, Pick)> {
        let entry = self.hosts.get_mut(&key)?;
        if entry.host.is_none() {
            entry.host = published.get(entry.pointer);
        }
        let pick = Pick { pointer: entry.pointer, removals: self.removals };
        entry
            .host
            .as_ref()
            .filter(|host| host.identity() == identity && host.key() == key && !host.is_closing())
            .map(|host| (host, pick))
    }

    /// Envoy's pointer to a host that [`Self::find`] has found before. A host that has begun to close since is still there:
    /// it is removed only when this worker has passed a barrier.
    pub(crate) fn pointer(&self, pick: Pick, key: Key, identity: u64) -> Option<usize> {
        if pick.removals == self.removals {
            return Some(pick.pointer);
        }
        let entry = self.hosts.get(&key)?;
        entry.host.as_ref().filter(|host| host.identity() == identity).map(|_| entry.pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::host::Usage;

    #[test]
    fn a_pick_is_looked_up_again_once_any_host_has_gone() {
        let (mut hosts, published) = (LocalHosts::default(), Published::default());
        let key = |last: u8| Key::new([10, 0, 0, last].into(), 80);
        for (last, pointer) in [(1, 0x100), (2, 0x200)] {
            let host = Host::new(key(last), last.into(), Arc::new(Usage::default()));
            published.publish(pointer, Arc::new(host));
            hosts.add(key(last), pointer);
        }
        let (_, pick) = hosts.find(key(1), 1, &published).expect("it is there");
        assert_eq!(hosts.pointer(pick, key(1), 1), Some(0x100));
        hosts.remove(key(2), 0x200);
        assert_eq!(hosts.pointer(pick, key(1), 1), Some(0x100), "another host's end is not this one's");
        // The memory of the host that is gone is another identity's host now.
        hosts.remove(key(1), 0x100);
        published.withdraw(0x100);
        assert_eq!(hosts.pointer(pick, key(1), 1), None);
        published.publish(0x100, Arc::new(Host::new(key(1), 9, Arc::new(Usage::default()))));
        hosts.add(key(1), 0x100);
        assert!(hosts.find(key(1), 1, &published).is_none());
        assert_eq!(hosts.pointer(pick, key(1), 1), None, "a stranger's host was picked");
        assert!(hosts.find(key(1), 9, &published).is_some());
    }
}
