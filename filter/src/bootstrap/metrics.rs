//! What the gateway is and does, as Envoy's gauges and counters.
//!
//! The sources count for themselves. Once a second, and when something changes, the gauges are set to those
//! numbers and the counters raised to them.

use std::sync::atomic::{AtomicU64, Ordering};

use envoy_proxy_dynamic_modules_rust_sdk::{
    EnvoyBootstrapExtensionConfig, EnvoyCounterId, EnvoyGaugeId, panics,
};
use sandgate_routes::State;
use sandgate_watch::{Gateway, KeyringStatus, KubernetesStatusReader, RefreshStatus, Settings};

use crate::{UndefinedMetric, cluster};

/// Where gauges are set.
struct Board<'a> {
    envoy: &'a dyn EnvoyBootstrapExtensionConfig,
    /// Whether this process speaks for the gateway.
    reports: bool,
}

impl Board<'_> {
    fn set(&self, gauge: EnvoyGaugeId, value: u64) {
        // The only failure is an unknown id, and ids come from `define`.
        let _ = self.envoy.set_gauge(gauge, if self.reports { value } else { 0 });
    }
}

pub(super) struct Metrics {
    ready: EnvoyGaugeId,
    routes: EnvoyGaugeId,
    running: EnvoyGaugeId,
    tombstones: EnvoyGaugeId,
    file_error: EnvoyGaugeId,
    thread_up: EnvoyGaugeId,
    thread_restarts: Counter,
    panics: Counter,
    hosts: EnvoyGaugeId,
    held: EnvoyGaugeId,
    kubernetes: Option<KubernetesGauges>,
    pushes: Option<PushMetrics>,
    keys: Option<KeyMetrics>,
}

/// Over all scopes. Only there where a cluster is watched.
struct KubernetesGauges {
    up: EnvoyGaugeId,
    objects: EnvoyGaugeId,
    unreadable: EnvoyGaugeId,
    contact_age: EnvoyGaugeId,
}

impl Metrics {
    pub(super) fn define(
        envoy: &mut dyn EnvoyBootstrapExtensionConfig,
        settings: &Settings,
    ) -> Result<Self, UndefinedMetric> {
        let pushes = if settings.refresh().is_some() { Some(PushMetrics::define(envoy)?) } else { None };
        let keys = if settings.auth().is_some() { Some(KeyMetrics::define(envoy)?) } else { None };
        let thread_restarts = Counter::define(envoy, "thread_restarts")?;
        let panics = Counter::define(envoy, "panics")?;
        let mut gauge = |name| define_gauge(envoy, name);
        Ok(Self {
            ready: gauge("ready")?,
            routes: gauge("routes")?,
            running: gauge("routes_running")?,
            tombstones: gauge("tombstones")?,
            file_error: gauge("routes_file_error")?,
            thread_up: gauge("thread_up")?,
            thread_restarts,
            panics,
            hosts: gauge("hosts")?,
            held: gauge("requests_held")?,
            kubernetes: if settings.kubernetes().is_some() {
                Some(KubernetesGauges {
                    up: gauge("kubernetes_up")?,
                    objects: gauge("kubernetes_objects")?,
                    unreadable: gauge("kubernetes_unreadable")?,
                    contact_age: gauge("kubernetes_last_contact_age_seconds")?,
                })
            } else {
                None
            },
            pushes,
            keys,
        })
    }

    /// Brings them up to date. A process that does not speak for the gateway has 0 in every gauge: see
    /// [`reporter`](super::reporter). Counters are those of the process, and Envoy adds them up.
    pub(super) fn set(&self, envoy: &dyn EnvoyBootstrapExtensionConfig, gateway: &Gateway, reports: bool) {
        let board = Board { envoy, reports };
        let counts = gateway.reader().counts();
        let threads = gateway.threads();
        let (hosts, held) = cluster::in_use();
        for (gauge, value) in [
            (self.ready, u64::from(gateway.reader().is_ready())),
            (self.routes, counts.routes),
            (self.running, counts.in_state(State::Running)),
            (self.tombstones, counts.tombstones),
            (self.file_error, u64::from(gateway.file_status().is_some_and(|file| file.error.is_some()))),
            (self.thread_up, u64::from(threads.iter().all(|thread| thread.up))),
            (self.hosts, hosts),
            (self.held, held),
        ] {
            board.set(gauge, value);
        }
        self.thread_restarts.set(envoy, threads.iter().map(|thread| thread.restarts).sum());
        self.panics.set(envoy, panics());
        // What a source last said of itself holds only while its thread runs.
        if let (Some(gauges), Some(status)) = (&self.kubernetes, gateway.kubernetes_status()) {
            gauges.set(&board, status, gateway.sources_up());
        }
        if let (Some(metrics), Some(status)) = (&self.pushes, gateway.refresh_status()) {
            metrics.set(&board, &status, gateway.receiver_up());
        }
        if let (Some(metrics), Some(keyring)) = (&self.keys, gateway.keyring()) {
            metrics.set(&board, &keyring.status(), gateway.keyring_up());
        }
    }
}

impl KubernetesGauges {
    fn set(&self, board: &Board<'_>, status: &KubernetesStatusReader, thread_up: bool) {
        let scopes = status.scopes();
        // The scope heard of longest ago; one never heard of is as old as the clock.
        let age = scopes.iter().map(|scope| scope.contact_age().as_secs()).max().unwrap_or_default();
        for (gauge, value) in [
            (self.up, u64::from(thread_up && scopes.iter().all(|scope| scope.is_up()))),
            (self.objects, scopes.iter().map(|scope| scope.objects).sum()),
            (self.unreadable, scopes.iter().map(|scope| scope.unreadable).sum()),
            (self.contact_age, age),
        ] {
            board.set(gauge, value);
        }
    }
}

fn define_gauge(
    envoy: &mut dyn EnvoyBootstrapExtensionConfig,
    name: &'static str,
) -> Result<EnvoyGaugeId, UndefinedMetric> {
    envoy.define_gauge(name).map_err(|_| UndefinedMetric(name))
}

type Read = fn(&RefreshStatus) -> u64;

/// One counter for each number of the status page.
const COUNTERS: [(&str, Read); 11] = [
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
    ("refresh_reports", |status| status.reports),
];

/// What was pushed. Only there where pushes are received.
struct PushMetrics {
    up: EnvoyGaugeId,
    connections: EnvoyGaugeId,
    counters: Vec<(Counter, Read)>,
}

impl PushMetrics {
    fn define(envoy: &mut dyn EnvoyBootstrapExtensionConfig) -> Result<Self, UndefinedMetric> {
        let counters = COUNTERS.into_iter().map(|(name, read)| Ok((Counter::define(envoy, name)?, read)));
        let counters = counters.collect::<Result<_, UndefinedMetric>>()?;
        Ok(Self {
            up: define_gauge(envoy, "refresh_up")?,
            connections: define_gauge(envoy, "refresh_connections")?,
            counters,
        })
    }

    fn set(&self, board: &Board<'_>, status: &RefreshStatus, thread_up: bool) {
        let up = thread_up && status.listening.is_some() && status.error.is_none();
        board.set(self.up, u64::from(up));
        board.set(self.connections, status.connections);
        for (counter, read) in &self.counters {
            counter.set(board.envoy, read(status));
        }
    }
}

type ReadKeys = fn(&KeyringStatus) -> u64;

/// One counter for each number of the status page, over all sources.
const KEY_COUNTERS: [(&str, ReadKeys); 7] = [
    ("auth_fetched", |status| status.sources.iter().map(|source| source.reads).sum()),
    ("auth_fetch_failed", |status| status.sources.iter().map(|source| source.failures).sum()),
    ("token_reviews", |status| status.reviews.as_ref().map_or(0, |reviews| reviews.asked)),
    ("token_reviews_good", |status| status.reviews.as_ref().map_or(0, |reviews| reviews.good)),
    ("token_reviews_bad", |status| status.reviews.as_ref().map_or(0, |reviews| reviews.bad)),
    ("token_reviews_failed", |status| status.reviews.as_ref().map_or(0, |reviews| reviews.failed)),
    ("token_reviews_refused", |status| status.reviews.as_ref().map_or(0, |reviews| reviews.refused)),
];

/// The keys of credentials. Only there where any are configured.
struct KeyMetrics {
    up: EnvoyGaugeId,
    age: EnvoyGaugeId,
    keys: EnvoyGaugeId,
    counters: Vec<(Counter, ReadKeys)>,
}

impl KeyMetrics {
    fn define(envoy: &mut dyn EnvoyBootstrapExtensionConfig) -> Result<Self, UndefinedMetric> {
        let counters = KEY_COUNTERS.into_iter().map(|(name, read)| Ok((Counter::define(envoy, name)?, read)));
        let counters = counters.collect::<Result<_, UndefinedMetric>>()?;
        Ok(Self {
            up: define_gauge(envoy, "auth_up")?,
            age: define_gauge(envoy, "auth_keys_age_seconds")?,
            keys: define_gauge(envoy, "auth_keys")?,
            counters,
        })
    }

    fn set(&self, board: &Board<'_>, status: &KeyringStatus, thread_up: bool) {
        board.set(self.up, u64::from(thread_up && status.is_good()));
        board.set(self.age, status.age().as_secs());
        board.set(self.keys, status.sources.iter().map(|source| source.keys as u64).sum());
        for (counter, read) in &self.counters {
            counter.set(board.envoy, read(status));
        }
    }
}

/// A counter of Envoy's for a number that is counted elsewhere.
struct Counter {
    id: EnvoyCounterId,
    /// The number as of the last call of [`Self::set`], which only the main thread calls.
    reported: AtomicU64,
}

impl Counter {
    fn define(
        envoy: &mut dyn EnvoyBootstrapExtensionConfig,
        name: &'static str,
    ) -> Result<Self, UndefinedMetric> {
        let id = envoy.define_counter(name).map_err(|_| UndefinedMetric(name))?;
        Ok(Self { id, reported: AtomicU64::new(0) })
    }

    /// Raises Envoy's counter to the number as it is now.
    fn set(&self, envoy: &dyn EnvoyBootstrapExtensionConfig, now: u64) {
        let more = now.saturating_sub(self.reported.swap(now, Ordering::Relaxed));
        if more > 0 {
            // The only failure is an unknown id, and ids come from `define`.
            let _ = envoy.increment_counter(self.id, more);
        }
    }
}
