//! What one client can take from the others: a share of a sandbox's limits, and never all of it; and what all
//! of them together can take from the gateway.

use std::net::IpAddr;
use std::time::Duration;

use sandgate_tests::{Client, Gateway, Request, Sandbox, WebSocket, route, routes};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::support::{ask, assert_answered, assert_refused, sandbox};

const GREEDY: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];

fn ip(octets: [u8; 4]) -> IpAddr {
    octets.into()
}

/// A POST whose body never comes.
async fn post_without_body(gateway: &Gateway, own: IpAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((own, 0).into()).expect("an address of our own");
    let mut stream = socket.connect(gateway.address()).await.expect("connect");
    let head = "POST /upload HTTP/1.1\r\nhost: 8000-default--demo.sandbox.test\r\ncontent-length: 10\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("send");
    stream
}

#[tokio::test]
async fn a_client_that_never_sends_its_bodies_leaves_room_for_the_others() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .filter(json!({ "limits": { "connections-per-sandbox": 100, "percent-per-client": 50 } }))
        .start()
        .await;
    let mut held = Vec::new();
    for _ in 0..120 {
        held.push(post_without_body(&gateway, ip(GREEDY)).await);
    }
    gateway.stat_is("sandgate.rq_client_too_many_connections", 70).await;
    gateway.stat_is("sandgate.rq_forwarded", 50).await;
    let mut other = Client::http1_from(ip(OTHER), gateway.address()).await.expect("connect");
    for _ in 0..20 {
        assert_eq!(other.send(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
    }
    let mut greedy = Client::http1_from(ip(GREEDY), gateway.address()).await.expect("connect");
    let reply = greedy.send(ask("default--demo")).await.expect("an answer");
    assert_refused(&gateway, &reply, 429, "client_too_many_connections").await;
    assert_eq!(reply.header("retry-after"), "1");
    drop(held);
    gateway
        .until("what has ended is not counted", async || {
            let reply = greedy.send(ask("default--demo")).await.expect("an answer");
            (reply.status == 200).then_some(())
        })
        .await;
}

/// A sandbox that listens on forty ports, which is as many as it may have.
async fn forty_ports(first: u16) -> (Sandbox, Gateway, Vec<u16>) {
    let ports: Vec<u16> = (first..first + 40).collect();
    let many = Sandbox::on_ports("many", &ports).await;
    let gateway = Gateway::builder()
        .routes(&routes([route("many").ip(many.ip())]))
        .cluster("max-ports-per-sandbox", 40)
        .start()
        .await;
    (many, gateway, ports)
}

fn on(port: u16, path: &str) -> Request {
    Request::get(path).header("e2b-sandbox-id", "default--many").header("e2b-sandbox-port", port.to_string())
}

/// Requests of the greedy client that are held in the sandbox, one on each port: their statuses, in the end.
fn held_on(gateway: &Gateway, ports: &[u16]) -> JoinSet<u16> {
    let address = gateway.address();
    let held = ports.iter().map(|port| {
        let request = on(*port, "/slow");
        async move {
            let mut client = Client::http1_from(ip(GREEDY), address).await.expect("connect");
            client.send(request).await.expect("an answer").status
        }
    });
    held.collect()
}

#[tokio::test]
async fn the_ports_that_one_client_holds_leave_room_for_the_others() {
    let (many, gateway, ports) = forty_ports(20_200).await;
    let held = held_on(&gateway, &ports[..20]);
    many.holding(20).await;
    let mut greedy = Client::http1_from(ip(GREEDY), gateway.address()).await.expect("connect");
    let reply = greedy.send(on(ports[20], "/")).await.expect("an answer");
    assert_refused(&gateway, &reply, 429, "client_too_many_ports").await;
    let again = greedy.send(on(ports[0], "/")).await.expect("an answer");
    assert_eq!(again.sandbox(), "many", "the ports that it has are still its to use");
    let mut other = Client::http1_from(ip(OTHER), gateway.address()).await.expect("connect");
    for port in &ports[20..] {
        assert_eq!(other.send(on(*port, "/")).await.expect("an answer").sandbox(), "many");
    }
    many.release(20);
    assert_eq!(held.join_all().await, [200; 20]);
    assert_eq!(gateway.stat("sandgate.rq_client_too_many_ports").await, Some(1));
}

#[tokio::test]
async fn a_client_that_asks_for_all_ports_at_once_gets_its_share_and_leaves_room_for_the_others() {
    let (many, gateway, ports) = forty_ports(20_300).await;
    let all = held_on(&gateway, &ports);
    gateway.stat_is("sandgate.rq_client_too_many_ports", 20).await;
    many.holding(20).await;
    let mut other = Client::http1_from(ip(OTHER), gateway.address()).await.expect("connect");
    for port in &ports {
        assert_eq!(other.send(on(*port, "/")).await.expect("an answer").sandbox(), "many", "{port}");
    }
    many.release(20);
    let mut statuses = all.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 20], [429; 20]].concat());
}

#[tokio::test]
async fn a_port_that_is_closed_gives_its_host_up_at_once() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .cluster("idle-seconds", 3_600)
        .start()
        .await;
    // One connection to the gateway stays with one worker, and so does what that worker has opened to the
    // sandbox.
    let mut client = gateway.client().await;
    assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
    for port in 1..=20_u16 {
        let request = Request::get("/")
            .header("e2b-sandbox-id", "default--demo")
            .header("e2b-sandbox-port", port.to_string());
        assert_answered(&gateway, &gateway.send(request).await, 502, "sandbox_port_closed").await;
    }
    gateway
        .until("only the port that listens has a host", async || {
            (gateway.cluster_status("sandbox").await["hosts"] == 1).then_some(())
        })
        .await;
    assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
    assert_eq!(demo.connections(), 1, "the port that listens kept its connection");
}

#[tokio::test]
async fn over_the_cap_on_hosts_an_unused_one_makes_room_and_without_one_the_answer_is_503() {
    let (demo, other) = (sandbox("demo").await, sandbox("other").await);
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip()), route("other").ip(other.ip())]))
        .cluster("max-hosts", 1)
        .start()
        .await;
    let address = gateway.address();
    let slow = tokio::spawn(async move {
        let mut client = Client::http1(address).await.expect("connect");
        client.send(ask("default--demo").path("/slow")).await.expect("an answer").status
    });
    demo.holding(1).await;
    let reply = gateway.send(ask("default--other")).await;
    assert_refused(&gateway, &reply, 503, "gateway_too_many_hosts").await;
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo", "what is there is served");
    demo.release(1);
    assert_eq!(slow.await.expect("no panic"), 200);
    gateway
        .until("the unused host makes room", async || {
            (gateway.send(ask("default--other")).await.status == 200).then_some(())
        })
        .await;
    assert!(gateway.stat("sandgate.rq_too_many_hosts").await >= Some(1));
}

#[tokio::test]
async fn the_gateway_holds_as_many_requests_as_it_may_and_refuses_the_next() {
    let demo = sandbox("demo").await;
    // Two routes at one address take turns, so that one of them is held for a while.
    let gateway = Gateway::builder()
        .routes(&routes([route("one").ip(demo.ip()), route("two").ip(demo.ip())]))
        .cluster("max-held-requests", 1)
        .start()
        .await;
    let address = gateway.address();
    let send = |id: &'static str| async move {
        let mut client = Client::http1(address).await.expect("connect");
        client.send(ask(id)).await.expect("an answer")
    };
    let refused = gateway
        .until("somebody comes while another is held", async || {
            let (one, two, again) =
                tokio::join!(send("default--one"), send("default--two"), send("default--two"));
            [one, two, again].into_iter().find(|reply| reply.status != 200)
        })
        .await;
    assert_refused(&gateway, &refused, 503, "gateway_too_many_held").await;
    assert_eq!(refused.header("retry-after"), "1");
    assert!(gateway.stat("sandgate.rq_too_many_held").await >= Some(1));
    gateway
        .until("nobody is held", async || {
            (gateway.cluster_status("sandbox").await["parked"] == 0).then_some(())
        })
        .await;
}

/// The shipped config gives a request so long to come in whole; here it is a few seconds.
#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_given_up_and_answers_may_take_longer() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .adjust(|config: &mut Value| {
            let listener = "/static_resources/listeners/0/filter_chains/0/filters/1/typed_config";
            let manager = config.pointer_mut(listener).expect("a connection manager");
            assert_eq!(manager["request_timeout"], "900s", "the shipped config");
            manager["request_timeout"] = json!("4s");
        })
        .start()
        .await;
    let host = Some("8000-default--demo.sandbox.test");
    let mut socket = WebSocket::open(gateway.address(), host, "/ws", &[]).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    let address = gateway.address();
    let slow = tokio::spawn(async move {
        let mut client = Client::http1(address).await.expect("connect");
        client.send(ask("default--demo").path("/slow")).await.expect("an answer").status
    });
    demo.holding(1).await;
    let mut stalled = post_without_body(&gateway, ip(GREEDY)).await;
    let mut answer = vec![0; 12];
    let read = tokio::time::timeout(Duration::from_secs(20), stalled.read_exact(&mut answer)).await;
    read.expect("it does not wait for ever").expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 408");
    gateway
        .access_where("the body that did not come", |access| access.details == "request_overall_timeout")
        .await;
    // They began before the one that was given up, and go on.
    socket.send("still there").await;
    assert_eq!(socket.next().await.as_deref(), Some("still there"));
    demo.release(1);
    assert_eq!(slow.await.expect("no panic"), 200);
}
