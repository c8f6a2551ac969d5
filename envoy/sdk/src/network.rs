//! The network filter (`envoy.filters.network.dynamic_modules`).
//!
//! A [`NetworkFilterConfig`] is made on the main thread when Envoy takes a configuration and is shared by all
//! workers. It makes one [`NetworkFilter`] per connection, on the worker that has the connection. The filter
//! is dropped with the connection.
//!
//! Only what is needed to admit or refuse a connection is offered: bytes pass this filter without a call into
//! the module's own code.
//!
//! # When a hook panics
//! A connection whose filter could not be made, or panicked when it began, is closed.

mod hooks;

use crate::abi::{self, envoy_dynamic_module_type_metrics_result as MetricsResult};
use crate::ffi::{NO_BUFFER, lend, view};
use crate::metrics::{EnvoyCounterId, outcome};

/// The hooks this extension point exports.
pub(crate) const HOOKS: &[&str] = &[
    "envoy_dynamic_module_on_network_filter_config_new",
    "envoy_dynamic_module_on_network_filter_config_destroy",
    "envoy_dynamic_module_on_network_filter_new",
    "envoy_dynamic_module_on_network_filter_new_connection",
    "envoy_dynamic_module_on_network_filter_read",
    "envoy_dynamic_module_on_network_filter_write",
    "envoy_dynamic_module_on_network_filter_event",
    "envoy_dynamic_module_on_network_filter_destroy",
];

/// The module's side of a filter configuration: makes a filter for each connection. Called on every worker at
/// once.
pub trait NetworkFilterConfig<ENF: EnvoyNetworkFilter>: Sync {
    /// Makes the filter of a new connection.
    fn new_network_filter(&self, envoy: &mut ENF) -> Box<dyn NetworkFilter<ENF>>;
}

/// The module's side of one connection.
#[allow(unused_variables, reason = "parameter names are documentation")]
pub trait NetworkFilter<ENF: EnvoyNetworkFilter> {
    /// The connection has begun. To refuse it, call [`EnvoyNetworkFilter::close`] and return `StopIteration`.
    fn on_new_connection(
        &mut self,
        envoy_filter: &mut ENF,
    ) -> abi::envoy_dynamic_module_type_on_network_filter_data_status {
        abi::envoy_dynamic_module_type_on_network_filter_data_status::Continue
    }
}

/// Envoy's side of a filter configuration, lent to the factory.
pub trait EnvoyNetworkFilterConfig {
    /// Defines a counter.
    fn define_counter(&mut self, name: &str) -> Result<EnvoyCounterId, MetricsResult>;
}

/// Envoy's side of one connection, lent to each hook of its filter.
pub trait EnvoyNetworkFilter {
    /// The client's address and port: the peer's, or the one that a listener filter has read from the PROXY
    /// protocol. Empty for a client that has none, as on a Unix socket.
    fn get_remote_address(&self) -> (String, u32);
    /// Closes the connection.
    fn close(&mut self, close_type: abi::envoy_dynamic_module_type_network_connection_close_type);
    /// Adds to a counter.
    fn increment_counter(&self, id: EnvoyCounterId, value: u64) -> Result<(), MetricsResult>;
}

/// The real [`EnvoyNetworkFilterConfig`]. Only hooks make one, around the pointer they were called with.
pub struct EnvoyNetworkFilterConfigImpl {
    raw_ptr: abi::envoy_dynamic_module_type_network_filter_config_envoy_ptr,
}

impl EnvoyNetworkFilterConfigImpl {
    /// # Safety
    /// `raw_ptr` must be the config a hook was called with, and the value must not outlive the hook.
    unsafe fn new(raw_ptr: abi::envoy_dynamic_module_type_network_filter_config_envoy_ptr) -> Self {
        Self { raw_ptr }
    }
}

impl EnvoyNetworkFilterConfig for EnvoyNetworkFilterConfigImpl {
    fn define_counter(&mut self, name: &str) -> Result<EnvoyCounterId, MetricsResult> {
        let mut id = 0;
        // SAFETY: the config is the one of the running hook; the name is copied before the call returns.
        let raw = unsafe {
            abi::envoy_dynamic_module_callback_network_filter_config_define_counter(
                self.raw_ptr,
                lend(name.as_bytes()),
                &mut id,
            )
        };
        outcome(raw).map(|()| EnvoyCounterId(id))
    }
}

/// The real [`EnvoyNetworkFilter`]. Only hooks make one, around the pointer they were called with.
pub struct EnvoyNetworkFilterImpl {
    raw_ptr: abi::envoy_dynamic_module_type_network_filter_envoy_ptr,
}

impl EnvoyNetworkFilterImpl {
    /// # Safety
    /// `raw_ptr` must be the filter a hook was called with, and the value must not outlive the hook.
    unsafe fn new(raw_ptr: abi::envoy_dynamic_module_type_network_filter_envoy_ptr) -> Self {
        Self { raw_ptr }
    }
}

impl EnvoyNetworkFilter for EnvoyNetworkFilterImpl {
    fn get_remote_address(&self) -> (String, u32) {
        let (mut address, mut port) = (NO_BUFFER, 0);
        // SAFETY: the filter is the one of the running hook; the out parameters are locals.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_network_filter_get_remote_address(
                self.raw_ptr,
                &mut address,
                &mut port,
            )
        };
        if !found {
            return (String::new(), 0);
        }
        // SAFETY: Envoy keeps the text of the address as long as the connection; it is copied here.
        let address = unsafe { view(address) };
        (String::from_utf8_lossy(address.as_slice()).into_owned(), port)
    }

    fn close(&mut self, close_type: abi::envoy_dynamic_module_type_network_connection_close_type) {
        // SAFETY: the filter is the one of the running hook. Envoy calls the filter's hooks before the call
        // returns, and keeps the filter until the hook has.
        unsafe { abi::envoy_dynamic_module_callback_network_filter_close(self.raw_ptr, close_type) };
    }

    fn increment_counter(&self, id: EnvoyCounterId, value: u64) -> Result<(), MetricsResult> {
        // SAFETY: the filter is the one of the running hook; Envoy checks the ID.
        outcome(unsafe {
            abi::envoy_dynamic_module_callback_network_filter_increment_counter(self.raw_ptr, id.0, value)
        })
    }
}
