//! Envoy's side of the cluster.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::{
    self, envoy_dynamic_module_type_cluster_host_envoy_ptr as HostPtr,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
};
use crate::buffer::EnvoyBuffer;
use crate::ffi::{NO_BUFFER, lend, non_null, view};

/// Envoy's side of the cluster, lent to its hooks. [`Self::new_scheduler`] and [`Self::get_cluster_name`] may
/// be called from any thread. The rest belongs to the main thread; elsewhere Envoy refuses it.
pub trait EnvoyCluster: Send + Sync {
    /// Adds hosts at a priority: addresses as `ip:port`, the names that TLS certificates are checked against,
    /// and weights of 1 to 128, one each; localities (region, zone, sub-zone) and metadata (filter, key,
    /// value) one each or none.
    ///
    /// `None` means that nothing was added because some address or weight was bad. An address the cluster
    /// already has is skipped: the answer has as many entries as addresses were given, first the hosts really
    /// added, then null. After a batch that may contain known addresses, ask [`Self::find_host_by_address`].
    /// Adding or removing a batch costs as much as one host, so collect them.
    fn add_hosts_with_hostnames_and_locality_to_priority(
        &self,
        priority: u32,
        addresses: &[String],
        hostnames: &[String],
        weights: &[u32],
        localities: &[(String, String, String)],
        metadata: &[Vec<(String, String, String)>],
    ) -> Option<Vec<HostPtr>>;

    /// Removes hosts and closes their idle connections on every worker; requests in flight finish. Answers
    /// how many of them were there.
    fn remove_hosts(&self, hosts: &[HostPtr]) -> usize;

    /// Reports that the first hosts are in: the cluster may be used.
    fn pre_init_complete(&self);

    /// The host with this `ip:port`, in all priorities.
    fn find_host_by_address(&self, address: &str) -> Option<HostPtr>;

    /// Makes a scheduler, with which any thread can call the main thread.
    fn new_scheduler(&self) -> Box<dyn EnvoyClusterScheduler>;

    /// Makes Envoy call [`Cluster::on_worker_event`](super::Cluster::on_worker_event) on every worker, soon.
    fn run_on_all_workers(&self, event_id: u64);

    /// The cluster's name.
    fn get_cluster_name<'a>(&'a self) -> EnvoyBuffer<'a>;

    /// Keeps the hosts in a map that shares structure between its versions, so that a change costs less in a
    /// large cluster. To be called in [`Cluster::on_init`](super::Cluster::on_init), before the first host.
    ///
    /// **Not in the official SDK** of this snapshot, although Envoy 1.40.0 has the callback; remove the call
    /// when swapping the official SDK in.
    fn use_persistent_host_map(&self);
}

/// Calls [`Cluster::on_scheduled`](super::Cluster::on_scheduled) on the main thread.
pub trait EnvoyClusterScheduler: Send + Sync {
    /// May be called from any thread. `event_id` arrives unchanged.
    fn commit(&self, event_id: u64);
}

/// Owns one scheduler that Envoy made. Envoy's side holds a weak reference to the cluster, so this may
/// outlive it.
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
/// # What calls rely on
/// *The cluster is live*: the pointer is the cluster of the running hook, which Envoy keeps until the hook
/// has returned. The value is lent for that hook only. Scoped threads may call it meanwhile; there Envoy's
/// callbacks refuse what belongs to the main thread.
pub(super) struct Envoy {
    raw_ptr: *mut c_void,
    during: During,
}

// SAFETY: every callback used here either checks for the main thread itself or only reads what does not
// change.
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
            // SAFETY: the cluster is live.
            unsafe { abi::envoy_dynamic_module_callback_cluster_pre_init_complete(self.raw_ptr) };
        }
    }
}

/// Whether each list is as long as Envoy will read it.
fn is_regular(
    n: usize,
    hostnames: &[String],
    weights: &[u32],
    localities: &[(String, String, String)],
    metadata: &[Vec<(String, String, String)>],
) -> bool {
    hostnames.len() == n
        && weights.len() == n
        && (localities.is_empty() || localities.len() == n)
        && (metadata.is_empty() || metadata.len() == n)
        && metadata.windows(2).all(|pair| pair[0].len() == pair[1].len())
}

impl EnvoyCluster for Envoy {
    fn add_hosts_with_hostnames_and_locality_to_priority(
        &self,
        priority: u32,
        addresses: &[String],
        hostnames: &[String],
        weights: &[u32],
        localities: &[(String, String, String)],
        metadata: &[Vec<(String, String, String)>],
    ) -> Option<Vec<HostPtr>> {
        let n = addresses.len();
        if n == 0 {
            return Some(Vec::new());
        }
        if !is_regular(n, hostnames, weights, localities, metadata) {
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
        let addresses = buffers(&mut addresses.iter());
        let names = buffers(&mut hostnames.iter());
        let regions = buffers(&mut localities.iter().map(|(region, _, _)| region));
        let zones = buffers(&mut localities.iter().map(|(_, zone, _)| zone));
        let sub_zones = buffers(&mut localities.iter().map(|(_, _, sub_zone)| sub_zone));
        let per_host = metadata.first().map_or(0, Vec::len);
        let metadata: Vec<ModuleBuffer> = metadata
            .iter()
            .flatten()
            .flat_map(|(filter, key, value)| [filter, key, value])
            .map(|text| lend(text.as_bytes()))
            .collect();
        let mut hosts = vec![std::ptr::null_mut(); n];
        // SAFETY: the cluster is live. Every list has `n` entries and the metadata `3 * per_host * n`, which
        // `is_regular` has checked; all live until the call returns, by which time Envoy has copied them.
        let added = unsafe {
            abi::envoy_dynamic_module_callback_cluster_add_hosts_with_hostnames(
                self.raw_ptr,
                priority,
                addresses.as_ptr(),
                names.as_ptr(),
                weights.as_ptr(),
                regions.as_ptr(),
                zones.as_ptr(),
                sub_zones.as_ptr(),
                metadata.as_ptr(),
                per_host,
                n,
                hosts.as_mut_ptr(),
            )
        };
        added.then_some(hosts)
    }

    fn remove_hosts(&self, hosts: &[HostPtr]) -> usize {
        // SAFETY: the cluster is live, and Envoy looks each pointer up before it uses it.
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
            // SAFETY: the cluster is live.
            During::Shared => unsafe {
                abi::envoy_dynamic_module_callback_cluster_pre_init_complete(self.raw_ptr);
            },
        }
    }

    fn find_host_by_address(&self, address: &str) -> Option<HostPtr> {
        let address = lend(address.as_bytes());
        // SAFETY: the cluster is live.
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
        // SAFETY: the cluster is live; the returned object is ours until `delete`.
        Box::new(Scheduler(unsafe { abi::envoy_dynamic_module_callback_cluster_scheduler_new(self.raw_ptr) }))
    }

    fn run_on_all_workers(&self, event_id: u64) {
        // SAFETY: the cluster is live.
        unsafe { abi::envoy_dynamic_module_callback_cluster_run_on_all_workers(self.raw_ptr, event_id) };
    }

    fn get_cluster_name<'a>(&'a self) -> EnvoyBuffer<'a> {
        let mut name = NO_BUFFER;
        // SAFETY: the cluster is live, and its name does not change while it lives.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_get_name(self.raw_ptr, &mut name);
            view(name)
        }
    }

    fn use_persistent_host_map(&self) {
        // SAFETY: the cluster is live.
        unsafe { abi::envoy_dynamic_module_callback_cluster_use_persistent_host_map(self.raw_ptr) };
    }
}
