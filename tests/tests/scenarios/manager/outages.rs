//! The API server is gone for a while.

use std::time::{Duration, Instant};

use sandgate_tests::{DEADLINE, eventually};
use serde_json::json;

use super::{HOLLOW, Site, hollow, id};

/// A caller should hear soon that it has to come again: the manager asks for 15 s after a write that was not
/// answered.
const SOON: Duration = Duration::from_secs(40);

#[tokio::test]
async fn without_the_api_server_reads_go_on_and_changes_are_refused_soon_until_it_is_back() {
    let site = Site::start().await;
    site.template(HOLLOW, "hollow", 3).await;
    let mut manager = site.manager(&[]).await;
    let key = site.cluster.api_key("outage").await;
    let sandbox = manager.create(&key, HOLLOW, &hollow(&json!({ "who": "outage" }))).await;
    let path = format!("/sandboxes/{}", id(&sandbox));
    let body = sandgate_tests::cluster::new_sandbox(HOLLOW, &hollow(&json!({})));

    site.cluster.api().kill();
    let listed = manager.ask(&key, "GET", "/v2/sandboxes?metadata=who%3Doutage", None).await;
    assert_eq!((listed.status, &listed.json()[0]["sandboxID"]), (200, &sandbox["sandboxID"]));
    let found = manager.ask(&key, "GET", &path, None).await;
    assert_eq!((found.status, &found.json()["sandboxID"]), (200, &sandbox["sandboxID"]));
    for (method, path, body) in [
        ("POST", "/v2/sandboxes".to_owned(), Some(&body)),
        ("POST", format!("{path}/pause"), Some(&json!({}))),
        ("POST", format!("{path}/timeout"), Some(&json!({ "timeout": 60 }))),
        ("DELETE", path.clone(), None),
    ] {
        let begin = Instant::now();
        let reply = manager.ask(&key, method, &path, body).await;
        assert_eq!(reply.status, 503, "{method} {path}: {}", reply.text());
        assert!(begin.elapsed() < SOON, "{method} {path} was refused after {:?}", begin.elapsed());
        assert_eq!(reply.json()["code"], 503, "{}", reply.text());
    }
    manager.assert_alive();

    site.cluster.api().start_again().await;
    eventually("creates work again", 3 * DEADLINE, async || {
        let reply = manager.ask(&key, "POST", "/v2/sandboxes", Some(&body)).await;
        assert!([201, 503].contains(&reply.status), "{} {}", reply.status, reply.text());
        (reply.status == 201).then_some(())
    })
    .await;
    // What was refused has not happened.
    let found = manager.ask(&key, "GET", &path, None).await;
    assert_eq!((found.status, &found.json()["state"]), (200, &json!("running")), "{}", found.text());
    assert_eq!(manager.ask(&key, "DELETE", &path, None).await.status, 204);
    assert_eq!(manager.ask(&key, "GET", &path, None).await.status, 404);
    site.claimed_are(1).await;
}
