//! What the controller of pools counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// From one write to the other, up to a pool that has none for an hour.
const BUCKETS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0, 3600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// How a pod came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was deleted.
    Deleted,
    /// It was kept as it is.
    Kept,
    /// Its containers were restarted.
    Restarted,
    /// They were not restarted in time, so it was deleted.
    GivenUp,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Deleted, Self::Kept, Self::Restarted, Self::GivenUp];

    fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "Deleted",
            Self::Kept => "Kept",
            Self::Restarted => "Restarted",
            Self::GivenUp => "GivenUp",
        }
    }
}

/// The metrics of the controller of pools. Clones count together.
#[derive(Clone, Debug)]
pub struct PoolMetrics {
    latency: Histogram,
    allocations: Counter,
    conflicts: Counter,
    recycles: Family<OutcomeLabel, Counter>,
}

impl PoolMetrics {
    /// Registers them. The registry gives the names their prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            latency: Histogram::new(BUCKETS),
            allocations: Counter::default(),
            conflicts: Counter::default(),
            recycles: Family::default(),
        };
        registry.register_with_unit(
            "allocation_duration",
            "How long a batch lacks pods, from the first look that finds it so to the write that gives it the \
             last of them",
            Unit::Seconds,
            metrics.latency.clone(),
        );
        registry.register("allocations", "How many pods were given to batches", metrics.allocations.clone());
        registry.register(
            "allocation_conflicts",
            "How often a pod or a batch had changed when it was to be written. It was looked at anew",
            metrics.conflicts.clone(),
        );
        registry.register(
            "recycles",
            "What became of the pods that batches gave back: Deleted, Kept, Restarted, or GivenUp, which are \
             those that did not restart in time and were deleted",
            metrics.recycles.clone(),
        );
        for outcome in Outcome::ALL {
            drop(metrics.recycles.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }));
        }
        metrics
    }

    pub(super) fn allocated(&self, pods: usize) {
        self.allocations.inc_by(u64::try_from(pods).unwrap_or_default());
    }

    pub(super) fn served(&self, after: Duration) {
        self.latency.observe(after.as_secs_f64());
    }

    pub(super) fn conflict(&self) {
        self.conflicts.inc();
    }

    pub(super) fn recycled(&self, outcome: Outcome) {
        self.recycles.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }).inc();
    }
}

impl Default for PoolMetrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
