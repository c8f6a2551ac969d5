//! Envoy's side of the bootstrap extension.

use std::ffi::c_void;

use super::scheduler::{ConfigScheduler, EnvoyBootstrapExtensionConfigScheduler};
use super::timer::{EnvoyBootstrapExtensionTimer, Timer};
use crate::abi::{self, envoy_dynamic_module_type_metrics_result as MetricsResult};
use crate::ffi::lend;
use crate::metrics::{EnvoyCounterId, EnvoyGaugeId, outcome};

/// Envoy's side of the bootstrap configuration, lent to the factory and to the config's hooks on the main
/// thread.
///
/// Metrics can be *defined* in the factory only; afterwards Envoy answers `Frozen`.
pub trait EnvoyBootstrapExtensionConfig {
    /// Makes a scheduler, with which any thread can call the main thread.
    fn new_scheduler(&self) -> Box<dyn EnvoyBootstrapExtensionConfigScheduler>;

    /// Lets Envoy open its listeners. Call it exactly once, in the factory or later.
    fn signal_init_complete(&self);

    /// Defines a counter.
    fn define_counter(&mut self, name: &str) -> Result<EnvoyCounterId, MetricsResult>;
    /// Defines a gauge.
    fn define_gauge(&mut self, name: &str) -> Result<EnvoyGaugeId, MetricsResult>;
    /// Adds to a counter.
    fn increment_counter(&self, id: EnvoyCounterId, value: u64) -> Result<(), MetricsResult>;
    /// Sets a gauge.
    fn set_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult>;

    /// Makes a timer, not yet armed. The handle owns it and deletes it when dropped.
    fn new_timer(&self) -> Box<dyn EnvoyBootstrapExtensionTimer>;

    /// Registers an admin path. Envoy matches the whole path, without the query. `false` if it is taken, or
    /// there is no admin server.
    fn register_admin_handler(
        &self,
        path_prefix: &str,
        help_text: &str,
        removable: bool,
        mutates_server_state: bool,
    ) -> bool;
}

/// Envoy's side of the extension, lent to its hooks. The official SDK reads statistics with it.
pub trait EnvoyBootstrapExtension {}

/// The real [`EnvoyBootstrapExtensionConfig`].
///
/// # What calls rely on
/// - *The config is live*: the pointer is the config of the running hook, which Envoy keeps until the hook
///   has returned. The value is not `Send` and ends with the hook, so calls happen on the main thread.
/// - *Arguments are copied*: Envoy copies what it is lent before a callback returns.
pub(super) struct EnvoyConfig {
    raw_ptr: *mut c_void,
}

impl EnvoyConfig {
    /// # Safety
    /// `raw_ptr` must be the config a hook was called with, and the value must not outlive the hook.
    pub(super) unsafe fn new(raw_ptr: *mut c_void) -> Self {
        Self { raw_ptr }
    }
}

impl EnvoyBootstrapExtensionConfig for EnvoyConfig {
    fn new_scheduler(&self) -> Box<dyn EnvoyBootstrapExtensionConfigScheduler> {
        // SAFETY: `new` was given the config of the running hook.
        Box::new(unsafe { ConfigScheduler::new(self.raw_ptr) })
    }

    fn signal_init_complete(&self) {
        // SAFETY: the config is live.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_config_signal_init_complete(self.raw_ptr);
        };
    }

    fn define_counter(&mut self, name: &str) -> Result<EnvoyCounterId, MetricsResult> {
        let mut id = 0;
        // SAFETY: the config is live; Envoy copies the name, reads no labels because there are none, and
        // writes the ID to a local.
        let raw = unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_config_define_counter(
                self.raw_ptr,
                lend(name.as_bytes()),
                std::ptr::null_mut(),
                0,
                &mut id,
            )
        };
        outcome(raw).map(|()| EnvoyCounterId(id))
    }

    fn define_gauge(&mut self, name: &str) -> Result<EnvoyGaugeId, MetricsResult> {
        let mut id = 0;
        // SAFETY: the config is live; Envoy copies the name, reads no labels because there are none, and
        // writes the ID to a local.
        let raw = unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_config_define_gauge(
                self.raw_ptr,
                lend(name.as_bytes()),
                std::ptr::null_mut(),
                0,
                &mut id,
            )
        };
        outcome(raw).map(|()| EnvoyGaugeId(id))
    }

    fn increment_counter(&self, id: EnvoyCounterId, value: u64) -> Result<(), MetricsResult> {
        // SAFETY: the config is live; Envoy checks the ID and reads no labels because there are none.
        outcome(unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_config_increment_counter(
                self.raw_ptr,
                id.0,
                std::ptr::null_mut(),
                0,
                value,
            )
        })
    }

    fn set_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult> {
        // SAFETY: the config is live; Envoy checks the ID and reads no labels because there are none.
        outcome(unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_config_set_gauge(
                self.raw_ptr,
                id.0,
                std::ptr::null_mut(),
                0,
                value,
            )
        })
    }

    fn new_timer(&self) -> Box<dyn EnvoyBootstrapExtensionTimer> {
        // SAFETY: `new` was given the config of the running hook.
        Box::new(unsafe { Timer::new(self.raw_ptr) })
    }

    fn register_admin_handler(
        &self,
        path_prefix: &str,
        help_text: &str,
        removable: bool,
        mutates_server_state: bool,
    ) -> bool {
        // SAFETY: the config is live; Envoy copies path and help text before the call returns.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_register_admin_handler(
                self.raw_ptr,
                lend(path_prefix.as_bytes()),
                lend(help_text.as_bytes()),
                removable,
                mutates_server_state,
            )
        }
    }
}

/// The real [`EnvoyBootstrapExtension`].
pub(super) struct EnvoyExtension;

impl EnvoyBootstrapExtension for EnvoyExtension {}
