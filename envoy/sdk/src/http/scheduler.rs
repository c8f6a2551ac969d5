//! The way back onto a filter's own thread.
//!
//! The module owns the scheduler. Envoy's side of it holds a weak reference to the filter, so a scheduler may
//! outlive the filter; `commit` then does nothing.

use crate::abi;

/// Calls [`HttpFilter::on_scheduled`](super::HttpFilter::on_scheduled) on the filter's worker.
pub trait EnvoyHttpFilterScheduler: Send + Sync {
    /// May be called from any thread. `event_id` arrives unchanged.
    fn commit(&self, event_id: u64);
}

/// Owns one scheduler that Envoy made.
pub(super) struct FilterScheduler(abi::envoy_dynamic_module_type_http_filter_scheduler_module_ptr);

impl FilterScheduler {
    /// # Safety
    /// `filter` must be the filter of the running hook.
    #[inline]
    pub(super) unsafe fn new(filter: abi::envoy_dynamic_module_type_http_filter_envoy_ptr) -> Self {
        // SAFETY: the caller passes a live filter; the returned object is ours until `delete`.
        Self(unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_new(filter) })
    }
}

// SAFETY: Envoy's scheduler locks a weak pointer and posts to a dispatcher, both made for any thread.
unsafe impl Send for FilterScheduler {}
// SAFETY: as above; `commit` does not change the scheduler.
unsafe impl Sync for FilterScheduler {}

impl EnvoyHttpFilterScheduler for FilterScheduler {
    #[inline]
    fn commit(&self, event_id: u64) {
        // SAFETY: the scheduler is live until `drop`, and `commit` may be called from any thread.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_commit(self.0, event_id) };
    }
}

impl Drop for FilterScheduler {
    fn drop(&mut self) {
        // SAFETY: made by `scheduler_new`, deleted here and only here.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_delete(self.0) };
    }
}
