//! How large a request may be.

use http_body_util::{BodyExt, Full, StreamBody, channel::Channel};
use hyper::body::{Bytes, Frame};
use sandgate_tests::{Client, Gateway, Pattern, Request, Sandbox, WebSocket, raw_exchange, route, routes};
use serde_json::json;

use crate::support::{PORT, ask, assert_answered, assert_refused, sandbox};

/// Few enough for one frame of HTTP/2.
const LIMIT: u64 = 10_000;

async fn limited() -> (Sandbox, Gateway) {
    let up = sandbox("up").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("up").ip(up.ip())]))
        .filter(json!({ "limits": { "request-bytes": LIMIT } }))
        .start()
        .await;
    (up, gateway)
}

fn upload() -> Request {
    ask("default--up").path("/upload").method("POST")
}

/// A body whose length is said in advance.
fn announced(bytes: u64) -> Full<Bytes> {
    Full::new(Pattern::chunks(bytes).flatten().collect())
}

/// A body whose length is not said.
fn unannounced(
    bytes: u64,
) -> impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible> + Send + Sync {
    StreamBody::new(futures_util::stream::iter(Pattern::chunks(bytes).map(|chunk| Ok(Frame::data(chunk)))))
}

#[tokio::test]
async fn a_request_as_large_as_the_limit_passes() {
    let (_up, gateway) = limited().await;
    for mut client in [gateway.client().await, gateway.http2_client().await] {
        for request in [upload().body(announced(LIMIT)), upload().body(unannounced(LIMIT))] {
            let reply = client.send(request).await.expect("an answer");
            let got = reply.json();
            assert_eq!((&got["bytes"], &got["intact"]), (&json!(LIMIT), &json!(true)), "{got}");
        }
    }
    gateway.stat_is("sandgate.rq_request_too_large", 0).await;
}

#[tokio::test]
async fn a_length_over_the_limit_is_413_and_nothing_reaches_the_sandbox() {
    let (up, gateway) = limited().await;
    for mut client in [gateway.client().await, gateway.http2_client().await] {
        let reply = client.send(upload().body(announced(LIMIT + 1))).await.expect("an answer");
        assert_refused(&gateway, &reply, 413, "request_too_large").await;
        assert!(reply.json()["message"].as_str().expect("text").contains("10000 bytes"), "{}", reply.text());
    }
    assert_eq!(up.requests(), 0);
    gateway.stat_is("sandgate.rq_request_too_large", 2).await;
}

#[tokio::test]
async fn a_body_of_unknown_length_is_counted_and_answered_with_413() {
    let (_up, gateway) = limited().await;
    for mut client in [gateway.client().await, gateway.http2_client().await] {
        let reply = client.send(upload().body(unannounced(LIMIT + 1))).await.expect("an answer");
        assert_answered(&gateway, &reply, 413, "request_too_large").await;
    }
    gateway.stat_is("sandgate.rq_request_too_large", 2).await;
    assert_eq!(gateway.send(ask("default--up")).await.sandbox(), "up");
}

#[tokio::test]
async fn a_body_that_grows_too_large_after_the_answer_has_begun_is_cut() {
    let (_up, gateway) = limited().await;
    for mut client in [gateway.client().await, gateway.http2_client().await] {
        let (mut body, channel) = Channel::new(1);
        let request = ask("default--up").path("/sse").method("POST").body(channel);
        let (_, answer) = client.open(request).await.expect("the beginning of an answer");
        assert_eq!(answer.status(), 200);
        tokio::spawn(async move {
            for chunk in Pattern::chunks(4 * LIMIT) {
                if body.send_data(chunk).await.is_err() {
                    return;
                }
            }
        });
        assert!(answer.into_body().collect().await.is_err(), "the answer is cut");
    }
    gateway.stat_is("sandgate.rq_request_too_large", 2).await;
}

#[tokio::test]
async fn a_grpc_client_is_told_by_a_status() {
    let (_up, gateway) = limited().await;
    let mut client = gateway.http2_client().await;
    let request = || upload().header("content-type", "application/grpc");
    for request in [request().body(announced(LIMIT + 1)), request().body(unannounced(LIMIT + 1))] {
        let reply = client.send(request).await.expect("an answer");
        assert_eq!((reply.status, reply.header("grpc-status")), (200, "8"), "{:?}", reply.headers);
    }
}

#[tokio::test]
async fn a_websocket_is_not_counted() {
    let (_up, gateway) = limited().await;
    let port = PORT.to_string();
    let headers = [("e2b-sandbox-id", "default--up"), ("e2b-sandbox-port", port.as_str())];
    let mut socket = WebSocket::open(gateway.address(), None, "/ws", &headers).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("up"));
    let text = "x".repeat(60_000);
    for _ in 0..4 {
        socket.send(&text).await;
        assert_eq!(socket.next().await.as_deref(), Some(text.as_str()));
    }
    socket.close().await;
    gateway.stat_is("sandgate.rq_request_too_large", 0).await;
}

#[tokio::test]
async fn a_client_that_only_asks_for_an_upgrade_is_counted() {
    let (_up, gateway) = limited().await;
    let mut request = format!(
        "GET /slow HTTP/1.1\r\nHost: x\r\ne2b-sandbox-id: default--up\r\ne2b-sandbox-port: {PORT}\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    .into_bytes();
    request.extend(vec![b'x'; 2 * usize::try_from(LIMIT).expect("fits")]);
    let answer = raw_exchange(gateway.address(), &request).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn headers_over_the_limit_are_431() {
    let up = sandbox("up").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("up").ip(up.ip())]))
        .filter(json!({ "limits": { "request-header-bytes": 2000 } }))
        .start()
        .await;
    assert_eq!(gateway.send(ask("default--up").header("x-some", "x".repeat(1000))).await.sandbox(), "up");
    // In one header, and in more than are read at once.
    let one = ask("default--up").header("x-long", "x".repeat(2000));
    let many =
        (0..40).fold(ask("default--up"), |request, n| request.header(&format!("x-{n}"), "x".repeat(50)));
    for request in [one, many] {
        let mut client = Client::http1(gateway.address()).await.expect("connect");
        let reply = client.send(request).await.expect("an answer");
        assert_refused(&gateway, &reply, 431, "headers_too_large").await;
    }
    assert_eq!(up.requests(), 1);
    gateway.stat_is("sandgate.rq_headers_too_large", 2).await;
}
