//! What the sandbox is told about itself, and what a client cannot make anybody believe.

use sandgate_tests::{Gateway, Request, Sandbox, WebSocket, route, routes};
use serde_json::{Value, json};

use crate::support::{PORT, ask, assert_refused, sandbox, split_routes, splitting};

async fn two(filter: Value) -> (Sandbox, Sandbox, Sandbox, Gateway) {
    let (mine, other, rest) = (sandbox("mine").await, sandbox("other").await, sandbox("rest").await);
    let builder = Gateway::builder()
        .routes(&routes([
            route("mine").set("uid", "uid-of-mine").ip(mine.ip()),
            route("other").set("uid", "uid-of-other").ip(other.ip()),
        ]))
        .filter(filter);
    let gateway = split_routes(builder, &rest).start().await;
    (mine, other, rest, gateway)
}

#[tokio::test]
async fn the_sandbox_gets_its_own_id_and_uid_whatever_the_client_sent() {
    let (_mine, _other, _rest, gateway) = two(splitting(json!({}))).await;
    let forms = [
        ask("default--mine"),
        Request::get("/kruise/default--mine/8000/"),
        Request::get("/").host("8000-default--mine.sandbox.test"),
        Request::get("/default--mine/8000/"),
        Request::get("/").header("x-sandbox-id", "mine").header("x-sandbox-port", "8000"),
    ];
    for request in forms {
        let reply = gateway.send(request).await;
        assert_eq!(reply.sandbox(), "mine");
        assert_eq!(
            (reply.seen("x-sandbox-id"), reply.seen("x-sandbox-uid")),
            (vec!["default--mine".to_owned()], vec!["uid-of-mine".to_owned()])
        );
    }
    // Where nobody reads them they are the client's to send, and not the sandbox's to believe.
    let off = json!({ "dialects": { "agent-sandbox": { "enabled": false } } });
    let (_mine, _other, _rest, gateway) = two(splitting(off)).await;
    let lies = ask("default--mine").header("x-sandbox-id", "default--other").header("x-sandbox-id", "again");
    let reply = gateway.send(lies).await;
    assert_eq!(reply.sandbox(), "mine");
    assert_eq!(
        (reply.seen("x-sandbox-id"), reply.seen("x-sandbox-uid")),
        (vec!["default--mine".to_owned()], vec!["uid-of-mine".to_owned()])
    );
}

#[tokio::test]
async fn an_address_or_a_token_that_is_sent_twice_is_refused_before_anybody_reads_it() {
    let (mine, other, rest, gateway) = two(splitting(json!({}))).await;
    let named = || Request::get("/").header("x-sandbox-id", "mine");
    let cases = [
        (ask("default--mine"), "e2b-sandbox-id", "default--other"),
        (ask("default--mine"), "e2b-sandbox-port", "8888"),
        (
            Request::get("/").header("opensandbox-ingress-to", "default--mine-8000"),
            "opensandbox-ingress-to",
            "x-1",
        ),
        (
            Request::get("/").header("opensandbox-ingress-to", "default--mine-8000"),
            "open-sandbox-ingress",
            "x-1",
        ),
        (named(), "x-sandbox-id", "other"),
        (named().header("x-sandbox-namespace", "default"), "x-sandbox-namespace", "team"),
        (named().header("x-sandbox-port", "8000"), "x-sandbox-port", "8888"),
        (named().header("x-sandbox-uid", "uid-of-mine"), "x-sandbox-uid", "uid-of-mine"),
        (ask("default--mine").header("x-access-token", "a"), "x-access-token", "b"),
        (ask("default--mine").header("opensandbox-secure-access", "a"), "opensandbox-secure-access", "a"),
    ];
    let mut http2 = gateway.http2_client().await;
    for (request, name, again) in cases {
        let again = request.header(name, again);
        let reply = gateway.send(again).await;
        assert_refused(&gateway, &reply, 400, "duplicate_header").await;
    }
    let twice = ask("default--mine").header("e2b-sandbox-id", "default--mine");
    let reply = http2.send(twice).await.expect("an answer");
    assert_refused(&gateway, &reply, 400, "duplicate_header").await;
    assert_eq!((mine.requests(), other.requests(), rest.requests()), (0, 0, 0));
    // More headers than the module reads at once make no difference.
    let many = (0..40).fold(ask("default--mine"), |request, n| request.header(&format!("x-filler-{n}"), "x"));
    let reply = gateway.send(many.header("x-access-token", "a").header("x-access-token", "b")).await;
    assert_refused(&gateway, &reply, 400, "duplicate_header").await;
    assert_eq!(gateway.send(ask("default--mine")).await.sandbox(), "mine");
}

#[tokio::test]
async fn a_header_with_underscores_reaches_no_sandbox() {
    let (_mine, _other, _rest, gateway) = two(splitting(json!({}))).await;
    let request = ask("default--mine")
        .header("x_sandbox_id", "default--other")
        .header("x_sandbox-uid", "uid-of-other")
        .header("x_access_token", "stolen")
        .header("x-plain", "kept");
    let mut http2 = gateway.http2_client().await;
    let over_http2 = http2.send(ask("default--mine").header("x_sandbox_id", "x")).await.expect("an answer");
    for reply in [gateway.send(request).await, over_http2] {
        assert_eq!(reply.sandbox(), "mine");
        for name in ["x_sandbox_id", "x_sandbox-uid", "x_access_token"] {
            assert!(reply.seen(name).is_empty(), "{name}: {}", reply.text());
        }
        assert_eq!(reply.seen("x-sandbox-id"), ["default--mine"]);
    }
}

#[tokio::test]
async fn a_client_cannot_have_the_headers_dropped_that_name_the_sandbox() {
    let (_mine, _other, _rest, gateway) = two(splitting(json!({}))).await;
    let assert_kept = |seen: &Value, listed: &str| {
        assert_eq!(seen["headers"]["x-sandbox-id"], json!(["default--mine"]), "{listed}: {seen}");
        assert_eq!(seen["headers"]["x-sandbox-uid"], json!(["uid-of-mine"]), "{listed}: {seen}");
        let connection = seen["headers"]["connection"].to_string().to_ascii_lowercase();
        assert!(!connection.contains("x-sandbox"), "{listed}: {seen}");
    };
    for listed in ["x-sandbox-id, X-Sandbox-Uid", "keep-alive,x-sandbox-id"] {
        let reply = gateway.send(ask("default--mine").header("connection", listed)).await;
        assert_kept(&reply.json(), listed);
    }
    let lines = ask("default--mine").header("connection", "keep-alive").header("connection", "x-sandbox-uid");
    assert_kept(&gateway.send(lines).await.json(), "two lines");
    // Envoy sends the header on with an upgrade.
    for listed in ["Upgrade, x-sandbox-id, X-Sandbox-Uid", "x-sandbox-id,Upgrade", "Upgrade"] {
        let host = "8000-default--mine.sandbox.test";
        let headers = [("connection", listed)];
        let mut socket =
            WebSocket::open(gateway.address(), Some(host), "/ws-seen", &headers).await.expect("a WebSocket");
        let seen = socket.next().await.expect("what the sandbox saw");
        assert_kept(&serde_json::from_str(&seen).expect("JSON"), listed);
        socket.send("still there").await;
        assert_eq!(socket.next().await.as_deref(), Some("still there"));
    }
}

#[tokio::test]
async fn no_header_of_a_client_chooses_the_upstream() {
    let (mine, other, rest, gateway) = two(splitting(json!({}))).await;
    let target = format!("{}:{PORT}", other.ip());
    let lie = |request: Request| {
        request
            .header("x-envoy-original-dst-host", &target)
            .header("x-envoy-original-dst-host", &target)
            .header("x-sandgate-route", "sandbox")
            .header("x-sandgate-route", "again")
            .header("x-sandbox-pod-ip", other.ip().to_string())
    };
    let reply = gateway.send(lie(ask("default--mine"))).await;
    assert_eq!(reply.sandbox(), "mine");
    assert_eq!(reply.seen("x-envoy-original-dst-host"), Vec::<String>::new());
    // The one that is there is the gateway's own.
    assert_eq!(reply.seen("x-sandgate-route"), ["sandbox"]);
    assert_eq!(gateway.access(&reply).await.upstream, mine.authority());
    // A request to no sandbox goes where it goes without the lies, and does not carry them.
    let reply = gateway.send(lie(Request::get("/").host("www.test"))).await;
    assert_eq!(reply.sandbox(), "rest");
    for name in ["x-envoy-original-dst-host", "x-sandgate-route"] {
        assert_eq!(reply.seen(name), Vec::<String>::new(), "{name}");
    }
    assert_eq!((other.requests(), rest.requests()), (0, 1));
}

#[tokio::test]
async fn with_the_shipped_routes_a_client_cannot_choose_the_upstream_either() {
    let (mine, other) = (sandbox("mine").await, sandbox("other").await);
    let gateway =
        Gateway::serving(&routes([route("mine").ip(mine.ip()), route("other").ip(other.ip())])).await;
    let target = format!("{}:{PORT}", other.ip());
    let reply = gateway.send(ask("default--mine").header("x-envoy-original-dst-host", &target)).await;
    assert_eq!(reply.sandbox(), "mine");
    assert!(reply.seen("x-envoy-original-dst-host").is_empty() && reply.seen("x-sandgate-route").is_empty());
    // Passed on, and nowhere to go: not to where the header points, and not in a circle.
    let reply =
        gateway.send(Request::get("/").host("www.test").header("x-envoy-original-dst-host", &target)).await;
    assert_eq!(reply.status, 503);
    assert_eq!(other.requests(), 0);
    assert_eq!(gateway.stat("http.gateway.downstream_rq_total").await, Some(2));
}

#[tokio::test]
async fn what_the_client_sends_for_the_sandbox_arrives() {
    let (_mine, _other, _rest, gateway) = two(splitting(json!({}))).await;
    let request = ask("default--mine")
        .method("PATCH")
        .header("authorization", "Bearer user-token")
        .header("origin", "https://app.test")
        .header("cookie", "a=1; b=2");
    let reply = gateway.send(request).await;
    assert_eq!(reply.json()["method"], "PATCH");
    assert_eq!(reply.seen("authorization"), ["Bearer user-token"]);
    assert_eq!(reply.seen("origin"), ["https://app.test"]);
    assert_eq!(reply.seen("cookie"), ["a=1; b=2"]);
    assert_eq!(reply.seen("e2b-sandbox-id"), ["default--mine"]);
}
