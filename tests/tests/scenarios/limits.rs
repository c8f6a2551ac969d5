//! What clients can take of the gateway: a share, never all of it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::StreamBody;
use hyper::body::Frame;
use sandgate_tests::{
    Client, DEADLINE, Gateway, Pattern, Place, Request, Running, Sandbox, eventually, route, routes,
};
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::support::{ask, demo, sandbox};

const STREAMS: usize = 1024;
/// What one client's connection may cost Envoy: 100 streams of it, with buffers on both sides.
const BOUND: u64 = 64 << 20;

/// Opens as many streams as the gateway takes on one HTTP/2 connection, reads nothing of the answers, and
/// looks at how much Envoy's heap has grown when it grows no more.
async fn assert_bounded(gateway: &Gateway, request: impl Fn() -> Request, settled: impl Fn(usize) -> bool) {
    // What Envoy needs for its first requests is not what is measured.
    assert_eq!(gateway.send(ask("default--demo")).await.status, 200);
    let before = gateway.heap().await;
    let client = gateway.http2_client().await;
    let answered = Arc::new(AtomicUsize::new(0));
    let mut streams = JoinSet::new();
    for _ in 0..STREAMS {
        let (mut client, request, answered) = (client.share(), request(), Arc::clone(&answered));
        streams.spawn(async move {
            // The body is kept and never read. Streams over the limit wait for their turn, which never comes.
            let _kept = client.open(request).await;
            answered.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        });
    }
    let mut most = before;
    let mut quiet = 0;
    eventually("Envoy's heap grows no more", DEADLINE * 2, async || {
        let now = gateway.heap().await;
        // Small allocations come and go; what is measured comes in megabytes.
        quiet =
            if now > most + (1 << 20) || !settled(answered.load(Ordering::SeqCst)) { 0 } else { quiet + 1 };
        most = most.max(now);
        (quiet == 50 || most > before + 4 * BOUND).then_some(())
    })
    .await;
    let growth = most - before;
    assert!(growth < BOUND, "one connection made Envoy's heap grow by {} MiB", growth >> 20);
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo", "others are served meanwhile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_answers_that_nobody_reads_cost_a_bounded_amount_of_memory() {
    let (_demo, gateway) = demo().await;
    let download = || ask("default--demo").path("/download?bytes=1073741824");
    assert_bounded(&gateway, download, |answered| answered >= 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_uploads_that_no_sandbox_takes_cost_a_bounded_amount_of_memory() {
    let (demo, gateway) = demo().await;
    let upload = || {
        let chunks = Pattern::chunks(16 << 20).map(|chunk| Ok(Frame::data(chunk)));
        let body = StreamBody::new(futures_util::stream::iter(chunks));
        ask("default--demo").path("/slow").method("POST").body(body)
    };
    assert_bounded(&gateway, upload, |_| demo.held() >= 100).await;
}

/// A connection from an address of this machine.
async fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}

/// `sandgate run` with 256 files to open, and two sandboxes.
struct ShortOfFiles {
    demo: Sandbox,
    _other: Sandbox,
    _folder: TempDir,
    _running: Running,
    gateway: SocketAddr,
    admin: SocketAddr,
}

async fn short_of_files() -> ShortOfFiles {
    let (demo, other) = (sandbox("demo").await, sandbox("other").await);
    let folder = TempDir::with_prefix("sandgate-routes-").expect("create a folder");
    let file = folder.path().join("routes.yaml");
    let both = routes([route("demo").ip(demo.ip()), route("other").ip(other.ip())]);
    std::fs::write(&file, both).expect("write");
    let file = file.to_str().expect("a path of text");
    let arguments = ["run", "--port", "0", "--admin-port", "0", "--concurrency", "2", "--routes", file];
    let mut running = Running::start_with_files(256, &arguments);
    let address = |word: &'static str| {
        move |output: &str| {
            let line =
                output.lines().find(|line| line.trim().starts_with(word) && line.contains("http://"))?;
            line.split("http://").nth(1)?.split(|c: char| c.is_whitespace() || c == '/').next()?.parse().ok()
        }
    };
    let gateway = running.printed("the address of the gateway", address("gateway")).await;
    let admin = running.printed("the address of the admin pages", address("admin")).await;
    ShortOfFiles { demo, _other: other, _folder: folder, _running: running, gateway, admin }
}

impl ShortOfFiles {
    /// Whether a request on a connection of its own is answered by the sandbox.
    async fn serves(&self, id: &str) -> bool {
        let Ok(mut client) = Client::http1(self.gateway).await else { return false };
        client.send(ask(id)).await.is_ok_and(|reply| reply.status == 200)
    }

    async fn assert_ready(&self) {
        let mut client = Client::http1(self.admin).await.expect("connect to the admin port");
        let answer = client.send(Request::get("/ready")).await.expect("an answer of the admin port");
        assert_eq!(answer.text().trim(), "LIVE");
    }

    async fn stat(&self, name: &str) -> u64 {
        let mut client = Client::http1(self.admin).await.expect("connect to the admin port");
        let filter = format!("/stats?filter=^{}$", name.replace('.', "\\."));
        let reply = client.send(Request::get(&filter)).await.expect("an answer of the admin port");
        let answer = reply.text();
        let value = answer.trim().rsplit(": ").next().and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {answer:?}"))
    }
}

#[tokio::test]
async fn idle_strangers_give_way_to_requests_and_probes_where_files_are_few() {
    let short = short_of_files().await;
    let mut strangers = Vec::new();
    for _ in 0..400 {
        strangers.push(connect(Ipv4Addr::LOCALHOST.into(), short.gateway).await.expect("connect"));
    }
    short.assert_ready().await;
    let served = async || short.serves("default--demo").await.then_some(());
    eventually("idle connections make room", DEADLINE, served).await;
    for _ in 0..50 {
        assert!(short.serves("default--demo").await, "served once, served on");
    }
    short.assert_ready().await;
    drop(strangers);
}

/// A connection of a client may have a hundred requests under way, and each of them needs one to its sandbox.
#[tokio::test]
async fn slow_requests_over_http2_leave_files_for_others_and_for_probes() {
    let short = short_of_files().await;
    let mut clients = Vec::new();
    let mut requests = JoinSet::new();
    for _ in 0..3 {
        let client = Client::http2(short.gateway).await.expect("connect");
        for _ in 0..100 {
            let mut client = client.share();
            requests.spawn(async move { client.send(ask("default--demo").path("/slow")).await.map(drop) });
        }
        clients.push(client);
    }
    eventually("no more connections to sandboxes are made", DEADLINE, async || {
        (short.stat("cluster.sandbox.upstream_cx_overflow").await > 0).then_some(())
    })
    .await;
    for _ in 0..50 {
        assert!(short.serves("default--other").await, "another sandbox is served");
    }
    short.assert_ready().await;
    // Two fifths of 256 files, less what Envoy needs for itself.
    eventually("as many as there may be are in use", DEADLINE, async || {
        (short.demo.held() >= 60).then_some(())
    })
    .await;
    let held = short.demo.held();
    assert!(held <= 72, "{held} connections to one sandbox");
    requests.abort_all();
}

#[tokio::test]
async fn one_address_has_its_share_of_the_connections_and_leaves_the_rest_to_others() {
    let short = short_of_files().await;
    let gateway = short.gateway;
    let place = Place::reserve();
    // Every connection that is closed is opened again at once: the gateway is never left alone.
    let mut strangers = JoinSet::new();
    let opened = Arc::new(AtomicUsize::new(0));
    for _ in 0..120 {
        let (from, opened) = (place.ip(), Arc::clone(&opened));
        strangers.spawn(async move {
            loop {
                if let Ok(stream) = connect(from, gateway).await {
                    opened.fetch_add(1, Ordering::SeqCst);
                    // Nothing comes: it is over when the gateway closes it.
                    let _closed = stream.readable().await;
                }
            }
        });
    }
    eventually("strangers have come", DEADLINE, async || (opened.load(Ordering::SeqCst) > 400).then_some(()))
        .await;
    for _ in 0..50 {
        assert!(short.serves("default--demo").await, "a client at another address is served");
    }
    assert!(short.stat("sandgate.connections_refused").await > 0);
}
