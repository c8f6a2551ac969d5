//! The identifiers of metrics. A metric is defined while its config is being created and used afterwards by
//! ID; an ID means something only to the config that defined it.

use crate::abi::envoy_dynamic_module_type_metrics_result as MetricsResult;

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnvoyCounterId(pub usize);

/// A gauge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnvoyGaugeId(pub usize);

/// What a metrics callback answered. A number this crate does not know counts as "not found".
#[inline]
pub(crate) fn outcome(raw: u32) -> Result<(), MetricsResult> {
    match MetricsResult::from_raw(raw) {
        Some(MetricsResult::Success) => Ok(()),
        Some(error) => Err(error),
        None => Err(MetricsResult::MetricNotFound),
    }
}
