//! The request a host is wanted for.

use std::ffi::c_void;
use std::marker::PhantomData;

use super::lb::{EnvoyClusterWorkerTimer, TIMER};
use crate::abi::{self, envoy_dynamic_module_type_envoy_buffer as RawBuffer};
use crate::buffer::EnvoyBuffer;
use crate::ffi::{HeaderView, NO_BUFFER, NO_HEADER, headers, lend, view};
use crate::timer::Timer;

/// The request a host is wanted for, lent to [`ClusterLb::choose_host`](super::ClusterLb::choose_host).
///
/// Dynamic metadata can be written but not read here. Left out: writing filter state (through `&self` it would free what
/// [`Self::get_filter_state_bytes`] lent), the typed filter state getter (its next call frees what the last one lent) and
/// per-host statistics.
pub trait ClusterLbContext {
    /// The hash of the route's hash policy.
    fn compute_hash_key(&self) -> Option<u64>;
    /// How many request headers there are.
    fn get_downstream_headers_size(&self) -> usize;
    /// All request headers.
    fn get_downstream_headers<'a>(&'a self) -> Vec<(EnvoyBuffer<'a>, EnvoyBuffer<'a>)>;
    /// One value of a request header, and how many values it has.
    fn get_downstream_header<'a>(&'a self, key: &str, index: usize) -> Option<(EnvoyBuffer<'a>, usize)>;
    /// How often a host may be refused by [`Self::should_select_another_host`].
    fn get_host_selection_retry_count(&self) -> u32;
    /// Whether a retry should avoid this host.
    fn should_select_another_host(&self, priority: u32, index: usize) -> bool;
    /// The host (`ip:port`) a filter asked for, and whether no other will do.
    fn get_override_host<'a>(&'a self) -> Option<(EnvoyBuffer<'a>, bool)>;
    /// The server name the client asked for in TLS.
    fn get_downstream_connection_sni<'a>(&'a self) -> Option<EnvoyBuffer<'a>>;
    /// Filter state stored as bytes.
    fn get_filter_state_bytes<'a>(&'a self, key: &[u8]) -> Option<EnvoyBuffer<'a>>;
    /// Puts a number into the request's dynamic metadata.
    fn set_dynamic_metadata_number(&self, namespace: &str, key: &str, value: f64) -> bool;
    /// Puts a string into the request's dynamic metadata.
    fn set_dynamic_metadata_string(&self, namespace: &str, key: &str, value: &str) -> bool;
    /// Makes a timer on this worker, not yet armed; `None` where there is no worker to run it.
    fn worker_timer_new(&self) -> Option<Box<dyn EnvoyClusterWorkerTimer>>;
}

/// The real [`ClusterLbContext`].
///
/// # What every call relies on
/// Both pointers are those of the running `choose_host` hook: the request and the load balancer exist throughout, on this
/// thread. The value is not `Send` and is only lent. Nothing reachable through it changes headers, filter state or the
/// override, so what the getters return stays in place. Arguments are copied before a callback returns.
#[derive(Clone, Copy)]
pub struct ClusterLbContextRef<'a> {
    raw_context: *mut c_void,
    raw_lb: *mut c_void,
    _marker: PhantomData<&'a ()>,
}

impl ClusterLbContextRef<'_> {
    /// # Safety
    /// Both must be what a `choose_host` hook was called with, and the value must not outlive the hook.
    #[inline]
    pub(super) unsafe fn new(raw_context: *mut c_void, raw_lb: *mut c_void) -> Self {
        Self { raw_context, raw_lb, _marker: PhantomData }
    }

    /// The result of a getter that answers "found" and fills in a buffer that stays while the hook runs.
    #[inline]
    fn get_buffer<'a>(
        &'a self,
        call: impl FnOnce(*mut c_void, *mut RawBuffer) -> bool,
    ) -> Option<EnvoyBuffer<'a>> {
        let mut result = NO_BUFFER;
        // SAFETY: see the type: what the getters return stays in place while the hook runs.
        call(self.raw_context, &mut result).then(|| unsafe { view(result) })
    }
}

impl ClusterLbContext for ClusterLbContextRef<'_> {
    fn compute_hash_key(&self) -> Option<u64> {
        let mut hash = 0;
        // SAFETY: see the type; the out parameter is a local.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_compute_hash_key(
                self.raw_context,
                &mut hash,
            )
        }
        .then_some(hash)
    }

    fn get_downstream_headers_size(&self) -> usize {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_get_downstream_headers_size(
                self.raw_context,
            )
        }
    }

    fn get_downstream_headers<'a>(&'a self) -> Vec<HeaderView<'a>> {
        let mut list = vec![NO_HEADER; self.get_downstream_headers_size()];
        // SAFETY: see the type; Envoy fills as many entries as it just counted.
        let filled = !list.is_empty()
            && unsafe {
                abi::envoy_dynamic_module_callback_cluster_lb_context_get_downstream_headers(
                    self.raw_context,
                    list.as_mut_ptr(),
                )
            };
        if !filled {
            return Vec::new();
        }
        // SAFETY: the array is local; see the type for the bytes.
        unsafe { headers(list.as_ptr(), list.len()) }
    }

    #[inline]
    fn get_downstream_header<'a>(&'a self, key: &str, index: usize) -> Option<(EnvoyBuffer<'a>, usize)> {
        let mut count = 0;
        // SAFETY: see the type; the out parameters are locals.
        let value = self.get_buffer(|context, result| unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_get_downstream_header(
                context,
                lend(key.as_bytes()),
                result,
                index,
                &mut count,
            )
        })?;
        Some((value, count))
    }

    fn get_host_selection_retry_count(&self) -> u32 {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_get_host_selection_retry_count(
                self.raw_context,
            )
        }
    }

    fn should_select_another_host(&self, priority: u32, index: usize) -> bool {
        // SAFETY: see the type; Envoy checks priority and index.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_should_select_another_host(
                self.raw_lb,
                self.raw_context,
                priority,
                index,
            )
        }
    }

    #[inline]
    fn get_override_host<'a>(&'a self) -> Option<(EnvoyBuffer<'a>, bool)> {
        let mut strict = false;
        // SAFETY: see the type; the out parameters are locals.
        let host = self.get_buffer(|context, result| unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_get_override_host(
                context,
                result,
                &mut strict,
            )
        })?;
        Some((host, strict))
    }

    fn get_downstream_connection_sni<'a>(&'a self) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: see the type; the out parameter is a local of `get_buffer`.
        self.get_buffer(|context, result| unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_get_downstream_connection_sni(
                context, result,
            )
        })
    }

    #[inline]
    fn get_filter_state_bytes<'a>(&'a self, key: &[u8]) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: see the type; the out parameter is a local of `get_buffer`.
        self.get_buffer(|context, result| unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_get_filter_state_bytes(
                context,
                lend(key),
                result,
            )
        })
    }

    fn set_dynamic_metadata_number(&self, namespace: &str, key: &str, value: f64) -> bool {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_set_dynamic_metadata_number(
                self.raw_context,
                lend(namespace.as_bytes()),
                lend(key.as_bytes()),
                value,
            )
        }
    }

    fn set_dynamic_metadata_string(&self, namespace: &str, key: &str, value: &str) -> bool {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_set_dynamic_metadata_string(
                self.raw_context,
                lend(namespace.as_bytes()),
                lend(key.as_bytes()),
                lend(value.as_bytes()),
            )
        }
    }

    fn worker_timer_new(&self) -> Option<Box<dyn EnvoyClusterWorkerTimer>> {
        // SAFETY: see the type; the timer is made on this thread and owned by nobody else.
        unsafe {
            let raw = abi::envoy_dynamic_module_callback_cluster_worker_timer_new(self.raw_lb);
            (!raw.is_null()).then(|| Box::new(Timer::own(raw, &TIMER)) as Box<dyn EnvoyClusterWorkerTimer>)
        }
    }
}
