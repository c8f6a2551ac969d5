//! What a sandbox can make the gateway say: anything to its client, nothing to the infrastructure in between.

use sandgate_tests::{Builder, Gateway, RawSandbox, Request, raw_exchange, route, routes};
use serde_json::json;

use crate::support::assert_answered;

/// A gateway with one sandbox, `raw`.
fn serving(sandbox: &RawSandbox) -> Builder {
    Gateway::builder().routes(&routes([route("raw").ip(sandbox.ip())]))
}

fn ask(sandbox: &RawSandbox) -> Request {
    Request::get("/")
        .header("e2b-sandbox-id", "default--raw")
        .header("e2b-sandbox-port", sandbox.port().to_string())
}

/// Names that an Envoy in front, this Envoy's router or another Sandgate would read.
const INTERNAL: [&str; 8] = [
    "x-envoy-immediate-health-check-fail",
    "x-envoy-overloaded",
    "x-envoy-ratelimited",
    "x-envoy-upstream-service-time",
    "x-envoy-decorator-operation",
    "x-sandgate-route",
    "x-sandbox-id",
    "x-sandbox-uid",
];

fn speaking() -> String {
    let internal: String = INTERNAL.map(|name| format!("{name}: 1\r\n{name}: 2\r\n")).concat();
    format!("HTTP/1.1 200 OK\r\nX-Envoy-Anything: 1\r\n{internal}x-own: kept\r\ncontent-length: 2\r\n\r\nok")
}

#[tokio::test]
async fn a_sandboxs_answer_says_nothing_to_the_infrastructure() {
    let sandbox = RawSandbox::answering(speaking()).await;
    for builder in [serving(&sandbox), serving(&sandbox).original_dst()] {
        let gateway = builder.start().await;
        let reply = gateway.send(ask(&sandbox)).await;
        assert_eq!((reply.status, reply.text(), reply.header("x-own")), (200, "ok", "kept"));
        let told: Vec<_> = reply
            .headers
            .keys()
            .filter(|name| name.as_str().starts_with("x-") && name.as_str() != "x-own")
            .collect();
        assert!(told.is_empty(), "{told:?}");
    }
}

#[tokio::test]
async fn more_headers_than_are_usual_hide_none() {
    let many: String = (0..80).map(|number| format!("x-own-{number}: {number}\r\n")).collect();
    let answer = format!(
        "HTTP/1.1 200 OK\r\n{many}x-envoy-immediate-health-check-fail: true\r\ncontent-length: 0\r\n\r\n"
    );
    let sandbox = RawSandbox::answering(answer).await;
    let gateway = serving(&sandbox).start().await;
    let reply = gateway.send(ask(&sandbox)).await;
    assert_eq!((reply.status, reply.header("x-own-79")), (200, "79"));
    assert_eq!(reply.header("x-envoy-immediate-health-check-fail"), "");
}

#[tokio::test]
async fn an_answer_that_is_no_sandboxs_is_left_as_it_is() {
    let rest = RawSandbox::answering(speaking()).await;
    let (ip, port) = (rest.ip().to_string(), rest.port());
    let gateway = Gateway::builder()
        .routes(&routes([]))
        .envoy_route(json!({ "match": { "prefix": "/" }, "route": { "cluster": "rest" } }))
        .adjust(move |config| {
            let address = json!({ "socket_address": { "address": ip, "port_value": port } });
            let clusters =
                config["static_resources"]["clusters"].as_array_mut().expect("clusters are a list");
            clusters.push(json!({
                "name": "rest",
                "type": "STATIC",
                "load_assignment": { "cluster_name": "rest", "endpoints": [
                    { "lb_endpoints": [{ "endpoint": { "address": address } }] },
                ]},
            }));
        })
        .start()
        .await;
    let reply = gateway.send(Request::get("/").host("www.test")).await;
    assert_eq!(
        (reply.status, reply.header("x-envoy-anything"), reply.header("x-sandbox-id")),
        (200, "1", "1")
    );
}

#[tokio::test]
async fn a_status_outside_200_to_599_becomes_502() {
    for status in ["600", "777", "999", "199", "150", "000"] {
        let sandbox =
            RawSandbox::answering(format!("HTTP/1.1 {status} Odd\r\ncontent-length: 3\r\n\r\nodd")).await;
        let gateway = serving(&sandbox).start().await;
        let reply = gateway.send(ask(&sandbox)).await;
        assert_eq!((status, reply.status), (status, 502), "{}", reply.text());
        assert!(!reply.text().contains("odd"), "{}", reply.text());
        let access = gateway.access(&reply).await;
        // Envoy refuses some of them itself; what reaches the filter has a detail of its own.
        if matches!(status, "600" | "777" | "999") {
            assert_eq!(access.details, "sandbox_bad_status", "{status}");
            assert_answered(&gateway, &reply, 502, "sandbox_bad_status").await;
            assert_eq!(gateway.stat("sandgate.rq_bad_status").await, Some(1));
        }
        assert_eq!(sandbox.requests(), 1, "a request that was sent is never sent again");
    }
}

#[tokio::test]
async fn a_switch_of_protocols_that_nobody_asked_for_becomes_502() {
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nsecret bytes";
    let sandbox = RawSandbox::answering(switch).await;
    let gateway = serving(&sandbox).start().await;
    let request = |more: &str| {
        format!(
            "GET / HTTP/1.1\r\nhost: x\r\ne2b-sandbox-id: default--raw\r\ne2b-sandbox-port: {}\r\n{more}\r\n\r\n",
            sandbox.port()
        )
    };
    let answer = raw_exchange(gateway.address(), request("connection: close").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && !answer.contains("secret bytes"), "{answer}");
    // One that was asked for goes through, bytes and all.
    let asked = request("connection: upgrade\r\nupgrade: websocket");
    let answer = raw_exchange(gateway.address(), asked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.ends_with("secret bytes"), "{answer}");
}
