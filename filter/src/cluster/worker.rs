//! What one worker knows of the module's clusters.
//!
//! Each of Envoy's threads makes a load balancer for each cluster; it registers here, in the thread's own
//! storage, so that the HTTP filter of a request on the same thread finds the hosts that the load balancer
//! will pick from. A cluster that is replaced while it serves has two load balancers for a moment: the newer
//! one of a name is the one Envoy uses.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use envoy_proxy_dynamic_modules_rust_sdk::{
    ClusterLb, ClusterLbContext, EnvoyAsyncHostSelectionComplete, EnvoyClusterLoadBalancer,
    HostSelectionResult,
};
use foldhash::fast::RandomState;

use super::host::{Endpoint, Host, Published};
use super::orders;
use super::served_at;
use super::shared::Shared;
use super::streams::{self, Target, Token};

/// Where the filter leaves a request's [`Token`] for the load balancer: filter state belongs to the request,
/// so that no other request can read it, also when a host is picked much later, for a retry.
pub(crate) const TARGET: &[u8] = b"sandgate.target";
/// What the sandbox is called, on every request that is let through.
pub(crate) const SANDBOX_ID: &str = "x-sandbox-id";

thread_local! {
    static CLUSTERS: RefCell<Vec<Registered>> = const { RefCell::new(Vec::new()) };
}

struct Registered {
    shared: Arc<Shared>,
    hosts: LocalHosts,
}

/// What the filter finds for a request.
pub(crate) enum Found {
    /// A host that takes it, how the load balancer finds it again, and whether the request needs a connection
    /// to itself there.
    Host { host: Arc<Host>, pick: Pick, alone: bool },
    /// The cluster has none yet: the request has to wait for it.
    Missing(Arc<Shared>),
    /// The cluster is not one of the module's.
    NoCluster,
}

/// Looks for an identity's host in the cluster of this name.
pub(crate) fn find(cluster: &[u8], endpoint: Endpoint, identity: u64) -> Found {
    CLUSTERS.with_borrow_mut(|clusters| {
        let Some(cluster) = clusters.iter_mut().rev().find(|known| known.shared.name() == cluster) else {
            return Found::NoCluster;
        };
        match cluster.hosts.find(endpoint, identity, cluster.shared.published()) {
            Some((host, pick)) => {
                let alone = !cluster.shared.config().shares_connections;
                Found::Host { host: Arc::clone(host), pick, alone }
            }
            None => Found::Missing(Arc::clone(&cluster.shared)),
        }
    })
}

/// Nothing listens on the port that a host is for: it is given up. Its cluster may have been replaced
/// meanwhile.
pub(super) fn refused(pick: Pick, host: &Host) {
    // The thread's storage may be gone already when the thread ends.
    let _ = CLUSTERS.try_with(|clusters| {
        let clusters = clusters.borrow();
        if let Some(cluster) = clusters.iter().find(|known| known.hosts.serial == pick.serial) {
            cluster.shared.refused(host.endpoint(), host.identity());
        }
    });
}

/// One worker's load balancer of one cluster.
pub(crate) struct Balancer {
    /// That of its hosts: tells it from any other load balancer of the process.
    serial: u64,
    shared: Arc<Shared>,
}

impl Balancer {
    /// Registers a cluster on this worker, with the hosts that Envoy has told it of so far.
    pub(crate) fn new(shared: Arc<Shared>, envoy: &dyn EnvoyClusterLoadBalancer) -> Self {
        // From here on the main thread waits for this thread at barriers.
        orders::this_worker();
        shared.worker_joined();
        let mut hosts = LocalHosts::default();
        let serial = hosts.serial;
        for priority in 0..u32::try_from(envoy.get_priority_set_size()).unwrap_or_default() {
            for index in 0..envoy.get_hosts_count(priority) {
                let address = envoy.get_host_address(priority, index);
                let address = address
                    .and_then(|text| std::str::from_utf8(text.as_slice()).ok()?.parse::<SocketAddr>().ok());
                if let (Some(address), Some(pointer)) = (address, envoy.get_host(priority, index)) {
                    hosts.add(Endpoint::new(address.ip(), address.port()), pointer as usize);
                }
            }
        }
        let registered = Registered { shared: Arc::clone(&shared), hosts };
        CLUSTERS.with_borrow_mut(|clusters| clusters.push(registered));
        Self { serial, shared }
    }

    fn with_hosts<R>(&self, body: impl FnOnce(&mut LocalHosts) -> R) -> Option<R> {
        CLUSTERS.with_borrow_mut(|clusters| {
            let own = clusters.iter_mut().find(|known| known.hosts.serial == self.serial)?;
            Some(body(&mut own.hosts))
        })
    }

    /// A request that is tried again goes to its own sandbox or nowhere: the table is asked anew.
    fn is_still_served(&self, target: Target, context: &dyn ClusterLbContext) -> bool {
        let Some((id, _)) = context.get_downstream_header(SANDBOX_ID, 0) else { return false };
        let Ok(id) = std::str::from_utf8(id.as_slice()) else { return false };
        let table = self.shared.reader().pin();
        table.get(id).is_some_and(|route| {
            route.identity() == target.identity && served_at(route) == Some(target.endpoint.ip())
        })
    }

    fn choose(&self, context: &dyn ClusterLbContext) -> Option<usize> {
        let target = context
            .get_filter_state_bytes(TARGET)
            .and_then(|bytes| Token::from_bytes(bytes.as_slice()))
            .and_then(streams::target)?;
        if target.again && !self.is_still_served(target, context) {
            return None;
        }
        let published = self.shared.published();
        self.with_hosts(|hosts| hosts.pointer(target.pick, target.endpoint, target.identity, published))?
    }
}

impl ClusterLb for Balancer {
    fn choose_host(
        &mut self,
        context: Option<&dyn ClusterLbContext>,
        _completion: Box<dyn EnvoyAsyncHostSelectionComplete>,
    ) -> HostSelectionResult {
        match context.and_then(|context| self.choose(context)) {
            Some(pointer) => HostSelectionResult::Selected(pointer as _),
            None => HostSelectionResult::NoHost,
        }
    }

    fn on_host_membership_update(
        &mut self,
        envoy: &dyn EnvoyClusterLoadBalancer,
        added: usize,
        removed: usize,
    ) {
        let host = |index, is_added| {
            let endpoint = envoy.get_member_update_host_packed_address(index, is_added)?;
            let pointer = envoy.get_member_update_host(index, is_added)?;
            Some((Endpoint::from(endpoint), pointer as usize))
        };
        self.with_hosts(|hosts| {
            for (endpoint, pointer) in (0..removed).filter_map(|index| host(index, false)) {
                hosts.remove(endpoint, pointer);
            }
            for (endpoint, pointer) in (0..added).filter_map(|index| host(index, true)) {
                hosts.add(endpoint, pointer);
            }
        });
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.worker_left();
        // The thread's storage may be gone already when the thread ends.
        let _ = CLUSTERS.try_with(|clusters| {
            clusters.borrow_mut().retain(|known| known.hosts.serial != self.serial);
        });
    }
}

/// The main thread's load balancer: no request is served there, so it keeps no hosts.
pub(crate) struct Idle;

impl ClusterLb for Idle {
    fn choose_host(
        &mut self,
        _context: Option<&dyn ClusterLbContext>,
        _completion: Box<dyn EnvoyAsyncHostSelectionComplete>,
    ) -> HostSelectionResult {
        HostSelectionResult::NoHost
    }
}

/// The hosts that one worker may pick. Only that worker's membership hook edits them.
///
/// Between two runs of the hook Envoy keeps every host alive that the worker has been told of. So a pointer
/// in this map is the pointer of that one host, and its memory cannot have been used again. For the same
/// reason the entry of that pointer in [`Published`], if there is one, is this very host's.
pub(super) struct LocalHosts {
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

#[cfg(test)]
impl Pick {
    /// One that is looked up in any case.
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
    /// The worker has been told of a host.
    pub(super) fn add(&mut self, endpoint: Endpoint, pointer: usize) {
        self.hosts.insert(endpoint, Entry { pointer, host: None });
    }

    /// The worker has been told that a host is gone.
    pub(super) fn remove(&mut self, endpoint: Endpoint, pointer: usize) {
        self.removals += 1;
        if self.hosts.get(&endpoint).is_some_and(|entry| entry.pointer == pointer) {
            self.hosts.remove(&endpoint);
        }
    }

    /// The host for a new request of this identity, if it takes one.
    pub(super) fn find(
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
    pub(super) fn pointer(
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
