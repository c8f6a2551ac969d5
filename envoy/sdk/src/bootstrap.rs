//! The bootstrap extension (`envoy.bootstrap.dynamic_modules`): the module's process-wide part.
//!
//! A [`BootstrapExtensionConfig`] is made on the main thread before Envoy opens its listeners, and one
//! [`BootstrapExtension`] from it. Envoy holds its listeners closed until
//! [`EnvoyBootstrapExtensionConfig::signal_init_complete`] has been called, once. The factory also runs in
//! `--mode validate`; [`BootstrapExtension::on_server_initialized`] does not, so that is where to start
//! things.
//!
//! All hooks run on the main thread. The config's may nest; the extension's take `&mut self`, so a nested one
//! is refused.
//!
//! # When a hook panics
//! The factory rejects the configuration, an admin request answers 500, the shutdown completion is called;
//! otherwise the panic is reported and Envoy goes on.

mod envoy;
mod hooks;
mod scheduler;
mod timer;

use std::ffi::c_void;

pub use envoy::{EnvoyBootstrapExtension, EnvoyBootstrapExtensionConfig};
pub use scheduler::EnvoyBootstrapExtensionConfigScheduler;
pub use timer::EnvoyBootstrapExtensionTimer;

use crate::abi;

/// The hooks this extension point exports.
pub(crate) const HOOKS: &[&str] = &[
    "envoy_dynamic_module_on_bootstrap_extension_config_new",
    "envoy_dynamic_module_on_bootstrap_extension_config_destroy",
    "envoy_dynamic_module_on_bootstrap_extension_new",
    "envoy_dynamic_module_on_bootstrap_extension_server_initialized",
    "envoy_dynamic_module_on_bootstrap_extension_worker_thread_initialized",
    "envoy_dynamic_module_on_bootstrap_extension_drain_started",
    "envoy_dynamic_module_on_bootstrap_extension_shutdown",
    "envoy_dynamic_module_on_bootstrap_extension_destroy",
    "envoy_dynamic_module_on_bootstrap_extension_config_scheduled",
    "envoy_dynamic_module_on_bootstrap_extension_http_callout_done",
    "envoy_dynamic_module_on_bootstrap_extension_timer_fired",
    "envoy_dynamic_module_on_bootstrap_extension_file_changed",
    "envoy_dynamic_module_on_bootstrap_extension_admin_request",
    "envoy_dynamic_module_on_bootstrap_extension_cluster_add_or_update",
    "envoy_dynamic_module_on_bootstrap_extension_cluster_removal",
    "envoy_dynamic_module_on_bootstrap_extension_listener_add_or_update",
    "envoy_dynamic_module_on_bootstrap_extension_listener_removal",
];

/// The module's side of the bootstrap configuration. Its hooks run on the main thread.
#[allow(unused_variables, reason = "parameter names are documentation")]
pub trait BootstrapExtensionConfig: Send + Sync {
    /// Makes the extension. Called once.
    fn new_bootstrap_extension(
        &self,
        envoy_extension: &mut dyn EnvoyBootstrapExtension,
    ) -> Box<dyn BootstrapExtension>;

    /// An [`EnvoyBootstrapExtensionConfigScheduler::commit`] has arrived on the main thread.
    fn on_scheduled(&self, envoy_extension_config: &mut dyn EnvoyBootstrapExtensionConfig, event_id: u64) {}

    /// A timer has fired; `timer` is it, to arm it again.
    fn on_timer_fired(
        &self,
        envoy_extension_config: &mut dyn EnvoyBootstrapExtensionConfig,
        timer: &dyn EnvoyBootstrapExtensionTimer,
    ) {
    }

    /// A request to one of the module's admin paths: answers the status and the body, which Envoy sends as
    /// `text/plain`. `path` is the whole path with the query.
    fn on_admin_request(
        &self,
        envoy_extension_config: &mut dyn EnvoyBootstrapExtensionConfig,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> (u32, String) {
        (404, String::new())
    }
}

/// The module's process-wide object.
#[allow(unused_variables, reason = "parameter names are documentation")]
pub trait BootstrapExtension: Send + Sync {
    /// The server is up and its clusters and listeners are known. Not called in `--mode validate`.
    fn on_server_initialized(&mut self, envoy_extension: &mut dyn EnvoyBootstrapExtension) {}

    /// Envoy has begun to drain. (Not called on a plain SIGTERM.)
    fn on_drain_started(&mut self, envoy_extension: &mut dyn EnvoyBootstrapExtension) {}

    /// Envoy is about to exit and waits for `completion`.
    fn on_shutdown(
        &mut self,
        envoy_extension: &mut dyn EnvoyBootstrapExtension,
        completion: CompletionCallback,
    ) {
        completion.done();
    }
}

/// Reports to Envoy, from any thread, that the module has finished. Dropping it reports it too, so that a
/// lost completion cannot hang the shutdown.
pub struct CompletionCallback {
    callback: abi::envoy_dynamic_module_type_event_cb,
    context: *mut c_void,
}

// SAFETY: Envoy's completion only posts to the main thread's dispatcher, which any thread may do.
unsafe impl Send for CompletionCallback {}
// SAFETY: a shared reference offers nothing to do.
unsafe impl Sync for CompletionCallback {}

impl CompletionCallback {
    /// # Safety
    /// Both must come from the hook that wants the completion, and be used for one completion only.
    pub(crate) unsafe fn new(
        callback: abi::envoy_dynamic_module_type_event_cb,
        context: *mut c_void,
    ) -> Self {
        Self { callback, context }
    }

    /// The module has finished.
    pub fn done(self) {
        drop(self);
    }
}

impl Drop for CompletionCallback {
    fn drop(&mut self) {
        if let Some(callback) = self.callback.take() {
            // SAFETY: Envoy's function with Envoy's context, called exactly once: `take` leaves nothing to
            // call again.
            unsafe { callback(self.context) };
        }
    }
}
