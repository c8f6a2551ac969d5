use std::collections::BTreeSet;
use std::sync::Arc;

use axum::routing::get;
use axum::{Router, middleware};
use sandgate_cache::daemon::metrics_page;
use sandgate_cache::{Cache, SystemClock};
use sandgate_peering::PeerMetrics;
use tower::ServiceExt as _;

use super::*;
use crate::{EnvCounts, KeyStore, Pushed};

fn gateway() -> PeerMetrics {
    PeerMetrics {
        peer: "http://10.0.0.1:7789".parse().unwrap(),
        sent: 7,
        refused: 0,
        failed: 1,
        coalesced: 0,
        dropped: 0,
        retries: 0,
        pending: 2,
        lag: Duration::from_millis(1500),
        error: Some("no answer".to_owned()),
    }
}

/// Everything once.
async fn page() -> String {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    metrics.request("patch", "Sandbox", "ok", Duration::from_millis(3));
    metrics.request("patch", "Sandbox", "conflict", Duration::from_millis(3));
    metrics.created("pool", Duration::from_millis(8));
    metrics.env_claimed("busy");
    metrics.missed("changed");
    metrics.undone("deleted");
    let scraped = Scraped {
        cache: Cache::builder().build().unwrap(),
        keys: KeyStore::new(Arc::new(SystemClock), None),
        pushed: Box::new(|| Pushed { told: 5, missed: 1 }),
        gateways: Box::new(|| vec![gateway()]),
        waiting: Box::new(|| 4),
        envs: Box::new(|| EnvCounts { waiting: 3, routed: 2 }),
    };
    scraped.register(&mut registry);
    let api = Router::new()
        .route("/kruise/api/sandboxes/{id}", get(async || "here"))
        .route("/sandboxes/{id}", get(async || "here"))
        .fallback(async || http::StatusCode::NOT_FOUND)
        .layer(middleware::from_fn_with_state(metrics, count));
    for path in ["/sandboxes/a", "/kruise/api/sandboxes/b", "/nowhere/c"] {
        let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        api.clone().oneshot(request).await.unwrap();
    }
    metrics_page(&registry)
}

#[tokio::test]
async fn what_happened_is_on_the_page() {
    let page = page().await;
    for line in [
        "sandgate_manager_requests_total{method=\"GET\",route=\"/sandboxes/{id}\",status=\"200\"} 2",
        "sandgate_manager_requests_total{method=\"GET\",route=\"other\",status=\"404\"} 1",
        "sandgate_manager_request_duration_seconds_count{method=\"GET\",route=\"/sandboxes/{id}\"} 2",
        "sandgate_manager_requests_under_way 0",
        "sandgate_manager_creates_total{outcome=\"pool\"} 1",
        "sandgate_manager_create_duration_seconds_count{outcome=\"pool\"} 1",
        "sandgate_manager_claim_misses_total{outcome=\"changed\"} 1",
        "sandgate_manager_undone_total{outcome=\"deleted\"} 1",
        "sandgate_manager_server_requests_total{verb=\"patch\",kind=\"Sandbox\",outcome=\"conflict\"} 1",
        "sandgate_manager_server_request_duration_seconds_count{verb=\"patch\",kind=\"Sandbox\"} 2",
        "sandgate_manager_objects{kind=\"sandboxes\"} 0.0",
        "sandgate_manager_keys 0.0",
        "sandgate_manager_claims_waiting 4.0",
        "sandgate_manager_env_claims_total{outcome=\"busy\"} 1",
        "sandgate_manager_env_claims_waiting 3.0",
        "sandgate_manager_envs_routed 2.0",
        "sandgate_manager_pushes_total{outcome=\"missed\"} 1",
        "sandgate_manager_gateway_up{gateway=\"http://10.0.0.1:7789\"} 0.0",
        "sandgate_manager_gateway_lag_seconds{gateway=\"http://10.0.0.1:7789\"} 1.5",
        "sandgate_manager_gateway_messages_total{gateway=\"http://10.0.0.1:7789\",outcome=\"sent\"} 7",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
}

/// Dashboards and alerts are made from these names: a change of one is a change for their users.
#[tokio::test]
async fn the_names_are_those_of_the_list() {
    let page = page().await;
    let found: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let list = include_str!("../../metrics.txt");
    let listed: BTreeSet<&str> =
        list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(found, listed);
}

#[test]
fn a_request_whose_client_went_away_counts_too() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    drop(metrics.begin("POST", "/sandboxes".to_owned()));
    let page = metrics_page(&registry);
    let line = "sandgate_manager_requests_total{method=\"POST\",route=\"/sandboxes\",status=\"499\"} 1";
    assert!(page.contains(line), "{page}");
}
