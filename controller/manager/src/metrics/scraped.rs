//! What is read when somebody asks for it: the cache, the keys, the gateways.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use sandgate_cache::Cache;
use sandgate_cache::daemon::FollowedMetrics;
use sandgate_peering::PeerMetrics;

use super::PREFIX;
use crate::{EnvCounts, KeyStore, Pushed};

/// Where the gauges are read from.
pub struct Scraped {
    /// What is known of the cluster.
    pub cache: Cache,
    /// The keys.
    pub keys: KeyStore,
    /// What became of the pushes that somebody waited for.
    pub pushed: Box<dyn Fn() -> Pushed + Send + Sync>,
    /// The gateways that are told.
    pub gateways: Box<dyn Fn() -> Vec<PeerMetrics> + Send + Sync>,
    /// Creates that wait for a sandbox of a pool.
    pub waiting: Box<dyn Fn() -> usize + Send + Sync>,
    /// What is known of environments.
    pub envs: Box<dyn Fn() -> EnvCounts + Send + Sync>,
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
        let cache = self.cache.clone();
        ours.register_collector(Box::new(FollowedMetrics::new(move || cache.followed())));
        ours.register_collector(Box::new(self));
    }
}

/// What became of a message, and where it is counted.
type Fate = (&'static str, fn(&PeerMetrics) -> u64);
type Labels = Vec<(&'static str, String)>;

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let to = &mut encoder;
        let (keys, unreadable) = self.keys.counts();
        let count = |kind| number(self.cache.count(kind));
        let objects = self.cache.kinds().map(|kind| (label("kind", kind.as_str()), count(kind))).collect();
        gauges(to, "objects", "How many objects of each kind this process knows.", None, objects)?;
        gauge(to, "keys", "How many API keys are known.", keys)?;
        let help = "How many Secrets should be keys and are none. The log names them.";
        gauge(to, "keys_unreadable", help, unreadable)?;
        gauge(to, "claims_waiting", "Creates that wait for a sandbox of a pool.", (self.waiting)())?;
        let envs = (self.envs)();
        gauge(to, "env_claims_waiting", "Creates that wait for a pod of an environment.", envs.waiting)?;
        gauge(to, "envs_routed", "How many environments creates can be routed to.", envs.routed)?;
        let pushed = (self.pushed)();
        counters(
            to,
            "pushes",
            "Whether a gateway knew of a create, pause, resume or kill when its caller was answered: told, or \
             missed. What is missed arrives later.",
            vec![(label("outcome", "told"), pushed.told), (label("outcome", "missed"), pushed.missed)],
        )?;
        self.encode_gateways(to)
    }
}

impl Scraped {
    fn encode_gateways(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gateways = (self.gateways)();
        let of = |gateway: &PeerMetrics| label("gateway", &gateway.peer.to_string());
        let each = |value: fn(&PeerMetrics) -> f64| gateways.iter().map(|it| (of(it), value(it))).collect();
        gauges(
            to,
            "gateway_up",
            "Whether a gateway takes what it is told.",
            None,
            each(|it| f64::from(u8::from(it.error.is_none()))),
        )?;
        gauges(
            to,
            "gateway_pending",
            "How many sandboxes a gateway has yet to be told of.",
            None,
            each(|it| number(usize::try_from(it.pending).unwrap_or(usize::MAX))),
        )?;
        gauges(
            to,
            "gateway_lag",
            "How long the sandbox waits that has waited longest for a gateway to be told.",
            Some(&Unit::Seconds),
            each(|it| it.lag.as_secs_f64()),
        )?;
        let fates: [Fate; 5] = [
            ("sent", |it| it.sent),
            ("refused", |it| it.refused),
            ("failed", |it| it.failed),
            ("coalesced", |it| it.coalesced),
            ("dropped", |it| it.dropped),
        ];
        let messages = gateways.iter().flat_map(|it| {
            fates.map(|(fate, count)| {
                let mut labels = of(it);
                labels.push(("outcome", fate.to_owned()));
                (labels, count(it))
            })
        });
        counters(to, "gateway_messages", "What became of the messages to a gateway.", messages.collect())
    }
}

fn gauge(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: usize) -> fmt::Result {
    ConstGauge::new(number(value)).encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn gauges(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    values: Vec<(Labels, f64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    values
        .into_iter()
        .try_for_each(|(labels, value)| ConstGauge::new(value).encode(family.encode_family(&labels)?))
}

fn counters(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: Vec<(Labels, u64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    values
        .into_iter()
        .try_for_each(|(labels, value)| ConstCounter::new(value).encode(family.encode_family(&labels)?))
}

fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float, and exact up to 2^53")]
fn number(count: usize) -> f64 {
    count as f64
}
