//! Envoy's side of a filter configuration.

use crate::abi::{self, envoy_dynamic_module_type_metrics_result as MetricsResult};
use crate::ffi::lend;
use crate::metrics::{EnvoyCounterId, outcome};

/// Envoy's side of a filter configuration, lent to the factory on the main thread.
pub trait EnvoyHttpFilterConfig {
    /// Defines a counter. Only the factory can: afterwards Envoy answers `Frozen`.
    fn define_counter(&mut self, name: &str) -> Result<EnvoyCounterId, MetricsResult>;
}

/// The real [`EnvoyHttpFilterConfig`]. Only hooks make one, around the pointer they were called with.
pub struct EnvoyHttpFilterConfigImpl {
    raw_ptr: abi::envoy_dynamic_module_type_http_filter_config_envoy_ptr,
}

impl EnvoyHttpFilterConfigImpl {
    /// # Safety
    /// `raw_ptr` must be the config a hook was called with, and the value must not outlive the hook.
    pub(super) unsafe fn new(raw_ptr: abi::envoy_dynamic_module_type_http_filter_config_envoy_ptr) -> Self {
        Self { raw_ptr }
    }
}

impl EnvoyHttpFilterConfig for EnvoyHttpFilterConfigImpl {
    fn define_counter(&mut self, name: &str) -> Result<EnvoyCounterId, MetricsResult> {
        let mut id = 0;
        // SAFETY: `new` was given the config of the running hook. Envoy copies the name before the call
        // returns, reads no labels because there are none, and writes the ID to a local.
        let raw = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_config_define_counter(
                self.raw_ptr,
                lend(name.as_bytes()),
                std::ptr::null_mut(),
                0,
                &mut id,
            )
        };
        outcome(raw).map(|()| EnvoyCounterId(id))
    }
}
