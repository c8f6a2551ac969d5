//! Who is let in, and how often.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use http::Request;

use super::Api;
use super::fake::KEY;
use crate::api::{ApiSettings, Peer, Rate};

fn with_key(key: &str) -> http::request::Builder {
    Request::get("/v2/sandboxes").header("X-API-KEY", key)
}

async fn ask(api: &Api, key: &str, peer: [u8; 4]) -> super::Reply {
    let peer = Peer(IpAddr::from(peer));
    api.send(with_key(key).extension(peer).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn an_unknown_key_and_none_get_the_same_words() {
    let api = Api::new();
    let none = api.send(Request::get("/v2/sandboxes").body(Body::empty()).unwrap()).await;
    let two = api.send(with_key(KEY).header("X-API-KEY", KEY).body(Body::empty()).unwrap()).await;
    let long = api.send(with_key(&"k".repeat(600)).body(Body::empty()).unwrap()).await;
    let bearer = Request::get("/v2/sandboxes").header("Authorization", format!("Bearer {KEY}"));
    let bearer = api.send(bearer.body(Body::empty()).unwrap()).await;
    for reply in [none, two, long, bearer, ask(&api, "e2b_00", [10, 0, 0, 1]).await] {
        reply.fails(401, &["Invalid API Key"]);
    }
    assert!(api.fake.asked().is_empty());
}

#[tokio::test]
async fn every_served_path_needs_a_key() {
    let api = Api::with(ApiSettings { failures: Rate { per_second: 0, burst: 0 }, ..ApiSettings::default() });
    let document = serde_json::to_value(crate::document()).unwrap();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys().filter(|_| path != "/health") {
            for prefix in ["", "/kruise/api"] {
                let uri = format!("{prefix}{}", path.replace(['{', '}'], ""));
                let request = Request::builder().method(method.to_uppercase().as_str()).uri(&uri);
                api.send(request.body(Body::empty()).unwrap()).await.fails(401, &["Invalid API Key"]);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_asks_as_often_as_it_may() {
    let api = Api::with(ApiSettings { rate: Rate { per_second: 2, burst: 3 }, ..ApiSettings::default() });
    for _ in 0..3 {
        assert_eq!(api.get("/v2/sandboxes").await.status, 200);
    }
    let refused = api.get("/v2/sandboxes").await;
    refused.fails(429, &["too many requests"]);
    assert_eq!(refused.header("retry-after"), Some("1"));
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(api.get("/v2/sandboxes").await.status, 200);
    assert_eq!(api.get("/v2/sandboxes").await.status, 429);
}

#[tokio::test(start_paused = true)]
async fn wrong_keys_are_limited_for_each_address_and_hurt_nobody_else() {
    let failures = Rate { per_second: 1, burst: 2 };
    let api = Api::with(ApiSettings { failures, ..ApiSettings::default() });
    for _ in 0..2 {
        assert_eq!(ask(&api, "wrong", [10, 0, 0, 1]).await.status, 401);
    }
    ask(&api, "wrong", [10, 0, 0, 1]).await.fails(429, &["invalid API key"]);
    assert_eq!(ask(&api, "wrong", [10, 0, 0, 2]).await.status, 401, "another address");
    assert_eq!(ask(&api, KEY, [10, 0, 0, 1]).await.status, 200, "a valid key from there");
}
