//! What the controller of the pools of environments counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::chore::Why;
use super::record::Ending;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// Why pods are deleted that are not a chore.
const TOO_MANY: &str = "NotWanted";
const POOL_GONE: &str = "PoolDeleted";

/// The metrics of the controller of the pools of environments. Clones count together.
#[derive(Clone, Debug)]
pub struct EnvPoolMetrics {
    created: Counter,
    deleted: Family<ReasonLabel, Counter>,
    started: Counter,
    ended: Family<ReasonLabel, Counter>,
    rounds: Family<OutcomeLabel, Counter>,
}

impl EnvPoolMetrics {
    /// Registers them. The registry gives the names their prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            created: Counter::default(),
            deleted: Family::default(),
            started: Counter::default(),
            ended: Family::default(),
            rounds: Family::default(),
        };
        registry.register(
            "env_pods_created",
            "How many pods pools of environments made",
            metrics.created.clone(),
        );
        registry.register(
            "env_pods_deleted",
            "How many pods of pools of environments were deleted: NotWanted (too many, of an older revision, or \
             not to be used), Ended, NotRenewed (something of a sandbox could be left), StuckStopping, or \
             PoolDeleted",
            metrics.deleted.clone(),
        );
        registry.register(
            "env_sandboxes_started",
            "How many claimed pods became sandboxes by a change of their image",
            metrics.started.clone(),
        );
        registry.register(
            "env_sandboxes_ended",
            "How many sandboxes of environments ended: Completed, Released, Failed, Canceled, or Lost, whose pod \
             somebody else deleted",
            metrics.ended.clone(),
        );
        registry.register(
            "env_idle_rounds",
            "How many looks for sandboxes that nobody uses were done, or were skipped because a gateway did not \
             answer",
            metrics.rounds.clone(),
        );
        for reason in
            [TOO_MANY, POOL_GONE, Why::Ended.as_str(), Why::NotRenewed.as_str(), Why::StuckStopping.as_str()]
        {
            drop(metrics.deleted.get_or_create(&ReasonLabel { reason }));
        }
        for ending in Ending::ALL {
            drop(metrics.ended.get_or_create(&ReasonLabel { reason: ending.as_str() }));
        }
        for outcome in ["done", "skipped"] {
            drop(metrics.rounds.get_or_create(&OutcomeLabel { outcome }));
        }
        metrics
    }

    pub(super) fn created(&self) {
        self.created.inc();
    }

    pub(super) fn not_wanted(&self) {
        self.deleted.get_or_create(&ReasonLabel { reason: TOO_MANY }).inc();
    }

    pub(super) fn pool_gone(&self) {
        self.deleted.get_or_create(&ReasonLabel { reason: POOL_GONE }).inc();
    }

    pub(super) fn deleted(&self, why: Why) {
        self.deleted.get_or_create(&ReasonLabel { reason: why.as_str() }).inc();
    }

    pub(super) fn started(&self) {
        self.started.inc();
    }

    pub(super) fn ended(&self, ending: Ending) {
        self.ended.get_or_create(&ReasonLabel { reason: ending.as_str() }).inc();
    }

    pub(super) fn round(&self, outcome: &'static str) {
        self.rounds.get_or_create(&OutcomeLabel { outcome }).inc();
    }
}

impl Default for EnvPoolMetrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
