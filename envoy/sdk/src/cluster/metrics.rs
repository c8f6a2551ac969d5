//! The cluster's metrics.
//!
//! The module gets them as an `Arc` it may keep and use on any thread, while Envoy's config behind them has its own
//! lifetime and, until the factory has returned, no protection against concurrent use. So the pointer sits behind a
//! lock: recording shares it, defining has it alone, and when the config goes, so does the pointer.

use std::ffi::c_void;
use std::sync::{PoisonError, RwLock};

use crate::abi::{self, envoy_dynamic_module_type_metrics_result as MetricsResult};
use crate::ffi::{lend, with_strs};
use crate::metrics::{
    EnvoyCounterId, EnvoyCounterVecId, EnvoyGaugeId, EnvoyGaugeVecId, EnvoyHistogramId, EnvoyHistogramVecId,
    metric_methods, outcome,
};

/// The cluster's metrics. They can be *defined* in the factory only, afterwards the answer is `Frozen`; recording works
/// from any thread, and answers `MetricNotFound` when the config is gone.
pub trait EnvoyClusterMetrics: Send + Sync {
    /// Defines a counter.
    fn define_counter(&self, name: &str) -> Result<EnvoyCounterId, MetricsResult>;
    /// Defines a counter with labels.
    fn define_counter_vec(&self, name: &str, labels: &[&str]) -> Result<EnvoyCounterVecId, MetricsResult>;
    /// Defines a gauge.
    fn define_gauge(&self, name: &str) -> Result<EnvoyGaugeId, MetricsResult>;
    /// Defines a gauge with labels.
    fn define_gauge_vec(&self, name: &str, labels: &[&str]) -> Result<EnvoyGaugeVecId, MetricsResult>;
    /// Defines a histogram.
    fn define_histogram(&self, name: &str) -> Result<EnvoyHistogramId, MetricsResult>;
    /// Defines a histogram with labels.
    fn define_histogram_vec(&self, name: &str, labels: &[&str])
    -> Result<EnvoyHistogramVecId, MetricsResult>;
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
}

/// What the lock guards.
struct State {
    /// Null when the config is gone.
    raw_ptr: *mut c_void,
    frozen: bool,
}

// SAFETY: the pointer is used under the lock only, and Envoy's metrics may then be used from any thread.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

/// The real [`EnvoyClusterMetrics`].
pub struct EnvoyClusterMetricsImpl {
    state: RwLock<State>,
}

impl EnvoyClusterMetricsImpl {
    /// # Safety
    /// `raw_ptr` must be a cluster config of Envoy that lives until [`Self::close`] has returned.
    pub(super) unsafe fn new(raw_ptr: *mut c_void) -> Self {
        Self { state: RwLock::new(State { raw_ptr, frozen: false }) }
    }

    /// The factory has returned: nothing can be defined any more.
    pub(super) fn freeze(&self) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).frozen = true;
    }

    /// The config goes away. Waits for calls in progress.
    pub(super) fn close(&self) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).raw_ptr = std::ptr::null_mut();
    }
}

/// Recording: shares the lock.
struct Recording<'a>(&'a EnvoyClusterMetricsImpl);

impl Recording<'_> {
    fn with_raw(&self, call: impl FnOnce(*mut c_void) -> u32) -> u32 {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.raw_ptr.is_null() { MetricsResult::MetricNotFound as u32 } else { call(state.raw_ptr) }
    }
}

/// Defining: has the lock alone.
struct Defining<'a>(&'a EnvoyClusterMetricsImpl);

impl Defining<'_> {
    fn with_raw(&self, call: impl FnOnce(*mut c_void) -> u32) -> u32 {
        let state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.frozen || state.raw_ptr.is_null() {
            MetricsResult::Frozen as u32
        } else {
            call(state.raw_ptr)
        }
    }

    metric_methods!(define(&Self) {
        define_counter, define_counter_vec,
            envoy_dynamic_module_callback_cluster_config_define_counter, EnvoyCounterId, EnvoyCounterVecId;
        define_gauge, define_gauge_vec,
            envoy_dynamic_module_callback_cluster_config_define_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        define_histogram, define_histogram_vec,
            envoy_dynamic_module_callback_cluster_config_define_histogram, EnvoyHistogramId, EnvoyHistogramVecId;
    });
}

impl Recording<'_> {
    metric_methods!(record {
        increment_counter, increment_counter_vec,
            envoy_dynamic_module_callback_cluster_config_increment_counter, EnvoyCounterId, EnvoyCounterVecId;
        set_gauge, set_gauge_vec,
            envoy_dynamic_module_callback_cluster_config_set_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        increase_gauge, increase_gauge_vec,
            envoy_dynamic_module_callback_cluster_config_increment_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        decrease_gauge, decrease_gauge_vec,
            envoy_dynamic_module_callback_cluster_config_decrement_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        record_histogram_value, record_histogram_value_vec,
            envoy_dynamic_module_callback_cluster_config_record_histogram_value,
            EnvoyHistogramId, EnvoyHistogramVecId;
    });
}

/// Forwards the trait's methods to the two halves above.
macro_rules! forward {
    ($($half:ident: $method:ident($($arg:ident: $ty:ty),*) -> $ok:ty;)*) => {$(
        fn $method(&self, $($arg: $ty),*) -> Result<$ok, MetricsResult> {
            $half(self).$method($($arg),*)
        }
    )*};
}

impl EnvoyClusterMetrics for EnvoyClusterMetricsImpl {
    forward! {
        Defining: define_counter(name: &str) -> EnvoyCounterId;
        Defining: define_counter_vec(name: &str, labels: &[&str]) -> EnvoyCounterVecId;
        Defining: define_gauge(name: &str) -> EnvoyGaugeId;
        Defining: define_gauge_vec(name: &str, labels: &[&str]) -> EnvoyGaugeVecId;
        Defining: define_histogram(name: &str) -> EnvoyHistogramId;
        Defining: define_histogram_vec(name: &str, labels: &[&str]) -> EnvoyHistogramVecId;
        Recording: increment_counter(id: EnvoyCounterId, value: u64) -> ();
        Recording: increment_counter_vec(id: EnvoyCounterVecId, labels: &[&str], value: u64) -> ();
        Recording: set_gauge(id: EnvoyGaugeId, value: u64) -> ();
        Recording: set_gauge_vec(id: EnvoyGaugeVecId, labels: &[&str], value: u64) -> ();
        Recording: increase_gauge(id: EnvoyGaugeId, value: u64) -> ();
        Recording: increase_gauge_vec(id: EnvoyGaugeVecId, labels: &[&str], value: u64) -> ();
        Recording: decrease_gauge(id: EnvoyGaugeId, value: u64) -> ();
        Recording: decrease_gauge_vec(id: EnvoyGaugeVecId, labels: &[&str], value: u64) -> ();
        Recording: record_histogram_value(id: EnvoyHistogramId, value: u64) -> ();
        Recording: record_histogram_value_vec(id: EnvoyHistogramVecId, labels: &[&str], value: u64) -> ();
    }
}
