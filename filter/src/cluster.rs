//! The cluster extension: the connections to sandboxes, which live and die with them.
//!
//! Envoy calls what it connects to a *host*: an address and a port, with pools of connections on every worker. Here a host
//! belongs to one sandbox *identity* (a UID; [`Route::identity`](sandgate_routes::Route::identity)) and to one only. It is
//! added when a request first needs it, and removed, its unused connections closed on every worker, when the table does not
//! serve that identity at that address any more, or when nobody has used it for a while.
//!
//! # One request
//! 1. The HTTP filter has decided for a route and asks this worker's [`worker`] for the identity's host in the cluster that
//!    Envoy's route names. If it is there the request is entered in the worker's [`streams`], its token is left in the
//!    request's filter state, and it goes on.
//! 2. If it is not there the request is held in the filter, and a want goes to the main thread. Other requests are not
//!    disturbed. The main thread ([`main_thread`]) has Envoy add what is wanted, in batches. Those who wait are told a few at
//!    a time ([`release`]), so that their worker serves others in between, and *decide again*, from the beginning: what was
//!    true when they were held may not be any more. Nobody waits longer than `max-wait-milliseconds`, and a client that
//!    leaves while it is held costs nothing: telling a request that is gone does nothing.
//! 3. Envoy's router asks the load balancer, on the same worker, for a host. It finds the token in the request's filter
//!    state, by it the target in the worker's own streams, by that the pointer in the worker's own hosts. A value left in
//!    the thread's storage would be 0.7 µs cheaper, but could be taken for another request's: where a filter holds requests
//!    in between, and when a host is picked later, for a retry. A retry asks the table again before it gets the same host,
//!    and gets no other.
//!
//! # No pointer to a removed host is ever used
//! Host pointers are kept in two places. In a worker's [`local`] hosts, edited by that worker's membership hook alone:
//! Envoy holds every host that the worker was told of until that hook has heard of its removal, so there a pointer is
//! right, and cannot be the address of a newer host either. (A request carries a copy of it from the decision to the load
//! balancer ([`local::Pick`]), which uses the copy only if it is its own, and not that of a cluster that was replaced in
//! between, and if that worker has heard of no removal since.) And in the main thread's book ([`hosts`]), for removing. Whose
//! a host is, workers learn from [`host::Published`], under the pointer they hold: as that memory cannot be used again
//! while they hold it, the entry is that host's. It is published after Envoy has the host and withdrawn before Envoy
//! loses it.
//!
//! # The window between removal on the main thread and on a worker
//! A worker that picks a host which the main thread has just removed would get 503. So a host is first *closed*: a flag that
//! every decision reads, after which new requests for it wait for another. Then the main thread has every worker pass a
//! barrier. The filter's decision and the router's choice are one call, so a worker that has passed it is not between the
//! two. Only then is the host removed. A worker that is more than a second late is not waited for: the host is marked as
//! removed first, and the load balancer gives it to nobody then. (A filter that holds requests *behind* Sandgate's can come between: such a request
//! may get 503 `sandbox_gone`. Put Sandgate last.)
//!
//! # A new identity at an old address
//! Envoy knows one host an address. The old one is closed, passes the barrier, is removed, with all its pools; requests for
//! the new identity wait for that, and get a host of their own. No connection is ever passed on.
//!
//! # Requests in flight
//! Removing a host lets them finish. Where they are to end with their sandbox (`on-delete: end`), each worker tells their
//! filters when it passes the barrier: no request begun before it is missed, and none begun after it can be for that
//! identity, because the table had lost it before the main thread heard. A worker that is late finds every order that was given
//! meanwhile ([`orders`]).
//!
//! # A cluster that is replaced
//! The new one listens to the table before the old one ends, and begins by comparing every sandbox that has requests in flight
//! with the table: whatever the old one had not finished is found there.
//!
//! # When changes come too fast
//! The table tells of the changes through a queue, but not of those of sandboxes that nobody minds: that have no host, no
//! request in flight and none that waits ([`usage::Usages`]). If it overflows, all whom somebody
//! minds are compared with the table.

mod bell;
mod client;
mod host;
mod hosts;
mod key;
mod local;
mod main_thread;
mod orders;
mod pace;
mod process;
mod registry;
mod release;
mod shared;
mod streams;
mod ticker;
mod usage;
mod worker;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use envoy_proxy_dynamic_modules_rust_sdk::{
    Cluster, ClusterConfig, ClusterLb, CompletionCallback, EnvoyCluster, EnvoyClusterLoadBalancer,
    EnvoyClusterMetrics, envoy_log_error,
};
use sandgate_routes::{Capability, Route, Service, verdict};
use sandgate_watch::Gateway;

use crate::gateway;
use main_thread::MainThread;
use process::Process;
use worker::{Balancer, Idle};

pub(crate) use client::{Client, Limits};
pub(crate) use host::Host;
pub(crate) use hosts::{Opener, Socket, Want};
pub(crate) use key::Key;
pub(crate) use local::Pick;
pub(crate) use process::in_use;
pub(crate) use registry::status;
pub(crate) use shared::{Answer, Shared, Waker};
pub(crate) use streams::{END, Token, enter, leave, refuse};
pub(crate) use usage::Exceeded;
pub(crate) use worker::{Found, SANDBOX_ID, TARGET, find};

/// Where a route is served, if it is: its hosts are there and nowhere else.
fn served_at(route: &Route) -> Option<IpAddr> {
    let served = verdict(route.state(), Capability { wake: false }).service == Service::Serve;
    route.ip().filter(|_| served && !route.is_ambiguous())
}

/// How many changes of the table may wait for the main thread.
const FEED: usize = 65_536;

/// Creates a cluster's config. A config that cannot be served is explained in Envoy's log and refused.
pub(crate) fn new_config(
    _name: &str,
    config: &[u8],
    _metrics: Arc<dyn EnvoyClusterMetrics>,
) -> Option<Box<dyn ClusterConfig>> {
    let Some(gateway) = gateway::current() else {
        envoy_log_error!(
            "sandgate: the cluster needs the bootstrap extension envoy.bootstrap.dynamic_modules with \
             extension_name sandgate: it holds the route table"
        );
        return None;
    };
    match sandgate_config::ClusterConfig::parse(config) {
        Ok(config) => Some(Box::new(Config { gateway, config })),
        Err(error) => {
            envoy_log_error!("sandgate: cluster config: {error}");
            None
        }
    }
}

struct Config {
    gateway: &'static Gateway,
    config: sandgate_config::ClusterConfig,
}

impl ClusterConfig for Config {
    fn new_cluster(&self, envoy: &dyn EnvoyCluster) -> Box<dyn Cluster> {
        let name = envoy.get_cluster_name();
        let process = Process::current();
        let (config, reader) = (self.config.clone(), self.gateway.reader().clone());
        let (shared, wants) = Shared::new(name.as_slice(), config, reader, process);
        // Subscribed before the table is first read, so nothing is missed.
        let mut changes = self.gateway.subscribe(FEED, main_thread::cares(process));
        let told = Arc::downgrade(&shared);
        changes.set_waker(move || {
            if let Some(shared) = told.upgrade() {
                shared.tell();
            }
        });
        registry::register(&shared);
        let main_thread = Mutex::new(MainThread::new(&shared, wants, changes));
        Box::new(Sandboxes { shared, main_thread, made_on: thread::current().id() })
    }
}

/// One cluster, from the config that made it to the one that replaces it.
struct Sandboxes {
    shared: Arc<Shared>,
    /// Used by the main thread alone.
    main_thread: Mutex<MainThread>,
    made_on: ThreadId,
}

impl Sandboxes {
    fn main_thread(&self) -> MutexGuard<'_, MainThread> {
        self.main_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster for Sandboxes {
    fn on_init(&mut self, envoy: &dyn EnvoyCluster) {
        envoy.use_persistent_host_map();
        self.shared.set_scheduler(envoy.new_scheduler());
        // There are no hosts to wait for: they come with requests.
        envoy.pre_init_complete();
    }

    fn new_load_balancer(&self, envoy: &dyn EnvoyClusterLoadBalancer) -> Box<dyn ClusterLb> {
        if thread::current().id() == self.made_on {
            return Box::new(Idle);
        }
        Box::new(Balancer::new(Arc::clone(&self.shared), envoy))
    }

    fn on_scheduled(&self, envoy: &dyn EnvoyCluster, _event: u64) {
        self.main_thread().run(envoy);
    }

    fn on_worker_event(&self, _envoy: &dyn EnvoyCluster, event: u64) {
        if thread::current().id() != self.made_on {
            self.shared.pass_barrier(event);
        }
    }

    fn on_shutdown(&mut self, _envoy: &dyn EnvoyCluster, completion: CompletionCallback) {
        self.main_thread().stop();
        completion.done();
    }
}
