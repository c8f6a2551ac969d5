//! The harness itself, with an Envoy that has no module: what it reports must be true before a scenario may
//! rely on it.

use std::time::Duration;

use http_body_util::BodyExt;
use sandgate_tests::netns::{Conditions, Network};
use sandgate_tests::{Client, Gateway, Pattern, Place, Request, Sandbox, WebSocket, raw_exchange};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Envoy with one fixed upstream and nothing of ours.
async fn plain(sandbox: &Sandbox) -> Gateway {
    Gateway::builder()
        .static_cluster("plain", sandbox)
        .envoy_route(json!({ "match": { "prefix": "/" }, "route": { "cluster": "plain", "timeout": "0s" } }))
        .without_bootstrap_extension()
        .module("not-loaded.so".into())
        .adjust(|config| {
            let filters = "/static_resources/listeners/0/filter_chains/0/filters/1/typed_config/http_filters";
            config
                .pointer_mut(filters)
                .and_then(|filters| filters.as_array_mut())
                .expect("filters")
                .remove(0);
            config
                .pointer_mut("/static_resources/clusters")
                .and_then(|clusters| clusters.as_array_mut())
                .expect("clusters")
                .retain(|cluster| cluster["name"] == "plain");
            // Their routes go with them.
            let routes = "/static_resources/listeners/0/filter_chains/0/filters/1/typed_config/route_config/virtual_hosts/0/routes";
            config.pointer_mut(routes).and_then(|routes| routes.as_array_mut()).expect("routes").truncate(1);
            // Last, because it stands before the connection manager.
            let filters = "/static_resources/listeners/0/filter_chains/0/filters";
            config
                .pointer_mut(filters)
                .and_then(|filters| filters.as_array_mut())
                .expect("filters")
                .remove(0);
        })
        .start()
        .await
}

#[tokio::test]
async fn a_sandbox_says_who_it_is_and_the_access_log_says_where_the_request_went() {
    let sandbox = Sandbox::start("alpha").await;
    let gateway = plain(&sandbox).await;
    let reply = gateway
        .send(Request::get("/some?query=1").host("name.test").header("x-twice", "1").header("x-twice", "2"))
        .await;
    assert_eq!(reply.sandbox(), "alpha");
    assert_eq!(reply.json()["path"], "/some?query=1");
    assert_eq!(reply.json()["host"], "name.test");
    assert_eq!(reply.seen("x-twice"), ["1", "2"]);
    let access = gateway.access(&reply).await;
    assert_eq!((access.status, access.details.as_str()), (200, "via_upstream"));
    assert_eq!(
        (access.upstream, access.authority, access.path),
        (sandbox.authority(), "name.test".into(), "/some?query=1".into())
    );
    assert_eq!(sandbox.requests(), 1);
    let mut client = gateway.http2_client().await;
    let reply = client.send(Request::get("/two").host("two.test")).await.expect("an answer");
    assert_eq!((reply.sandbox(), reply.json()["host"].clone()), ("alpha".into(), json!("two.test")));
    let raw =
        raw_exchange(gateway.address(), b"GET /raw HTTP/1.1\r\nHost: raw.test\r\nConnection: close\r\n\r\n")
            .await;
    assert!(raw.starts_with("HTTP/1.1 200 OK\r\n") && raw.contains("\"sandbox\":\"alpha\""), "{raw}");
}

#[tokio::test]
async fn websockets_event_streams_held_requests_and_bodies_work_without_the_module() {
    let sandbox = Sandbox::start("alpha").await;
    let gateway = plain(&sandbox).await;
    let mut socket = WebSocket::open(gateway.address(), None, "/ws", &[]).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("alpha"));
    socket.send("hello").await;
    assert_eq!(socket.next().await.as_deref(), Some("hello"));
    socket.close().await;

    let mut client = gateway.client().await;
    let (_, response) = client.open(Request::get("/sse")).await.expect("an answer");
    let mut events = response.into_body();
    for event in ["one", "two"] {
        sandbox.event(event).await;
        let frame = events.frame().await.expect("a frame").expect("no error").into_data().expect("data");
        assert_eq!(&frame[..], format!("data: {event}\n\n").as_bytes());
    }
    sandbox.end_events();
    assert!(events.frame().await.is_none());

    let mut held = gateway.client().await;
    let held = tokio::spawn(async move { held.send(Request::get("/slow")).await });
    sandbox.holding(1).await;
    assert!(!held.is_finished());
    sandbox.release(1);
    assert_eq!(held.await.expect("no panic").expect("an answer").sandbox(), "alpha");

    let reply = gateway.send(Request::get("/download?bytes=300000")).await;
    let mut pattern = Pattern::new();
    pattern.see(&reply.body);
    assert_eq!((pattern.bytes(), pattern.intact()), (300_000, true));
    let body = http_body_util::Full::new(reply.body.clone());
    let reply = gateway.send(Request::post("/upload").body(body)).await;
    assert_eq!(reply.json(), json!({ "sandbox": "alpha", "bytes": 300_000, "intact": true }));
}

#[tokio::test]
async fn a_stopped_sandbox_refuses_and_its_place_serves_the_next_one() {
    let first = Sandbox::on_ports("first", &[8000]).await;
    let address = (first.ip(), 8000).into();
    let place: Place = first.stop().await;
    assert!(Client::http1(address).await.is_err(), "a stopped sandbox accepts connections");
    let second = Sandbox::start_at("second", place, &[8000]).await;
    let mut client = Client::http1(address).await.expect("connect");
    assert_eq!(client.send(Request::get("/")).await.expect("an answer").sandbox(), second.name());
}

#[tokio::test]
async fn a_damaged_body_is_not_intact() {
    for (damage, at) in [(1_usize, 0_usize), (1, 65_521), (65_536, 100)] {
        let bytes: Vec<u8> = Pattern::chunks(300_000).flatten().collect();
        let mut pattern = Pattern::new();
        pattern.see(&bytes[..at]);
        pattern.see(&bytes[at + damage..]);
        assert!(!pattern.intact(), "{damage} bytes lost at {at} were not noticed");
    }
}

#[test]
fn a_line_between_namespaces_carries_tcp_over_loss_and_nothing_when_it_is_cut() {
    let Some(network) = Network::or_skip("harness", 2, 7) else { return };
    let listening = network.place(0).run(|| async { TcpListener::bind("0.0.0.0:80").await.expect("a port") });
    let serving = network.place(0).begin(move || async move {
        let (mut stream, _) = listening.accept().await.expect("a connection");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.expect("everything");
        received.len()
    });
    let bad = Conditions { loss: 50, twice: 50, jitter: Duration::from_millis(2), ..Conditions::default() };
    network.set(0, bad);
    let address = (network.place(0).ip(), 80);
    network.place(1).run(move || async move {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(&vec![7; 200_000]).await.expect("everything");
    });
    assert_eq!(serving.finish(), 200_000);
    let traffic = network.traffic();
    assert!(traffic.lost > 0 && traffic.twice > 0 && traffic.overtook > 0, "{traffic:?}");
    network.set(1, Conditions { cut: true, ..Conditions::default() });
    let patience = Duration::from_millis(200);
    let silent = network.place(1).run(move || async move {
        tokio::time::timeout(patience, TcpStream::connect(address)).await.is_err()
    });
    assert!(silent && network.traffic().cut > traffic.cut);
}
