//! The soak in short: what churn leaves behind is gone when it ends. Counts only; `make soak` looks at memory
//! too, for an hour.

mod operator;

use std::time::Duration;

use sandgate_tests::soak::{Load, Soak};

/// How often everything is done at least: each way to break the watch twice.
const ROUNDS: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn descriptors_hosts_tombstones_and_held_requests_return_when_churn_ends() {
    let load = Load { speed: 4.0, tombstone_lifetime: Duration::from_secs(5), idle: Duration::from_secs(1) };
    let mut soak = Soak::start(load).await;
    let start = soak.sample().await;
    soak.begin();
    let mut most = start.clone();
    for rounds in [ROUNDS / 2, ROUNDS] {
        soak.gateway()
            .within(Duration::from_secs(120), "everything is done some times", async || {
                let now = soak.sample().await;
                most.values.iter_mut().zip(now.values).for_each(|(most, now)| *most = most.max(now));
                soak.has_done(rounds).then_some(())
            })
            .await;
        soak.replace_clusters();
    }
    soak.end().await;
    soak.settled(&start).await;
    assert_eq!(soak.unexpected(), [""; 0]);
    assert_eq!(soak.gateway().stat("sandgate.panics").await.unwrap_or(0), 0);
    // There was something to return from.
    for (name, least) in [("routes", 10.0), ("hosts", 5.0), ("tombstones", 5.0), ("client_connections", 10.0)]
    {
        assert!(most.value(name) >= least, "{name}: {}", most.value(name));
    }
    assert!(most.value("descriptors") > start.value("descriptors") + 10.0, "{most:?}");
}
