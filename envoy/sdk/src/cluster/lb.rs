//! Envoy's side of a load balancer: the hosts as its thread sees them.

use std::ffi::c_void;

use crate::abi::{self, envoy_dynamic_module_type_cluster_host_envoy_ptr as HostPtr};
use crate::buffer::EnvoyBuffer;
use crate::ffi::{NO_BUFFER, non_null, view};

/// An IP address in network byte order, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PackedAddress {
    /// IPv4.
    V4([u8; 4], u16),
    /// IPv6.
    V6([u8; 16], u16),
}

/// The hosts of the cluster as one thread sees them, lent to the load balancer's hooks except `choose_host`.
pub trait EnvoyClusterLoadBalancer: Send {
    /// One of all hosts.
    fn get_host(&self, priority: u32, index: usize) -> Option<HostPtr>;
    /// How many hosts there are.
    fn get_hosts_count(&self, priority: u32) -> usize;
    /// How many priorities there are.
    fn get_priority_set_size(&self) -> usize;
    /// The `ip:port` of a host.
    fn get_host_address<'a>(&'a self, priority: u32, index: usize) -> Option<EnvoyBuffer<'a>>;
    /// During the membership hook: an added or removed host.
    fn get_member_update_host(&self, index: usize, is_added: bool) -> Option<HostPtr>;
    /// During the membership hook: the address of an added or removed host, without formatting it; `None` if
    /// it is not an IP address.
    fn get_member_update_host_packed_address(&self, index: usize, is_added: bool) -> Option<PackedAddress>;
}

/// The real [`EnvoyClusterLoadBalancer`].
///
/// # What calls rely on
/// *The load balancer is live*: the pointer is the load balancer of the running hook, used on its own thread,
/// where its host sets change between hooks only. The value is not `Sync` and ends with the hook.
pub(super) struct Envoy {
    raw_ptr: *mut c_void,
}

// SAFETY: the trait demands `Send`, but the value is only ever lent by reference, and without `Sync` a
// reference stays on the thread of the hook.
unsafe impl Send for Envoy {}

impl Envoy {
    /// # Safety
    /// `raw_ptr` must be the load balancer a hook was called with, and the value must not outlive the hook.
    pub(super) unsafe fn new(raw_ptr: *mut c_void) -> Self {
        Self { raw_ptr }
    }
}

impl EnvoyClusterLoadBalancer for Envoy {
    fn get_host(&self, priority: u32, index: usize) -> Option<HostPtr> {
        // SAFETY: the load balancer is live; Envoy checks priority and index.
        non_null(unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_host(self.raw_ptr, priority, index)
        })
    }

    fn get_hosts_count(&self, priority: u32) -> usize {
        // SAFETY: the load balancer is live; Envoy checks the priority.
        unsafe { abi::envoy_dynamic_module_callback_cluster_lb_get_hosts_count(self.raw_ptr, priority) }
    }

    fn get_priority_set_size(&self) -> usize {
        // SAFETY: the load balancer is live.
        unsafe { abi::envoy_dynamic_module_callback_cluster_lb_get_priority_set_size(self.raw_ptr) }
    }

    fn get_host_address<'a>(&'a self, priority: u32, index: usize) -> Option<EnvoyBuffer<'a>> {
        let mut address = NO_BUFFER;
        // SAFETY: the load balancer is live, and Envoy checks priority and index. The address belongs to a
        // host, which stays while the hook runs.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_get_host_address(
                self.raw_ptr,
                priority,
                index,
                &mut address,
            )
            .then(|| view(address))
        }
    }

    fn get_member_update_host(&self, index: usize, is_added: bool) -> Option<HostPtr> {
        // SAFETY: the load balancer is live; Envoy checks the index.
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
        // SAFETY: the load balancer is live; Envoy checks the index and writes to a local.
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
