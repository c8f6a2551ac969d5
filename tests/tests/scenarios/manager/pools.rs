//! Claims of a pool: who waits, and for what.

use std::collections::BTreeSet;

use sandgate_tests::cluster::Resource;
use serde_json::json;

use super::{HOLLOW, NAMESPACE, Site, hollow, id};

#[tokio::test]
async fn a_create_that_takes_from_the_stock_alone_waits_for_the_pool_and_no_longer_than_it_may() {
    let site = Site::start().await;
    site.template(HOLLOW, "hollow", 0).await;
    let manager = site.manager(&[]).await;
    let key = site.cluster.api_key("waits").await;
    let stock = |timeout: &str| {
        hollow(&json!({
            "e2b.agents.kruise.io/create-on-no-stock": "false",
            "e2b.agents.kruise.io/claim-timeout-seconds": timeout,
        }))
    };

    // Nothing comes: it is told to try again, and nothing was made.
    let body = sandgate_tests::cluster::new_sandbox(HOLLOW, &stock("1"));
    let refused = manager.ask(&key, "POST", "/v2/sandboxes", Some(&body)).await;
    assert!([429, 503].contains(&refused.status), "{} {}", refused.status, refused.text());
    assert!(!refused.header("retry-after").is_empty(), "{:?}", refused.headers);
    assert!(site.cluster.objects(Resource::Sandbox, NAMESPACE).list().await.is_empty());

    // The pool fills while they wait: each gets one of its own.
    let more = stock("100");
    let waiting = futures_util::future::join_all((0..5).map(|_| manager.create(&key, HOLLOW, &more)));
    let sets = site.cluster.objects(Resource::SandboxSet, NAMESPACE);
    let two = json!({ "spec": { "replicas": 2 } });
    let (made, _) = tokio::join!(waiting, sets.patch(HOLLOW, &two));
    let made: BTreeSet<&str> = made.iter().map(id).collect();
    assert_eq!(made.len(), 5, "{made:?}");
    let claimed = site.claimed_are(5).await;
    assert_eq!(claimed.iter().map(id).collect::<BTreeSet<_>>(), made);
}
