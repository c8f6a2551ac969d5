//! A counter of Envoy's for a number that is counted elsewhere: it is raised by what has come since the last
//! time.

use std::sync::atomic::{AtomicU64, Ordering};

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyBootstrapExtensionConfig, EnvoyCounterId};

pub(super) struct Counter {
    id: EnvoyCounterId,
    /// What Envoy has been told. Only the main thread tells.
    told: AtomicU64,
}

impl Counter {
    /// Defines it, or says its name if Envoy refused it.
    pub(super) fn define(
        envoy: &mut dyn EnvoyBootstrapExtensionConfig,
        name: &'static str,
    ) -> Result<Self, &'static str> {
        let id = envoy.define_counter(name).map_err(|_| name)?;
        Ok(Self { id, told: AtomicU64::new(0) })
    }

    /// Tells Envoy what the number is now.
    pub(super) fn set(&self, envoy: &dyn EnvoyBootstrapExtensionConfig, now: u64) {
        let more = now.saturating_sub(self.told.swap(now, Ordering::Relaxed));
        if more > 0 {
            // The only failure is an unknown id, and ids come from `define`.
            let _ = envoy.increment_counter(self.id, more);
        }
    }
}
