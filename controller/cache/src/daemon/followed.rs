//! The metrics of what is followed.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use sandgate_follow::FollowStatus;

use crate::Followed;

/// The state of every follower, read when it is asked for.
pub struct FollowedMetrics(Box<dyn Fn() -> Vec<Followed> + Send + Sync>);

impl FollowedMetrics {
    /// The metrics of what this says is followed.
    pub fn new(followed: impl Fn() -> Vec<Followed> + Send + Sync + 'static) -> Self {
        Self(Box::new(followed))
    }
}

impl fmt::Debug for FollowedMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedMetrics").finish_non_exhaustive()
    }
}

type Labels<'a> = [(&'a str, &'a str); 2];

fn labels(followed: &Followed) -> Labels<'_> {
    let namespace = followed.namespace.as_deref().unwrap_or_default();
    [("resource", followed.resource.as_str()), ("namespace", namespace)]
}

impl Collector for FollowedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let followed = (self.0)();
        let watches: Vec<(Labels<'_>, FollowStatus)> =
            followed.iter().map(|followed| (labels(followed), followed.status.load())).collect();
        let mut gauge = |name: &str, help: &str, unit, value: fn(&FollowStatus) -> Option<f64>| {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            watches.iter().try_for_each(|(labels, status)| match value(status) {
                Some(value) => ConstGauge::new(value).encode(family.encode_family(labels)?),
                None => Ok(()),
            })
        };
        gauge(
            "watch_age",
            "How long ago the API server was last heard of. It sends something at least every minute.",
            Some(&Unit::Seconds),
            // Nothing was heard of a resource without a first list: no age, rather than one since 1970.
            |status| status.last_contact.map(|_| status.contact_age().as_secs_f64()),
        )?;
        gauge(
            "watch_listed",
            "Whether this resource has had its first complete list. This process does nothing before.",
            None,
            |status| Some(f64::from(u8::from(status.listed))),
        )?;
        gauge("watch_up", "Whether this resource is being watched now.", None, |status| {
            Some(f64::from(u8::from(status.is_up())))
        })?;
        let mut counter = |name: &str, help: &str, value: fn(&FollowStatus) -> u64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            watches.iter().try_for_each(|(labels, status)| {
                ConstCounter::new(value(status)).encode(family.encode_family(labels)?)
            })
        };
        counter("watch_events", "How many changes of this resource arrived.", |status| status.events)?;
        counter(
            "watch_lists",
            "How often this resource was listed. Many lists mean that watches cannot be resumed.",
            |status| status.lists,
        )?;
        counter(
            "watch_unreadable",
            "How many objects of this resource could not be read. The log names some of them.",
            |status| status.unreadable,
        )
    }
}
