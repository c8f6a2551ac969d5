//! The hosts one worker may pick.
//!
//! Edited only by that worker's membership hook. Between two runs of the hook Envoy keeps every host the
//! worker has been told of alive, so a pointer in this map is the pointer of that one host and of no other:
//! its memory cannot have been used again. That is also why [`Published`] may be asked for it: the entry
//! under that pointer, if there is one, is this very host's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;

use super::endpoint::Endpoint;
use super::host::{Host, Published};

pub(crate) struct LocalHosts {
    /// Tells it from every other of the process: no two ever have the same.
    serial: u64,
    hosts: HashMap<Endpoint, Entry, RandomState>,
    /// Rises with every removal.
    removals: u64,
}

/// Envoy's pointer to a host as a decision found it. It is good only for the load balancer whose hosts it was
/// found in, and only as long as that one has lost no host since: the host is then still there. Otherwise the
/// host is looked up again. A cluster that was replaced in between has another load balancer, and the pointer
/// may be a stranger's host there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    serial: u64,
    pointer: usize,
    removals: u64,
}

impl Pick {
    /// The load balancer it is good for.
    pub(crate) fn serial(self) -> u64 {
        self.serial
    }

    /// One that is looked up in any case.
    #[cfg(test)]
    pub(crate) const fn none() -> Self {
        Self { serial: u64::MAX, pointer: 0, removals: u64::MAX }
    }
}

struct Entry {
    pointer: usize,
    /// Whose it is, once it was asked for.
    host: Option<Arc<Host>>,
}

impl Entry {
    /// Whose it is, if that is known yet.
    fn whose(&mut self, published: &Published) -> Option<&Arc<Host>> {
        if self.host.is_none() {
            self.host = published.get(self.pointer);
        }
        self.host.as_ref()
    }
}

impl Default for LocalHosts {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { serial, hosts: HashMap::default(), removals: 0 }
    }
}

impl LocalHosts {
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// The worker has been told of a host.
    pub(crate) fn add(&mut self, endpoint: Endpoint, pointer: usize) {
        self.hosts.insert(endpoint, Entry { pointer, host: None });
    }

    /// The worker has been told that a host is gone.
    pub(crate) fn remove(&mut self, endpoint: Endpoint, pointer: usize) {
        self.removals += 1;
        if self.hosts.get(&endpoint).is_some_and(|entry| entry.pointer == pointer) {
            self.hosts.remove(&endpoint);
        }
    }

    /// The host for a new request of this identity, if it takes one.
    pub(crate) fn find(
        &mut self,
        endpoint: Endpoint,
        identity: u64,
        published: &Published,
    ) -> Option<(&Arc<Host>, Pick)> {
        let entry = self.hosts.get_mut(&endpoint)?;
        let pick = Pick { serial: self.serial, pointer: entry.pointer, removals: self.removals };
        entry
            .whose(published)
            .filter(|host| host.identity() == identity && host.endpoint() == endpoint && !host.is_closing())
            .map(|host| (host, pick))
    }

    /// Envoy's pointer to the host of a request, as [`Self::find`] has found it, here or elsewhere. A host
    /// that has begun to close since is still there: it is removed only when this worker has passed a
    /// barrier. Where that was not waited for, or another filter has held the request, the host may be
    /// [removed](Host::is_removed), and then there is no pick.
    pub(crate) fn pointer(
        &mut self,
        pick: Option<Pick>,
        endpoint: Endpoint,
        identity: u64,
        published: &Published,
    ) -> Option<usize> {
        if let Some(pick) = pick
            && pick.serial == self.serial
            && pick.removals == self.removals
        {
            return Some(pick.pointer);
        }
        let entry = self.hosts.get_mut(&endpoint)?;
        let pointer = entry.pointer;
        entry
            .whose(published)
            .filter(|host| host.identity() == identity && host.endpoint() == endpoint && !host.is_removed())
            .map(|_| pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::usage::Usage;

    #[test]
    fn a_pick_is_looked_up_again_once_any_host_has_gone() {
        let (mut hosts, published) = (LocalHosts::default(), Published::default());
        let endpoint = |last: u8| Endpoint::new([10, 0, 0, last].into(), 80);
        for (last, pointer) in [(1, 0x100), (2, 0x200)] {
            let host = Host::new(endpoint(last), last.into(), Arc::new(Usage::default()));
            published.publish(pointer, Arc::new(host));
            hosts.add(endpoint(last), pointer);
        }
        let (_, pick) = hosts.find(endpoint(1), 1, &published).expect("it is there");
        assert_eq!(hosts.pointer(Some(pick), endpoint(1), 1, &published), Some(0x100));
        hosts.remove(endpoint(2), 0x200);
        assert_eq!(
            hosts.pointer(Some(pick), endpoint(1), 1, &published),
            Some(0x100),
            "another host's end is not this one's"
        );
        // The memory of the host that is gone is another identity's host now.
        hosts.remove(endpoint(1), 0x100);
        published.withdraw(0x100);
        assert_eq!(hosts.pointer(Some(pick), endpoint(1), 1, &published), None);
        published.publish(0x100, Arc::new(Host::new(endpoint(1), 9, Arc::new(Usage::default()))));
        hosts.add(endpoint(1), 0x100);
        assert!(hosts.find(endpoint(1), 1, &published).is_none());
        assert_eq!(
            hosts.pointer(Some(pick), endpoint(1), 1, &published),
            None,
            "a stranger's host was picked"
        );
        assert!(hosts.find(endpoint(1), 9, &published).is_some());
    }

    #[test]
    fn a_pick_of_another_load_balancer_is_looked_up_and_not_believed() {
        let endpoint = |last: u8| Endpoint::new([10, 0, 0, last].into(), 80);
        let host =
            |last: u8, identity| Arc::new(Host::new(endpoint(last), identity, Arc::new(Usage::default())));
        let (mut old, old_published) = (LocalHosts::default(), Published::default());
        old.add(endpoint(1), 0x100);
        old_published.publish(0x100, host(1, 1));
        let (_, pick) = old.find(endpoint(1), 1, &old_published).expect("it is there");
        // The cluster is replaced. The memory is a stranger's host now, and neither has ever lost one.
        let (mut new, published) = (LocalHosts::default(), Published::default());
        new.add(endpoint(2), 0x100);
        published.publish(0x100, host(2, 2));
        assert_eq!(new.pointer(Some(pick), endpoint(1), 1, &published), None, "a stranger's host was picked");
        new.add(endpoint(1), 0x300);
        published.publish(0x300, host(1, 1));
        assert_eq!(
            new.pointer(Some(pick), endpoint(1), 1, &published),
            Some(0x300),
            "its own is there again"
        );
    }
}
