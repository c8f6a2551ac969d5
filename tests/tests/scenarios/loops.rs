//! Routes that lead back to the gateway: one request is one answer, not a storm.

use std::net::SocketAddr;

use sandgate_tests::{
    DEADLINE, Gateway, Reply, Request, Sandbox, eventually, replace_by_rename, route, routes,
};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::support::assert_answered;

/// Gives the gateway these routes and waits until they are served.
async fn reroute<const N: usize>(gateway: &Gateway, entries: [(&str, SocketAddr); N]) {
    let entries = entries.map(|(name, address)| route(name).ip(address.ip()));
    replace_by_rename(&gateway.routes_file(), &routes(entries));
    gateway.generation(2).await;
}

fn ask(name: &str, port: u16) -> Request {
    Request::get("/")
        .header("e2b-sandbox-id", format!("default--{name}"))
        .header("e2b-sandbox-port", port.to_string())
}

/// The client got one answer that says why.
fn assert_looped(reply: &Reply) {
    assert_eq!((reply.status, &reply.json()["reason"]), (508, &json!("routing_loop")), "{}", reply.text());
}

async fn requests(gateway: &Gateway) -> (u64, u64) {
    let stat = async |name: &str| gateway.stat(name).await.unwrap_or_default();
    (stat("http.gateway.downstream_rq_total").await, stat("cluster.sandbox.upstream_rq_total").await)
}

#[tokio::test]
async fn a_route_at_the_gateways_own_address_gets_508_and_nothing_is_sent() {
    for builder in [Gateway::builder(), Gateway::builder().original_dst()] {
        let gateway = builder.routes(&routes([])).start().await;
        let own = gateway.address();
        reroute(&gateway, [("circle", own)]).await;
        let reply = gateway.send(ask("circle", own.port())).await;
        assert_answered(&gateway, &reply, 508, "routing_loop").await;
        assert_eq!(requests(&gateway).await, (1, 0));
        assert_eq!(gateway.stat("sandgate.rq_routing_loop").await, Some(1));
    }
}

/// Passes connections on, as a Service in front of the gateway does.
async fn service(gateway: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listen");
    let address = listener.local_addr().expect("a bound listener has an address");
    let task = tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Ok(mut to) = TcpStream::connect(gateway).await {
                    // How it ends is what the client sees.
                    let _ended = copy_bidirectional(&mut from, &mut to).await;
                }
            });
        }
    });
    (address, task)
}

#[tokio::test]
async fn a_request_that_comes_back_through_a_service_is_refused_when_it_comes() {
    let gateway = Gateway::serving(&routes([])).await;
    let (address, service) = service(gateway.address()).await;
    reroute(&gateway, [("a", address), ("b", address)]).await;
    let port = address.port();
    let host = |name: &str| Request::get("/").host(&format!("{port}-default--{name}.sandbox.test"));
    // A path that names the next hop at every hop: the longest circle a client can ask for.
    let nested =
        [format!("/kruise/default--a/{port}"), format!("/kruise/default--b/{port}")].concat().repeat(50);
    for (number, request) in
        [ask("a", port), host("a"), Request::get(&nested), Request::get(&format!("/default--a/{port}/x"))]
            .into_iter()
            .enumerate()
    {
        assert_looped(&gateway.send(request).await);
        let hops = 2 * (number as u64 + 1);
        assert_eq!(requests(&gateway).await, (hops, hops / 2), "each request passed the gateway once");
    }
    service.abort();
}

#[tokio::test]
async fn a_request_that_comes_back_to_another_listener_is_refused_there() {
    let gateway = Gateway::builder().routes(&routes([])).listener("second", json!({})).start().await;
    let second = gateway.listener("second");
    reroute(&gateway, [("circle", second)]).await;
    assert_looped(&gateway.send(ask("circle", second.port())).await);
    assert_eq!(gateway.stat("cluster.sandbox.upstream_rq_total").await, Some(1));
}

#[tokio::test]
async fn addresses_that_the_config_calls_the_gateways_own_are_nobodys_sandbox() {
    // Stands for the admin port, which a scenario must not have reached by accident.
    let admin = Sandbox::start("admin").await;
    let other = Sandbox::start("other").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("admin").ip(admin.ip()), route("other").ip(other.ip())]))
        .setting("own-addresses", json!([admin.authority(), "127.0.0.1:9901"]))
        .start()
        .await;
    let reply = gateway.send(ask("admin", admin.port())).await;
    assert_answered(&gateway, &reply, 508, "routing_loop").await;
    assert_eq!(admin.requests(), 0);
    assert_eq!(gateway.send(ask("other", other.port())).await.sandbox(), "other");
}

#[tokio::test]
async fn the_port_that_peers_push_to_is_nobodys_sandbox() {
    let gateway = Gateway::builder().refresh(json!({ "insecure": true })).start().await;
    let receiver = gateway.refresh_address().await;
    reroute(&gateway, [("receiver", receiver)]).await;
    let reply = gateway.send(ask("receiver", receiver.port()).path("/healthz")).await;
    assert_answered(&gateway, &reply, 508, "routing_loop").await;
}

#[tokio::test]
async fn headers_that_only_look_like_a_hop_are_no_loop() {
    let demo = Sandbox::start("demo").await;
    let entry = route("demo").ip(demo.ip()).set("uid", "uid-of-demo");
    let gateway = Gateway::serving(&routes([entry])).await;
    let port = demo.port().to_string();
    // As SIG agent-sandbox's clients address one sandbox and no successor of it.
    let request = Request::get("/")
        .header("x-sandbox-id", "demo")
        .header("x-sandbox-uid", "uid-of-demo")
        .header("x-sandbox-port", &port);
    assert_eq!(gateway.send(request).await.sandbox(), "demo");
    let request = ask("demo", demo.port()).header("x-sandbox-uid", "uid-of-demo");
    assert_eq!(gateway.send(request).await.sandbox(), "demo");
    let counted = eventually("both are counted", DEADLINE, async || {
        gateway.stat("sandgate.rq_forwarded").await.filter(|count| *count == 2)
    });
    assert_eq!(counted.await, 2);
}
