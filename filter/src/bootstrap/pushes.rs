//! What was pushed, as Envoy's metrics. Only there where pushes are taken.
//!
//! The receiver counts for itself; when the gauges are brought up to date, each counter of Envoy's is raised
//! by what has come since.

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyBootstrapExtensionConfig, EnvoyGaugeId};
use sandgate_watch::RefreshStatus;

use super::counter::Counter;
use super::gauges::Board;

type Read = fn(&RefreshStatus) -> u64;

/// One counter for each number of the status page.
const COUNTERS: [(&str, Read); 10] = [
    ("refresh_applied", |status| status.applied),
    ("refresh_stale", |status| status.stale),
    ("refresh_legacy", |status| status.legacy),
    ("refresh_invalid", |status| status.invalid),
    ("refresh_outside", |status| status.outside),
    ("refresh_unauthorized", |status| status.unauthorized),
    ("refresh_unavailable", |status| status.unavailable),
    ("refresh_too_large", |status| status.too_large),
    ("refresh_slow", |status| status.slow),
    ("refresh_batches", |status| status.batches),
];

pub(super) struct PushMetrics {
    up: EnvoyGaugeId,
    connections: EnvoyGaugeId,
    counters: Vec<(Counter, Read)>,
}

impl PushMetrics {
    /// Defines them, or names the one that Envoy refused.
    pub(super) fn define(envoy: &mut dyn EnvoyBootstrapExtensionConfig) -> Result<Self, &'static str> {
        let [up, connections] = ["refresh_up", "refresh_connections"]
            .map(|name: &'static str| envoy.define_gauge(name).map_err(|_| name));
        let counters: Result<_, &'static str> =
            COUNTERS.into_iter().map(|(name, read)| Ok((Counter::define(envoy, name)?, read))).collect();
        Ok(Self { up: up?, connections: connections?, counters: counters? })
    }

    pub(super) fn set(&self, board: &Board<'_>, status: &RefreshStatus, thread_up: bool) {
        let up = thread_up && status.listening.is_some() && status.error.is_none();
        board.set(self.up, u64::from(up));
        board.set(self.connections, status.connections);
        for (counter, read) in &self.counters {
            counter.set(board.envoy, read(status));
        }
    }
}
