//! The request a host is wanted for.

use std::ffi::c_void;

use crate::abi::{self, envoy_dynamic_module_type_envoy_buffer as RawBuffer};
use crate::buffer::EnvoyBuffer;
use crate::ffi::{NO_BUFFER, lend, view};

/// The request a host is wanted for, lent to [`ClusterLb::choose_host`](super::ClusterLb::choose_host).
pub trait ClusterLbContext {
    /// One value of a request header, and how many values it has.
    fn get_downstream_header<'a>(&'a self, key: &str, index: usize) -> Option<(EnvoyBuffer<'a>, usize)>;
    /// Filter state stored as bytes.
    fn get_filter_state_bytes<'a>(&'a self, key: &[u8]) -> Option<EnvoyBuffer<'a>>;
}

/// The real [`ClusterLbContext`].
///
/// # What calls rely on
/// - *The request is live*: the pointer is the context of the running `choose_host` hook, used on its thread.
///   The value is not `Send` and is only lent.
/// - *Views stay*: nothing that is reachable through the value changes headers or filter state.
pub(super) struct Context {
    raw_ptr: *mut c_void,
}

impl Context {
    /// # Safety
    /// `raw_ptr` must be the context a `choose_host` hook was called with, and the value must not outlive the
    /// hook.
    #[inline]
    pub(super) unsafe fn new(raw_ptr: *mut c_void) -> Self {
        Self { raw_ptr }
    }

    /// The result of a getter that answers "found" and fills in a buffer.
    #[inline]
    fn get_buffer<'a>(
        &'a self,
        call: impl FnOnce(*mut c_void, *mut RawBuffer) -> bool,
    ) -> Option<EnvoyBuffer<'a>> {
        let mut result = NO_BUFFER;
        // SAFETY: headers and filter state do not change while the hook runs, so what a getter returns stays
        // in place.
        call(self.raw_ptr, &mut result).then(|| unsafe { view(result) })
    }
}

impl ClusterLbContext for Context {
    #[inline]
    fn get_downstream_header<'a>(&'a self, key: &str, index: usize) -> Option<(EnvoyBuffer<'a>, usize)> {
        let mut count = 0;
        // SAFETY: the request is live; the name is read during the call only, and the out parameters are
        // locals.
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

    #[inline]
    fn get_filter_state_bytes<'a>(&'a self, key: &[u8]) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: the request is live; the key is read during the call only, and the out parameter is a
        // local.
        self.get_buffer(|context, result| unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_context_get_filter_state_bytes(
                context,
                lend(key),
                result,
            )
        })
    }
}
