//! The cluster extension (`envoy.clusters.dynamic_modules`): a cluster whose hosts and load balancing are the
//! module's.
//!
//! On the main thread Envoy makes a [`ClusterConfig`], and from it a [`Cluster`], which adds and removes
//! hosts ([`EnvoyCluster`]). Every thread that sends requests has a [`ClusterLb`] of its own, which picks a
//! host for each request. A change of hosts reaches a load balancer as
//! [`ClusterLb::on_host_membership_update`], on its own thread and some time after the main thread made it.
//!
//! # Host pointers
//! A host is known by an opaque pointer. The main thread's pointer may be stale on a worker that has not
//! heard of the removal yet, and Envoy may give the address of a removed host to a new one. Keep pointers
//! only in a map that belongs to one load balancer and that its membership hook edits. There they are right,
//! because the worker holds the host until that hook has run. Envoy checks each pointer it is given, so a
//! stale one costs a failed request and no more. To keep one in a `Send` type without `unsafe`, store its
//! address (`ptr as usize`).
//!
//! # Locks
//! A `Cluster`'s hooks take `&mut self` on the main thread and `&self` on the workers, so a worker waits
//! while a `&mut` hook runs. Inside a `&mut` hook [`EnvoyCluster::pre_init_complete`] takes effect when that
//! hook returns: Envoy makes the first load balancer in the call, which needs the cluster.
//!
//! # When a hook panics
//! A config or cluster that could not be made is rejected. A load balancer that could not be made or panics
//! picks no host, and Envoy answers 503. Otherwise the panic is reported and Envoy goes on.

mod context;
mod envoy;
mod hooks;
mod lb;
mod lb_hooks;

pub use context::ClusterLbContext;
pub use envoy::{EnvoyCluster, EnvoyClusterScheduler};
pub use lb::{EnvoyClusterLoadBalancer, PackedAddress};

use crate::abi::envoy_dynamic_module_type_cluster_host_envoy_ptr as HostPtr;
use crate::bootstrap::CompletionCallback;

/// The hooks this extension point exports.
pub(crate) const HOOKS: &[&str] = &[
    "envoy_dynamic_module_on_cluster_config_new",
    "envoy_dynamic_module_on_cluster_config_destroy",
    "envoy_dynamic_module_on_cluster_new",
    "envoy_dynamic_module_on_cluster_init",
    "envoy_dynamic_module_on_cluster_destroy",
    "envoy_dynamic_module_on_cluster_scheduled",
    "envoy_dynamic_module_on_cluster_worker_event",
    "envoy_dynamic_module_on_cluster_shutdown",
    "envoy_dynamic_module_on_cluster_lb_new",
    "envoy_dynamic_module_on_cluster_lb_destroy",
    "envoy_dynamic_module_on_cluster_lb_choose_host",
    "envoy_dynamic_module_on_cluster_lb_on_host_membership_update",
];

/// The cluster's metrics, given to the factory. The official SDK defines and records metrics with it.
pub trait EnvoyClusterMetrics: Send + Sync {}

/// The answer of [`ClusterLb::choose_host`]. The official SDK can also answer later.
pub enum HostSelectionResult {
    /// This host.
    Selected(HostPtr),
    /// None; Envoy answers 503.
    NoHost,
}

/// Delivers a host that is picked later, which this crate does not offer.
pub trait EnvoyAsyncHostSelectionComplete: Send {}

/// The module's side of a cluster's configuration.
pub trait ClusterConfig: Send + Sync {
    /// Makes the cluster. Envoy is still building its own half: leave hosts and schedulers to
    /// [`Cluster::on_init`] (a scheduler made here would never fire).
    fn new_cluster(&self, envoy_cluster: &dyn EnvoyCluster) -> Box<dyn Cluster>;
}

/// The module's side of a cluster.
#[allow(unused_variables, reason = "parameter names are documentation")]
pub trait Cluster: Send + Sync {
    /// Main thread: time to add the first hosts and, now or later, to call
    /// [`EnvoyCluster::pre_init_complete`].
    fn on_init(&mut self, envoy_cluster: &dyn EnvoyCluster);

    /// Each thread that sends requests, main thread included: makes its load balancer.
    fn new_load_balancer(&self, envoy_lb: &dyn EnvoyClusterLoadBalancer) -> Box<dyn ClusterLb>;

    /// Main thread: an [`EnvoyClusterScheduler::commit`] has arrived.
    fn on_scheduled(&self, envoy_cluster: &dyn EnvoyCluster, event_id: u64) {}

    /// Each worker: an [`EnvoyCluster::run_on_all_workers`] has arrived.
    fn on_worker_event(&self, envoy_cluster: &dyn EnvoyCluster, event_id: u64) {}

    /// Main thread: Envoy is about to exit and waits for `completion`.
    fn on_shutdown(&mut self, envoy_cluster: &dyn EnvoyCluster, completion: CompletionCallback) {
        completion.done();
    }
}

/// The module's side of one thread's load balancer. All hooks run on that thread.
#[allow(unused_variables, reason = "parameter names are documentation")]
pub trait ClusterLb: Send {
    /// Picks a host for a request, which `context` describes (Envoy's own requests may come without one).
    fn choose_host(
        &mut self,
        context: Option<&dyn ClusterLbContext>,
        async_completion: Box<dyn EnvoyAsyncHostSelectionComplete>,
    ) -> HostSelectionResult;

    /// Hosts have come and gone; `envoy_lb` says which, by index, during this hook.
    fn on_host_membership_update(
        &mut self,
        envoy_lb: &dyn EnvoyClusterLoadBalancer,
        num_hosts_added: usize,
        num_hosts_removed: usize,
    ) {
    }
}
