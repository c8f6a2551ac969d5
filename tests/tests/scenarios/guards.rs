//! What a sandbox is guarded from, and how long a client is kept waiting for one: the rate of requests,
//! timeouts, and ports that are not open yet.

use std::time::{Duration, Instant};

use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use sandgate_tests::{
    Gateway, Pattern, Place, Reply, Request, Sandbox, WebSocket, replace_by_rename, route, routes,
};
use serde_json::{Value, json};

use crate::support::{AGENT_SANDBOX_PORT, KRUISE_PORT, PORT, ask, assert_answered, assert_refused, sandbox};
use crate::upstream::Deaf;

/// The sandbox `demo` behind a gateway with this filter config.
async fn demo_with(filter: Value) -> (Sandbox, Gateway) {
    let demo = sandbox("demo").await;
    let routes = routes([route("demo").ip(demo.ip())]);
    let gateway = Gateway::builder().routes(&routes).filter(filter).start().await;
    (demo, gateway)
}

fn on_port(port: u16) -> Request {
    Request::get("/").header("e2b-sandbox-id", "default--demo").header("e2b-sandbox-port", port.to_string())
}

/// As the SDK of agent-sandbox asks.
fn as_agent_sandbox(path: &str) -> Request {
    Request::get(path).header("x-sandbox-id", "demo").header("x-sandbox-namespace", "default")
}

/// How far Envoy's clock may be behind.
const SLACK: u128 = 50;

async fn timed(gateway: &Gateway, request: Request) -> (Reply, Duration) {
    let begin = Instant::now();
    (gateway.send(request).await, begin.elapsed())
}

#[tokio::test]
async fn a_sandbox_gets_a_burst_and_no_more_over_all_ports_and_workers_and_others_get_theirs() {
    let (demo, other) = (sandbox("demo").await, sandbox("other").await);
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip()), route("other").ip(other.ip())]))
        .filter(json!({ "limits": { "requests-per-second": 0.01, "burst": 6 } }))
        .start()
        .await;
    // The first on each port is held until Envoy has the host, and counts once.
    for port in [PORT, KRUISE_PORT, AGENT_SANDBOX_PORT, PORT, KRUISE_PORT, AGENT_SANDBOX_PORT] {
        assert_eq!(gateway.send(on_port(port)).await.sandbox(), "demo");
    }
    for port in [PORT, 9] {
        let refused = gateway.send(on_port(port)).await;
        assert_refused(&gateway, &refused, 429, "sandbox_rate_limited").await;
        let wait: u64 = refused.header("retry-after").parse().expect("whole seconds");
        assert!((50..=100).contains(&wait), "one request in 100 seconds, and the last was now: {wait}");
    }
    assert_eq!(gateway.send(ask("default--other")).await.sandbox(), "other");
    assert_eq!((demo.requests(), gateway.stat("sandgate.rq_rate_limited").await), (6, Some(2)));
}

#[tokio::test]
async fn a_client_that_comes_again_when_it_was_told_to_is_served() {
    let (demo, gateway) = demo_with(json!({ "limits": { "requests-per-second": 0.5 } })).await;
    assert_eq!(gateway.send(ask("default--demo")).await.status, 200);
    let begin = Instant::now();
    let refused = gateway.send(ask("default--demo")).await;
    let told: u64 = refused.header("retry-after").parse().expect("whole seconds");
    let served = async || {
        // To be refused costs nothing.
        (gateway.send(ask("default--demo")).await.status == 200).then(|| begin.elapsed())
    };
    let after = gateway.until("there is room again", served).await;
    assert!(after < Duration::from_secs(told + 1), "told {told} s, served after {after:?}");
    assert_eq!(demo.requests(), 2);
}

#[tokio::test]
async fn a_request_has_its_time_and_is_never_sent_again_and_an_upgrade_has_none() {
    let (demo, gateway) = demo_with(json!({ "timeouts": { "request": 0.4 } })).await;
    let mut socket = WebSocket::open(gateway.address(), Some("8000-default--demo.sandbox.test"), "/ws", &[])
        .await
        .expect("an upgrade");
    assert!(socket.next().await.is_some(), "the sandbox says who it is");
    // What only says that it is an upgrade is none.
    let pretended = ask("default--demo").path("/late?milliseconds=60000").header("upgrade", "websocket");
    for request in [ask("default--demo").path("/slow"), pretended] {
        let (reply, after) = timed(&gateway, request).await;
        assert_answered(&gateway, &reply, 504, "sandbox_response_timeout").await;
        assert!((400 - SLACK..2000).contains(&after.as_millis()), "{after:?}");
    }
    assert_eq!(demo.requests(), 3, "the upgrade and each request once");
    socket.send("still there").await;
    assert_eq!(socket.next().await.as_deref(), Some("still there"), "a WebSocket has no such time");
    assert_eq!(gateway.stat("sandgate.rq_response_timeout").await, Some(2));
    let reply = gateway.send(ask("default--demo").header("x-envoy-upstream-rq-timeout-ms", "1")).await;
    for name in [
        "x-envoy-upstream-rq-timeout-ms",
        "x-envoy-upstream-rq-per-try-timeout-ms",
        "x-envoy-expected-rq-timeout-ms",
    ] {
        assert!(reply.seen(name).is_empty(), "the sandbox sees {name}: {}", reply.text());
    }
}

#[tokio::test]
async fn a_time_for_the_beginning_of_the_answer_does_not_end_an_answer_that_has_begun() {
    let filter = json!({ "dialects": { "kruise": { "timeouts": { "response-headers": 0.3 } } } });
    let (demo, gateway) = demo_with(filter).await;
    let mut client = gateway.client().await;
    let (_, events) = client.open(ask("default--demo").path("/sse")).await.expect("an answer");
    assert_eq!(events.status(), 200);
    let (reply, _) = timed(&gateway, ask("default--demo").path("/slow")).await;
    assert_answered(&gateway, &reply, 504, "sandbox_response_timeout").await;
    demo.event("late").await;
    let first = http_body_util::BodyExt::frame(&mut events.into_body()).await;
    assert!(first.is_some_and(|frame| frame.is_ok()), "the stream goes on");
    let other = as_agent_sandbox("/late?milliseconds=600");
    assert_eq!(gateway.send(other).await.status, 200, "another dialect has no such time");
}

#[tokio::test]
async fn a_client_of_agent_sandbox_says_how_long_it_waits_up_to_the_most_there_is() {
    let (_demo, gateway) = demo_with(json!({ "timeouts": { "max": 0.6 } })).await;
    for (asked, least) in [("0.2", 200), ("1e9", 600), ("600", 600)] {
        let request = as_agent_sandbox("/slow").header("x-sandbox-timeout", asked);
        let (reply, after) = timed(&gateway, request).await;
        assert_answered(&gateway, &reply, 504, "sandbox_response_timeout").await;
        assert!((least - SLACK..least + 1500).contains(&after.as_millis()), "{asked}: {after:?}");
    }
    for asked in ["soon", "-1", "nan", "0"] {
        let request = as_agent_sandbox("/late?milliseconds=700").header("x-sandbox-timeout", asked);
        assert_eq!(gateway.send(request).await.status, 200, "{asked} is passed over");
    }
    let other = ask("default--demo").path("/late?milliseconds=700").header("x-sandbox-timeout", "0.2");
    assert_eq!(gateway.send(other).await.status, 200, "it is a header of one dialect");
}

/// A sandbox that is there and on whose port 8500 nothing listens yet.
async fn not_yet(window: f64) -> (Place, Gateway) {
    let place = Place::reserve();
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(place.ip())]))
        .filter(json!({ "connect-window": window }))
        .start()
        .await;
    (place, gateway)
}

const LATE: u16 = 8500;

/// Waits until a connection to the sandbox was tried again some times.
async fn retried(gateway: &Gateway) {
    gateway
        .until("connections are tried again", async || {
            (gateway.stat("cluster.sandbox.upstream_rq_retry").await >= Some(4)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_port_that_opens_within_its_window_is_reached_and_the_body_comes_whole() {
    let (place, gateway) = not_yet(30.0).await;
    let mut clients = (gateway.client().await, gateway.client().await);
    let body: Vec<u8> = Pattern::chunks(20_000).flatten().collect();
    let upload = on_port(LATE).method("POST").body(Full::new(body.into()));
    let asked = tokio::spawn(async move {
        let plain = clients.0.send(on_port(LATE));
        let upload = clients.1.send(upload.path("/upload"));
        tokio::join!(plain, upload)
    });
    retried(&gateway).await;
    let late = Sandbox::start_at("late", place, &[LATE]).await;
    let (plain, upload) = asked.await.expect("no panic");
    let (plain, upload) = (plain.expect("an answer"), upload.expect("an answer"));
    assert_eq!((plain.status, plain.sandbox()), (200, "late".to_owned()));
    let seen = json!({ "sandbox": "late", "bytes": 20_000, "intact": true });
    assert_eq!((upload.status, upload.json()), (200, seen));
    assert_eq!(late.requests(), 2, "each is sent once");
    for name in ["x-envoy-retry-on", "x-envoy-max-retries", "x-envoy-attempt-count"] {
        assert!(plain.seen(name).is_empty(), "the sandbox sees {name}");
    }
}

#[tokio::test]
async fn a_port_that_never_opens_is_a_502_when_its_window_is_over() {
    let (_place, gateway) = not_yet(2.0).await;
    for _ in 0..2 {
        let (reply, after) = timed(&gateway, on_port(LATE)).await;
        assert_answered(&gateway, &reply, 502, "sandbox_port_closed").await;
        assert!((2000..4000).contains(&after.as_millis()), "{after:?}");
    }
    assert_eq!(gateway.stat("sandgate.rq_port_closed").await, Some(2));
    gateway
        .until("the port is given up", async || {
            (gateway.cluster_status("sandbox").await["hosts"] == json!(0)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn without_keys_agent_sandbox_has_its_own_routers_window_and_the_other_dialects_one_more_try() {
    let (_demo, gateway) = demo_with(json!({})).await;
    let (reply, after) = timed(&gateway, on_port(LATE)).await;
    assert_answered(&gateway, &reply, 502, "sandbox_port_closed").await;
    assert!(after < Duration::from_millis(1000), "{after:?}");
    assert_eq!(gateway.stat("cluster.sandbox.upstream_rq_retry").await, Some(1));
    let request = as_agent_sandbox("/").header("x-sandbox-port", LATE.to_string());
    let (reply, after) = timed(&gateway, request).await;
    assert_answered(&gateway, &reply, 502, "sandbox_port_closed").await;
    assert!((1400..3400).contains(&after.as_millis()), "{after:?}");
}

#[tokio::test]
async fn a_body_that_is_too_large_to_be_kept_is_answered_as_its_port_is() {
    let (_place, gateway) = not_yet(30.0).await;
    let chunks = Pattern::chunks(4 << 20).map(|chunk| Ok(Frame::data(chunk)));
    let body = StreamBody::new(futures_util::stream::iter(chunks));
    let reply = gateway.http2_client().await.send(on_port(LATE).method("POST").body(body)).await;
    assert_answered(&gateway, &reply.expect("an answer"), 502, "sandbox_port_closed").await;
}

#[tokio::test]
async fn a_sandbox_that_goes_within_the_window_ends_it() {
    for (what, after) in [("deleted", routes([])), ("paused", routes([route("demo").state("paused")]))] {
        let (_place, gateway) = not_yet(60.0).await;
        let mut client = gateway.client().await;
        let asked = tokio::spawn(async move { client.send(on_port(LATE)).await.expect("an answer") });
        retried(&gateway).await;
        let begin = Instant::now();
        replace_by_rename(&gateway.routes_file(), &after);
        let reply = asked.await.expect("no panic");
        assert_answered(&gateway, &reply, 503, "sandbox_gone").await;
        assert!(begin.elapsed() < Duration::from_secs(15), "{what}: {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn a_port_that_does_not_answer_within_its_window_is_no_closed_port() {
    let place = Place::reserve();
    let deaf = Deaf::start(place.ip()).await;
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(place.ip())]))
        .filter(json!({ "connect-window": 1.5 }))
        .adjust(|config| {
            for cluster in config["static_resources"]["clusters"].as_array_mut().expect("clusters") {
                cluster["connect_timeout"] = json!("0.3s");
            }
        })
        .start()
        .await;
    let (reply, after) = timed(&gateway, on_port(deaf.address.port())).await;
    assert_answered(&gateway, &reply, 504, "sandbox_connect_timeout").await;
    assert!((1500 - SLACK..4000).contains(&after.as_millis()), "{after:?}");
}
