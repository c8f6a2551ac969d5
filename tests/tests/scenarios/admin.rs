//! The module's pages on Envoy's admin port.

use sandgate_tests::{Gateway, Request, SECRET, route, routes};
use serde_json::{Value, json};

use crate::support::ask;

async fn ten() -> Gateway {
    let mut entries: Vec<_> =
        (0..7).map(|number| route(&format!("box-{number}")).ip([127, 0, 0, 1])).collect();
    entries.push(
        route("asleep").namespace("team").state("paused").ip([127, 0, 0, 1]).owner("alice").token(SECRET),
    );
    entries.push(route("new").namespace("team").state("creating"));
    entries.push(
        route("guarded")
            .id("custom.id")
            .set("uid", "u-1")
            .set("require-traffic-auth", true)
            .ip([127, 0, 0, 2]),
    );
    Gateway::serving(&routes(entries)).await
}

async fn ids(gateway: &Gateway, query: &str) -> (Vec<String>, Value) {
    let reply = gateway.admin(&format!("/sandgate/routes{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    let page = reply.json();
    let ids = page["routes"].as_array().expect("a list").iter();
    (ids.map(|route| route["id"].as_str().expect("text").to_owned()).collect(), page["next"].clone())
}

#[tokio::test]
async fn the_table_is_listed_by_id_in_pages() {
    let gateway = ten().await;
    let (all, next) = ids(&gateway, "").await;
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!((all.len(), &all, next), (10, &sorted, Value::Null));
    assert_eq!(gateway.admin("/sandgate/routes").await.json()["total"], 10);
    for limit in [1, 3, 5, 9] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let (page, next) = ids(&gateway, &format!("?limit={limit}{after}")).await;
            assert!(page.len() <= limit);
            seen.extend(page);
            let Some(next) = next.as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(seen, all, "in pages of {limit}");
    }
    let (page, _) = ids(&gateway, "?after=zzzz").await;
    assert!(page.is_empty());
}

#[tokio::test]
async fn the_table_is_filtered_by_state_namespace_prefix_and_provider() {
    let gateway = ten().await;
    for (query, count) in [
        ("?state=running", 8),
        ("?state=paused", 1),
        ("?state=dead", 0),
        ("?namespace=team", 2),
        ("?namespace=team&state=creating", 1),
        ("?namespace=nobody", 0),
        ("?prefix=default--box-", 7),
        ("?prefix=custom", 1),
        ("?prefix=custom%2Eid", 1),
        ("?provider=file", 10),
        ("?provider=kruise", 0),
        ("?prefix=default--box-&limit=3", 3),
    ] {
        assert_eq!(ids(&gateway, query).await.0.len(), count, "{query}");
    }
    for query in
        ["?state=asleep", "?limit=0", "?limit=x", "?limit=-1", "?colour=blue", "?limit=99999999999999999999"]
    {
        let reply = gateway.admin(&format!("/sandgate/routes{query}")).await;
        assert_eq!(reply.status, 400, "{query}: {}", reply.text());
        assert!(
            reply.json()["error"].as_str().is_some_and(|error| error.contains("expected")),
            "{}",
            reply.text()
        );
    }
}

#[tokio::test]
async fn one_route_has_all_its_fields_and_no_token() {
    let gateway = ten().await;
    let mut found = gateway.admin("/sandgate/routes?id=team--asleep").await.json();
    assert!(found["identity"].take().is_u64());
    let expected = json!({
        "id": "team--asleep", "namespace": "team", "name": "asleep", "provider": "file", "uid": "file:team/asleep",
        "owner": "alice", "state": "paused", "ip": "127.0.0.1", "version": "1", "identity": null,
        "auth": true, "secureAccess": false, "trafficToken": false, "requireTrafficAuth": false, "ambiguous": false,
    });
    assert_eq!(found, expected);
    let found = gateway.admin("/sandgate/routes?id=custom.id").await.json();
    assert_eq!(
        (&found["uid"], &found["requireTrafficAuth"], &found["auth"]),
        (&json!("u-1"), &json!(true), &json!(false))
    );
    let found = gateway.admin("/sandgate/routes?id=team--new").await.json();
    assert_eq!((&found["ip"], &found["state"]), (&Value::Null, &json!("creating")));
    let missing = gateway.admin("/sandgate/routes?id=nobody").await;
    assert_eq!(missing.status, 404);
    assert!(
        missing.json()["error"].as_str().is_some_and(|error| error.contains("nobody")),
        "{}",
        missing.text()
    );
}

#[tokio::test]
async fn the_status_says_what_the_table_is_and_where_it_comes_from() {
    let gateway = ten().await;
    let status = gateway.status().await;
    assert_eq!(
        (&status["ready"], &status["panics"], &status["tombstones"]),
        (&json!(true), &json!(0), &json!(0))
    );
    let count = |state: &str| status["routes"][state].as_u64();
    assert_eq!(
        (count("total"), count("running"), count("paused"), count("creating")),
        (Some(10), Some(8), Some(1), Some(1))
    );
    let version = status["version"].as_str().expect("a version");
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert!(status["abi"].as_str().is_some_and(|abi| !abi.is_empty()), "{status}");
    assert!(status["uptimeSeconds"].as_u64().is_some_and(|uptime| uptime < 600), "{status}");
    let source = &status["sources"][0];
    assert_eq!(
        (&source["kind"], &source["generation"], &source["routes"]),
        (&json!("file"), &json!(1), &json!(10))
    );
    assert_eq!(source["path"], json!(gateway.routes_file()));
    assert_eq!(source["error"], Value::Null);
    assert!(!source["loadedAt"].is_null(), "{status}");
    for (gauge, value) in
        [("ready", 1), ("routes", 10), ("routes_running", 8), ("tombstones", 0), ("routes_file_error", 0)]
    {
        gateway.stat_is(&format!("sandgate.{gauge}"), value).await;
    }
}

#[tokio::test]
async fn the_pages_are_read_only_and_are_not_on_the_public_port() {
    let gateway = ten().await;
    for page in ["/sandgate/routes", "/sandgate/status"] {
        for method in ["POST", "PUT", "DELETE"] {
            let reply = gateway.admin_send(Request::get(page).method(method)).await;
            assert_eq!(reply.status, 405, "{method} {page}: {}", reply.text());
        }
        assert_ne!(gateway.send(Request::get(page)).await.status, 200);
        assert_ne!(gateway.send(ask("default--box-0").path(page)).await.status, 200);
    }
    let help = gateway.admin("/help").await;
    assert!(help.text().contains("/sandgate/routes") && help.text().contains("/sandgate/status"));
}

#[tokio::test]
async fn a_page_of_the_table_is_made_off_the_main_thread_and_fetched_once() {
    let gateway = ten().await;
    for (path, key) in [("/sandgate/routes", "routes"), ("/sandgate/status?digest=1", "digest")] {
        assert!(!gateway.admin(path).await.json()[key].is_null(), "{path}");
    }
    for path in ["/sandgate/routes", "/sandgate/status"] {
        let gone = gateway.admin(&format!("{path}?job=1")).await;
        assert_eq!(gone.status, 404, "it was fetched: {}", gone.text());
        for bad in ["?job=", "?job=x", "?job=1&limit=2"] {
            assert_eq!(gateway.admin(&format!("{path}{bad}")).await.status, 400, "{path}{bad}");
        }
    }
    // The thread that made them ends when there is nothing to do.
    gateway
        .until("the pages' thread ends", async || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).ok()?;
            let mut names = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
            (!names.any(|name| name.is_ok_and(|name| name.trim() == "sandgate-pages"))).then_some(())
        })
        .await;
}
