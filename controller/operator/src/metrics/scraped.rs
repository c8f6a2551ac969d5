//! What is read when somebody asks for it: queues, leadership, watches, the view.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use sandgate_follow::{FollowStatus, StatusCell};

use super::PREFIX;
use crate::{CandidateStatus, Leadership, Queue};

/// A resource that is followed.
#[derive(Clone, Debug)]
pub struct Followed {
    /// As in `sandboxes.agents.kruise.io`.
    pub resource: String,
    /// Its namespace; none is all of them.
    pub namespace: Option<String>,
    /// The state of its follower.
    pub status: Arc<StatusCell>,
}

/// `resource`, or `resource in NAMESPACE`.
impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in {namespace}", self.resource),
            None => self.resource.fmt(f),
        }
    }
}

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
}

impl fmt::Debug for Scraped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scraped").finish_non_exhaustive()
    }
}

impl Scraped {
    /// Registers the gauges.
    pub fn register(self, registry: &mut Registry) {
        registry.sub_registry_with_prefix(PREFIX).register_collector(Box::new(self));
    }
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, values: Vec<(Labels<'_>, f64)>| {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            values
                .into_iter()
                .try_for_each(|(labels, value)| one(&mut family, &labels, &ConstGauge::new(value)))
        };
        gauge(
            "queue_depth",
            "How many objects are due and wait for a worker. On a standby: how many it would have to look at.",
            None,
            self.queues
                .iter()
                .map(|(controller, queue)| (vec![("controller", *controller)], number(queue.depth())))
                .collect(),
        )?;
        let objects = (self.objects)();
        gauge(
            "objects",
            "How many objects of each kind this process knows.",
            None,
            objects.iter().map(|(kind, count)| (vec![("kind", *kind)], number(*count))).collect(),
        )?;
        let watches: Vec<(Labels<'_>, FollowStatus)> =
            self.followed.iter().map(|followed| (followed.labels(), followed.status.load())).collect();
        let each = |value: fn(&FollowStatus) -> f64| {
            watches.iter().map(|(labels, status)| (labels.clone(), value(status))).collect()
        };
        gauge(
            "watch_age",
            "How long ago the API server was last heard of. It sends something at least every minute.",
            Some(&Unit::Seconds),
            // Nothing was heard of a resource without a first list: no age, rather than one since 1970.
            watches
                .iter()
                .filter(|(_, status)| status.last_contact.is_some())
                .map(|(labels, status)| (labels.clone(), status.contact_age().as_secs_f64()))
                .collect(),
        )?;
        gauge(
            "watch_listed",
            "Whether this resource has had its first complete list. Nothing is reconciled before.",
            None,
            each(|status| f64::from(u8::from(status.listed))),
        )?;
        gauge(
            "watch_up",
            "Whether this resource is being watched now.",
            None,
            each(|status| f64::from(u8::from(status.is_up()))),
        )?;
        let help = "Whether this process leads. The sum over all replicas should be 1.";
        let leader = encoder.encode_descriptor("leader", help, None, MetricType::Gauge)?;
        ConstGauge::new(u32::from(self.leadership.term().is_some())).encode(leader)?;
        let help = "How often this process began to lead or ceased to.";
        let changes = encoder.encode_descriptor("leader_changes", help, None, MetricType::Counter)?;
        ConstCounter::new(self.candidate.as_ref().map_or(0, |candidate| candidate.changes()))
            .encode(changes)?;
        let mut counter = |name: &str, help: &str, values: Vec<(Labels<'_>, u64)>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            values
                .into_iter()
                .try_for_each(|(labels, value)| one(&mut family, &labels, &ConstCounter::new(value)))
        };
        let each = |value: fn(&FollowStatus) -> u64| {
            watches.iter().map(|(labels, status)| (labels.clone(), value(status))).collect()
        };
        counter("watch_events", "How many changes of this resource arrived.", each(|status| status.events))?;
        counter(
            "watch_lists",
            "How often this resource was listed. Many lists mean that watches cannot be resumed.",
            each(|status| status.lists),
        )?;
        counter(
            "watch_unreadable",
            "How many objects of this resource could not be read. The log names some of them.",
            each(|status| status.unreadable),
        )
    }
}

/// Encodes one value of a family.
fn one(family: &mut MetricEncoder<'_>, labels: &Labels<'_>, metric: &impl EncodeMetric) -> fmt::Result {
    metric.encode(family.encode_family(labels)?)
}

impl Followed {
    fn labels(&self) -> Labels<'_> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        vec![("resource", self.resource.as_str()), ("namespace", namespace)]
    }
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float, and exact up to 2^53")]
fn number(count: usize) -> f64 {
    count as f64
}
