//! Envoy's side of a filter configuration.

use crate::abi::{self, envoy_dynamic_module_type_metrics_result as MetricsResult};
use crate::ffi::{NONE, lend};
use crate::metrics::{EnvoyCounterId, outcome};

/// A generic secret that a config has subscribed to. It means something only to that config and its filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnvoyGenericSecretId(pub usize);

/// Envoy's side of a filter configuration, lent to the factory on the main thread.
pub trait EnvoyHttpFilterConfig {
    /// Defines a counter. Only the factory can: afterwards Envoy answers `Frozen`.
    fn define_counter(&mut self, name: &str) -> Result<EnvoyCounterId, MetricsResult>;
    /// Subscribes to a generic secret, whose value [`EnvoyHttpFilter::get_generic_secret`] then has. Only the
    /// factory can. Without `sds_config_source` the name is that of a static secret of the bootstrap
    /// config. With it, a `ConfigSource` of Envoy's API as JSON, Envoy fetches the secret from there and
    /// follows its changes; the listener waits for the first value, until the source's
    /// `initial_fetch_timeout`.
    ///
    /// `None` if Envoy refused, which it explains in its log: there is no such static secret, or the source
    /// is not valid.
    ///
    /// [`EnvoyHttpFilter::get_generic_secret`]: crate::EnvoyHttpFilter::get_generic_secret
    fn subscribe_generic_secret(
        &mut self,
        name: &str,
        sds_config_source: Option<&str>,
    ) -> Option<EnvoyGenericSecretId>;
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

    fn subscribe_generic_secret(
        &mut self,
        name: &str,
        sds_config_source: Option<&str>,
    ) -> Option<EnvoyGenericSecretId> {
        let source = sds_config_source.map_or(NONE, |source| lend(source.as_bytes()));
        // SAFETY: `new` was given the config of the running hook. Envoy copies the name and reads the source
        // before the call returns.
        let id = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe(
                self.raw_ptr,
                lend(name.as_bytes()),
                source,
            )
        };
        (id != 0).then_some(EnvoyGenericSecretId(id))
    }
}
