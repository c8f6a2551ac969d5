//! Access tokens.

use sandgate_tests::{Gateway, Request, SECRET, Sandbox, route, routes};
use serde_json::json;

use crate::support::{ask, assert_refused, sandbox};

mod callers;
mod clients;
mod jwt;
mod signed;

async fn guarded(enable: bool) -> (Sandbox, Gateway) {
    let up = sandbox("up").await;
    let gateway = Gateway::builder()
        .routes(&routes([
            route("guarded").token(SECRET).ip(up.ip()),
            route("open").ip(up.ip()),
            route("jwt").token(SECRET).set("require-traffic-auth", true).ip(up.ip()),
            route("asleep").token(SECRET).state("paused").ip(up.ip()),
        ]))
        .filter(json!({ "enable-auth": enable }))
        .start()
        .await;
    (up, gateway)
}

/// A request of each dialect, with the header its token is in.
fn dialects(name: &str) -> [(Request, &'static str); 3] {
    let id = format!("default--{name}");
    [
        (ask(&id), "x-access-token"),
        (Request::get("/").header("x-sandbox-id", name).header("x-sandbox-port", "8000"), "x-access-token"),
        (
            Request::get("/").header("opensandbox-ingress-to", format!("{id}-8000")),
            "opensandbox-secure-access",
        ),
    ]
}

#[tokio::test]
async fn the_right_token_is_let_in_and_every_other_is_401() {
    let (up, gateway) = guarded(true).await;
    for (request, header) in dialects("guarded") {
        assert_eq!(gateway.send(request.header(header, SECRET)).await.sandbox(), "up", "{header}");
    }
    let longer = format!("{SECRET}x");
    let upper = SECRET.to_uppercase();
    for wrong in ["", "x", &SECRET[1..], &longer, &upper] {
        for (request, header) in dialects("guarded") {
            let reply = gateway.send(request.header(header, wrong)).await;
            assert_refused(&gateway, &reply, 401, "unauthorized").await;
        }
    }
    for (request, _) in dialects("guarded") {
        assert_refused(&gateway, &gateway.send(request).await, 401, "unauthorized").await;
    }
    // A token in the wrong place is none.
    for (request, _) in dialects("guarded") {
        let reply = gateway.send(request.header("authorization", format!("Bearer {SECRET}"))).await;
        assert_refused(&gateway, &reply, 401, "unauthorized").await;
    }
    assert_eq!(up.requests(), 3);
    gateway.stat_is("sandgate.rq_unauthorized", 21).await;
}

#[tokio::test]
async fn a_route_without_a_token_passes_and_the_token_is_asked_for_before_the_state_is_told() {
    let (_up, gateway) = guarded(true).await;
    for (request, header) in dialects("open") {
        assert_eq!(gateway.send(request.header(header, "anything")).await.sandbox(), "up");
    }
    for (request, _) in dialects("open") {
        assert_eq!(gateway.send(request).await.sandbox(), "up");
    }
    assert_refused(&gateway, &gateway.send(ask("default--asleep")).await, 401, "unauthorized").await;
    let reply = gateway.send(ask("default--asleep").header("x-access-token", SECRET)).await;
    assert_refused(&gateway, &reply, 502, "sandbox_not_running").await;
}

#[tokio::test]
async fn without_enable_auth_no_token_is_asked_for() {
    let (_up, gateway) = guarded(false).await;
    for (request, header) in dialects("guarded") {
        assert_eq!(gateway.send(request.header(header, "wrong")).await.sandbox(), "up");
    }
}

#[tokio::test]
async fn a_route_that_needs_a_verified_traffic_token_is_closed_until_there_is_a_verifier() {
    for enable in [true, false] {
        let (up, gateway) = guarded(enable).await;
        for (request, header) in dialects("jwt") {
            let request = request.header(header, SECRET).header("e2b-traffic-access-token", "a.b.c");
            assert_refused(&gateway, &gateway.send(request).await, 503, "jwt_verifier_not_ready").await;
        }
        assert_eq!(up.requests(), 0);
    }
}

#[tokio::test]
async fn a_sandbox_that_its_owner_has_closed_is_served_with_its_token_only_without_enable_auth() {
    let up = sandbox("up").await;
    let gateway = Gateway::serving(&routes([
        route("closed").set("secure-access-token", SECRET).ip(up.ip()),
        route("runtime").token(SECRET).ip(up.ip()),
    ]))
    .await;
    const HEADER: &str = "OpenSandbox-Secure-Access";
    for (request, _) in dialects("closed") {
        let reply = gateway.send(request).await;
        assert_refused(&gateway, &reply, 401, "unauthorized").await;
        let message = reply.json()["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("opensandbox-secure-access") && !message.contains(SECRET), "{message}");
    }
    for (request, _) in dialects("closed") {
        let wrong = gateway.send(request.header("x-access-token", SECRET)).await;
        assert_refused(&gateway, &wrong, 401, "unauthorized").await;
    }
    assert_eq!(up.requests(), 0);
    for name in ["closed", "runtime"] {
        for (request, _) in dialects(name) {
            let reply = gateway.send(request.header(HEADER, format!(" {SECRET} "))).await;
            assert_eq!(reply.sandbox(), "up", "{name}");
            assert!(reply.seen("opensandbox-secure-access").is_empty(), "{}", reply.text());
        }
    }
    // The runtime checks its own token, so it gets it.
    let reply = gateway.send(ask("default--runtime").header("x-access-token", SECRET)).await;
    assert_eq!(reply.seen("x-access-token"), [SECRET]);
}

#[tokio::test]
async fn a_sandbox_without_public_traffic_is_reached_with_its_token_and_envd_without() {
    const HEADER: &str = "e2b-traffic-access-token";
    let up = sandbox("up").await;
    let entries = [
        route("private").set("traffic-access-token", SECRET).ip(up.ip()),
        route("asleep").set("traffic-access-token", SECRET).state("paused"),
    ];
    let gateway = Gateway::serving(&routes(entries)).await;
    let reply = gateway.send(ask("default--private").header(HEADER, SECRET)).await;
    assert_eq!(reply.sandbox(), "up");
    assert!(reply.seen(HEADER).is_empty(), "{}", reply.text());
    for id in ["default--private", "default--asleep"] {
        for wrong in [None, Some(""), Some("x"), Some(&SECRET[1..])] {
            let request = wrong.iter().fold(ask(id), |request, wrong| request.header(HEADER, wrong));
            let reply = gateway.send(request).await;
            assert_refused(&gateway, &reply, 403, "traffic_token_invalid").await;
        }
    }
    let envd = Request::get("/").header("e2b-sandbox-id", "default--private");
    assert_eq!((gateway.send(envd).await.sandbox(), up.requests()), ("up".into(), 2));
}

#[tokio::test]
async fn a_signed_url_of_a_file_reaches_envd_without_a_header_and_nothing_else_does() {
    let (_up, gateway) = guarded(true).await;
    let host = "49983-default--guarded.sandbox.test";
    let signed = "/files?path=%2Fa&username=user&signature=v1_abc";
    let reply = gateway.send(Request::get(signed).host(host)).await;
    assert_eq!((reply.sandbox(), reply.seen_path()), ("up".into(), signed.into()), "envd gets all of it");
    for path in ["/files?path=%2Fa&username=user", "/process.Process/Start?signature=v1_abc"] {
        let reply = gateway.send(Request::get(path).host(host)).await;
        assert_refused(&gateway, &reply, 401, "unauthorized").await;
    }
    let elsewhere = Request::get(signed).host("8000-default--guarded.sandbox.test");
    assert_refused(&gateway, &gateway.send(elsewhere).await, 401, "unauthorized").await;
}

#[tokio::test]
async fn with_require_token_only_sandboxes_that_ask_are_served() {
    let up = sandbox("up").await;
    let gateway = Gateway::builder()
        .routes(&routes([
            route("open").ip(up.ip()),
            route("closed").set("secure-access-token", SECRET).ip(up.ip()),
        ]))
        .filter(json!({ "require-token": true }))
        .start()
        .await;
    assert_refused(&gateway, &gateway.send(ask("default--open")).await, 403, "token_required").await;
    let reply = gateway.send(ask("default--closed").header("opensandbox-secure-access", SECRET)).await;
    assert_eq!(reply.sandbox(), "up");
}
