//! What the gateway answers itself: each state, each dialect, each reader.

use sandgate_tests::{Gateway, Request, Sandbox, route, routes};
use serde_json::{Value, json};

use crate::support::{PORT, ask, assert_refused, sandbox};

/// A request of each dialect for an object of the namespace `default`, and whether it is OpenSandbox's.
fn dialects(name: &str) -> Vec<(Request, bool)> {
    let id = format!("default--{name}");
    let port = PORT.to_string();
    vec![
        (ask(&id), false),
        (Request::get(&format!("/kruise/{id}/{port}/")), false),
        (Request::get("/").host(&format!("{port}-{id}.sandbox.test")), false),
        (Request::get("/").header("x-sandbox-id", name).header("x-sandbox-port", &port), false),
        (Request::get("/").header("opensandbox-ingress-to", format!("{id}-{port}")), true),
        (Request::get("/").host(&format!("{id}-{port}.sandbox.test")), true),
        (Request::get(&format!("/{id}/{port}/")), true),
    ]
}

async fn every_state() -> (Sandbox, Gateway) {
    let sandbox = sandbox("up").await;
    // All have the address of a sandbox that answers: only the state keeps them from it.
    let entry = |state: &str| route(state).state(state).ip(sandbox.ip());
    let mut entries: Vec<_> = ["creating", "available", "running", "paused", "dead"].map(entry).into();
    entries.push(route("nowhere").state("creating"));
    let gateway = Gateway::serving(&routes(entries)).await;
    (sandbox, gateway)
}

#[tokio::test]
async fn only_running_is_served_and_every_other_state_says_what_it_is() {
    let (sandbox, gateway) = every_state().await;
    for (request, _) in dialects("running") {
        assert_eq!(gateway.send(request).await.sandbox(), "up");
    }
    let served = sandbox.requests();
    for (name, state) in
        [("creating", "creating"), ("available", "available"), ("paused", "paused"), ("nowhere", "creating")]
    {
        for (request, opensandbox) in dialects(name) {
            let reply = gateway.send(request).await;
            assert_refused(&gateway, &reply, if opensandbox { 503 } else { 502 }, "sandbox_not_running")
                .await;
            let body = reply.json();
            assert_eq!(
                (&body["state"], &body["sandbox"]),
                (&json!(state), &json!(format!("default--{name}")))
            );
            assert_eq!(reply.header("cache-control"), "no-store");
        }
    }
    assert_eq!(sandbox.requests(), served, "a sandbox that is not running got a request");
    gateway.stat_is("sandgate.rq_forwarded", 7).await;
    gateway.stat_is("sandgate.rq_not_running", 28).await;
}

#[tokio::test]
async fn the_dead_and_the_unknown_are_not_found() {
    let (sandbox, gateway) = every_state().await;
    for name in ["dead", "never-seen"] {
        for (request, opensandbox) in dialects(name) {
            let reply = gateway.send(request).await;
            assert_refused(&gateway, &reply, if opensandbox { 404 } else { 502 }, "sandbox_not_found").await;
            let body = reply.json();
            assert_eq!(
                (&body["state"], &body["sandbox"]),
                (&Value::Null, &json!(format!("default--{name}")))
            );
        }
    }
    assert_eq!(sandbox.requests(), 0);
    gateway.stat_is("sandgate.rq_not_found", 14).await;
}

#[tokio::test]
async fn a_browser_that_navigates_reads_a_page_and_every_program_reads_json() {
    let (_sandbox, gateway) = every_state().await;
    let pages = [
        ask("default--paused").header("sec-fetch-mode", "navigate").header("accept", "text/html,*/*;q=0.8"),
        ask("default--paused").header("accept", "text/html,application/xhtml+xml;q=0.9"),
    ];
    for request in pages {
        let reply = gateway.send(request).await;
        assert_eq!((reply.status, reply.header("content-type")), (502, "text/html; charset=utf-8"));
        let page = reply.text();
        assert!(page.starts_with("<!doctype html>"), "{page}");
        for part in [
            "<title>The sandbox is paused</title>",
            "<h1>The sandbox is paused</h1>",
            "default--paused",
            "502",
        ] {
            assert!(page.contains(part), "no {part} in {page}");
        }
        assert!(!page.contains("<script"), "{page}");
        assert!(reply.header("content-security-policy").contains("default-src 'none'"));
        assert_eq!(gateway.access(&reply).await.details, "sandbox_not_running");
    }
    let programs = [
        ask("default--paused"),
        ask("default--paused").header("accept", "*/*"),
        ask("default--paused").header("accept", "application/json, text/html"),
        ask("default--paused").header("sec-fetch-mode", "cors").header("accept", "text/html"),
        ask("default--paused").method("POST").header("accept", "text/html"),
    ];
    for request in programs {
        let reply = gateway.send(request).await;
        assert_refused(&gateway, &reply, 502, "sandbox_not_running").await;
    }
}

#[tokio::test]
async fn a_head_request_gets_the_status_and_no_body() {
    let (_sandbox, gateway) = every_state().await;
    let mut client = gateway.client().await;
    for name in ["paused", "unknown"] {
        let reply = client.send(ask(&format!("default--{name}")).method("HEAD")).await.expect("an answer");
        assert_eq!((reply.status, reply.body.len()), (502, 0));
    }
    // The connection is still in step.
    assert_eq!(client.send(ask("default--running")).await.expect("an answer").sandbox(), "up");
}
