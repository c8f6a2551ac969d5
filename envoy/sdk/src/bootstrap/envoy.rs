//! Envoy's side of the bootstrap extension.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::scheduler::{
    ConfigScheduler, EnvoyBootstrapExtensionConfigScheduler, EnvoyBootstrapExtensionTimer, TIMER,
};
use crate::abi::{
    self, envoy_dynamic_module_type_envoy_buffer as RawBuffer,
    envoy_dynamic_module_type_metrics_result as MetricsResult,
    envoy_dynamic_module_type_stats_iteration_action as IterationAction,
};
use crate::ffi::{lend, text, with_strs};
use crate::metrics::{
    EnvoyCounterId, EnvoyCounterVecId, EnvoyGaugeId, EnvoyGaugeVecId, EnvoyHistogramId, EnvoyHistogramVecId,
    metric_methods, outcome,
};
use crate::timer::Timer;

/// Envoy's side of the bootstrap configuration, lent to the factory and to the config's hooks on the main thread.
///
/// Metrics can be *defined* in the factory only; afterwards Envoy answers `Frozen`.
pub trait EnvoyBootstrapExtensionConfig {
    /// A way back onto the main thread from any other: see [`EnvoyBootstrapExtensionConfigScheduler`].
    fn new_scheduler(&self) -> Box<dyn EnvoyBootstrapExtensionConfigScheduler>;

    /// Lets Envoy open its listeners. To be called exactly once, in the factory or later.
    fn signal_init_complete(&self);

    /// Defines a counter.
    fn define_counter(&mut self, name: &str) -> Result<EnvoyCounterId, MetricsResult>;
    /// Defines a counter with labels.
    fn define_counter_vec(&mut self, name: &str, labels: &[&str])
    -> Result<EnvoyCounterVecId, MetricsResult>;
    /// Defines a gauge.
    fn define_gauge(&mut self, name: &str) -> Result<EnvoyGaugeId, MetricsResult>;
    /// Defines a gauge with labels.
    fn define_gauge_vec(&mut self, name: &str, labels: &[&str]) -> Result<EnvoyGaugeVecId, MetricsResult>;
    /// Defines a histogram.
    fn define_histogram(&mut self, name: &str) -> Result<EnvoyHistogramId, MetricsResult>;
    /// Defines a histogram with labels.
    fn define_histogram_vec(
        &mut self,
        name: &str,
        labels: &[&str],
    ) -> Result<EnvoyHistogramVecId, MetricsResult>;

    /// Adds to a counter.
    fn increment_counter(&self, id: EnvoyCounterId, value: u64) -> Result<(), MetricsResult>;
    /// Adds to a counter with labels.
    fn increment_counter_vec(
        &self,
        id: EnvoyCounterVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;
    /// Sets a gauge.
    fn set_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult>;
    /// Sets a gauge with labels.
    fn set_gauge_vec(&self, id: EnvoyGaugeVecId, labels: &[&str], value: u64) -> Result<(), MetricsResult>;
    /// Adds to a gauge.
    fn increase_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult>;
    /// Adds to a gauge with labels.
    fn increase_gauge_vec(
        &self,
        id: EnvoyGaugeVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;
    /// Subtracts from a gauge.
    fn decrease_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult>;
    /// Subtracts from a gauge with labels.
    fn decrease_gauge_vec(
        &self,
        id: EnvoyGaugeVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;
    /// Records a value in a histogram.
    fn record_histogram_value(&self, id: EnvoyHistogramId, value: u64) -> Result<(), MetricsResult>;
    /// Records a value in a histogram with labels.
    fn record_histogram_value_vec(
        &self,
        id: EnvoyHistogramVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;

    /// Makes a timer, not yet armed. It is owned by the handle and deleted with it.
    fn new_timer(&self) -> Box<dyn EnvoyBootstrapExtensionTimer>;

    /// Watches a file or directory for `FILE_WATCHER_EVENT_*`; Envoy owns the watch until the config is gone. `false` if
    /// there is no such path.
    fn add_file_watch(&self, path: &str, events: u32) -> bool;

    /// Registers an admin path. Envoy matches the whole path, without the query. `false` if it is taken, or there is no
    /// admin server.
    fn register_admin_handler(
        &self,
        path_prefix: &str,
        help_text: &str,
        removable: bool,
        mutates_server_state: bool,
    ) -> bool;
    /// Removes an admin path that was registered as removable.
    fn remove_admin_handler(&self, path_prefix: &str) -> bool;

    /// Turns on the cluster hooks. Not before the server is initialised; once.
    fn enable_cluster_lifecycle(&self) -> bool;
    /// Turns on the listener hooks. Not before the server is initialised; once.
    fn enable_listener_lifecycle(&self) -> bool;
}

/// Envoy's side of the extension: reads any statistic of the server by name.
pub trait EnvoyBootstrapExtension {
    /// The value of a counter.
    fn get_counter_value(&self, name: &str) -> Option<u64>;
    /// The value of a gauge.
    fn get_gauge_value(&self, name: &str) -> Option<u64>;
    /// Count and sum of a histogram since the server started.
    fn get_histogram_summary(&self, name: &str) -> Option<(u64, f64)>;
    /// Every counter with its value, until the callback says `false`.
    fn iterate_counters(&self, callback: &mut dyn FnMut(&str, u64) -> bool);
    /// Every gauge with its value, until the callback says `false`.
    fn iterate_gauges(&self, callback: &mut dyn FnMut(&str, u64) -> bool);
}

/// The real [`EnvoyBootstrapExtensionConfig`].
///
/// # What every call relies on
/// The pointer is the config of the running hook, which Envoy keeps alive throughout; the value is not `Send` and ends
/// with the hook, so calls happen on the main thread. Arguments are copied before a callback returns.
pub(super) struct EnvoyConfig {
    raw_ptr: *mut c_void,
}

impl EnvoyConfig {
    /// # Safety
    /// `raw_ptr` must be the config a hook was called with, and the value must not outlive the hook.
    pub(super) unsafe fn new(raw_ptr: *mut c_void) -> Self {
        Self { raw_ptr }
    }

    fn with_raw<R>(&self, call: impl FnOnce(*mut c_void) -> R) -> R {
        call(self.raw_ptr)
    }
}

impl EnvoyBootstrapExtensionConfig for EnvoyConfig {
    fn new_scheduler(&self) -> Box<dyn EnvoyBootstrapExtensionConfigScheduler> {
        // SAFETY: see the type.
        Box::new(unsafe { ConfigScheduler::new(self.raw_ptr) })
    }

    fn signal_init_complete(&self) {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_config_signal_init_complete(self.raw_ptr);
        };
    }

    metric_methods!(define(&mut Self) {
        define_counter, define_counter_vec,
            envoy_dynamic_module_callback_bootstrap_extension_config_define_counter,
            EnvoyCounterId, EnvoyCounterVecId;
        define_gauge, define_gauge_vec,
            envoy_dynamic_module_callback_bootstrap_extension_config_define_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        define_histogram, define_histogram_vec,
            envoy_dynamic_module_callback_bootstrap_extension_config_define_histogram,
            EnvoyHistogramId, EnvoyHistogramVecId;
    });
    metric_methods!(record {
        increment_counter, increment_counter_vec,
            envoy_dynamic_module_callback_bootstrap_extension_config_increment_counter,
            EnvoyCounterId, EnvoyCounterVecId;
        set_gauge, set_gauge_vec,
            envoy_dynamic_module_callback_bootstrap_extension_config_set_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        increase_gauge, increase_gauge_vec,
            envoy_dynamic_module_callback_bootstrap_extension_config_increment_gauge,
            EnvoyGaugeId, EnvoyGaugeVecId;
        decrease_gauge, decrease_gauge_vec,
            envoy_dynamic_module_callback_bootstrap_extension_config_decrement_gauge,
            EnvoyGaugeId, EnvoyGaugeVecId;
        record_histogram_value, record_histogram_value_vec,
            envoy_dynamic_module_callback_bootstrap_extension_config_record_histogram_value,
            EnvoyHistogramId, EnvoyHistogramVecId;
    });

    fn new_timer(&self) -> Box<dyn EnvoyBootstrapExtensionTimer> {
        // SAFETY: see the type; the timer is made on this thread and owned by nobody else.
        Box::new(unsafe {
            let raw = abi::envoy_dynamic_module_callback_bootstrap_extension_timer_new(self.raw_ptr);
            Timer::own(raw, &TIMER)
        })
    }

    fn add_file_watch(&self, path: &str, events: u32) -> bool {
        let path = lend(path.as_bytes());
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_file_watcher_add_watch(
                self.raw_ptr,
                path,
                events,
            )
        }
    }

    fn register_admin_handler(
        &self,
        path_prefix: &str,
        help_text: &str,
        removable: bool,
        mutates_server_state: bool,
    ) -> bool {
        // SAFETY: see the type.
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

    fn remove_admin_handler(&self, path_prefix: &str) -> bool {
        let path = lend(path_prefix.as_bytes());
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_remove_admin_handler(self.raw_ptr, path)
        }
    }

    fn enable_cluster_lifecycle(&self) -> bool {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_enable_cluster_lifecycle(self.raw_ptr)
        }
    }

    fn enable_listener_lifecycle(&self) -> bool {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_enable_listener_lifecycle(self.raw_ptr)
        }
    }
}

/// The real [`EnvoyBootstrapExtension`].
///
/// # What every call relies on
/// As for [`EnvoyConfig`].
pub(super) struct EnvoyExtension {
    raw_ptr: *mut c_void,
}

impl EnvoyExtension {
    /// # Safety
    /// `raw_ptr` must be the extension a hook was called with, and the value must not outlive the hook.
    pub(super) unsafe fn new(raw_ptr: *mut c_void) -> Self {
        Self { raw_ptr }
    }
}

impl EnvoyBootstrapExtension for EnvoyExtension {
    fn get_counter_value(&self, name: &str) -> Option<u64> {
        let (name, mut value) = (lend(name.as_bytes()), 0);
        // SAFETY: see the type; the out parameter is a local.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_get_counter_value(
                self.raw_ptr,
                name,
                &mut value,
            )
        }
        .then_some(value)
    }

    fn get_gauge_value(&self, name: &str) -> Option<u64> {
        let (name, mut value) = (lend(name.as_bytes()), 0);
        // SAFETY: see the type; the out parameter is a local.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_get_gauge_value(
                self.raw_ptr,
                name,
                &mut value,
            )
        }
        .then_some(value)
    }

    fn get_histogram_summary(&self, name: &str) -> Option<(u64, f64)> {
        let (name, mut count, mut sum) = (lend(name.as_bytes()), 0, 0.0);
        // SAFETY: see the type; the out parameters are locals.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_get_histogram_summary(
                self.raw_ptr,
                name,
                &mut count,
                &mut sum,
            )
        }
        .then_some((count, sum))
    }

    fn iterate_counters(&self, callback: &mut dyn FnMut(&str, u64) -> bool) {
        let mut visit = Visit { callback, panic: None };
        // SAFETY: see the type; Envoy calls `visit_one` with this context before the call returns, and not after.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_iterate_counters(
                self.raw_ptr,
                Some(visit_one),
                (&raw mut visit).cast(),
            );
        }
        visit.finish();
    }

    fn iterate_gauges(&self, callback: &mut dyn FnMut(&str, u64) -> bool) {
        let mut visit = Visit { callback, panic: None };
        // SAFETY: see the type; Envoy calls `visit_one` with this context before the call returns, and not after.
        unsafe {
            abi::envoy_dynamic_module_callback_bootstrap_extension_iterate_gauges(
                self.raw_ptr,
                Some(visit_one),
                (&raw mut visit).cast(),
            );
        }
        visit.finish();
    }
}

/// A walk over the statistics. A panic of the callback is carried past Envoy's frames and goes on behind them.
struct Visit<'a> {
    callback: &'a mut dyn FnMut(&str, u64) -> bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl Visit<'_> {
    fn finish(self) {
        if let Some(payload) = self.panic {
            resume_unwind(payload);
        }
    }
}

unsafe extern "C" fn visit_one(name: RawBuffer, value: u64, context: *mut c_void) -> IterationAction {
    // SAFETY: the context is the `Visit` on the stack of the method that started this walk, lent to nobody else.
    let visit = unsafe { &mut *context.cast::<Visit<'_>>() };
    if visit.panic.is_some() {
        return IterationAction::Stop;
    }
    // SAFETY: Envoy's name lives until this function returns.
    let name = unsafe { text(name) };
    match catch_unwind(AssertUnwindSafe(|| (visit.callback)(&name, value))) {
        Ok(true) => IterationAction::Continue,
        Ok(false) => IterationAction::Stop,
        Err(payload) => {
            visit.panic = Some(payload);
            IterationAction::Stop
        }
    }
}
