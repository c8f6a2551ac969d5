//! What the operator counts, for `/metrics`. The names are listed in `metrics.txt`.
//!
//! Counters and histograms are written where things happen. Gauges are read when they are asked for: see
//! `scraped`. No label has more values than there are controllers, kinds and fixed words, but for the levels
//! of pools, which are asked for by name.

mod scraped;
#[cfg(test)]
mod tests;

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use sandgate_cache::daemon::ProcessMetrics;
use tokio::time::Instant;

use crate::{Category, EnvPoolMetrics, PoolMetrics, TaskMetrics};
pub use scraped::Scraped;

/// The start of every name of ours.
const PREFIX: &str = "sandgate_operator";

/// From a lookup in memory to the timeout of a reconcile.
const BUCKETS: [f64; 15] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

type Histograms<S> = Family<S, Histogram, fn() -> Histogram>;

fn histograms<S: Clone + std::hash::Hash + Eq>() -> Histograms<S> {
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    verb: &'static str,
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// Everything that is counted where it happens. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: Family<ReconcileLabels, Counter>,
    durations: Histograms<ControllerLabel>,
    waits: Histograms<ControllerLabel>,
    retries: Family<ControllerLabel, Counter>,
    /// The writes to the API server.
    pub writes: WriteMetrics,
    /// The events on objects.
    pub events: EventMetrics,
    /// What pools do.
    pub pools: PoolMetrics,
    /// What the pools of environments do.
    pub env_pools: EnvPoolMetrics,
    /// What tasks do.
    pub tasks: TaskMetrics,
}

impl Metrics {
    /// Registers everything that is counted, and the process itself.
    pub fn register(registry: &mut Registry) -> Self {
        registry.register_collector(Box::new(ProcessMetrics));
        let ours = registry.sub_registry_with_prefix(PREFIX);
        let metrics = Self {
            reconciles: Family::default(),
            durations: histograms(),
            waits: histograms(),
            retries: Family::default(),
            writes: WriteMetrics { writes: Family::default(), durations: histograms() },
            events: EventMetrics(Family::default()),
            pools: PoolMetrics::register(ours),
            env_pools: EnvPoolMetrics::register(ours),
            tasks: TaskMetrics::register(ours),
        };
        ours.register(
            "reconciles",
            "How often objects were looked at, and how that ended: ok, a category of failure, TimedOut, \
             Panicked, or Cancelled (by the end of the process or of its leadership)",
            metrics.reconciles.clone(),
        );
        ours.register_with_unit(
            "reconcile_duration",
            "How long one look at an object takes, its requests included",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        ours.register_with_unit(
            "queue_wait",
            "How long an object is due before a worker looks at it. If this grows, raise --workers",
            Unit::Seconds,
            metrics.waits.clone(),
        );
        ours.register(
            "retries",
            "How many of the looks at objects repeat one that failed",
            metrics.retries.clone(),
        );
        ours.register(
            "writes",
            "What is written to the API server, and how it answers: ok, or a category of failure",
            metrics.writes.writes.clone(),
        );
        ours.register_with_unit(
            "write_duration",
            "How long the API server takes for one write",
            Unit::Seconds,
            metrics.writes.durations.clone(),
        );
        ours.register(
            "events",
            "Whether events on objects are published, fail, or are dropped because too many wait",
            metrics.events.0.clone(),
        );
        metrics
    }

    /// The part of one controller.
    pub fn controller(&self, controller: &'static str) -> ControllerMetrics {
        ControllerMetrics { metrics: self.clone(), controller }
    }
}

impl Default for Metrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    metrics: Metrics,
    controller: &'static str,
}

impl ControllerMetrics {
    /// A look at an object begins, after it was due for `waited`.
    pub fn begin(&self, waited: Duration, is_retry: bool) -> Measured {
        let label = ControllerLabel { controller: self.controller };
        self.metrics.waits.get_or_create(&label).observe(waited.as_secs_f64());
        if is_retry {
            self.metrics.retries.get_or_create(&label).inc();
        }
        Measured { metrics: self.clone(), began: Instant::now(), outcome: "Cancelled" }
    }
}

/// One look at an object. It counts when it is dropped, so one that is cancelled counts too.
#[derive(Debug)]
pub struct Measured {
    metrics: ControllerMetrics,
    began: Instant,
    outcome: &'static str,
}

impl Measured {
    /// How it ended, in a fixed word.
    pub fn ended(mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let ControllerMetrics { metrics, controller } = &self.metrics;
        let labels = ReconcileLabels { controller, outcome: self.outcome };
        metrics.reconciles.get_or_create(&labels).inc();
        let label = ControllerLabel { controller };
        metrics.durations.get_or_create(&label).observe(self.began.elapsed().as_secs_f64());
    }
}

/// The writes to the API server.
#[derive(Clone, Debug)]
pub struct WriteMetrics {
    writes: Family<WriteLabels, Counter>,
    durations: Histograms<RequestLabels>,
}

impl WriteMetrics {
    /// A write ended: `verb` as RBAC names it (`create`, `patch`), `kind` as in `Sandbox`.
    pub fn observe(
        &self,
        verb: &'static str,
        kind: &'static str,
        outcome: Result<(), Category>,
        duration: Duration,
    ) {
        let outcome = outcome.map_or_else(Category::as_str, |()| "ok");
        self.writes.get_or_create(&WriteLabels { verb, kind, outcome }).inc();
        self.durations.get_or_create(&RequestLabels { verb, kind }).observe(duration.as_secs_f64());
    }
}

/// The events on objects.
#[derive(Clone, Debug)]
pub struct EventMetrics(Family<OutcomeLabel, Counter>);

impl EventMetrics {
    pub(crate) fn published(&self) {
        self.count("published");
    }

    pub(crate) fn failed(&self) {
        self.count("failed");
    }

    pub(crate) fn dropped(&self) {
        self.count("dropped");
    }

    fn count(&self, outcome: &'static str) {
        self.0.get_or_create(&OutcomeLabel { outcome }).inc();
    }
}
