//! The end of Envoy, with requests under way.

use sandgate_tests::{Client, Gateway, Request, WebSocket};

use crate::support::{ask, demo};

#[tokio::test]
async fn after_a_drain_new_connections_are_refused_and_requests_under_way_complete() {
    let (demo, mut gateway) = demo().await;
    let mut client = gateway.client().await;
    let held = tokio::spawn(async move { client.send(ask("default--demo").path("/slow")).await });
    demo.holding(1).await;
    let drained = gateway.admin_send(Request::post("/drain_listeners")).await;
    assert_eq!(drained.status, 200, "{}", drained.text());
    gateway.refuses(gateway.address()).await;
    assert!(!held.is_finished(), "the drain has ended a request");
    demo.release(1);
    let reply = held.await.expect("no panic").expect("the request under way completes");
    assert_eq!(reply.sandbox(), "demo");
    gateway.terminate();
    assert_eq!(gateway.ended().await, Some(0));
}

#[tokio::test]
async fn sigterm_with_requests_under_way_ends_envoy_cleanly() {
    let (demo, mut gateway) = demo().await;
    let address = gateway.address();
    let mut held = Vec::new();
    for _ in 0..5 {
        let mut client = Client::http1(address).await.expect("connect");
        held.push(tokio::spawn(async move { client.send(ask("default--demo").path("/slow")).await }));
    }
    demo.holding(5).await;
    let mut socket = WebSocket::open(address, Some("8000-default--demo.sandbox.test"), "/ws", &[])
        .await
        .expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    let mut streaming = gateway.http2_client().await;
    let (_, events) = streaming.open(ask("default--demo").path("/sse")).await.expect("an answer");
    gateway.terminate();
    assert_eq!(gateway.ended().await, Some(0), "{}", gateway.log());
    for request in held {
        assert!(request.await.expect("no panic").is_err(), "a request was answered by nobody");
    }
    assert_eq!(socket.next().await, None);
    drop(events);
    let log = gateway.log();
    assert!(!log.contains("[critical]") && !log.contains("panic"), "{log}");
}

#[tokio::test]
async fn sigterm_before_the_first_routes_file_ends_envoy_cleanly() {
    let mut gateway = Gateway::builder().spawn().await;
    gateway.logged(&["routes.yaml", "cannot be read"]).await;
    // Before that, Envoy does not listen for signals.
    gateway.logged(&["starting main dispatch loop"]).await;
    gateway.terminate();
    assert_eq!(gateway.ended().await, Some(0), "{}", gateway.log());
}
