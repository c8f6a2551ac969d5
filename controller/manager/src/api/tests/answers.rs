//! What each path answers when all is well, exactly as the SDK reads it.

use std::time::Duration;

use http::Request;
use serde_json::json;

use super::fake::{KEY, TOKEN, TRAFFIC_TOKEN};
use super::{Api, least};
use crate::api::ApiSettings;
use crate::{FOREVER, Reserve};

fn sandbox(id: &str) -> serde_json::Value {
    json!({
        "templateID": "base", "sandboxID": id, "clientID": "sandgate", "alias": "base", "envdVersion": "0.5.8",
        "envdAccessToken": TOKEN, "trafficAccessToken": null, "domain": "sandboxes.test",
    })
}

fn listed(id: &str, state: &str) -> serde_json::Value {
    json!({
        "templateID": "base", "sandboxID": id, "clientID": "sandgate", "alias": "base",
        "startedAt": "2026-11-18T08:00:00Z", "endAt": "2026-11-18T08:05:00Z", "cpuCount": 2, "memoryMB": 512,
        "diskSizeMB": 1024, "state": state, "envdVersion": "0.5.8", "metadata": {"user": "ann"},
    })
}

#[tokio::test]
async fn both_creates_answer_with_the_sandbox_on_both_prefixes() {
    let api = Api::new();
    for path in ["/sandboxes", "/v2/sandboxes", "/kruise/api/sandboxes", "/kruise/api/v2/sandboxes"] {
        api.post(path, least()).await.is(201, &sandbox("sbx1"));
        let new = api.fake.created();
        assert_eq!((new.template.as_str(), new.timeout), ("base", Some(Duration::from_secs(300))));
    }
}

#[tokio::test]
async fn every_field_of_a_create_arrives() {
    let api = Api::new();
    let body = json!({
        "templateID": "base", "timeout": 5, "autoPause": true, "autoResume": {"enabled": true}, "secure": true,
        "allow_internet_access": false, "network": {"allowOut": ["1.1.1.1", "example.com"], "denyOut": ["0.0.0.0/0"]},
        "metadata": {
            "user": "ann", "label:tier": "gold", "e2b.agents.kruise.io/claim-timeout-seconds": "7",
            "e2b.agents.kruise.io/reserve-failed-sandbox-for": "1h30m",
            "e2b.agents.kruise.io/reserve-paused-sandbox-duration": "forever",
            "e2b.agents.kruise.io/create-on-no-stock": "false", "e2b.agents.kruise.io/cpu-limit": "500m",
        },
        "envVars": {"A": "b"}, "mcp": null, "somethingNew": [1, 2],
    });
    let request = Request::post("/v2/sandboxes")
        .header("X-API-KEY", KEY)
        .header("content-type", "application/json; charset=utf-8")
        .header("Idempotency-Key", "a-1");
    assert_eq!(api.send(request.body(body.to_string().into()).unwrap()).await.status, 201);
    let new = api.fake.created();
    assert_eq!(new.timeout, Some(Duration::from_secs(5)));
    assert!(new.auto_pause && new.auto_resume);
    assert_eq!(new.allow_internet_access, Some(false));
    let network = new.network.unwrap();
    assert_eq!((network.allow_out.len(), network.deny_out[0].as_str()), (2, "0.0.0.0/0"));
    assert_eq!(new.metadata.into_iter().collect::<Vec<_>>(), [("user".to_owned(), "ann".to_owned())]);
    assert_eq!(new.labels["tier"], "gold");
    assert_eq!(new.env_vars["A"], "b");
    assert_eq!(new.idempotency_key.as_deref(), Some("a-1"));
    assert_eq!(new.extensions.claim_timeout, Some(Duration::from_secs(7)));
    assert_eq!(new.extensions.reserve_failed, Reserve::For(Duration::from_secs(5400)));
    assert_eq!(new.extensions.reserve_paused, Some(FOREVER));
    assert_eq!(new.extensions.cpu_limit.as_deref(), Some("500m"));
    assert!(new.extensions.only_from_stock);
}

#[tokio::test]
async fn a_create_without_public_traffic_asks_for_a_token_and_no_other_does() {
    let api = Api::new();
    for (network, is_private) in [
        (json!(null), false),
        (json!({}), false),
        (json!({"allowPublicTraffic": null}), false),
        (json!({"allowPublicTraffic": true}), false),
        (json!({"allowPublicTraffic": false}), true),
        (json!({"allowPublicTraffic": false, "allowOut": ["1.1.1.1"]}), true),
    ] {
        let made = api.post("/v2/sandboxes", json!({"templateID": "base", "network": network})).await;
        assert_eq!(
            (made.status.as_u16(), api.fake.created().private_traffic),
            (201, is_private),
            "{network}"
        );
    }
}

#[tokio::test]
async fn whoever_gets_a_sandbox_gets_its_traffic_token_and_a_description_has_none() {
    let api = Api::new();
    let mut private = sandbox("private1");
    private["trafficAccessToken"] = TRAFFIC_TOKEN.into();
    api.post("/v2/sandboxes/private1/connect", json!({})).await.is(200, &private);
    api.post("/sandboxes/private1/resume", json!({})).await.is(201, &private);
    let shown = api.get("/sandboxes/private1").await;
    let network = json!({"allowOut": [], "denyOut": [], "allowPublicTraffic": false});
    assert_eq!(shown.body["network"], network);
    assert!(!shown.body.to_string().contains(TRAFFIC_TOKEN));
}

#[tokio::test]
async fn a_sandbox_that_never_ends_is_shown_a_hundred_years_away() {
    let api = Api::new();
    let body = json!({"templateID": "base", "metadata": {"e2b.agents.kruise.io/never-timeout": "true"}});
    api.post("/sandboxes", body).await;
    assert_eq!(api.fake.created().timeout, None);
    let mut never = super::fake::described("sbx1");
    never.ends = None;
    let place = crate::api::extract::Place { domain: None, kruise: false };
    let shown = crate::api::answer::listed(never, &place, &ApiSettings::default());
    assert_eq!(shown.end_at, "2126-10-25T08:00:00Z");
}

#[tokio::test]
async fn a_connect_says_whether_it_resumed() {
    let api = Api::new();
    for version in ["", "/v2"] {
        let running = api.post(&format!("{version}/sandboxes/sbx1/connect"), json!({"timeout": 60})).await;
        running.is(200, &sandbox("sbx1"));
        let paused = api.ask("POST", &format!("{version}/sandboxes/paused1/connect"), None).await;
        paused.is(201, &sandbox("paused1"));
        assert_eq!(
            api.fake.asked(),
            [r#"("connect", "sbx1", Some(60s))"#, r#"("connect", "paused1", Some(300s))"#]
        );
    }
}

/// A fork gives its sandboxes a timeout too.
#[tokio::test]
async fn a_timeout_that_is_not_said_is_no_longer_than_the_longest() {
    for (longest, usual, refreshed) in [(30, 30, 30), (100, 100, 60), (299, 299, 60), (301, 300, 60)] {
        let max_timeout = Duration::from_secs(longest);
        let api = Api::with(ApiSettings { max_timeout, ..ApiSettings::default() });
        api.post("/v2/sandboxes", least()).await;
        assert_eq!(api.fake.created().timeout, Some(Duration::from_secs(usual)));
        api.fake.asked();
        for action in ["connect", "resume", "fork", "refreshes"] {
            api.post(&format!("/sandboxes/sbx1/{action}"), json!({})).await;
        }
        let expected = [
            format!(r#"("connect", "sbx1", Some({usual}s))"#),
            format!(r#"("resume", "sbx1", (Some({usual}s), None))"#),
            format!(r#"("fork", "sbx1", (Some({usual}s), 1))"#),
            format!(r#"("refresh", "sbx1", {refreshed}s)"#),
        ];
        assert_eq!(api.fake.asked(), expected, "--max-timeout {longest}");
        let longer = json!({"timeout": longest + 1, "duration": longest + 1});
        let refused = api.post("/sandboxes/sbx1/connect", longer.clone()).await;
        refused.fails(400, &["timeout", &format!("from 1 to {longest}")]);
        let refused = api.post("/sandboxes/sbx1/refreshes", longer).await;
        refused.fails(400, &["duration", &format!("from 0 to {longest}")]);
    }
}

#[tokio::test]
async fn a_sandbox_is_described_whole() {
    let api = Api::new();
    let mut whole = listed("paused1", "paused");
    whole["envdAccessToken"] = TOKEN.into();
    whole["allowInternetAccess"] = true.into();
    whole["domain"] = "sandboxes.test".into();
    whole["lifecycle"] = json!({"autoResume": false, "onTimeout": "pause"});
    api.get("/sandboxes/paused1").await.is(200, &whole);
    whole["metadata"]["e2b.agents.kruise.io/sandbox-resource"] = "team-a/paused1".into();
    api.get("/kruise/api/sandboxes/paused1").await.is(200, &whole);
}

#[tokio::test]
async fn lists_have_pages() {
    let api = Api::new();
    let both = json!([listed("sbx1", "running"), listed("paused1", "paused")]);
    let last = api.get("/v2/sandboxes").await;
    last.is(200, &both);
    assert_eq!(last.header("x-next-token"), None);
    api.fake.continues("bmV4dA");
    let first = api.get("/v2/sandboxes?limit=2&nextToken=abc&order=desc&template=base").await;
    assert_eq!(first.header("x-next-token"), Some("bmV4dA"));
    let filter = api.fake.filter();
    assert_eq!((filter.limit, filter.next.as_deref(), filter.descending), (2, Some("abc"), true));
    assert_eq!(filter.template.as_deref(), Some("base"));
    let old = api.get("/sandboxes?nextToken=abc").await;
    old.is(200, &both);
    assert_eq!(old.header("x-next-token"), Some("bmV4dA"), "it says that there are more");
    let filter = api.fake.filter();
    assert_eq!((filter.limit, filter.next.as_deref()), (10_000, Some("abc")));
    assert_eq!(filter.states, [crate::ShownState::Running]);
}

#[tokio::test]
async fn what_changes_a_sandbox_answers_without_a_body() {
    let api = Api::new();
    let steps = [
        ("POST", "timeout", json!({"timeout": 9}), r#"("timeout", "sbx1", 9s)"#),
        ("POST", "refreshes", json!({"duration": 0}), r#"("refresh", "sbx1", 0ns)"#),
        ("POST", "refreshes", json!({}), r#"("refresh", "sbx1", 60s)"#),
        ("POST", "pause", json!({"memory": false}), r#"("pause", "sbx1", None)"#),
        (
            "PUT",
            "network",
            json!({"allowOut": ["10.0.0.0/8"], "allow_internet_access": false}),
            r#"("network", "sbx1", (["10.0.0.0/8"], [], Some(false)))"#,
        ),
    ];
    for (method, action, body, asked) in steps {
        let reply = api.ask(method, &format!("/sandboxes/sbx1/{action}"), Some(body)).await;
        assert_eq!(reply.status, 204, "{action}: {}", reply.body);
        assert_eq!(api.fake.asked(), [asked]);
    }
    assert_eq!(api.ask("DELETE", "/sandboxes/sbx1", None).await.status, 204);
    assert_eq!(api.fake.asked(), [r#"("kill", "sbx1", ())"#]);
    let resumed = api.post("/sandboxes/paused1/resume", json!({"timeout": 30, "autoPause": true})).await;
    resumed.is(201, &sandbox("paused1"));
    assert_eq!(api.fake.asked(), [r#"("resume", "paused1", (Some(30s), Some(true)))"#]);
}

#[tokio::test]
async fn a_pause_says_how_long_it_is_kept() {
    let api = Api::new();
    for (text, kept) in [("24h", "Some(86400s)"), ("forever", "Some(3153600000s)")] {
        let request = Request::post("/sandboxes/sbx1/pause")
            .header("X-API-KEY", KEY)
            .header("x-e2b-kruise-reserve-paused-sandbox-duration", text);
        assert_eq!(api.send(request.body(axum::body::Body::empty()).unwrap()).await.status, 204);
        assert_eq!(api.fake.asked(), [format!(r#"("pause", "sbx1", {kept})"#)]);
    }
}

#[tokio::test]
async fn snapshots_are_made_listed_deleted_and_forked() {
    let api = Api::new();
    let one = json!({"snapshotID": "snap1", "names": ["mine"]});
    api.post("/sandboxes/sbx1/snapshots", json!({"name": "mine", "memory": false})).await.is(201, &one);
    api.fake.continues("next");
    let listed = api.get("/snapshots?sandboxID=sbx1&name=mine&limit=5&nextToken=t").await;
    listed.is(200, &json!([one]));
    assert_eq!(listed.header("x-next-token"), Some("next"));
    assert_eq!(api.fake.asked()[1], r#"("snapshots", Some("sbx1"), Some("mine"), 5, Some("t"))"#);
    assert_eq!(api.ask("DELETE", "/templates/snap1", None).await.status, 204);
    api.ask("DELETE", "/templates/other", None).await.fails(404, &["snapshot other was not found"]);
    api.ask("DELETE", "/templates/ns%2Fname%3Atag", None).await.fails(404, &["snapshot ns/name:tag"]);
    api.ask("DELETE", "/templates/base", None).await.fails(403, &["SandboxSet"]);
    assert_eq!(api.ask("DELETE", "/templates/snap%2Fa%3Av1", None).await.status, 204);
    assert_eq!(api.fake.asked().pop().unwrap(), r#"("delete", "snap/a:v1")"#);
    assert_eq!(api.post("/v2/sandboxes", json!({"templateID": "snap/a:v1"})).await.status, 201);
    assert_eq!(api.fake.created().template, "snap/a:v1");
    let forked = api.post("/sandboxes/sbx1/fork", json!({"count": 2})).await;
    assert_eq!(forked.status, 201);
    assert_eq!(
        api.fake.asked().pop().unwrap(),
        r#"("fork", "sbx1", (Some(300s), 2))"#,
        "none lives for ever"
    );
    assert_eq!(forked.body[0], json!({"sandbox": sandbox("sbx2")}));
    assert_eq!((&forked.body[1]["error"]["code"], forked.body[1].get("sandbox")), (&json!(504), None));
}

#[tokio::test]
async fn use_and_logs_are_shown() {
    let api = Api::new();
    let metric = json!({
        "timestamp": "2026-11-18T08:00:00Z", "timestampUnix": 1_795_248_000, "cpuCount": 2, "cpuUsedPct": 12.5,
        "memUsed": 10, "memTotal": 20, "memCache": 3, "diskUsed": 30, "diskTotal": 40,
    });
    let mut one = api.get("/sandboxes/sbx1/metrics?start=0&end=10").await;
    one.body[0]["timestampUnix"] = metric["timestampUnix"].clone();
    one.is(200, &json!([metric]));
    let many = api.get("/sandboxes/metrics?sandbox_ids=sbx1,missing1,x%2Fy,sbx2").await;
    let names: Vec<_> = many.body["sandboxes"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["sbx1", "sbx2"]);
    api.fake.asked();
    api.get("/sandboxes/metrics?sandbox_ids=sbx1,sbx1").await;
    assert_eq!(
        api.fake.asked(),
        [r#"("metric if known", "sbx1", ())"#],
        "each once, and no more is done for it"
    );
    let entry =
        json!({"timestamp": "2026-11-18T08:00:00Z", "message": "hello", "level": "info", "fields": {}});
    let line = json!({"timestamp": "2026-11-18T08:00:00Z", "line": "hello"});
    api.get("/sandboxes/sbx1/logs?start=1").await.is(200, &json!({"logs": [line], "logEntries": [entry]}));
    api.get("/v2/sandboxes/sbx1/logs?limit=3").await.is(200, &json!({"logs": [entry]}));
}

#[tokio::test]
async fn templates_are_the_sets_of_the_cluster() {
    let api = Api::new();
    let all = api.get("/templates").await;
    assert_eq!(all.body[0]["templateID"], "base");
    assert_eq!(all.body[0]["buildStatus"], "ready");
    assert_eq!(api.get("/v2/templates").await.body, all.body);
    let one = api.get("/templates/base").await;
    assert_eq!(one.body["builds"][0]["buildID"], all.body[0]["buildID"]);
    let build = one.body["buildID"].as_str().unwrap();
    assert_eq!((build.len(), &build[14..15], &build[19..20]), (36, "8", "a"), "{build} is a UUID");
    api.get("/templates/aliases/base").await.is(200, &json!({"templateID": "base", "public": false}));
    for path in ["/templates/other", "/templates/aliases/other", "/templates/a%20b"] {
        api.get(path).await.fails(404, &["was not found"]);
    }
}

#[tokio::test]
async fn keys_are_listed_made_and_revoked() {
    let api = Api::new();
    let team = json!({"teamID": "t1", "name": "team-a", "apiKey": "", "isDefault": true});
    api.get("/teams").await.is(200, &json!([team]));
    let key = json!({
        "id": "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b", "name": "ci", "teamName": "team-a",
        "mask": {"prefix": "e2b_", "valueLength": 40, "maskedValuePrefix": "00", "maskedValueSuffix": "2233"},
        "createdAt": "2026-11-18T08:00:00Z", "createdBy": null, "lastUsed": null, "expiresAt": null,
    });
    api.get("/api-keys").await.is(200, &json!([key]));
    let made = api.post("/api-keys", json!({"name": "ci"})).await;
    assert_eq!((made.status.as_u16(), &made.body["key"]), (201, &json!(KEY)));
    assert_eq!(api.ask("DELETE", "/api-keys/8c1f", None).await.status, 204);
    api.post("/api-keys", json!({"name": ""})).await.fails(400, &["name", "1 to 100"]);
}

#[tokio::test]
async fn the_domain_is_told_or_comes_from_the_host() {
    let api = Api::with(ApiSettings::default());
    for (path, host, domain) in [
        ("/sandboxes/s", "api.Example.com", json!("example.com")),
        ("/sandboxes/s", "api.example.com:8443", json!("example.com:8443")),
        ("/sandboxes/s", "manager.example.com", json!("manager.example.com")),
        ("/sandboxes/s", "127.0.0.1:8080", json!(null)),
        ("/sandboxes/s", "[::1]:8080", json!(null)),
        ("/sandboxes/s", "localhost:3000", json!(null)),
        ("/kruise/api/sandboxes/s", "127.0.0.1:8080", json!("127.0.0.1:8080")),
        ("/kruise/api/sandboxes/s", "[::1]:8080", json!("[::1]:8080")),
        ("/kruise/api/sandboxes/s", "api.example.com", json!("api.example.com")),
        ("/sandboxes/s", "bad host<", json!(null)),
    ] {
        let request = Request::get(path).header("X-API-KEY", KEY).header("host", host);
        let reply = api.send(request.body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(reply.body["domain"], domain, "{path} {host}");
    }
}

#[tokio::test]
async fn health_and_the_document_need_no_key() {
    let api = Api::new();
    for path in ["/health", "/kruise/api/health", "/openapi.json", "/kruise/api/openapi.json"] {
        let reply = api.send(Request::get(path).body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(reply.status, 200, "{path}");
    }
}
