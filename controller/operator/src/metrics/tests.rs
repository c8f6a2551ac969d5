use std::collections::BTreeSet;
use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use sandgate_follow::StatusCell;

use super::*;
use crate::{Followed, Key, Leadership, Pace, PoolLevels, Queue, Random};

/// Everything once.
fn page() -> String {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    metrics.controller("sandbox").begin(Duration::ZERO, true).ended("ok");
    drop(metrics.controller("sandbox").begin(Duration::ZERO, false));
    metrics.writes.observe("create", "Pod", Ok(()), Duration::from_millis(3));
    metrics.writes.observe("create", "Pod", Err(Category::Refused), Duration::from_millis(3));
    metrics.events.dropped();
    metrics.tasks.asked("get", "ok");
    let queue = Queue::new(Pace::default(), Random::seeded(1));
    queue.add(Key::new("ns", "a"));
    let followed = |resource: &str, namespace: Option<&str>| Followed {
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        status: Arc::<StatusCell>::default(),
    };
    let scraped = Scraped {
        queues: vec![("sandbox", queue)],
        leadership: Leadership::always(),
        candidate: None,
        followed: vec![followed("pods", None), followed("sandboxes.agents.kruise.io", Some("ns"))],
        objects: Box::new(|| vec![("Pod", 3)]),
        pools: Box::new(|| {
            let pool = Key::new("ns", "p");
            vec![PoolLevels { pool, total: 5, allocated: 3, available: 1, lacking: 2 }]
        }),
        malformed: Box::new(|| 1),
    };
    scraped.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

#[test]
fn what_happened_is_on_the_page() {
    let page = page();
    for line in [
        "sandgate_operator_reconciles_total{controller=\"sandbox\",outcome=\"ok\"} 1",
        "sandgate_operator_reconciles_total{controller=\"sandbox\",outcome=\"Cancelled\"} 1",
        "sandgate_operator_retries_total{controller=\"sandbox\"} 1",
        "sandgate_operator_queue_wait_seconds_count{controller=\"sandbox\"} 2",
        "sandgate_operator_reconcile_duration_seconds_count{controller=\"sandbox\"} 2",
        "sandgate_operator_writes_total{verb=\"create\",kind=\"Pod\",outcome=\"Refused\"} 1",
        "sandgate_operator_write_duration_seconds_count{verb=\"create\",kind=\"Pod\"} 2",
        "sandgate_operator_events_total{outcome=\"dropped\"} 1",
        "sandgate_operator_task_requests_total{verb=\"get\",outcome=\"ok\"} 1",
        "sandgate_operator_queue_depth{controller=\"sandbox\"} 1.0",
        "sandgate_operator_leader 1",
        "sandgate_operator_leader_changes_total 0",
        "sandgate_operator_objects{kind=\"Pod\"} 3.0",
        "sandgate_operator_pool_pods{namespace=\"ns\",pool=\"p\",state=\"allocated\"} 3.0",
        "sandgate_operator_pool_pods{namespace=\"ns\",pool=\"p\",state=\"lacking\"} 2.0",
        "sandgate_operator_malformed_batches 1.0",
        "sandgate_operator_watch_listed{resource=\"pods\",namespace=\"\"} 0.0",
        "sandgate_operator_watch_listed{resource=\"sandboxes.agents.kruise.io\",namespace=\"ns\"} 0.0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    // Nothing was heard yet, which is not an age.
    assert!(!page.contains("watch_age_seconds{"));
}

#[test]
fn the_cost_of_the_process_is_on_the_page() {
    let page = page();
    let value = |name: &str| -> f64 {
        let found = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{name} is not in\n{page}")).parse().unwrap()
    };
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_open_fds") >= 3.0);
    assert!(value("process_cpu_seconds_total") < 1e6);
    assert!(value("process_start_time_seconds") > 1e9);
}

/// Dashboards and alerts are made from these names: a change of one is a change for their users.
#[test]
fn the_names_are_those_of_the_list() {
    let page = page();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let found: BTreeSet<&str> = types.collect();
    let list = include_str!("../../metrics.txt");
    let listed: BTreeSet<&str> =
        list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(found, listed);
    let helps = page.lines().filter(|line| line.starts_with("# HELP "));
    assert_eq!(helps.count(), found.len());
}
