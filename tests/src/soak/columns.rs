//! What is sampled of a gateway.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use super::sample::{Column, MIB, Returns, Sample, counted, cpu_seconds, judged, recorded};
use crate::Gateway;

/// The columns, in their order. Counts go up and down with the churn, so a tenth of their level is none of
/// our business.
///
/// Of memory three things are judged. What is allocated is what the code holds: a leak shows here first. RSS
/// less what the allocator keeps free for the next allocation also has the memory that is not the
/// allocator's: stacks, code, mappings. RSS itself has the allocator's caches, which fill for ten minutes and
/// more up to a limit of their own, so it may grow more.
pub const COLUMNS: &[Column] = &[
    judged("allocated_mib", 1.0, 0.02),
    judged("rss_in_use_mib", 2.0, 0.02),
    judged("rss_mib", 4.0, 0.02),
    recorded("heap_mib"),
    recorded("free_in_heap_mib"),
    recorded("returned_mib"),
    recorded("thread_caches_mib"),
    recorded("anonymous_mib"),
    counted("descriptors", Returns::ToStart),
    judged("threads", 0.5, 0.0),
    counted("routes", Returns::ToZero),
    counted("tombstones", Returns::ToZero),
    counted("hosts", Returns::ToZero),
    counted("held_requests", Returns::ToZero),
    counted("client_connections", Returns::ToZero),
    counted("sandbox_connections", Returns::ToZero),
    counted("active_requests", Returns::ToZero),
    counted("push_connections", Returns::ToZero),
    judged("statistics", 8.0, 0.0),
    recorded("cpu_seconds"),
    recorded("requests"),
];

/// Asks the kernel, Envoy and the module.
pub(super) async fn sample(gateway: &Gateway, at: Duration) -> Sample {
    let memory = gateway.admin("/memory").await.json();
    let bytes = |key: &str| memory[key].as_str().and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN);
    let status = gateway.status().await;
    let of_clusters = |key: &str| -> f64 {
        let clusters = status["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
        clusters.iter().map(|cluster| number(&cluster[key])).sum()
    };
    let text = gateway.admin("/stats").await;
    let statistics = Statistics::read(text.text());
    let both = |name: &str| {
        statistics.value(&format!("cluster.sandbox.{name}"))
            + statistics.value(&format!("cluster.sandbox-http2.{name}"))
    };
    let resident = gateway.resident_memory() as f64;
    let value = |name: &str| match name {
        "rss_mib" => resident / MIB,
        "rss_in_use_mib" => (resident - bytes("pageheap_free") - bytes("total_thread_cache")) / MIB,
        "anonymous_mib" => gateway.anonymous_memory() as f64 / MIB,
        "allocated_mib" => bytes("allocated") / MIB,
        "heap_mib" => bytes("heap_size") / MIB,
        "free_in_heap_mib" => bytes("pageheap_free") / MIB,
        "returned_mib" => bytes("pageheap_unmapped") / MIB,
        "thread_caches_mib" => bytes("total_thread_cache") / MIB,
        "descriptors" => gateway.descriptors() as f64,
        "threads" => gateway.threads() as f64,
        "routes" => number(&status["routes"]["total"]),
        "tombstones" => number(&status["tombstones"]),
        "hosts" => of_clusters("hosts"),
        "held_requests" => of_clusters("parked"),
        "client_connections" => statistics.value("http.gateway.downstream_cx_active"),
        "sandbox_connections" => both("upstream_cx_active"),
        "active_requests" => statistics.value("http.gateway.downstream_rq_active"),
        "push_connections" => number(&status["refresh"]["connections"]),
        "statistics" => statistics.0.len() as f64,
        "cpu_seconds" => cpu_seconds(gateway.pid()),
        "requests" => statistics.value("http.gateway.downstream_rq_total"),
        other => unreachable!("the column {other}"),
    };
    Sample::new(at, COLUMNS, value)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Envoy's counters and gauges.
struct Statistics<'t>(HashMap<&'t str, f64>);

impl<'t> Statistics<'t> {
    fn read(text: &'t str) -> Self {
        let line = |line: &'t str| {
            let (name, value) = line.split_once(": ")?;
            Some((name, value.parse().unwrap_or(f64::NAN)))
        };
        Self(text.lines().filter_map(line).collect())
    }

    fn value(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(f64::NAN)
    }
}
