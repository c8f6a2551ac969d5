//! A sandbox's connections end with it: what happens to them when it is deleted, paused or moved.

use std::time::Duration;

use http_body_util::BodyExt;
use sandgate_tests::{Gateway, Reply, Sandbox, WebSocket, replace_by_rename, route, routes};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::{ask, assert_refused, demo, sandbox};

const HOST: Option<&str> = Some("8000-default--demo.sandbox.test");

fn delete(gateway: &Gateway) {
    replace_by_rename(&gateway.routes_file(), &routes([]));
}

fn pause(gateway: &Gateway, demo: &Sandbox) {
    replace_by_rename(&gateway.routes_file(), &routes([route("demo").ip(demo.ip()).state("paused")]));
}

/// A request that the sandbox has begun to answer and does not end.
async fn hold(gateway: &Gateway, demo: &Sandbox) -> JoinHandle<Reply> {
    let mut client = gateway.client().await;
    let held =
        tokio::spawn(
            async move { client.send(ask("default--demo").path("/slow")).await.expect("an answer") },
        );
    demo.holding(1).await;
    held
}

async fn web_socket(gateway: &Gateway) -> WebSocket {
    let mut socket = WebSocket::open(gateway.address(), HOST, "/ws", &[]).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    socket
}

async fn host_is_gone(gateway: &Gateway) {
    gateway
        .until("the host is gone", async || {
            (gateway.cluster_status("sandbox").await["hosts"] == 0).then_some(())
        })
        .await;
}

/// Opens connections on every worker, so that each has some in its pools.
async fn warm(gateway: &Gateway, demo: &Sandbox) {
    gateway
        .until("both workers have connections", async || {
            let mut clients = Vec::new();
            for _ in 0..8 {
                let mut client = gateway.client().await;
                assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
                clients.push(client);
            }
            (demo.open_connections() >= 2).then_some(())
        })
        .await;
}

/// How long unused connections may outlive their sandbox, with room for a busy machine: the claim is a tenth
/// of a second.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn unused_connections_of_every_worker_close_when_the_sandbox_is_deleted_pauses_or_moves() {
    for change in ["deleted", "paused", "moved", "replaced"] {
        let (demo, gateway) = demo().await;
        warm(&gateway, &demo).await;
        let elsewhere = sandbox("elsewhere").await;
        let text = match change {
            "deleted" => routes([]),
            "paused" => routes([route("demo").ip(demo.ip()).state("paused")]),
            "moved" => routes([route("demo").ip(elsewhere.ip())]),
            _ => routes([route("demo").ip(demo.ip()).set("uid", "another")]),
        };
        replace_by_rename(&gateway.routes_file(), &text);
        gateway
            .within(CLOSED_WITHIN, &format!("all connections of a {change} sandbox close"), async || {
                (demo.open_connections() == 0).then_some(())
            })
            .await;
        host_is_gone(&gateway).await;
    }
}

#[tokio::test]
async fn a_request_in_flight_to_a_deleted_sandbox_is_a_503_at_once() {
    let (demo, gateway) = demo().await;
    let held = hold(&gateway, &demo).await;
    delete(&gateway);
    let reply = held.await.expect("no panic");
    assert_eq!((reply.status, &reply.json()["reason"]), (503, &json!("sandbox_gone")));
    assert_eq!(gateway.access(&reply).await.details, "sandbox_gone");
    demo.holding(0).await;
    assert_refused(&gateway, &gateway.send(ask("default--demo")).await, 502, "sandbox_not_found").await;
}

#[tokio::test]
async fn an_answer_that_has_begun_is_cut_off_when_its_sandbox_is_deleted() {
    let (demo, gateway) = demo().await;
    for mut client in [gateway.client().await, gateway.http2_client().await] {
        replace_by_rename(&gateway.routes_file(), &routes([route("demo").ip(demo.ip())]));
        gateway
            .until("the sandbox is served", async || {
                (gateway.send(ask("default--demo")).await.status == 200).then_some(())
            })
            .await;
        let (_, response) = client.open(ask("default--demo").path("/sse")).await.expect("an answer");
        let mut events = response.into_body();
        demo.event("one").await;
        assert!(events.frame().await.is_some_and(|frame| frame.is_ok()));
        delete(&gateway);
        let end = tokio::time::timeout(sandgate_tests::DEADLINE, async {
            while let Some(frame) = events.frame().await {
                if frame.is_err() {
                    return true;
                }
            }
            false
        });
        assert!(end.await.expect("the stream ends"), "a stream that was cut off looks complete");
    }
}

#[tokio::test]
async fn the_websockets_of_a_deleted_sandbox_are_closed() {
    let (_demo, gateway) = demo().await;
    let mut sockets = Vec::new();
    for _ in 0..6 {
        sockets.push(web_socket(&gateway).await);
    }
    delete(&gateway);
    for mut socket in sockets {
        assert_eq!(socket.next().await, None);
    }
    gateway.stat_is("sandgate.rq_sandbox_gone", 6).await;
    // Requests, not sandboxes.
    let status = gateway.cluster_status("sandbox").await;
    assert_eq!((&status["ended"], &status["endedSandboxes"]), (&json!(6), &json!(1)), "{status}");
}

#[tokio::test]
async fn a_websocket_and_a_request_of_a_paused_sandbox_finish_and_new_ones_are_refused() {
    let (demo, gateway) = demo().await;
    let mut socket = web_socket(&gateway).await;
    let held = hold(&gateway, &demo).await;
    pause(&gateway, &demo);
    gateway.generation(2).await;
    assert_refused(&gateway, &gateway.send(ask("default--demo")).await, 502, "sandbox_not_running").await;
    host_is_gone(&gateway).await;
    socket.send("still there").await;
    assert_eq!(socket.next().await.as_deref(), Some("still there"));
    demo.release(1);
    assert_eq!(held.await.expect("no panic").sandbox(), "demo");
    // Awake again: new connections for new requests, while the old WebSocket still runs on its own.
    replace_by_rename(&gateway.routes_file(), &routes([route("demo").ip(demo.ip())]));
    gateway.generation(3).await;
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    socket.send("and still").await;
    assert_eq!(socket.next().await.as_deref(), Some("and still"));
    socket.close().await;
}

#[tokio::test]
async fn what_outlived_the_host_of_a_paused_sandbox_ends_when_the_sandbox_is_deleted() {
    let (demo, gateway) = demo().await;
    let mut socket = web_socket(&gateway).await;
    let held = hold(&gateway, &demo).await;
    pause(&gateway, &demo);
    host_is_gone(&gateway).await;
    delete(&gateway);
    assert_eq!(held.await.expect("no panic").json()["reason"], json!("sandbox_gone"));
    assert_eq!(socket.next().await, None);
}

#[tokio::test]
async fn what_happens_to_requests_in_flight_is_a_matter_of_config() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .cluster("on-pause", "end")
        .cluster("on-delete", "finish")
        .start()
        .await;
    let hold = || {
        let address = gateway.address();
        tokio::spawn(async move {
            let mut client = sandgate_tests::Client::http1(address).await.expect("connect");
            client.send(ask("default--demo").path("/slow")).await.expect("an answer")
        })
    };
    let held = hold();
    demo.holding(1).await;
    pause(&gateway, &demo);
    let reply = held.await.expect("no panic");
    assert_eq!((reply.status, &reply.json()["reason"]), (503, &json!("sandbox_gone")));
    demo.holding(0).await;

    replace_by_rename(&gateway.routes_file(), &routes([route("demo").ip(demo.ip())]));
    gateway.generation(3).await;
    let held = hold();
    demo.holding(1).await;
    delete(&gateway);
    gateway.generation(4).await;
    assert_refused(&gateway, &gateway.send(ask("default--demo")).await, 502, "sandbox_not_found").await;
    demo.release(1);
    assert_eq!(held.await.expect("no panic").sandbox(), "demo");
}
