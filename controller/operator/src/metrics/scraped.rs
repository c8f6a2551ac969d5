//! What is read when somebody asks for it: queues, leadership, watches, the view.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use sandgate_cache::Followed;
use sandgate_cache::daemon::FollowedMetrics;

use super::PREFIX;
use crate::{CandidateStatus, Leadership, PoolLevels, Queue};

/// Where the gauges are read from.
pub struct Scraped {
    /// The queue of each controller.
    pub queues: Vec<(&'static str, Queue)>,
    /// Whether this process leads.
    pub leadership: Leadership,
    /// The candidate, if there is an election.
    pub candidate: Option<Arc<CandidateStatus>>,
    /// What is followed.
    pub followed: Vec<Followed>,
    /// How many objects of each kind the view has.
    pub objects: Box<dyn Fn() -> Vec<(&'static str, usize)> + Send + Sync>,
    /// How full each of OpenSandbox's pools is.
    pub pools: Box<dyn Fn() -> Vec<PoolLevels> + Send + Sync>,
    /// How many of OpenSandbox's batches have annotations that cannot be read.
    pub malformed: Box<dyn Fn() -> usize + Send + Sync>,
}

impl fmt::Debug for Scraped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scraped").finish_non_exhaustive()
    }
}

impl Scraped {
    /// Registers the gauges.
    pub fn register(self, registry: &mut Registry) {
        let ours = registry.sub_registry_with_prefix(PREFIX);
        let followed = self.followed.clone();
        ours.register_collector(Box::new(FollowedMetrics::new(move || followed.clone())));
        ours.register_collector(Box::new(self));
    }
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name: &str, help: &str, values: Vec<(Labels<'_>, f64)>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            values
                .into_iter()
                .try_for_each(|(labels, value)| one(&mut family, &labels, &ConstGauge::new(value)))
        };
        gauge(
            "queue_depth",
            "How many objects are due and wait for a worker. On a standby: how many it would have to look at.",
            self.queues
                .iter()
                .map(|(controller, queue)| (vec![("controller", *controller)], number(queue.depth())))
                .collect(),
        )?;
        let objects = (self.objects)();
        gauge(
            "objects",
            "How many objects of each kind this process knows.",
            objects.iter().map(|(kind, count)| (vec![("kind", *kind)], number(*count))).collect(),
        )?;
        let levels = (self.pools)();
        gauge(
            "pool_pods",
            "How many pods each pool has in all (total), has given to batches (allocated), could give at once \
             (available), and how many batches wait for (lacking). If lacking stays above 0, raise poolMax.",
            levels.iter().flat_map(of_pool).collect(),
        )?;
        let help =
            "How many batches are left alone because an annotation about their allocation cannot be read.";
        let malformed = encoder.encode_descriptor("malformed_batches", help, None, MetricType::Gauge)?;
        ConstGauge::new(number((self.malformed)())).encode(malformed)?;
        let help = "Whether this process leads. The sum over all replicas should be 1.";
        let leader = encoder.encode_descriptor("leader", help, None, MetricType::Gauge)?;
        ConstGauge::new(u32::from(self.leadership.term().is_some())).encode(leader)?;
        let help = "How often this process began to lead or ceased to.";
        let changes = encoder.encode_descriptor("leader_changes", help, None, MetricType::Counter)?;
        ConstCounter::new(self.candidate.as_ref().map_or(0, |candidate| candidate.changes()))
            .encode(changes)?;
        Ok(())
    }
}

/// The values of one pool.
fn of_pool(levels: &PoolLevels) -> [(Labels<'_>, f64); 4] {
    let PoolLevels { pool, total, allocated, available, lacking } = levels;
    let states = [("total", total), ("allocated", allocated), ("available", available), ("lacking", lacking)];
    states.map(|(state, count)| {
        let labels = vec![("namespace", &*pool.namespace), ("pool", &*pool.name), ("state", state)];
        (labels, number(*count))
    })
}

/// Encodes one value of a family.
fn one(family: &mut MetricEncoder<'_>, labels: &Labels<'_>, metric: &impl EncodeMetric) -> fmt::Result {
    metric.encode(family.encode_family(labels)?)
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float, and exact up to 2^53")]
fn number(count: usize) -> f64 {
    count as f64
}
