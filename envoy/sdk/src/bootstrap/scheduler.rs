//! The way back onto the main thread.
//!
//! The module owns the scheduler. Envoy's side of it holds a weak reference to the config, so a scheduler may
//! outlive the config; `commit` then does nothing.

use crate::abi;

/// Calls [`BootstrapExtensionConfig::on_scheduled`](super::BootstrapExtensionConfig::on_scheduled) on the
/// main thread.
pub trait EnvoyBootstrapExtensionConfigScheduler: Send + Sync {
    /// May be called from any thread. `event_id` arrives unchanged.
    fn commit(&self, event_id: u64);
}

/// Owns one scheduler that Envoy made.
pub(super) struct ConfigScheduler(
    abi::envoy_dynamic_module_type_bootstrap_extension_config_scheduler_module_ptr,
);

impl ConfigScheduler {
    /// # Safety
    /// `config` must be the config of the running hook.
    pub(super) unsafe fn new(
        config: abi::envoy_dynamic_module_type_bootstrap_extension_config_envoy_ptr,
    ) -> Self {
        // SAFETY: the caller passes a live config; the returned object is ours until `delete`.
        Self(unsafe { abi::envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_new(config) })
    }
}

// SAFETY: Envoy's scheduler locks a weak pointer and posts to a dispatcher, both made for any thread.
unsafe impl Send for ConfigScheduler {}
// SAFETY: as above; `commit` does not change the scheduler.
unsafe impl Sync for ConfigScheduler {}

impl EnvoyBootstrapExtensionConfigScheduler for ConfigScheduler {
    fn commit(&self, event_id: u64) {
        // SAFETY: the scheduler is live until `drop`, and `commit` may be called from any thread.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_commit(self.0, event_id);
        }
    }
}

impl Drop for ConfigScheduler {
    fn drop(&mut self) {
        // SAFETY: made by `scheduler_new`, deleted here and only here.
        unsafe { abi::envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_delete(self.0) };
    }
}
