//! What is sampled of the operator and of the cluster.

use std::fs;
use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::json;

use super::world::World;
use crate::cluster::Operator;
use crate::soak::Sample;
use crate::soak::sample::{Column, MIB, Returns, counted, cpu_seconds, judged, recorded};

/// The columns, in their order.
///
/// - `lag_ms` is the time from a change of a sandbox's spec to the status that says it was seen: watch, queue
///   and write together.
/// - Events live for a minute here, so their number is level a minute after the churn began.
/// - The lists of a sample are what the API server has; `known_*` is what the operator has of them a moment
///   later, and what it knows that is not there any more.
pub const OPERATOR_COLUMNS: &[Column] = &[
    judged("rss_mib", 4.0, 0.05),
    judged("cpu_percent", 2.0, 0.25),
    judged("descriptors", 4.0, 0.1),
    judged("threads", 0.5, 0.0),
    judged("queue_depth", 4.0, 0.0),
    judged("lag_ms", 50.0, 0.25),
    judged("watch_age_s", 10.0, 0.25),
    counted("sets", Returns::ToStart),
    counted("sandboxes", Returns::ToStart),
    counted("pods", Returns::ToStart),
    counted("templates", Returns::ToStart),
    counted("known_sandboxes", Returns::ToStart),
    counted("known_pods", Returns::ToStart),
    counted("leases", Returns::ToStart),
    judged("events", 40.0, 0.1),
    recorded("cpu_seconds"),
    recorded("reconciles"),
    recorded("writes"),
];

/// A sandbox whose spec changes with every sample.
pub(super) struct Probe {
    number: u64,
    last: (Instant, f64),
}

impl Default for Probe {
    fn default() -> Self {
        Self { number: 0, last: (Instant::now(), 0.0) }
    }
}

impl Probe {
    /// Changes the spec, and waits until the status has seen it.
    async fn lag(&mut self, world: &World) -> Duration {
        self.number += 1;
        let end = format!("2099-01-01T{:02}:{:02}:00Z", self.number / 60 % 24, self.number % 60);
        let began = Instant::now();
        let changed = world.sandboxes().patch("probe", &json!({ "spec": { "shutdownTime": end } })).await;
        let generation = &changed["metadata"]["generation"];
        let seen = |object: &serde_json::Value| object["status"]["observedGeneration"] == *generation;
        world.sandboxes().until("probe", "its change is seen", seen).await;
        began.elapsed()
    }
}

pub(super) async fn sample(world: &World, operator: &Operator, probe: &mut Probe, at: Duration) -> Sample {
    let lag = probe.lag(world).await;
    let namespace = &world.namespace;
    let ours = "agents.kruise.io/v1alpha1";
    let mut counts = Vec::new();
    for (column, version, kind, namespaces) in [
        ("sets", ours, "SandboxSet", [Some(namespace.as_str()), None]),
        ("sandboxes", ours, "Sandbox", [Some(namespace.as_str()), None]),
        ("templates", ours, "SandboxTemplate", [Some(namespace.as_str()), None]),
        ("pods", "v1", "Pod", [Some(namespace.as_str()), None]),
        ("events", "events.k8s.io/v1", "Event", [Some(namespace.as_str()), None]),
        ("leases", "coordination.k8s.io/v1", "Lease", [Some("default"), Some("kube-node-lease")]),
    ] {
        let mut count = 0.0;
        for namespace in namespaces.into_iter().flatten() {
            count += count_of(world, version, kind, namespace).await;
        }
        counts.push((column, count));
    }
    let metrics = operator.metrics().await;
    let sum = |name: &str, label: &str| metric(&metrics, &format!("sandgate_operator_{name}"), label);
    let (now, cpu) = (Instant::now(), cpu_seconds(operator.pid()));
    let (then, before) = std::mem::replace(&mut probe.last, (now, cpu));
    let proc =
        |file: &str| fs::read_to_string(format!("/proc/{}/{file}", operator.pid())).unwrap_or_default();
    let status = proc("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    let descriptors =
        fs::read_dir(format!("/proc/{}/fd", operator.pid())).map_or(f64::NAN, |all| all.count() as f64);
    let value = |name: &str| match name {
        "rss_mib" => field("VmRSS:") * 1024.0 / MIB,
        "cpu_percent" => (cpu - before) / now.duration_since(then).as_secs_f64() * 100.0,
        "descriptors" => descriptors,
        "threads" => field("Threads:"),
        "queue_depth" => sum("queue_depth", ""),
        "lag_ms" => lag.as_secs_f64() * 1e3,
        "watch_age_s" => greatest(&metrics, "sandgate_operator_watch_age_seconds"),
        "known_sandboxes" => sum("objects", "kind=\"Sandbox\""),
        "known_pods" => sum("objects", "kind=\"Pod\""),
        "cpu_seconds" => cpu,
        "reconciles" => sum("reconciles_total", ""),
        "writes" => sum("writes_total", ""),
        other => counts.iter().find(|(column, _)| *column == other).expect("a column").1,
    };
    Sample::new(at, OPERATOR_COLUMNS, value)
}

/// How many objects there are, without their contents.
async fn count_of(world: &World, version: &str, kind: &str, namespace: &str) -> f64 {
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(world.cluster.client(), namespace, &resource);
    let list = api.list_metadata(&ListParams::default()).await;
    list.map_or(f64::NAN, |list| list.items.len() as f64)
}

/// The values of a metric, of all its series that have this label.
fn values<'a>(metrics: &'a str, name: &'a str, label: &'a str) -> impl Iterator<Item = f64> + 'a {
    metrics.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let is_it = rest.starts_with(['{', ' ']) && rest.contains(label);
        is_it.then(|| rest.rsplit(' ').next()?.parse().ok()).flatten()
    })
}

/// Their sum.
pub(super) fn metric(metrics: &str, name: &str, label: &str) -> f64 {
    values(metrics, name, label).sum()
}

/// The greatest of them.
fn greatest(metrics: &str, name: &str) -> f64 {
    values(metrics, name, "").fold(f64::NAN, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_series_and_not_over_others_of_like_names() {
        let text = "# HELP a x\na{kind=\"Pod\"} 3\na{kind=\"Sandbox\"} 4\na_b{kind=\"Pod\"} 9\nb 2\n";
        assert_eq!(
            (metric(text, "a", ""), metric(text, "a", "kind=\"Pod\""), metric(text, "b", "")),
            (7.0, 3.0, 2.0)
        );
        assert_eq!(greatest(text, "a"), 4.0);
        assert!(greatest(text, "c").is_nan());
    }
}
