//! Getting back onto a filter's or config's own thread.
//!
//! The module owns the scheduler object; Envoy's side of it holds only a weak reference to the filter (or config), so a
//! scheduler may outlive its target: `commit` then does nothing.

use crate::abi;

/// Calls [`HttpFilter::on_scheduled`](super::HttpFilter::on_scheduled) on the filter's worker.
pub trait EnvoyHttpFilterScheduler: Send + Sync {
    /// From any thread; `event_id` arrives unchanged.
    fn commit(&self, event_id: u64);
}

/// Calls [`HttpFilterConfig::on_scheduled`](super::HttpFilterConfig::on_scheduled) on the main thread.
pub trait EnvoyHttpFilterConfigScheduler: Send + Sync {
    /// From any thread; `event_id` arrives unchanged.
    fn commit(&self, event_id: u64);
}

/// Owns one scheduler of Envoy's making.
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

impl EnvoyHttpFilterScheduler for Box<dyn EnvoyHttpFilterScheduler> {
    fn commit(&self, event_id: u64) {
        (**self).commit(event_id);
    }
}

/// Owns one scheduler of Envoy's making.
pub(super) struct ConfigScheduler(abi::envoy_dynamic_module_type_http_filter_config_scheduler_module_ptr);

impl ConfigScheduler {
    /// # Safety
    /// `config` must be the config of the running hook.
    pub(super) unsafe fn new(config: abi::envoy_dynamic_module_type_http_filter_config_envoy_ptr) -> Self {
        // SAFETY: the caller passes a live config; the returned object is ours until `delete`.
        Self(unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_new(config) })
    }
}

// SAFETY: Envoy's scheduler locks a weak pointer and posts to a dispatcher, both made for any thread.
unsafe impl Send for ConfigScheduler {}
// SAFETY: as above; `commit` does not change the scheduler.
unsafe impl Sync for ConfigScheduler {}

impl EnvoyHttpFilterConfigScheduler for ConfigScheduler {
    fn commit(&self, event_id: u64) {
        // SAFETY: the scheduler is live until `drop`, and `commit` may be called from any thread.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_commit(self.0, event_id) };
    }
}

impl Drop for ConfigScheduler {
    fn drop(&mut self) {
        // SAFETY: made by `scheduler_new`, deleted here and only here.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_config_scheduler_delete(self.0) };
    }
}

impl EnvoyHttpFilterConfigScheduler for Box<dyn EnvoyHttpFilterConfigScheduler> {
    fn commit(&self, event_id: u64) {
        (**self).commit(event_id);
    }
}
