//! Envoy's side of a load balancer: the hosts as its thread sees them.

use std::ffi::c_void;
use std::time::Duration;

use crate::abi::{
    self, envoy_dynamic_module_type_cluster_host_envoy_ptr as HostPtr,
    envoy_dynamic_module_type_envoy_buffer as RawBuffer, envoy_dynamic_module_type_host_health as Health,
};
use crate::buffer::EnvoyBuffer;
use crate::ffi::{NO_BUFFER, lend, non_null, text, view};
use crate::timer::{Ops, Timer};

/// An IP address in network byte order, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PackedAddress {
    /// IPv4.
    V4([u8; 4], u16),
    /// IPv6.
    V6([u8; 16], u16),
}

/// The hosts of the cluster as one thread sees them, lent to the load balancer's hooks except `choose_host`.
///
/// Left out: host metadata, localities, per-host data and per-host statistics, which nothing here uses.
pub trait EnvoyClusterLoadBalancer: Send {
    /// How many hosts are healthy.
    fn get_healthy_host_count(&self, priority: u32) -> usize;
    /// One of the healthy hosts.
    fn get_healthy_host(&self, priority: u32, index: usize) -> Option<HostPtr>;
    /// One of all hosts.
    fn get_host(&self, priority: u32, index: usize) -> Option<HostPtr>;
    /// The host with this `ip:port`, in all priorities.
    fn find_host_by_address(&self, address: &str) -> Option<HostPtr>;
    /// The cluster's name.
    fn get_cluster_name<'a>(&'a self) -> Option<EnvoyBuffer<'a>>;
    /// How many hosts there are.
    fn get_hosts_count(&self, priority: u32) -> usize;
    /// How many hosts are degraded.
    fn get_degraded_hosts_count(&self, priority: u32) -> usize;
    /// How many priorities there are.
    fn get_priority_set_size(&self) -> usize;
    /// The `ip:port` of a healthy host.
    fn get_healthy_host_address<'a>(&'a self, priority: u32, index: usize) -> Option<EnvoyBuffer<'a>>;
    /// The weight of a healthy host, or 0.
    fn get_healthy_host_weight(&self, priority: u32, index: usize) -> u32;
    /// The health of a host; unhealthy if there is none.
    fn get_host_health(&self, priority: u32, index: usize) -> Health;
    /// The health of the host with this `ip:port`.
    fn get_host_health_by_address(&self, address: &str) -> Option<Health>;
    /// The `ip:port` of a host.
    fn get_host_address<'a>(&'a self, priority: u32, index: usize) -> Option<EnvoyBuffer<'a>>;
    /// The weight of a host, or 0.
    fn get_host_weight(&self, priority: u32, index: usize) -> u32;
    /// During the membership hook: the `ip:port` of an added or removed host.
    fn get_member_update_host_address(&self, index: usize, is_added: bool) -> Option<String>;
    /// During the membership hook: an added or removed host.
    fn get_member_update_host(&self, index: usize, is_added: bool) -> Option<HostPtr>;
    /// During the membership hook: the address of an added or removed host, without formatting it; `None` if it is not
    /// an IP address.
    fn get_member_update_host_packed_address(&self, index: usize, is_added: bool) -> Option<PackedAddress>;
}

/// A timer on one worker; it is to be used and dropped there (elsewhere it does nothing, and leaks).
pub trait EnvoyClusterWorkerTimer: Send {
    /// Tells timers apart: the handle that fired has the ID of the handle that was made.
    fn id(&self) -> usize;
    /// Arms the timer, or arms it anew.
    fn enable(&self, delay: Duration);
    /// Disarms the timer.
    fn disable(&self);
    /// Whether the timer is armed.
    fn enabled(&self) -> bool;
}

pub(super) static TIMER: Ops = Ops {
    enable: abi::envoy_dynamic_module_callback_cluster_worker_timer_enable,
    disable: abi::envoy_dynamic_module_callback_cluster_worker_timer_disable,
    enabled: abi::envoy_dynamic_module_callback_cluster_worker_timer_enabled,
    delete: abi::envoy_dynamic_module_callback_cluster_worker_timer_delete,
};

impl EnvoyClusterWorkerTimer for Timer {
    fn id(&self) -> usize {
        self.id()
    }
    fn enable(&self, delay: Duration) {
        self.enable(delay);
    }
    fn disable(&self) {
        self.disable();
    }
    fn enabled(&self) -> bool {
        self.enabled()
    }
}

impl EnvoyClusterWorkerTimer for Box<dyn EnvoyClusterWorkerTimer> {
    fn id(&self) -> usize {
        (**self).id()
    }
    fn enable(&self, delay: Duration) {
        (**self).enable(delay);
    }
    fn disable(&self) {
        (**self).disable();
    }
    fn enabled(&self) -> bool {
        (**self).enabled()
    }
}

/// The real [`EnvoyClusterLoadBalancer`].
///
/// # What every call relies on
/// The pointer is the load balancer of the running hook, used on its own thread, where its host sets change between
/// hooks only; Envoy checks indexes. The value is not `Sync` and ends with the hook.
pub(super) struct Envoy {
    raw_ptr: *mut c_void,
}

// SAFETY: `Send` is the trait's wish; the value is only ever lent by reference, and without `Sync` a reference stays on
// the thread of the hook.
unsafe impl Send for Envoy {}

impl Envoy {
    /// # Safety
    /// `raw_ptr` must be the load balancer a hook was called with, and the value must not outlive the hook.
    pub(super) unsafe fn new(raw_ptr: *mut c_void) -> Self {
        Self { raw_ptr }
    }

    /// The result of a getter that answers "found" and fills in a buffer that stays while the hook runs.
    fn get_buffer<'a>(
        &'a self,
        call: impl FnOnce(*mut c_void, *mut RawBuffer) -> bool,
    ) -> Option<EnvoyBuffer<'a>> {
        let mut result = NO_BUFFER;
        // SAFETY: addresses and names belong to hosts and cluster, which stay while the hook runs.
        call(self.raw_ptr, &mut result).then(|| unsafe { view(result) })
    }
}

impl EnvoyClusterLoadBalancer for Envoy {
    fn get_healthy_host_count(&self, priority: u32) -> usize {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_healthy_host_count(self.raw_ptr, priority)
        }
    }

    fn get_healthy_host(&self, priority: u32, index: usize) -> Option<HostPtr> {
        // SAFETY: see the type.
        non_null(unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_healthy_host(self.raw_ptr, priority, index)
        })
    }

    fn get_host(&self, priority: u32, index: usize) -> Option<HostPtr> {
        // SAFETY: see the type.
        non_null(unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_host(self.raw_ptr, priority, index)
        })
    }

    fn find_host_by_address(&self, address: &str) -> Option<HostPtr> {
        let address = lend(address.as_bytes());
        // SAFETY: see the type.
        non_null(unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_find_host_by_address(self.raw_ptr, address)
        })
    }

    fn get_cluster_name<'a>(&'a self) -> Option<EnvoyBuffer<'a>> {
        self.get_buffer(|lb, result| {
            // SAFETY: see the type; the out parameter is a local of `get_buffer`.
            unsafe { abi::envoy_dynamic_module_callback_cluster_lb_get_cluster_name(lb, result) };
            true
        })
        .filter(|name| !name.as_slice().is_empty())
    }

    fn get_hosts_count(&self, priority: u32) -> usize {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_cluster_lb_get_hosts_count(self.raw_ptr, priority) }
    }

    fn get_degraded_hosts_count(&self, priority: u32) -> usize {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_degraded_hosts_count(self.raw_ptr, priority)
        }
    }

    fn get_priority_set_size(&self) -> usize {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_cluster_lb_get_priority_set_size(self.raw_ptr) }
    }

    fn get_healthy_host_address<'a>(&'a self, priority: u32, index: usize) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: see the type; the out parameter is a local of `get_buffer`.
        self.get_buffer(|lb, result| unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_healthy_host_address(
                lb, priority, index, result,
            )
        })
    }

    fn get_healthy_host_weight(&self, priority: u32, index: usize) -> u32 {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_healthy_host_weight(
                self.raw_ptr,
                priority,
                index,
            )
        }
    }

    fn get_host_health(&self, priority: u32, index: usize) -> Health {
        // SAFETY: see the type.
        let raw = unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_host_health(self.raw_ptr, priority, index)
        };
        Health::from_raw(raw).unwrap_or(Health::Unhealthy)
    }

    fn get_host_health_by_address(&self, address: &str) -> Option<Health> {
        let (address, mut raw) = (lend(address.as_bytes()), 0);
        // SAFETY: see the type; the out parameter is a local.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_host_health_by_address(
                self.raw_ptr,
                address,
                &mut raw,
            )
        };
        found.then(|| Health::from_raw(raw).unwrap_or(Health::Unhealthy))
    }

    fn get_host_address<'a>(&'a self, priority: u32, index: usize) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: see the type; the out parameter is a local of `get_buffer`.
        self.get_buffer(|lb, result| unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_host_address(lb, priority, index, result)
        })
    }

    fn get_host_weight(&self, priority: u32, index: usize) -> u32 {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_host_weight(self.raw_ptr, priority, index)
        }
    }

    fn get_member_update_host_address(&self, index: usize, is_added: bool) -> Option<String> {
        let mut address = NO_BUFFER;
        // SAFETY: see the type; the address is copied before anything else is called.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_member_update_host_address(
                self.raw_ptr,
                index,
                is_added,
                &mut address,
            )
            .then(|| text(address).into_owned())
        }
    }

    fn get_member_update_host(&self, index: usize, is_added: bool) -> Option<HostPtr> {
        // SAFETY: see the type.
        non_null(unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_member_update_host(
                self.raw_ptr,
                index,
                is_added,
            )
        })
    }

    fn get_member_update_host_packed_address(&self, index: usize, is_added: bool) -> Option<PackedAddress> {
        let mut packed =
            abi::envoy_dynamic_module_type_packed_address { address_bytes: [0; 16], port: 0, family: 0 };
        // SAFETY: see the type; the out parameter is a local.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_member_update_host_packed_address(
                self.raw_ptr,
                index,
                is_added,
                &mut packed,
            )
        };
        match (found, packed.family) {
            (true, 4) => {
                let [a, b, c, d, ..] = packed.address_bytes;
                Some(PackedAddress::V4([a, b, c, d], packed.port))
            }
            (true, 6) => Some(PackedAddress::V6(packed.address_bytes, packed.port)),
            _ => None,
        }
    }
}
