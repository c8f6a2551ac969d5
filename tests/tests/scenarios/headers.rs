//! What the sandbox is told about itself, and what a client cannot make anybody believe.

use sandgate_tests::{Gateway, Request, Sandbox, route, routes};
use serde_json::json;

use crate::support::{PORT, ask, sandbox, split_routes, splitting};

async fn two(filter: serde_json::Value) -> (Sandbox, Sandbox, Sandbox, Gateway) {
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
    let lies = ask("default--mine")
        .header("x-sandbox-id", "default--other")
        .header("x-sandbox-id", "again")
        .header("x-sandbox-uid", "uid-of-other")
        .header("x-sandbox-uid", "again");
    let reply = gateway.send(lies).await;
    assert_eq!(reply.sandbox(), "mine");
    assert_eq!(
        (reply.seen("x-sandbox-id"), reply.seen("x-sandbox-uid")),
        (vec!["default--mine".to_owned()], vec!["uid-of-mine".to_owned()])
    );
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
