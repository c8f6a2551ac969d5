//! What is answered when something is wrong.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use serde_json::json;

use super::fake::{KEY, TOKEN};
use super::{Api, least};
use crate::{Error, ErrorKind};

#[tokio::test]
async fn a_wrong_field_is_named_and_nothing_is_asked() {
    let api = Api::new();
    let create = "/v2/sandboxes";
    let long = "x".repeat(254);
    for (path, body, words) in [
        (create, json!({}), vec!["templateID", "missing field"]),
        (create, json!({"templateID": 5}), vec!["templateID", "expected a string"]),
        (create, json!({"templateID": ""}), vec!["templateID", "SandboxSet"]),
        (create, json!({"templateID": "a b"}), vec!["templateID", "SandboxSet", "/ :"]),
        (create, json!({"templateID": long}), vec!["templateID", "253"]),
        (create, json!({"templateID": "b", "timeout": "5"}), vec!["timeout", "a whole number"]),
        (create, json!({"templateID": "b", "timeout": 5.5}), vec!["timeout", "a whole number"]),
        (create, json!({"templateID": "b", "timeout": 0}), vec!["timeout", "from 1 to 2592000"]),
        (create, json!({"templateID": "b", "timeout": 2_592_001}), vec!["timeout", "2592000"]),
        (create, json!({"templateID": "b", "timeout": -1}), vec!["timeout", "from 1"]),
        (create, json!({"templateID": "b", "timeout": u64::MAX}), vec!["timeout", "from 1"]),
        (create, json!({"templateID": "b", "autoResume": [true]}), vec!["autoResume", "expected"]),
        (create, json!({"templateID": "b", "autoResume": {}}), vec!["autoResume", "enabled"]),
        (
            create,
            json!({"templateID": "b", "autoResume": {"enabled": true}, "autoPauseMemory": false}),
            vec!["autoPauseMemory", "autoResume"],
        ),
        (create, json!({"templateID": "b", "metadata": {"a": 1}}), vec!["metadata.a", "expected a string"]),
        (create, json!({"templateID": "b", "metadata": {"a b": "c"}}), vec!["metadata.a b", "Kubernetes"]),
        (
            create,
            json!({"templateID": "b", "metadata": {"agents.kruise.io/owner": "c"}}),
            vec!["owner", "own"],
        ),
        (create, json!({"templateID": "b", "metadata": {"x.sandgate.dev/a": "c"}}), vec!["cluster's own"]),
        (create, json!({"templateID": "b", "metadata": {"e2b.agents.kruise.io/nope": "c"}}), vec!["nope"]),
        (create, json!({"templateID": "b", "metadata": {"label:x": "a b"}}), vec!["label:x", "label"]),
        (
            create,
            json!({"templateID": "b", "metadata": {"e2b.agents.kruise.io/cpu-limit": "0"}}),
            vec!["cpu-limit", "above zero"],
        ),
        (
            create,
            json!({"templateID": "b", "metadata": {"e2b.agents.kruise.io/never-timeout": "yes"}}),
            vec!["never-timeout", "true or false"],
        ),
        (create, json!({"templateID": "b", "envVars": {"A=B": "c"}}), vec!["envVars.A=B", "without ="]),
        (create, json!({"templateID": "b", "envVars": {"A": "\0"}}), vec!["envVars.A", "NUL"]),
        (create, json!({"templateID": "b", "envVars": {"A": "x".repeat(140_000)}}), vec!["envVars", "bytes"]),
        (create, json!({"templateID": "b", "network": {"denyOut": ["x.com"]}}), vec!["network.denyOut[0]"]),
        (
            create,
            json!({"templateID": "b", "network": {"allowOut": ["*.x.com"]}}),
            vec!["network.allowOut[0]"],
        ),
        (
            create,
            json!({"templateID": "b", "network": {"allowOut": [5]}}),
            vec!["network.allowOut[0]", "string"],
        ),
        (create, json!({"templateID": "b", "network": {"rules": {"a": []}}}), vec!["network.rules"]),
        (
            create,
            json!({"templateID": "b", "volumeMounts": [{"name": "a", "path": "/b"}]}),
            vec!["volumeMounts"],
        ),
        (create, json!({"templateID": "b", "iam": {"tokens": {}}}), vec!["iam"]),
        (create, json!([]), vec!["body", "object"]),
        ("/sandboxes/s/timeout", json!({}), vec!["timeout", "missing field"]),
        ("/sandboxes/s/connect", json!({"timeout": 0}), vec!["timeout", "from 1"]),
        ("/sandboxes/s/refreshes", json!({"duration": 3601}), vec!["duration", "3600"]),
        ("/sandboxes/s/pause", json!({"requireHealthyGuest": true}), vec!["requireHealthyGuest"]),
        ("/sandboxes/s/fork", json!({"count": 21}), vec!["count", "1 to 20"]),
        ("/sandboxes/s/snapshots", json!({"name": "a b"}), vec!["name"]),
    ] {
        api.post(path, body).await.fails(400, &words);
        assert!(api.fake.asked().is_empty(), "{path} {words:?}");
    }
}

#[tokio::test]
async fn only_a_create_says_whether_traffic_is_public() {
    let api = Api::new();
    for is_public in [true, false] {
        let body = json!({"allowPublicTraffic": is_public});
        api.ask("PUT", "/sandboxes/s/network", Some(body))
            .await
            .fails(400, &["allowPublicTraffic", "create"]);
    }
    assert!(api.fake.asked().is_empty());
}

#[tokio::test]
async fn a_wrong_parameter_is_named() {
    let api = Api::new();
    for (query, words) in [
        ("limit=0", ["limit", "1 to 100"]),
        ("limit=101", ["limit", "1 to 100"]),
        ("limit=x", ["limit", "whole number"]),
        ("limit=", ["limit", "whole number"]),
        ("startedAfter=", ["startedAfter", "2026"]),
        ("limit=1&limit=2", ["limit", "once"]),
        ("state=dead", ["state", "running, paused"]),
        ("order=up", ["order", "asc or desc"]),
        ("startedAfter=yesterday", ["startedAfter", "2026"]),
        ("metadata=novalue", ["metadata", "key=value"]),
        ("metadata=a%3D%2525FF", ["metadata", "UTF-8"]),
    ] {
        api.get(&format!("/v2/sandboxes?{query}")).await.fails(400, &words);
    }
    api.get("/sandboxes/s/metrics?start=9&end=3").await.fails(400, &["end", "not before start"]);
    api.get("/sandboxes/metrics").await.fails(400, &["sandbox_ids"]);
    api.get("/sandboxes/%FF").await.fails(400, &["path", "UTF-8"]);
}

#[tokio::test]
async fn a_wrong_header_is_named() {
    let api = Api::new();
    let duration = "x-e2b-kruise-reserve-paused-sandbox-duration";
    for (path, name, value) in [
        ("/v2/sandboxes", "Idempotency-Key", "a b"),
        ("/v2/sandboxes", "Idempotency-Key", ""),
        ("/sandboxes/s/pause", duration, "soon"),
        ("/sandboxes/s/pause", duration, "-1h"),
        ("/sandboxes/s/snapshots", "x-e2b-kruise-snapshot-ttl", "5 days"),
        ("/sandboxes/s/snapshots", "x-e2b-kruise-snapshot-keep-running", "maybe"),
        ("/sandboxes/s/snapshots", "x-e2b-kruise-snapshot-persistent-contents", "memory,ip"),
        ("/sandboxes/s/snapshots", "x-e2b-kruise-snapshot-wait-success-seconds", "0"),
    ] {
        let request = Request::post(path).header("X-API-KEY", KEY).header(name, value);
        let request = request.header("content-type", "application/json");
        api.send(request.body(Body::from(least().to_string())).unwrap()).await.fails(400, &[name]);
        assert!(api.fake.asked().is_empty());
    }
}

#[tokio::test]
async fn a_body_must_be_json_and_not_too_long() {
    let api = Api::new();
    let send = async |content: Option<&str>, body: Vec<u8>| {
        let mut request = Request::post("/v2/sandboxes").header("X-API-KEY", KEY);
        if let Some(content) = content {
            request = request.header("content-type", content);
        }
        api.send(request.body(Body::from(body)).unwrap()).await
    };
    let json = Some("application/json");
    send(Some("text/plain"), b"{}".to_vec()).await.fails(415, &["Content-Type", "application/json"]);
    send(None, b"{}".to_vec()).await.fails(415, &["Content-Type"]);
    send(json, b"{\"templateID\": ".to_vec()).await.fails(400, &["templateID", "EOF"]);
    send(json, b"{\"templateID\": \"b\"} x".to_vec()).await.fails(400, &["body", "trailing"]);
    send(json, b"\xff".to_vec()).await.fails(400, &["body"]);
    send(json, b"\r\n".to_vec()).await.fails(400, &["body", "object"]);
    send(json, vec![b' '; (1 << 20) + 1]).await.fails(413, &["1048576 bytes"]);
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there_are_answered_in_json() {
    let api = Api::new();
    api.get("/nothing").await.fails(404, &["no such path"]);
    api.get("/kruise/api/nothing").await.fails(404, &["no such path"]);
    let wrong = api.ask("PUT", "/v2/sandboxes", None).await;
    wrong.fails(405, &["PUT"]);
    let allowed = wrong.header("allow").unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
}

#[tokio::test]
async fn what_is_not_served_says_so() {
    let api = Api::new();
    for (method, path, word) in [
        ("POST", "/v3/templates", "SandboxSet"),
        ("POST", "/v2/templates/t/builds/b", "SandboxSet"),
        ("GET", "/templates/t/builds/b/status", "SandboxSet"),
        ("GET", "/templates/t/files/h", "SandboxSet"),
        ("POST", "/templates/tags", "SandboxSet"),
        ("GET", "/volumes", "no volumes"),
        ("DELETE", "/volumes/v", "no volumes"),
        ("GET", "/volumecontent/v/dir", "no volumes"),
        ("GET", "/secrets", "secrets"),
        ("POST", "/kruise/api/sandboxes/s/traffic-access-token", "traffic access tokens"),
        ("GET", "/browser/s/json/version", "9222"),
    ] {
        let reply = api.ask(method, path, None).await;
        reply.fails(501, &[word]);
        assert_eq!(reply.body["error_code"], "not_supported");
    }
    api.get("/browser/missing1/json/version").await.fails(404, &["missing1"]);
}

#[tokio::test]
async fn every_kind_of_failure_has_its_status_and_its_headers() {
    let api = Api::new();
    for (kind, status, code, again) in [
        (ErrorKind::Invalid, 400, None, None),
        (ErrorKind::NotFound, 404, None, None),
        (ErrorKind::Conflict, 409, None, None),
        (ErrorKind::QuotaExceeded, 403, Some("quota_exceeded"), None),
        (ErrorKind::Forbidden, 403, None, None),
        (ErrorKind::Unsupported, 501, Some("not_supported"), None),
        (ErrorKind::Busy, 429, None, None),
        (ErrorKind::Unavailable, 503, None, None),
        (ErrorKind::Unknown, 503, Some("outcome_unknown"), Some("false")),
        (ErrorKind::Timeout, 504, None, Some("false")),
        (ErrorKind::Internal, 500, None, Some("false")),
    ] {
        let mut error = Error::new(kind, "so it is");
        error.retry_after = Some(Duration::from_millis(1200));
        api.fake.fail(error);
        let reply = api.post("/v2/sandboxes", least()).await;
        reply.fails(status, &["so it is"]);
        assert_eq!(reply.body.get("error_code").and_then(|code| code.as_str()), code, "{kind:?}");
        assert_eq!(reply.header("should-retry"), again, "{kind:?}");
        assert_eq!(reply.header("retry-after"), Some("2"));
    }
}

#[tokio::test]
async fn anothers_sandbox_and_none_are_the_same_404() {
    let api = Api::new();
    for id in ["missing1", "a%20b", "x%2Fy"] {
        for (method, rest) in [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/connect")] {
            let reply = api.ask(method, &format!("/sandboxes/{id}{rest}"), None).await;
            reply.fails(404, &["sandbox ", " was not found"]);
        }
    }
}

#[tokio::test]
async fn a_panic_is_a_500_that_is_not_sent_again() {
    let api = Api::new();
    api.fake.panic();
    let reply = api.get("/sandboxes/sbx1").await;
    reply.fails(500, &["Internal Server Error"]);
    assert_eq!(reply.header("should-retry"), Some("false"));
}

#[tokio::test]
async fn a_request_keeps_its_id_or_gets_one() {
    let api = Api::new();
    let given = |id: &str| Request::get("/health").header("X-Request-ID", id).body(Body::empty()).unwrap();
    assert_eq!(api.send(given("abc-1.2:3_4")).await.header("x-request-id"), Some("abc-1.2:3_4"));
    for wrong in ["", "a b", "<script>", &"x".repeat(129)] {
        let reply = api.send(given(wrong)).await;
        let made = reply.header("x-request-id").unwrap();
        assert!(made.len() == 32 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
    }
    let [one, two] = [api.get("/nothing").await, api.get("/nothing").await];
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
}

#[tokio::test]
async fn a_token_is_in_answers_and_in_no_debug_text() {
    let described = super::fake::described("sbx1");
    assert!(!format!("{described:?}").contains(TOKEN));
    let api = Api::new();
    let list = api.get("/v2/sandboxes").await;
    assert!(!list.body.to_string().contains(TOKEN), "a list shows no tokens");
    assert_eq!(list.header("cache-control"), Some("no-store"));
}
