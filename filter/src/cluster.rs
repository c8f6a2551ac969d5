//! The cluster extension: the connections to sandboxes, which live and die with them.
//!
//! A *host* of Envoy is an address and a port, with connection pools on every worker. Here a host belongs to
//! one sandbox *identity* ([`Route::identity`](sandgate_routes::Route::identity)). It is added when a request
//! first needs it. It is removed, and its unused connections closed on every worker, when the table does not
//! serve that identity at that address any more, or when it was unused for a while.
//!
//! # One request
//! 1. The HTTP filter has decided for a route and asks [`worker::find`] for the identity's host in the
//!    cluster that Envoy's route names.
//! 2. If the host is there, the request is entered in the worker's [`streams`], its token is stored in the
//!    request's filter state, and the request continues.
//! 3. If the host is missing, the filter holds the request and queues a want for the main thread.
//!    [`main_thread`] has Envoy add hosts in batches. Held requests are woken a few at a time ([`ticker`]),
//!    so that their worker serves others in between, and *decide again* from the beginning. A request is held
//!    for `max-wait-milliseconds` at most. Waking a request whose client has left does nothing.
//! 4. Envoy's router asks the load balancer, on the same worker, for a host. The load balancer finds the
//!    token in the filter state, the target in the worker's streams, and the pointer in the worker's hosts.
//!    Thread-local storage would be 0.7 µs cheaper, but could be read by another request: when a filter in
//!    between holds requests, and when a host is picked later, for a retry. A retry asks the table again, and
//!    gets the same host or none.
//!
//! # Why no pointer to a removed host is used
//! Host pointers are kept in two places.
//!
//! * A [`worker`]'s hosts. Only that worker's membership hook edits them. Envoy holds every host that
//!   the worker knows until the hook has heard of its removal, so a pointer there is valid and cannot be the
//!   address of a newer host. A request carries a copy ([`worker::Pick`]) from the decision to the load
//!   balancer, which uses it only if it is its own and the worker has heard of no removal since.
//! * The main thread's book ([`hosts`]), for removing.
//!
//! Workers learn whose a host is from [`host::Published`], by the pointer they hold. That memory cannot be
//! reused while they hold it, so the entry is that host's. It is published after Envoy has the host and
//! withdrawn before Envoy loses it.
//!
//! # Removing a host
//! 1. The table stops serving the identity at the address.
//! 2. The main thread *closes* the host: a flag that every decision reads. New requests for it wait for
//!    another host.
//! 3. The main thread starts a barrier. The filter's decision and the router's choice are one call, so a
//!    worker that passes the barrier is not between them. Where requests end with their sandbox (`on-delete:
//!    end`), the worker ends them now ([`orders`]).
//! 4. When every worker has passed, the host is removed. After a second the main thread does not wait any
//!    longer: it marks the host as removed first, and the load balancer then gives it to no request.
//!
//! No request is missed in step 3. One that began before the barrier is in the worker's streams. One that
//! begins after it cannot be for that identity, because the table lost it in step 1. A worker that is late
//! finds every order given meanwhile. A filter that holds requests *behind* Sandgate's can come between
//! decision and choice; such a request may get 503 `sandbox_gone`. Put Sandgate last.
//!
//! # A new identity at an old address
//! Envoy knows one host an address. The old host is closed, passes the barrier and is removed with all its
//! pools. Requests for the new identity wait for that and get a host of their own. No connection is passed
//! on.
//!
//! # Following changes
//! The cluster subscribes to the changes of identities that are *followed*: those with a host, a request in
//! flight or a held request ([`usage::Usages`]). To follow an identity: 1. take its usage; 2. read the table.
//! A change that the filter rejected before step 1 is in the table by step 2, so none is missed. When the
//! queue overflows, every followed identity is compared with the table. A cluster that replaces another
//! subscribes before the old one ends and begins with that comparison, so it finds what the old one had not
//! finished.

mod activity;
mod bell;
mod host;
mod hosts;
mod main_thread;
mod orders;
mod pace;
mod process;
mod shared;
mod streams;
mod ticker;
mod usage;
mod worker;

use std::net::IpAddr;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use envoy_proxy_dynamic_modules_rust_sdk::{
    Cluster, ClusterConfig, ClusterLb, CompletionCallback, EnvoyCluster, EnvoyClusterLoadBalancer,
    EnvoyClusterMetrics, envoy_log_error,
};
use parking_lot::Mutex;
use sandgate_routes::{Capability, Route, Service, verdict};
use sandgate_watch::Gateway;

use crate::bootstrap;
use main_thread::MainThread;
use process::Process;
use worker::{Balancer, Idle};

pub(crate) use activity::{note_uncounted, source as activity, tick};
pub(crate) use host::{Endpoint, Host};
pub(crate) use hosts::{Opener, Socket, Want};
pub(crate) use process::{in_use, status};
pub(crate) use shared::{Shared, Waker, Wakeup};
pub(crate) use streams::{END, Token, enter, has_given_up, leave, refuse, try_until};
pub(crate) use usage::{Client, Exceeded, Limits, Rate};
pub(crate) use worker::{Found, Pick, SANDBOX_ID, TARGET, find};

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
    let Some(gateway) = bootstrap::gateway() else {
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
        let mut changes =
            self.gateway.subscribe(FEED, main_thread::change_filter(process, self.gateway.reader()));
        let weak = Arc::downgrade(&shared);
        changes.set_waker(move || {
            if let Some(shared) = weak.upgrade() {
                shared.notify();
            }
        });
        process::register(&shared);
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
        self.main_thread.lock().run(envoy);
    }

    fn on_worker_event(&self, _envoy: &dyn EnvoyCluster, event: u64) {
        if thread::current().id() != self.made_on {
            self.shared.pass_barrier(event);
        }
    }

    fn on_shutdown(&mut self, _envoy: &dyn EnvoyCluster, completion: CompletionCallback) {
        self.main_thread.lock().stop();
        completion.done();
    }
}
