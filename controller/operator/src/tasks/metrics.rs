//! What is counted of tasks.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    outcome: &'static str,
}

/// The counters of tasks. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct TaskMetrics {
    requests: Family<RequestLabels, Counter>,
    retries: Counter,
}

impl TaskMetrics {
    /// Registers them. The prefix of names is the registry's.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "task_requests",
            "What is asked of task executors, and how they answer: ok, or a fixed word for the failure",
            metrics.requests.clone(),
        );
        registry.register(
            "task_retries",
            "How often a task had to be given out again: its pod was lost or left the batch, or its executor lost it",
            metrics.retries.clone(),
        );
        metrics
    }

    pub(crate) fn asked(&self, verb: &'static str, outcome: &'static str) {
        self.requests.get_or_create(&RequestLabels { verb, outcome }).inc();
    }

    pub(super) fn retried(&self, times: u64) {
        self.retries.inc_by(times);
    }
}
