//! Envoy's side of the cluster.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::{
    self, envoy_dynamic_module_type_cluster_host_envoy_ptr as HostPtr,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
};
use crate::buffer::EnvoyBuffer;
use crate::ffi::{NO_BUFFER, lend, non_null, view};

/// Envoy's side of the cluster, lent to its hooks. Everything but [`Self::new_scheduler`] and [`Self::get_cluster_name`]
/// belongs to the main thread; elsewhere Envoy refuses it.
///
/// The `add_hosts` family takes addresses as `ip:port` and weights of 1 to 128, one each. `None` means that nothing was
/// added because some address or weight was bad. An address the cluster already has is skipped: the answer has as many
/// entries as addresses were given, the hosts really added first, null behind. So after a batch that may contain known
/// addresses, ask [`Self::find_host_by_address`]. Adding or removing one batch costs as much as one host: collect them.
///
/// Left out: `send_http_callout` (unused) and the worker slots, whose safe methods take a raw pointer for Envoy to free.
pub trait EnvoyCluster: Send + Sync {
    /// Adds hosts at priority 0.
    fn add_hosts(&self, addresses: &[String], weights: &[u32]) -> Option<Vec<HostPtr>>;

    /// Adds hosts at priority 0, each with the name its TLS certificate is checked against.
    fn add_hosts_with_hostnames(
        &self,
        addresses: &[String],
        hostnames: &[String],
        weights: &[u32],
    ) -> Option<Vec<HostPtr>>;

    /// Removes hosts and closes their idle connections on every worker; requests in flight finish. Answers how many
    /// of them were there.
    fn remove_hosts(&self, hosts: &[HostPtr]) -> usize;

    /// Tells Envoy that the first hosts are in: the cluster may be used.
    fn pre_init_complete(&self);

    /// Adds hosts at priority 0 with their localities (region, zone, sub-zone) and metadata (filter, key, value).
    fn add_hosts_with_locality(
        &self,
        addresses: &[String],
        weights: &[u32],
        localities: &[(String, String, String)],
        metadata: &[Vec<(String, String, String)>],
    ) -> Option<Vec<HostPtr>>;

    /// Adds hosts at a priority.
    fn add_hosts_to_priority(
        &self,
        priority: u32,
        addresses: &[String],
        weights: &[u32],
    ) -> Option<Vec<HostPtr>>;

    /// Adds hosts at a priority, with localities and metadata.
    fn add_hosts_with_locality_to_priority(
        &self,
        priority: u32,
        addresses: &[String],
        weights: &[u32],
        localities: &[(String, String, String)],
        metadata: &[Vec<(String, String, String)>],
    ) -> Option<Vec<HostPtr>>;

    /// Adds hosts at a priority, with names, localities and metadata.
    fn add_hosts_with_hostnames_and_locality_to_priority(
        &self,
        priority: u32,
        addresses: &[String],
        hostnames: &[String],
        weights: &[u32],
        localities: &[(String, String, String)],
        metadata: &[Vec<(String, String, String)>],
    ) -> Option<Vec<HostPtr>>;

    /// Changes a host's health.
    fn update_host_health(
        &self,
        host: HostPtr,
        health_status: abi::envoy_dynamic_module_type_host_health,
    ) -> bool;

    /// The host with this `ip:port`, in all priorities.
    fn find_host_by_address(&self, address: &str) -> Option<HostPtr>;

    /// A way back onto the main thread from any other: see [`EnvoyClusterScheduler`].
    fn new_scheduler(&self) -> Box<dyn EnvoyClusterScheduler>;

    /// Makes Envoy call [`Cluster::on_worker_event`](super::Cluster::on_worker_event) on every worker, soon.
    fn run_on_all_workers(&self, event_id: u64);

    /// The cluster's name.
    fn get_cluster_name<'a>(&'a self) -> EnvoyBuffer<'a>;

    /// Keeps the hosts in a map that shares structure between its versions, so that a change costs less in a large
    /// cluster. To be called in [`Cluster::on_init`](super::Cluster::on_init), before the first host.
    ///
    /// **Not in the official SDK** of this snapshot, although Envoy 1.40.0 has the callback; remove the call when
    /// swapping the official SDK in.
    fn use_persistent_host_map(&self);
}

/// Calls [`Cluster::on_scheduled`](super::Cluster::on_scheduled) on the main thread.
pub trait EnvoyClusterScheduler: Send + Sync {
    /// From any thread; `event_id` arrives unchanged.
    fn commit(&self, event_id: u64);
}

impl EnvoyClusterScheduler for Box<dyn EnvoyClusterScheduler> {
    fn commit(&self, event_id: u64) {
        (**self).commit(event_id);
    }
}

/// Owns one scheduler of Envoy's making. Envoy's side holds a weak reference to the cluster, so this may outlive it.
struct Scheduler(abi::envoy_dynamic_module_type_cluster_scheduler_module_ptr);

// SAFETY: Envoy's scheduler locks a weak pointer and posts to a dispatcher, both made for any thread.
unsafe impl Send for Scheduler {}
// SAFETY: as above; `commit` does not change the scheduler.
unsafe impl Sync for Scheduler {}

impl EnvoyClusterScheduler for Scheduler {
    #[inline]
    fn commit(&self, event_id: u64) {
        // SAFETY: the scheduler is live until `drop`, and `commit` may be called from any thread.
        unsafe { abi::envoy_dynamic_module_callback_cluster_scheduler_commit(self.0, event_id) };
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // SAFETY: made by `scheduler_new`, deleted here and only here.
        unsafe { abi::envoy_dynamic_module_callback_cluster_scheduler_delete(self.0) };
    }
}

/// The hook that an [`Envoy`] was made for.
pub(super) enum During {
    /// `new_cluster`: Envoy's half is being built.
    Construction,
    /// A `&mut self` hook. Holds whether `pre_init_complete` was asked for.
    Exclusive(AtomicBool),
    /// A `&self` hook.
    Shared,
}

/// The real [`EnvoyCluster`].
///
/// # What every call relies on
/// The pointer is the cluster of the running hook, which Envoy keeps alive throughout. The value is lent for that hook
/// only; scoped threads may still call it meanwhile, where Envoy's callbacks refuse what belongs to the main thread.
/// Arguments are copied before a callback returns.
pub(super) struct Envoy {
    raw_ptr: *mut c_void,
    during: During,
}

// SAFETY: every callback used here either checks for the main thread itself or only reads what does not change.
unsafe impl Send for Envoy {}
// SAFETY: as above.
unsafe impl Sync for Envoy {}

impl Envoy {
    /// # Safety
    /// `raw_ptr` must be the cluster a hook was called with, and the value must not outlive the hook.
    pub(super) unsafe fn new(raw_ptr: *mut c_void, during: During) -> Self {
        Self { raw_ptr, during }
    }

    /// Does what a `&mut self` hook has asked for and could not have while it ran.
    pub(super) fn finish(self) {
        if let During::Exclusive(asked) = &self.during
            && asked.load(Ordering::Relaxed)
        {
            // SAFETY: see the type.
            unsafe { abi::envoy_dynamic_module_callback_cluster_pre_init_complete(self.raw_ptr) };
        }
    }

    fn add(&self, batch: &Batch<'_>) -> Option<Vec<HostPtr>> {
        let n = batch.addresses.len();
        if n == 0 {
            return Some(Vec::new());
        }
        if !batch.is_regular() {
            crate::envoy_log_error!(
                "hosts not added: as many weights, names, localities as addresses are needed"
            );
            return None;
        }
        let buffers = |texts: &mut dyn Iterator<Item = &String>| -> Vec<ModuleBuffer> {
            let mut list: Vec<_> = texts.map(|text| lend(text.as_bytes())).collect();
            list.resize(n, lend(b""));
            list
        };
        let addresses = buffers(&mut batch.addresses.iter());
        let regions = buffers(&mut batch.localities.iter().map(|(region, _, _)| region));
        let zones = buffers(&mut batch.localities.iter().map(|(_, zone, _)| zone));
        let sub_zones = buffers(&mut batch.localities.iter().map(|(_, _, sub_zone)| sub_zone));
        let names = batch.hostnames.map(|names| buffers(&mut names.iter()));
        let per_host = batch.metadata.first().map_or(0, Vec::len);
        let metadata: Vec<ModuleBuffer> = batch
            .metadata
            .iter()
            .flatten()
            .flat_map(|(filter, key, value)| [filter, key, value])
            .map(|text| lend(text.as_bytes()))
            .collect();
        let mut hosts = vec![std::ptr::null_mut(); n];
        // SAFETY: see the type; every array has `n` entries (the metadata `3 * per_host * n`), checked above, and lives
        // until the call returns.
        let added = unsafe {
            match &names {
                None => abi::envoy_dynamic_module_callback_cluster_add_hosts(
                    self.raw_ptr,
                    batch.priority,
                    addresses.as_ptr(),
                    batch.weights.as_ptr(),
                    regions.as_ptr(),
                    zones.as_ptr(),
                    sub_zones.as_ptr(),
                    metadata.as_ptr(),
                    per_host,
                    n,
                    hosts.as_mut_ptr(),
                ),
                Some(names) => abi::envoy_dynamic_module_callback_cluster_add_hosts_with_hostnames(
                    self.raw_ptr,
                    batch.priority,
                    addresses.as_ptr(),
                    names.as_ptr(),
                    batch.weights.as_ptr(),
                    regions.as_ptr(),
                    zones.as_ptr(),
                    sub_zones.as_ptr(),
                    metadata.as_ptr(),
                    per_host,
                    n,
                    hosts.as_mut_ptr(),
                ),
            }
        };
        added.then_some(hosts)
    }
}

/// Hosts to add.
struct Batch<'a> {
    priority: u32,
    addresses: &'a [String],
    hostnames: Option<&'a [String]>,
    weights: &'a [u32],
    localities: &'a [(String, String, String)],
    metadata: &'a [Vec<(String, String, String)>],
}

impl Batch<'_> {
    /// Whether each list is as long as Envoy will read it.
    fn is_regular(&self) -> bool {
        let n = self.addresses.len();
        self.weights.len() == n
            && self.hostnames.is_none_or(|names| names.len() == n)
            && (self.localities.is_empty() || self.localities.len() == n)
            && (self.metadata.is_empty() || self.metadata.len() == n)
            && self.metadata.windows(2).all(|pair| pair[0].len() == pair[1].len())
    }
}

impl EnvoyCluster for Envoy {
    fn add_hosts(&self, addresses: &[String], weights: &[u32]) -> Option<Vec<HostPtr>> {
        self.add_hosts_to_priority(0, addresses, weights)
    }

    fn add_hosts_with_hostnames(
        &self,
        addresses: &[String],
        hostnames: &[String],
        weights: &[u32],
    ) -> Option<Vec<HostPtr>> {
        self.add_hosts_with_hostnames_and_locality_to_priority(0, addresses, hostnames, weights, &[], &[])
    }

    fn remove_hosts(&self, hosts: &[HostPtr]) -> usize {
        // SAFETY: see the type; Envoy looks each pointer up before it uses it.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_remove_hosts(self.raw_ptr, hosts.as_ptr(), hosts.len())
        }
    }

    fn pre_init_complete(&self) {
        match &self.during {
            During::Construction => {
                crate::envoy_log_error!("pre_init_complete is for on_init, not new_cluster");
            }
            During::Exclusive(asked) => asked.store(true, Ordering::Relaxed),
            // SAFETY: see the type.
            During::Shared => unsafe {
                abi::envoy_dynamic_module_callback_cluster_pre_init_complete(self.raw_ptr);
            },
        }
    }

    fn add_hosts_with_locality(
        &self,
        addresses: &[String],
        weights: &[u32],
        localities: &[(String, String, String)],
        metadata: &[Vec<(String, String, String)>],
    ) -> Option<Vec<HostPtr>> {
        self.add_hosts_with_locality_to_priority(0, addresses, weights, localities, metadata)
    }

    fn add_hosts_to_priority(
        &self,
        priority: u32,
        addresses: &[String],
        weights: &[u32],
    ) -> Option<Vec<HostPtr>> {
        self.add_hosts_with_locality_to_priority(priority, addresses, weights, &[], &[])
    }

    fn add_hosts_with_locality_to_priority(
        &self,
        priority: u32,
        addresses: &[String],
        weights: &[u32],
        localities: &[(String, String, String)],
        metadata: &[Vec<(String, String, String)>],
    ) -> Option<Vec<HostPtr>> {
        self.add(&Batch { priority, addresses, hostnames: None, weights, localities, metadata })
    }

    fn add_hosts_with_hostnames_and_locality_to_priority(
        &self,
        priority: u32,
        addresses: &[String],
        hostnames: &[String],
        weights: &[u32],
        localities: &[(String, String, String)],
        metadata: &[Vec<(String, String, String)>],
    ) -> Option<Vec<HostPtr>> {
        self.add(&Batch { priority, addresses, hostnames: Some(hostnames), weights, localities, metadata })
    }

    fn update_host_health(
        &self,
        host: HostPtr,
        health_status: abi::envoy_dynamic_module_type_host_health,
    ) -> bool {
        // SAFETY: see the type; Envoy looks the pointer up before it uses it.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_update_host_health(self.raw_ptr, host, health_status)
        }
    }

    fn find_host_by_address(&self, address: &str) -> Option<HostPtr> {
        let address = lend(address.as_bytes());
        // SAFETY: see the type.
        non_null(unsafe {
            abi::envoy_dynamic_module_callback_cluster_find_host_by_address(self.raw_ptr, address)
        })
    }

    fn new_scheduler(&self) -> Box<dyn EnvoyClusterScheduler> {
        if matches!(self.during, During::Construction) {
            crate::envoy_log_error!(
                "a cluster scheduler made in new_cluster never fires: make it in on_init"
            );
        }
        // SAFETY: see the type; the returned object is ours until `delete`.
        Box::new(Scheduler(unsafe { abi::envoy_dynamic_module_callback_cluster_scheduler_new(self.raw_ptr) }))
    }

    fn run_on_all_workers(&self, event_id: u64) {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_cluster_run_on_all_workers(self.raw_ptr, event_id) };
    }

    fn get_cluster_name<'a>(&'a self) -> EnvoyBuffer<'a> {
        let mut name = NO_BUFFER;
        // SAFETY: see the type; a cluster's name does not change while the cluster lives.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_get_name(self.raw_ptr, &mut name);
            view(name)
        }
    }

    fn use_persistent_host_map(&self) {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_cluster_use_persistent_host_map(self.raw_ptr) };
    }
}
