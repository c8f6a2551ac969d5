//! The connections to sandboxes: reused while the sandbox lives, refused and timed out with a reason,
//! limited.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandgate_tests::{Gateway, Request, Sandbox, WebSocket, replace_by_rename, route, routes};
use serde_json::json;

use crate::support::{ask, assert_answered, assert_refused, demo, sandbox};

/// A GET on some port.
fn on_port(id: &str, port: u16) -> Request {
    Request::get("/").header("e2b-sandbox-id", id).header("e2b-sandbox-port", port.to_string())
}

#[tokio::test]
async fn requests_to_a_sandbox_reuse_its_connection() {
    let (demo, gateway) = demo().await;
    let mut client = gateway.client().await;
    for _ in 0..50 {
        assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
    }
    // One client connection is one worker, and one worker needs one.
    assert_eq!(demo.connections(), 1);
    let cluster = gateway.cluster_status("sandbox").await;
    assert_eq!((&cluster["hosts"], &cluster["added"], &cluster["parked"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(gateway.stat("sandgate.rq_held").await, Some(1), "only the first request had to wait");
}

#[tokio::test]
async fn a_grpc_stream_and_a_plain_request_have_connections_of_their_own_kind() {
    let (demo, gateway) = demo().await;
    let mut client = gateway.http2_client().await;
    for _ in 0..5 {
        let grpc = Request::post("/trailers")
            .host("8000-default--demo.sandbox.test")
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let reply = client.send(grpc).await.expect("an answer");
        assert!(reply.trailers.get("grpc-status").is_some(), "{} {:?}", reply.status, reply.headers);
        assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
    }
    assert_eq!(demo.connections(), 2);
    assert_eq!(gateway.stat("cluster.sandbox-http2.upstream_cx_http2_total").await, Some(1));
    assert_eq!(gateway.stat("cluster.sandbox.upstream_cx_http1_total").await, Some(1));
}

#[tokio::test]
async fn a_closed_port_is_a_502_that_names_it_after_one_more_try_and_nothing_a_client_says_adds_another() {
    let (demo, gateway) = demo().await;
    let insisting = on_port("default--demo", 9)
        .header("x-envoy-retry-on", "5xx,reset,connect-failure,refused-stream")
        .header("x-envoy-max-retries", "5")
        .header("x-envoy-hedge-on-per-try-timeout", "true");
    for request in [on_port("default--demo", 9), insisting] {
        let reply = gateway.send(request).await;
        assert_answered(&gateway, &reply, 502, "sandbox_port_closed").await;
        assert!(
            reply.json()["message"].as_str().is_some_and(|text| text.contains("port 9.")),
            "{}",
            reply.text()
        );
    }
    assert_eq!(gateway.stat("cluster.sandbox.upstream_cx_connect_fail").await, Some(4));
    assert_eq!(gateway.stat("cluster.sandbox.upstream_rq_retry").await, Some(2));
    assert_eq!(gateway.stat("sandgate.rq_port_closed").await, Some(2));
    assert_eq!(
        gateway.send(ask("default--demo")).await.sandbox(),
        "demo",
        "the other ports are none the worse"
    );
    assert_eq!(demo.requests(), 1);
}

#[tokio::test]
async fn a_closed_port_is_answered_in_the_words_of_the_address_as_the_client_wrote_it() {
    let (_demo, gateway) = demo().await;
    for path in ["/kruise/default--demo/9/deep/path", "/default--demo/9/deep/path"] {
        let reply = gateway.send(Request::get(path)).await;
        assert_answered(&gateway, &reply, 502, "sandbox_port_closed").await;
        let body = reply.json();
        assert_eq!(body["sandbox"], "default--demo", "{path}: {body}");
        assert!(body["message"].as_str().is_some_and(|text| text.contains("port 9.")), "{path}: {body}");
    }
}

#[tokio::test]
async fn a_closed_port_reads_as_a_page_in_a_browser_and_as_a_status_to_grpc() {
    let (_demo, gateway) = demo().await;
    let page = gateway.send(on_port("default--demo", 9).header("sec-fetch-mode", "navigate")).await;
    assert_eq!((page.status, page.header("content-type")), (502, "text/html; charset=utf-8"));
    assert!(page.text().contains("nothing in it listens on port 9"), "{}", page.text());
    let grpc = on_port("default--demo", 9)
        .method("POST")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let reply = gateway.http2_client().await.send(grpc).await.expect("an answer");
    assert_eq!((reply.status, reply.header("grpc-status")), (200, "14"));
    let head = gateway.send(on_port("default--demo", 9).method("HEAD")).await;
    assert_eq!((head.status, head.body.len()), (502, 0));
}

/// A port that takes no connections and refuses none: its queue is full.
pub(crate) struct Deaf {
    pub(crate) address: SocketAddr,
    _listener: tokio::net::TcpListener,
    _queued: Vec<tokio::task::JoinHandle<()>>,
}

impl Deaf {
    pub(crate) async fn start(ip: IpAddr) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((ip, 0).into()).expect("an address");
        let listener = socket.listen(1).expect("a queue of one");
        let address = listener.local_addr().expect("a bound listener has an address");
        let fill = |_| {
            tokio::spawn(async move {
                if let Ok(stream) = tokio::net::TcpStream::connect(address).await {
                    std::future::pending::<()>().await;
                    drop(stream);
                }
            })
        };
        let queued: Vec<_> = (0..8).map(fill).collect();
        // Once a connection takes longer than any on loopback does, the queue is full.
        loop {
            let next =
                tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address))
                    .await;
            if next.is_err() {
                return Self { address, _listener: listener, _queued: queued };
            }
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_is_a_504() {
    let place = sandgate_tests::Place::reserve();
    let deaf = Deaf::start(place.ip()).await;
    let gateway = Gateway::builder()
        .routes(&routes([route("deaf").ip(place.ip())]))
        .adjust(|config| {
            for cluster in config["static_resources"]["clusters"].as_array_mut().expect("clusters") {
                cluster["connect_timeout"] = json!("0.3s");
            }
        })
        .start()
        .await;
    let reply = gateway.send(on_port("default--deaf", deaf.address.port())).await;
    assert_answered(&gateway, &reply, 504, "sandbox_connect_timeout").await;
}

#[tokio::test]
async fn a_connection_is_not_tried_again_for_a_sandbox_that_has_gone_meanwhile() {
    let place = sandgate_tests::Place::reserve();
    let deaf = Deaf::start(place.ip()).await;
    let gateway = Gateway::builder()
        .routes(&routes([route("deaf").ip(place.ip())]))
        .cluster("on-delete", "finish")
        .adjust(|config| {
            for cluster in config["static_resources"]["clusters"].as_array_mut().expect("clusters") {
                cluster["connect_timeout"] = json!("9s");
            }
        })
        .start()
        .await;
    let mut client = gateway.client().await;
    let port = deaf.address.port();
    let asked =
        tokio::spawn(async move { client.send(on_port("default--deaf", port)).await.expect("an answer") });
    gateway.stat_is("cluster.sandbox.upstream_cx_total", 1).await;
    replace_by_rename(&gateway.routes_file(), &routes([]));
    gateway.generation(2).await;
    let reply = asked.await.expect("no panic");
    assert_answered(&gateway, &reply, 503, "sandbox_gone").await;
    assert_eq!(
        gateway.stat("cluster.sandbox.upstream_cx_total").await,
        Some(1),
        "a second connection was tried"
    );
}

/// Reads a request and hangs up, each time.
async fn hangs_up(ip: IpAddr) -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind((ip, 0)).await.expect("listen");
    let port = listener.local_addr().expect("a bound listener has an address").port();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 1024];
            if tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await.is_ok_and(|read| read > 0) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (port, seen)
}

#[tokio::test]
async fn a_request_that_was_sent_is_never_sent_again() {
    let place = sandgate_tests::Place::reserve();
    let (port, seen) = hangs_up(place.ip()).await;
    let gateway = Gateway::serving(&routes([route("rude").ip(place.ip())])).await;
    for sent in 1..=5 {
        let reply = gateway.send(on_port("default--rude", port)).await;
        assert_eq!((reply.status, seen.load(Ordering::SeqCst)), (503, sent));
        let details = gateway.access(&reply).await.details;
        assert!(details.starts_with("upstream_reset_before_response_started"), "{details}");
    }
    assert_eq!(gateway.stat("cluster.sandbox.upstream_rq_retry").await.unwrap_or(0), 0);
}

#[tokio::test]
async fn as_many_requests_as_a_sandbox_may_have_and_then_429() {
    let (demo, other) = (sandbox("demo").await, sandbox("other").await);
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip()), route("other").ip(other.ip())]))
        .filter(json!({ "limits": { "requests-per-sandbox": 3, "connections-per-sandbox": 2 } }))
        .start()
        .await;
    let hold = |path: &'static str| {
        let address = gateway.address();
        tokio::spawn(async move {
            let mut client = sandgate_tests::Client::http1(address).await.expect("connect");
            client.send(ask("default--demo").path(path)).await.expect("an answer")
        })
    };
    let mut held = vec![hold("/slow"), hold("/slow")];
    demo.holding(2).await;
    let reply = gateway.send(ask("default--demo")).await;
    assert_refused(&gateway, &reply, 429, "sandbox_too_many_connections").await;
    assert_eq!(reply.header("retry-after"), "1");
    // gRPC requests share a connection, so the other limit is theirs.
    let grpc = || {
        ask("default--demo")
            .method("POST")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
    };
    let mut client = gateway.http2_client().await;
    let streaming = tokio::spawn(async move { client.open(grpc().path("/slow")).await.map(|(tag, _)| tag) });
    demo.holding(3).await;
    let reply = gateway.http2_client().await.send(grpc().path("/trailers")).await.expect("an answer");
    assert_eq!((reply.status, reply.header("grpc-status")), (200, "8"));
    assert_eq!(gateway.send(ask("default--other")).await.sandbox(), "other", "another sandbox has its own");
    demo.release(3);
    for request in held.drain(..) {
        assert_eq!(request.await.expect("no panic").sandbox(), "demo");
    }
    streaming.await.expect("no panic").expect("an answer");
    gateway
        .until("what has ended is not counted", async || {
            (gateway.send(ask("default--demo")).await.status == 200).then_some(())
        })
        .await;
    let stats = (
        gateway.stat("sandgate.rq_too_many_connections").await,
        gateway.stat("sandgate.rq_too_many_requests").await,
    );
    assert_eq!(stats, (Some(1), Some(1)));
}

#[tokio::test]
async fn a_sandbox_with_fifty_ports_is_served_on_all_of_them_and_over_its_cap_an_unused_one_makes_room() {
    let ports: Vec<u16> = (0..50).map(|number| 20_000 + number).collect();
    let many = Sandbox::on_ports("many", &ports).await;
    let gateway = Gateway::builder()
        .routes(&routes([route("many").ip(many.ip())]))
        .cluster("max-ports-per-sandbox", 40)
        .start()
        .await;
    let mut client = gateway.client().await;
    for port in ports.iter().chain(&ports) {
        let reply = client.send(on_port("default--many", *port)).await.expect("an answer");
        assert_eq!((reply.sandbox().as_str(), reply.seen_port()), ("many", u64::from(*port)));
    }
    let cluster = gateway.cluster_status("sandbox").await;
    assert!(cluster["hosts"].as_u64().is_some_and(|hosts| hosts <= 41), "{cluster}");
}

#[tokio::test]
async fn a_port_over_the_cap_is_refused_while_all_others_are_in_use() {
    let busy = Sandbox::on_ports("busy", &[20_100, 20_101, 20_102]).await;
    let gateway = Gateway::builder()
        .routes(&routes([route("busy").ip(busy.ip())]))
        .cluster("max-ports-per-sandbox", 2)
        .start()
        .await;
    let address = gateway.address();
    let held: Vec<_> = [20_100, 20_101]
        .into_iter()
        .map(|port| {
            tokio::spawn(async move {
                let mut client = sandgate_tests::Client::http1(address).await.expect("connect");
                client.send(on_port("default--busy", port).path("/slow")).await.expect("an answer")
            })
        })
        .collect();
    busy.holding(2).await;
    let reply = gateway.send(on_port("default--busy", 20_102)).await;
    assert_refused(&gateway, &reply, 429, "sandbox_too_many_ports").await;
    assert_eq!(reply.header("retry-after"), "1");
    busy.release(2);
    for request in held {
        assert_eq!(request.await.expect("no panic").sandbox(), "busy");
    }
    gateway
        .until("a port that is free again makes room", async || {
            (gateway.send(on_port("default--busy", 20_102)).await.status == 200).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_port_that_nobody_uses_is_forgotten_and_one_with_a_websocket_is_not() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .cluster("idle-seconds", 1)
        .start()
        .await;
    let mut socket = WebSocket::open(gateway.address(), Some("8888-default--demo.sandbox.test"), "/ws", &[])
        .await
        .expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    gateway
        // A connection that became a WebSocket is not counted any more.
        .until("the unused host is removed, its connection closed", async || {
            (gateway.cluster_status("sandbox").await["hosts"] == 1 && demo.open_connections() == 0)
                .then_some(())
        })
        .await;
    socket.send("still there").await;
    assert_eq!(socket.next().await.as_deref(), Some("still there"));
    assert_eq!(
        gateway.send(ask("default--demo")).await.sandbox(),
        "demo",
        "it comes back with the next request"
    );
    socket.close().await;
}

#[tokio::test]
async fn clients_that_leave_while_they_are_held_leave_nothing_behind() {
    let (demo, gateway) = demo().await;
    let address = gateway.address();
    for round in 0..30_u16 {
        let port = 30_000 + round;
        let request = format!("GET / HTTP/1.1\r\nhost: {port}-default--demo.sandbox.test\r\n\r\n");
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connect");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.expect("send");
        drop(stream);
    }
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    gateway
        .until("nobody is held", async || {
            (gateway.cluster_status("sandbox").await["parked"] == 0).then_some(())
        })
        .await;
    assert_eq!((demo.requests(), gateway.stat("sandgate.panics").await.unwrap_or(0)), (1, 0));
}

#[tokio::test]
async fn two_routes_at_one_address_are_both_served_and_share_no_connection() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::serving(&routes([route("one").ip(demo.ip()), route("two").ip(demo.ip())])).await;
    let mut client = gateway.client().await;
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..4 {
        for id in ["default--one", "default--two"] {
            let reply = client.send(ask(id)).await.expect("an answer");
            assert_eq!((reply.sandbox().as_str(), reply.seen("x-sandbox-id")), ("demo", vec![id.to_owned()]));
            let connection = reply.json()["connection"].as_u64().expect("a number");
            let owner = seen.entry(connection).or_insert(id);
            assert_eq!(*owner, id, "a connection of the one was used for the other");
        }
    }
}

#[tokio::test]
async fn original_dst_serves_with_a_connection_for_each_request() {
    let demo = sandbox("demo").await;
    let gateway =
        Gateway::builder().routes(&routes([route("demo").ip(demo.ip())])).original_dst().start().await;
    let mut client = gateway.client().await;
    for _ in 0..10 {
        assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
    }
    assert_eq!(demo.connections(), 10);
    let grpc = ask("default--demo")
        .method("POST")
        .path("/trailers")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let reply = gateway.http2_client().await.send(grpc).await.expect("an answer");
    assert!(reply.trailers.get("grpc-status").is_some());
    replace_by_rename(&gateway.routes_file(), &routes([]));
    gateway.generation(2).await;
    assert_refused(&gateway, &gateway.send(ask("default--demo")).await, 502, "sandbox_not_found").await;
}

#[tokio::test]
async fn a_route_to_a_cluster_that_is_not_sandgates_is_refused_and_not_followed() {
    let (demo, wrong) = (sandbox("demo").await, sandbox("wrong").await);
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .static_cluster("other", &wrong)
        .envoy_route(json!({ "match": { "prefix": "/" }, "route": { "cluster": "other" } }))
        .start()
        .await;
    assert_refused(&gateway, &gateway.send(ask("default--demo")).await, 500, "no_sandbox_cluster").await;
    assert_eq!((demo.requests(), wrong.requests()), (0, 0));
}

#[tokio::test]
async fn a_bad_cluster_config_is_refused_with_the_key_and_what_was_expected() {
    let exit = Gateway::builder().routes(&routes([])).cluster("idle-seconds", 0).validate().await;
    assert_ne!(exit.code, Some(0));
    assert!(
        exit.log.contains("sandgate: cluster config: idle-seconds: expected a number from 1 to 86400"),
        "{}",
        exit.log
    );
    let good = Gateway::builder().routes(&routes([])).cluster("idle-seconds", 10).validate().await;
    assert_eq!(good.code, Some(0), "{}", good.log);
}
