//! The identifiers of metrics. A metric is defined while its config is being created and used afterwards by ID; an ID
//! means something only to the config that defined it. The `Vec` kinds carry labels, whose values come with each use.

use crate::abi::envoy_dynamic_module_type_metrics_result as MetricsResult;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub usize);
    )*};
}

ids! {
    /// A counter.
    EnvoyCounterId,
    /// A counter with labels.
    EnvoyCounterVecId,
    /// A gauge.
    EnvoyGaugeId,
    /// A gauge with labels.
    EnvoyGaugeVecId,
    /// A histogram.
    EnvoyHistogramId,
    /// A histogram with labels.
    EnvoyHistogramVecId,
}

/// What a metrics callback answered. A number this crate does not know counts as "not found".
#[inline]
pub(crate) fn outcome(raw: u32) -> Result<(), MetricsResult> {
    match MetricsResult::from_raw(raw) {
        Some(MetricsResult::Success) => Ok(()),
        Some(error) => Err(error),
        None => Err(MetricsResult::MetricNotFound),
    }
}

/// Implements the define and record methods of a trait by calling the area's callbacks with `self.$raw()`.
///
/// The six define and ten record methods differ only in the callback and the ID type, in three traits.
macro_rules! metric_methods {
    (define($self_:ty) { $($method:ident, $method_vec:ident, $callback:ident, $id:ident, $id_vec:ident;)* }) => {$(
        fn $method(self: $self_, name: &str) -> Result<$id, MetricsResult> {
            let mut id = 0;
            // SAFETY: the pointer is the live config of this hook; name and labels are copied before the call returns.
            let raw = self.with_raw(|raw| unsafe {
                abi::$callback(raw, lend(name.as_bytes()), std::ptr::null_mut(), 0, &mut id)
            });
            outcome(raw).map(|()| $id(id))
        }
        fn $method_vec(self: $self_, name: &str, labels: &[&str]) -> Result<$id_vec, MetricsResult> {
            let mut id = 0;
            // SAFETY: the pointer is the live config of this hook; name and labels are copied before the call returns.
            let raw = self.with_raw(|raw| with_strs(labels, |list, n| unsafe {
                abi::$callback(raw, lend(name.as_bytes()), list, n, &mut id)
            }));
            outcome(raw).map(|()| $id_vec(id))
        }
    )*};
    (record { $($method:ident, $method_vec:ident, $callback:ident, $id:ident, $id_vec:ident;)* }) => {$(
        #[inline]
        fn $method(&self, id: $id, value: u64) -> Result<(), MetricsResult> {
            // SAFETY: the pointer is live; Envoy checks the ID.
            outcome(self.with_raw(|raw| unsafe { abi::$callback(raw, id.0, std::ptr::null_mut(), 0, value) }))
        }
        fn $method_vec(&self, id: $id_vec, labels: &[&str], value: u64) -> Result<(), MetricsResult> {
            // SAFETY: the pointer is live; Envoy checks the ID and the number of labels and copies their values.
            outcome(self.with_raw(|raw| with_strs(labels, |list, n| unsafe {
                abi::$callback(raw, id.0, list, n, value)
            })))
        }
    )*};
}
pub(crate) use metric_methods;
