//! The sections `listen` and `timeouts` of `sandgate run`: what is taken from clients, and how long is
//! waited.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sandgate_tests::{
    Client, DEADLINE, Place, Reply, Request, Running, Sandbox, WebSocket, eventually, route, routes,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::support::{ask, sandbox};
use crate::upstream::Deaf;

const HOST: &str = "8000-default--demo.sandbox.test";

/// `sandgate run` with this config and a sandbox `demo`.
struct Site {
    _folder: TempDir,
    _running: Running,
    gateway: SocketAddr,
    demo: Sandbox,
}

impl Site {
    async fn open(config: Value) -> Self {
        let demo = sandbox("demo").await;
        let more = routes([route("demo").ip(demo.ip())]);
        let (folder, running, gateway) = run(config, &more).await;
        Self { _folder: folder, _running: running, gateway, demo }
    }

    async fn send(&self, request: Request) -> Reply {
        let mut client = Client::http1(self.gateway).await.expect("connect");
        client.send(request).await.expect("an answer")
    }

    async fn websocket(&self) -> WebSocket {
        WebSocket::open(self.gateway, Some(HOST), "/ws", &[]).await.expect("an upgrade")
    }
}

async fn run(config: Value, table: &str) -> (TempDir, Running, SocketAddr) {
    let folder = TempDir::with_prefix("sandgate-listen-").expect("create a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("write");
        path.display().to_string()
    };
    let (table, config) = (file("routes.yaml", table), file("gateway.yaml", &config.to_string()));
    let arguments = ["run", "--port", "0", "--admin-port", "0", "--concurrency", "2"];
    let mut running = Running::start(&[&arguments[..], &["--config", &config, "--routes", &table]].concat());
    let gateway = running.address("gateway").await;
    (folder, running, gateway)
}

/// Waits until the gateway ends a WebSocket on which nobody speaks, and says after how long.
async fn ended(socket: &mut WebSocket) -> Duration {
    let begin = Instant::now();
    let end = tokio::time::timeout(DEADLINE, socket.receive()).await.expect("an end in time");
    assert!(end.is_err(), "nobody spoke: {end:?}");
    begin.elapsed()
}

#[tokio::test]
async fn a_websocket_on_which_nothing_passes_ends_over_http1_and_over_http2_and_a_request_does_not() {
    let site = Site::open(json!({ "timeouts": { "websocket-idle-seconds": 1 } })).await;
    let mut first = site.websocket().await;
    let mut second = WebSocket::over_http2(site.gateway, HOST, "/ws").await.expect("an upgrade");
    for socket in [&mut first, &mut second] {
        assert!(socket.next().await.is_some(), "the sandbox says who it is");
    }
    for socket in [&mut first, &mut second] {
        let after = ended(socket).await;
        assert!(after < Duration::from_secs(10), "{after:?}");
    }
    let slow = ask("default--demo").path("/late?milliseconds=2000");
    assert_eq!(site.send(slow).await.status, 200, "a request may be silent for as long as it likes");
}

#[tokio::test]
async fn a_websocket_ends_when_its_lifetime_does_whatever_passes_on_it() {
    let site = Site::open(json!({ "timeouts": { "websocket-lifetime-seconds": 2 } })).await;
    let mut socket = site.websocket().await;
    let begin = Instant::now();
    let mut spoken = 0;
    while socket.try_send("hello").await.is_ok() && socket.receive().await.is_ok() {
        spoken += 1;
        assert!(begin.elapsed() < DEADLINE, "it goes on");
    }
    let after = begin.elapsed();
    assert!(spoken > 10 && (1500..10_000).contains(&after.as_millis()), "{spoken} in {after:?}");
}

#[tokio::test]
async fn a_request_on_which_nothing_passes_is_a_504_and_a_websocket_stays() {
    let site = Site::open(json!({ "timeouts": { "stream-idle-seconds": 1 } })).await;
    let mut socket = site.websocket().await;
    assert!(socket.next().await.is_some(), "the sandbox says who it is");
    let reply = site.send(ask("default--demo").path("/slow")).await;
    assert_eq!((reply.status, &reply.json()["reason"]), (504, &json!("sandbox_response_timeout")));
    // What only says that it is an upgrade is none.
    let pretended = ask("default--demo").path("/late?milliseconds=60000").header("upgrade", "websocket");
    assert_eq!(site.send(pretended).await.status, 504);
    assert_eq!(site.demo.requests(), 3, "none is sent again");
    socket.send("still there").await;
    let echo = socket.next().await;
    assert_eq!(echo.as_deref(), Some("still there"), "it was silent for longer than a request may be");
}

#[tokio::test]
async fn a_connection_has_the_time_that_is_given_and_an_unused_one_closes_after_its_own() {
    let place = Place::reserve();
    let deaf = Deaf::start(place.ip()).await;
    let demo = sandbox("demo").await;
    let table = routes([route("deaf").ip(place.ip()), route("demo").ip(demo.ip())]);
    let config = json!({ "timeouts": { "connect-seconds": 0.3, "upstream-idle-seconds": 1 } });
    let (_folder, _running, gateway) = run(config, &table).await;
    let mut client = Client::http1(gateway).await.expect("connect");
    let begin = Instant::now();
    let request = Request::get("/")
        .header("e2b-sandbox-id", "default--deaf")
        .header("e2b-sandbox-port", deaf.address.port().to_string());
    let reply = client.send(request).await.expect("an answer");
    assert_eq!((reply.status, &reply.json()["reason"]), (504, &json!("sandbox_connect_timeout")));
    assert!((500..4000).contains(&begin.elapsed().as_millis()), "two tries: {:?}", begin.elapsed());
    let begin = Instant::now();
    assert_eq!(client.send(ask("default--demo")).await.expect("an answer").status, 200);
    eventually("the connection closes", DEADLINE, async || (demo.open_connections() == 0).then_some(()))
        .await;
    assert!(begin.elapsed() < Duration::from_secs(20), "long before the port is given up");
}

/// The statuses of requests that are all under way at once, each with its own X-Forwarded-For. So many of
/// them reach the sandbox.
async fn shares(site: &Site, served: usize, forwarded: impl Iterator<Item = String>) -> Vec<u16> {
    let mut all = JoinSet::new();
    for address in forwarded {
        let gateway = site.gateway;
        all.spawn(async move {
            let mut client = Client::http1(gateway).await.expect("connect");
            let request = ask("default--demo").path("/slow").header("x-forwarded-for", address);
            client.send(request).await.expect("an answer").status
        });
    }
    site.demo.holding(served).await;
    let mut statuses = Vec::new();
    // What is refused is answered at once; what is not waits in the sandbox.
    while all.len() > served
        && let Some(status) = all.join_next().await
    {
        statuses.push(status.expect("no panic"));
    }
    site.demo.release(all.len());
    statuses.extend(all.join_all().await);
    statuses.sort_unstable();
    statuses
}

fn limited(hops: u32) -> Value {
    json!({
        "filter": { "limits": { "requests-per-sandbox": 32, "percent-per-client": 50 } },
        "listen": { "trusted-hops": hops },
    })
}

#[tokio::test]
async fn a_client_cannot_choose_its_address() {
    let site = Site::open(limited(0)).await;
    let statuses = shares(&site, 16, (0..20).map(|last| format!("192.0.2.{last}"))).await;
    assert_eq!(statuses, [[200; 16].as_slice(), &[429; 4]].concat(), "all are one client");
}

#[tokio::test]
async fn behind_a_proxy_a_client_is_the_address_that_the_proxy_has_added() {
    let site = Site::open(limited(1)).await;
    let one = (0..20).map(|last| format!("192.0.2.{last}, 198.51.100.7"));
    let statuses = shares(&site, 16, one).await;
    assert_eq!(
        statuses,
        [[200; 16].as_slice(), &[429; 4]].concat(),
        "what the client wrote itself is not read"
    );
    let many = (0..20).map(|last| format!("192.0.2.{last}"));
    assert_eq!(shares(&site, 20, many).await, [200; 20], "each has a share of its own");
}

#[tokio::test]
async fn a_request_has_as_many_headers_and_as_large_ones_as_the_listener_takes() {
    let many = |count: usize| {
        (0..count).fold(ask("default--demo"), |request, number| request.header(&format!("x-n-{number}"), "1"))
    };
    let large = |bytes: usize| ask("default--demo").header("x-large", "l".repeat(bytes));
    let shipped = Site::open(json!({})).await;
    for (request, status) in
        [(many(80), 200), (many(101), 431), (large(50 << 10), 200), (large(61 << 10), 431)]
    {
        assert_eq!(shipped.send(request).await.status, status);
    }
    let config = json!({ "listen": { "max-request-headers": 30, "max-request-headers-kb": 90 } });
    let site = Site::open(config).await;
    for (request, status) in
        [(many(20), 200), (many(31), 431), (large(80 << 10), 200), (large(91 << 10), 431)]
    {
        assert_eq!(site.send(request).await.status, status);
    }
}
