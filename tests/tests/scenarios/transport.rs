//! What flows through once a request is routed: streams, upgrades, protocols, big bodies.

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use sandgate_tests::{Gateway, Pattern, Request, Sandbox, WebSocket, route, routes};

use crate::support::{PORT, ask, demo, sandbox};

const GIB: u64 = 1 << 30;
/// How much Envoy may grow while it streams: buffers, not bodies.
const GROWTH: u64 = 100 << 20;

#[tokio::test]
async fn an_ipv6_sandbox_is_reached_by_every_dialect() {
    let six = Sandbox::on_ipv6("six").await;
    let gateway = Gateway::serving(&routes([route("six").ip(six.ip())])).await;
    let port = six.port();
    for request in [
        Request::get("/")
            .header("e2b-sandbox-id", "default--six")
            .header("e2b-sandbox-port", port.to_string()),
        Request::get(&format!("/kruise/default--six/{port}/")),
        Request::get("/").host(&format!("{port}-default--six.sandbox.test")),
        Request::get("/").header("opensandbox-ingress-to", format!("default--six-{port}")),
        Request::get("/").header("x-sandbox-id", "six").header("x-sandbox-port", port.to_string()),
    ] {
        let reply = gateway.send(request).await;
        assert_eq!(reply.sandbox(), "six");
        assert_eq!(gateway.access(&reply).await.upstream, format!("[::1]:{port}"));
    }
}

#[tokio::test]
async fn websockets_work_through_host_header_and_path() {
    let (_demo, gateway) = demo().await;
    let address = gateway.address();
    let (id, port): (_, &str) = (("e2b-sandbox-id", "default--demo"), &PORT.to_string());
    let by_header = [id, ("e2b-sandbox-port", port), ("authorization", "Bearer x")];
    let opened = [
        WebSocket::open(address, Some("8000-default--demo.sandbox.test"), "/ws", &[]).await,
        WebSocket::open(address, Some("default--demo-8000.sandbox.test"), "/ws", &[]).await,
        WebSocket::open(address, None, "/ws", &by_header).await,
        WebSocket::open(address, None, "/ws", &[("x-sandbox-id", "demo"), ("x-sandbox-port", port)]).await,
        WebSocket::open(address, None, "/kruise/default--demo/8000/ws", &[]).await,
        WebSocket::open(address, None, "/default--demo/8000/ws", &[]).await,
        // As some clients and proxies write it.
        WebSocket::open(
            address,
            Some("8000-default--demo.sandbox.test"),
            "/ws",
            &[("connection", "keep-alive, Upgrade")],
        )
        .await,
    ];
    for socket in opened {
        let mut socket = socket.expect("an upgrade");
        assert_eq!(socket.next().await.as_deref(), Some("demo"));
        for text in ["one", "two", &"long ".repeat(20_000)] {
            socket.send(text).await;
            assert_eq!(socket.next().await.as_deref(), Some(text));
        }
        socket.close().await;
    }
}

#[tokio::test]
async fn a_websocket_over_http2_reaches_a_sandbox_that_knows_only_http1() {
    let old = Sandbox::http1_only("old").await;
    let gateway =
        Gateway::serving(&routes([route("old").ip(old.ip()), route("asleep").state("paused").ip(old.ip())]))
            .await;
    let host = format!("{}-default--old.sandbox.test", old.port());
    let mut socket = WebSocket::over_http2(gateway.address(), &host, "/ws").await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("old"));
    socket.send("hello").await;
    assert_eq!(socket.next().await.as_deref(), Some("hello"));
    socket.close().await;
    let refused = WebSocket::over_http2(gateway.address(), "8000-default--asleep.sandbox.test", "/ws").await;
    assert_eq!(refused.err(), Some(502));
}

#[tokio::test]
async fn a_websocket_to_a_paused_sandbox_is_refused_with_the_reason() {
    let up = sandbox("up").await;
    let gateway = Gateway::serving(&routes([route("asleep").state("paused").ip(up.ip())])).await;
    let refused =
        WebSocket::open(gateway.address(), Some("8000-default--asleep.sandbox.test"), "/ws", &[]).await;
    let Err(tokio_tungstenite::tungstenite::Error::Http(response)) = refused.map(|_| ()) else {
        panic!("a paused sandbox took a WebSocket");
    };
    assert_eq!(response.status(), 502);
    let access = gateway.access_where("the refusal", |entry| entry.path == "/ws").await;
    assert_eq!(access.details, "sandbox_not_running");
}

#[tokio::test]
async fn events_arrive_one_by_one_each_before_the_next_is_sent() {
    let (demo, gateway) = demo().await;
    for mut client in [gateway.client().await, gateway.http2_client().await] {
        let (_, response) = client.open(ask("default--demo").path("/sse")).await.expect("an answer");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut events = response.into_body();
        for number in 0..50 {
            demo.event(&number.to_string()).await;
            let frame = events.frame().await.expect("an event").expect("no error").into_data().expect("data");
            assert_eq!(frame, format!("data: {number}\n\n"));
        }
        demo.end_events();
        let rest = events.collect().await.expect("the stream ends as it should").to_bytes();
        assert!(rest.is_empty(), "{rest:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_one_gibibyte_streams_up_and_down_in_bounded_memory() {
    let (_demo, gateway) = demo().await;
    let mut client = gateway.client().await;
    // What Envoy needs for its first requests is not what is measured.
    client.send(ask("default--demo")).await.expect("an answer");
    let before = gateway.resident_memory();
    let mut most = before;

    let chunks = Pattern::chunks(GIB).map(|chunk| Ok(Frame::data(chunk)));
    let upload = ask("default--demo")
        .method("POST")
        .path("/upload")
        .body(StreamBody::new(futures_util::stream::iter(chunks)));
    let sending = tokio::spawn(async move {
        let (_, response) = client.open(upload).await.expect("an answer");
        response.into_body().collect().await.expect("a whole answer").to_bytes()
    });
    let answer = gateway
        .within(std::time::Duration::from_secs(120), "1 GiB goes up", async || {
            most = most.max(gateway.resident_memory());
            sending.is_finished().then_some(())
        })
        .await;
    let () = answer;
    let seen: serde_json::Value = serde_json::from_slice(&sending.await.expect("no panic")).expect("JSON");
    assert_eq!(seen, serde_json::json!({ "sandbox": "demo", "bytes": GIB, "intact": true }));

    let mut client = gateway.client().await;
    let download = ask("default--demo").path(&format!("/download?bytes={GIB}"));
    let (_, response) = client.open(download).await.expect("an answer");
    let (mut body, mut pattern, mut frames) = (response.into_body(), Pattern::new(), 0_u64);
    while let Some(frame) = body.frame().await {
        let data: Bytes = frame.expect("no error").into_data().unwrap_or_default();
        pattern.see(&data);
        frames += 1;
        if frames % 1000 == 0 {
            most = most.max(gateway.resident_memory());
        }
    }
    assert_eq!((pattern.bytes(), pattern.intact()), (GIB, true));
    let growth = most - before;
    assert!(growth < GROWTH, "Envoy grew by {} MiB while streaming", growth >> 20);
}

#[tokio::test]
async fn one_http2_connection_carries_requests_to_many_sandboxes_each_answered_by_its_own() {
    let names: Vec<String> = (0..8).map(|number| format!("box-{number}")).collect();
    let mut sandboxes = Vec::new();
    for name in &names {
        sandboxes.push(sandbox(name).await);
    }
    let gateway =
        Gateway::serving(&routes(sandboxes.iter().map(|sandbox| route(sandbox.name()).ip(sandbox.ip()))))
            .await;
    let mut client = gateway.http2_client().await;
    for _ in 0..20 {
        for name in &names {
            let by_host = Request::get("/").host(&format!("8000-default--{name}.sandbox.test"));
            assert_eq!(client.send(by_host).await.expect("an answer").sandbox(), *name);
            let by_header = ask(&format!("default--{name}"));
            assert_eq!(client.send(by_header).await.expect("an answer").sandbox(), *name);
        }
    }
    assert_eq!(gateway.stat("http.gateway.downstream_cx_http2_total").await, Some(1));
    // A refusal on a shared connection ends its own stream only.
    let reply = client.send(ask("default--nobody")).await.expect("an answer");
    crate::support::assert_refused(&gateway, &reply, 502, "sandbox_not_found").await;
    assert_eq!(client.send(ask("default--box-0")).await.expect("an answer").sandbox(), "box-0");
}

#[tokio::test]
async fn grpc_goes_through_with_its_trailers() {
    let (_demo, gateway) = demo().await;
    let mut client = gateway.http2_client().await;
    let request = Request::post("/trailers")
        .host("8000-default--demo.sandbox.test")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let reply = client.send(request).await.expect("an answer");
    assert_eq!((reply.status, reply.text()), (200, "message"));
    assert_eq!(reply.trailers.get("grpc-status").map(|status| status.as_bytes()), Some(&b"0"[..]));
}

#[tokio::test]
async fn a_refusal_reaches_a_grpc_client_as_a_grpc_status() {
    let gateway = Gateway::serving(&routes([route("off").state("paused")])).await;
    let mut client = gateway.http2_client().await;
    for (id, status, message) in [("nobody", "5", "knows no sandbox"), ("default--off", "14", "is paused")] {
        let request = Request::post("/Service/Method")
            .header("e2b-sandbox-id", id)
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let reply = client.send(request).await.expect("an answer");
        assert_eq!((reply.status, reply.header("grpc-status")), (200, status), "{id}");
        assert!(reply.header("grpc-message").contains(message), "{}", reply.header("grpc-message"));
    }
}

#[tokio::test]
async fn an_http2_client_reaches_a_sandbox_that_speaks_only_http1() {
    let old = Sandbox::http1_only("old").await;
    let gateway = Gateway::serving(&routes([route("old").ip(old.ip())])).await;
    let mut client = gateway.http2_client().await;
    let request = Request::get("/page").host(&format!("{}-default--old.sandbox.test", old.port()));
    let reply = client.send(request).await.expect("an answer");
    assert_eq!((reply.sandbox().as_str(), reply.seen_path().as_str()), ("old", "/page"));
}
