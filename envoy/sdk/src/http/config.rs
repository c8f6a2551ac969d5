//! Envoy's side of a filter configuration.

use super::scheduler::{ConfigScheduler, EnvoyHttpFilterConfigScheduler};
use crate::abi::{self, envoy_dynamic_module_type_metrics_result as MetricsResult};
use crate::ffi::{lend, with_strs};
use crate::metrics::{
    EnvoyCounterId, EnvoyCounterVecId, EnvoyGaugeId, EnvoyGaugeVecId, EnvoyHistogramId, EnvoyHistogramVecId,
    metric_methods, outcome,
};

/// Envoy's side of a filter configuration, lent to the factory and to the config's hooks on the main thread.
///
/// Metrics can be *defined* in the factory only; afterwards Envoy answers `Frozen`. A labelled metric costs about
/// twenty times a plain one at each use: on the request path prefer one plain counter per outcome.
pub trait EnvoyHttpFilterConfig {
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
    /// Sets a gauge.
    fn set_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult>;
    /// Sets a gauge with labels.
    fn set_gauge_vec(&self, id: EnvoyGaugeVecId, labels: &[&str], value: u64) -> Result<(), MetricsResult>;
    /// Records a value in a histogram.
    fn record_histogram_value(&self, id: EnvoyHistogramId, value: u64) -> Result<(), MetricsResult>;
    /// Records a value in a histogram with labels.
    fn record_histogram_value_vec(
        &self,
        id: EnvoyHistogramVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;

    /// A way back onto the main thread from any other: see [`EnvoyHttpFilterConfigScheduler`].
    fn new_scheduler(&self) -> Box<dyn EnvoyHttpFilterConfigScheduler>;
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

    #[inline]
    fn with_raw<R>(&self, call: impl FnOnce(*mut std::ffi::c_void) -> R) -> R {
        call(self.raw_ptr)
    }
}

impl EnvoyHttpFilterConfig for EnvoyHttpFilterConfigImpl {
    metric_methods!(define(&mut Self) {
        define_counter, define_counter_vec,
            envoy_dynamic_module_callback_http_filter_config_define_counter, EnvoyCounterId, EnvoyCounterVecId;
        define_gauge, define_gauge_vec,
            envoy_dynamic_module_callback_http_filter_config_define_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        define_histogram, define_histogram_vec,
            envoy_dynamic_module_callback_http_filter_config_define_histogram, EnvoyHistogramId, EnvoyHistogramVecId;
    });
    metric_methods!(record {
        increment_counter, increment_counter_vec,
            envoy_dynamic_module_callback_http_filter_config_increment_counter, EnvoyCounterId, EnvoyCounterVecId;
        increase_gauge, increase_gauge_vec,
            envoy_dynamic_module_callback_http_filter_config_increment_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        decrease_gauge, decrease_gauge_vec,
            envoy_dynamic_module_callback_http_filter_config_decrement_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        set_gauge, set_gauge_vec,
            envoy_dynamic_module_callback_http_filter_config_set_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        record_histogram_value, record_histogram_value_vec,
            envoy_dynamic_module_callback_http_filter_config_record_histogram_value,
            EnvoyHistogramId, EnvoyHistogramVecId;
    });

    fn new_scheduler(&self) -> Box<dyn EnvoyHttpFilterConfigScheduler> {
        // SAFETY: `new` was given the config of the running hook.
        Box::new(unsafe { ConfigScheduler::new(self.raw_ptr) })
    }
}
