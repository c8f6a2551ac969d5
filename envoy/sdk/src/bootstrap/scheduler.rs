//! Getting back onto the main thread: schedulers and timers of the bootstrap extension.
//!
//! The module owns both; Envoy's side holds only a weak reference to the config, so either may outlive it and then does
//! nothing.

use std::time::Duration;

use crate::abi;
use crate::timer::{Ops, Timer};

/// Calls [`BootstrapExtensionConfig::on_scheduled`](super::BootstrapExtensionConfig::on_scheduled) on the main thread.
pub trait EnvoyBootstrapExtensionConfigScheduler: Send + Sync {
    /// From any thread; `event_id` arrives unchanged.
    fn commit(&self, event_id: u64);
}

/// Owns one scheduler of Envoy's making.
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

impl EnvoyBootstrapExtensionConfigScheduler for Box<dyn EnvoyBootstrapExtensionConfigScheduler> {
    fn commit(&self, event_id: u64) {
        (**self).commit(event_id);
    }
}

/// A timer on the main thread; it is to be used and dropped there (elsewhere it does nothing, and leaks).
pub trait EnvoyBootstrapExtensionTimer: Send + Sync {
    /// Tells timers apart: the handle that fired has the ID of the handle that was made.
    fn id(&self) -> usize;
    /// Arms the timer, or arms it anew.
    fn enable(&self, delay: Duration);
    /// Disarms the timer.
    fn disable(&self);
    /// Whether the timer is armed.
    fn enabled(&self) -> bool;
}

pub(super) static TIMER: Ops = Ops {
    enable: abi::envoy_dynamic_module_callback_bootstrap_extension_timer_enable,
    disable: abi::envoy_dynamic_module_callback_bootstrap_extension_timer_disable,
    enabled: abi::envoy_dynamic_module_callback_bootstrap_extension_timer_enabled,
    delete: abi::envoy_dynamic_module_callback_bootstrap_extension_timer_delete,
};

impl EnvoyBootstrapExtensionTimer for Timer {
    fn id(&self) -> usize {
        self.id()
    }
    fn enable(&self, delay: Duration) {
        self.enable(delay);
    }
    fn disable(&self) {
        self.disable();
    }
    fn enabled(&self) -> bool {
        self.enabled()
    }
}

impl EnvoyBootstrapExtensionTimer for Box<dyn EnvoyBootstrapExtensionTimer> {
    fn id(&self) -> usize {
        (**self).id()
    }
    fn enable(&self, delay: Duration) {
        (**self).enable(delay);
    }
    fn disable(&self) {
        (**self).disable();
    }
    fn enabled(&self) -> bool {
        (**self).enabled()
    }
}
