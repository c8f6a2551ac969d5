//! The metrics listener of `sandgate run --metrics-port`: two pages of the admin port, and no way to a third.

use std::net::SocketAddr;
use std::time::Duration;

use sandgate_tests::{
    Cli, Client, DEADLINE, LoopbackPort, Place, Reply, Request, Running, eventually, raw_exchange, route,
    routes,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::support::{ask, sandbox};

/// A gateway with the listener, on an address of its own.
struct WithMetrics {
    running: Running,
    place: Place,
    admin: LoopbackPort,
    _folder: TempDir,
}

const GATEWAY: u16 = 7788;
const METRICS: u16 = 9902;

impl WithMetrics {
    /// A gateway to be, with the routes in a file that may not be there yet.
    fn begin(config: Option<&str>, files: Option<u32>, routes: &str) -> Self {
        let folder = TempDir::with_prefix("sandgate-metrics-").expect("create a folder");
        let (place, admin) = (Place::reserve(), LoopbackPort::reserve());
        let file = folder.path().join("routes.yaml");
        std::fs::write(&file, routes).expect("write");
        let settings = folder.path().join("config.yaml");
        std::fs::write(&settings, config.unwrap_or("filter: {}")).expect("write");
        let text = |value: &dyn std::fmt::Display| value.to_string();
        let mut arguments = vec!["run".to_owned()];
        for (option, value) in [
            ("--address", text(&place.ip())),
            ("--port", text(&GATEWAY)),
            ("--admin-port", text(&admin.number())),
            ("--metrics-port", text(&METRICS)),
            ("--concurrency", text(&2)),
            ("--drain-delay", text(&600)),
            ("--config", text(&settings.display())),
        ] {
            arguments.extend([option.to_owned(), value]);
        }
        if config.is_none() {
            arguments.extend(["--routes".to_owned(), file.display().to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let running = match files {
            Some(files) => Running::start_with_files(files, &arguments),
            None => Running::start(&arguments),
        };
        Self { running, place, admin, _folder: folder }
    }

    async fn start(files: Option<u32>, routes: &str) -> Self {
        let mut gateway = Self::begin(None, files, routes);
        gateway.running.printed("it is ready", |output| output.contains("is ready").then_some(())).await;
        gateway
    }

    /// How many connections the listener has.
    async fn connections(&self) -> u64 {
        let filter = "/stats?filter=^connection_limit.metrics.active_connections$";
        let stats = send(self.admin(), Request::get(filter)).await;
        let value = stats.text().trim().rsplit(": ").next().and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{}", stats.text()))
    }

    /// Waits until the listener has heard that its connections are closed.
    async fn let_go(&self) {
        eventually("no connection is left", DEADLINE, async || (self.connections().await == 0).then_some(()))
            .await;
    }

    fn metrics(&self) -> SocketAddr {
        (self.place.ip(), METRICS).into()
    }

    fn gateway(&self) -> SocketAddr {
        (self.place.ip(), GATEWAY).into()
    }

    fn admin(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.admin.number()))
    }
}

/// The head of the answer to a request byte by byte. The connection is dropped then: Envoy would keep one
/// that is to be closed open for a second, for what the client may still send. It hears of that a little
/// late, so there may be too many for a moment.
async fn head(to: SocketAddr, request: &str) -> String {
    eventually("an answer", DEADLINE, async || {
        let mut stream = TcpStream::connect(to).await.expect("connect");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { break };
            answer.push(byte);
        }
        (!answer.is_empty()).then(|| String::from_utf8_lossy(&answer).into_owned())
    })
    .await
}

async fn send(to: SocketAddr, request: Request) -> Reply {
    let mut client = Client::http1(to).await.expect("connect");
    client.send(request).await.expect("an answer")
}

#[tokio::test]
async fn ready_and_metrics_are_shown_with_get_and_head() {
    let gateway = WithMetrics::start(None, &routes([route("demo").ip([127, 0, 0, 1])])).await;
    let ready = send(gateway.metrics(), Request::get("/ready")).await;
    assert_eq!((ready.status, ready.text().trim()), (200, "LIVE"));
    assert_eq!(ready.header("x-content-type-options"), "nosniff", "the admin port's own answer");
    for path in ["/stats/prometheus", "/stats/prometheus?usedonly"] {
        let metrics = send(gateway.metrics(), Request::get(path)).await;
        assert_eq!(metrics.status, 200, "{path}");
        assert!(metrics.text().contains("sandgate_routes_running"), "{path}: {}", metrics.text());
    }
    for path in ["/ready", "/stats/prometheus"] {
        let head = send(gateway.metrics(), Request::get(path).method("HEAD")).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
    // The listener is the gateway's own place: no route leads there.
    let own = format!("{}", gateway.metrics());
    let config = send(gateway.admin(), Request::get("/config_dump")).await;
    let own_addresses = config.text().split("own-addresses").nth(1).expect("own addresses");
    assert!(
        own_addresses.split(']').next().is_some_and(|list| list.contains(&own)),
        "{own} is not known as own"
    );
}

/// The other pages end the process, change what it logs, drain it, and tell what is in its memory.
#[tokio::test]
async fn no_other_page_of_the_admin_port_can_be_reached() {
    let gateway = WithMetrics::start(None, &routes([route("demo").ip([127, 0, 0, 1])])).await;
    let pages = [
        "/",
        "/config_dump",
        "/clusters",
        "/listeners",
        "/server_info",
        "/memory",
        "/stats",
        "/stats?format=json",
        "/certs",
        "/sandgate/routes",
        "/sandgate/status",
        "/quitquitquit",
        "/logging?level=trace",
        "/healthcheck/fail",
        "/drain_listeners",
        "/cpuprofiler",
        "/heap_dump",
        "/reset_counters",
        "/runtime_modify?a=b",
    ];
    // Spellings that one of two parsers on the way might read as another page.
    let tricks = [
        "//ready",
        "/ready/",
        "/READY",
        "/ready/../config_dump",
        "/ready/%2e%2e/config_dump",
        "/ready%2f..%2fconfig_dump",
        "/stats/prometheus/../../config_dump",
        "/stats/prometheus/..",
        "/stats/prometheus/../",
        "/./config_dump",
        "/stats%2fprometheus",
        "/stats/prometheus%00/config_dump",
        "/ready%3f/../config_dump",
        "/ready;/../config_dump",
        "/stats/prometheus;a=b",
        "/%72eady",
        "/stats/./prometheus",
        "/stats//prometheus",
        "\\ready",
        "/config_dump#/ready",
        "/config_dump?/ready",
        "/config_dump?x=/stats/prometheus",
        "http://127.0.0.1/config_dump",
        "http://ready/quitquitquit",
        "/ready\\..\\config_dump",
    ];
    for path in pages.into_iter().chain(tricks) {
        for method in ["GET", "HEAD", "POST"] {
            let request = format!("{method} {path} HTTP/1.1\r\nhost: ready\r\ncontent-length: 0\r\n\r\n");
            let answer = head(gateway.metrics(), &request).await;
            let status = answer.split(' ').nth(1).unwrap_or_default();
            assert!(["404", "400"].contains(&status), "{method} {path}: {answer}");
            // Nor has the admin port been asked: every answer of its has this header.
            assert!(!answer.contains("nosniff"), "{method} {path}: {answer}");
        }
    }
    // What is let through is only read.
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"] {
        let request = format!("{method} /ready HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
        let answer = head(gateway.metrics(), &request).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{method}: {answer}");
    }
    gateway.let_go().await;
    // Headers by which a path, a method or a place is replaced elsewhere.
    let tricky = Request::get("/nothing")
        .header("x-envoy-original-path", "/config_dump")
        .header("x-original-url", "/config_dump")
        .header("x-rewrite-url", "/config_dump")
        .header("x-http-method-override", "POST")
        .header("x-envoy-original-dst-host", "127.0.0.1:1");
    assert_eq!(send(gateway.metrics(), tricky).await.status, 404);
    // A second request behind the first one's body.
    let smuggled = b"GET /ready HTTP/1.1\r\nhost: a\r\ncontent-length: 44\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /config_dump HTTP/1.1\r\nhost: a\r\n\r\n";
    let answer = raw_exchange(gateway.metrics(), smuggled).await;
    assert!(answer.starts_with("HTTP/1.1 400") && !answer.contains("bootstrap"), "{answer}");
    // An upgrade is none.
    let upgrade = Request::get("/ready").header("connection", "upgrade").header("upgrade", "websocket");
    assert_ne!(send(gateway.metrics(), upgrade).await.status, 101);
    // Nothing has happened to it.
    assert_eq!(send(gateway.metrics(), Request::get("/ready")).await.text().trim(), "LIVE");
    // And no sandbox is behind this listener, nor this listener's pages behind the gateway's.
    assert_eq!(send(gateway.metrics(), ask("default--demo")).await.status, 404);
    assert_eq!(send(gateway.gateway(), Request::get("/ready")).await.json()["reason"], "not_addressed");
}

/// A readiness probe has to fail from the moment a gateway drains.
#[tokio::test]
async fn ready_says_503_when_the_gateway_was_told_to_fail_and_the_metrics_go_on() {
    let gateway = WithMetrics::start(None, &routes([route("demo").ip([127, 0, 0, 1])])).await;
    assert_eq!(send(gateway.admin(), Request::post("/healthcheck/fail")).await.status, 200);
    assert_eq!(send(gateway.metrics(), Request::get("/ready")).await.status, 503);
    assert_eq!(send(gateway.metrics(), Request::get("/stats/prometheus")).await.status, 200);
    assert_eq!(send(gateway.admin(), Request::post("/drain_listeners?graceful&skip_exit")).await.status, 200);
    assert_eq!(send(gateway.metrics(), Request::get("/ready")).await.status, 503);
}

/// The same by SIGTERM, as a kubelet sends it: 503 at once, and the gateway serves on.
#[tokio::test]
async fn ready_says_503_after_sigterm_while_requests_are_still_served() {
    let demo = sandbox("demo").await;
    let mut gateway = WithMetrics::start(None, &routes([route("demo").ip(demo.ip())])).await;
    gateway.running.terminate();
    eventually("the probe is told", DEADLINE, async || {
        (send(gateway.metrics(), Request::get("/ready")).await.status == 503).then_some(())
    })
    .await;
    assert_eq!(send(gateway.gateway(), ask("default--demo")).await.sandbox(), "demo");
    assert_eq!(send(gateway.metrics(), Request::get("/stats/prometheus")).await.status, 200);
    gateway.running.terminate();
    gateway.running.ended().await;
}

/// Until the first list is complete nobody listens: a probe is refused, and that is what it is to learn.
#[tokio::test]
async fn nobody_listens_before_the_first_list_is_complete() {
    // An API server that is not there.
    let away = Place::reserve();
    let folder = TempDir::with_prefix("sandgate-away-").expect("create a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let cluster = format!("https://{}:6443", away.ip());
    std::fs::write(
        &kubeconfig,
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{ "name": "a", "cluster": { "server": cluster } }],
            "users": [{ "name": "a", "user": { "token": "t" } }],
            "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        })
        .to_string(),
    )
    .expect("write");
    let config = serde_json::json!({ "gateway": { "kubernetes": {
        "kubeconfig": kubeconfig, "providers": [{ "kind": "openkruise" }],
    } } });
    let gateway = WithMetrics::begin(Some(&config.to_string()), None, "routes: []");
    eventually("the admin port answers", DEADLINE, async || {
        let mut client = Client::http1(gateway.admin()).await.ok()?;
        let reply = client.send(Request::get("/ready")).await.ok()?;
        (reply.status == 503).then_some(())
    })
    .await;
    let refused = TcpStream::connect(gateway.metrics()).await.expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// Clients with requests under way who have all the connections there may be, and idle ones on this listener,
/// leave probes their answer.
#[tokio::test]
async fn probes_are_answered_when_clients_have_taken_all_they_may_and_this_listener_takes_few() {
    let demo = sandbox("demo").await;
    let gateway = WithMetrics::start(Some(320), &routes([route("demo").ip(demo.ip())])).await;
    let to = gateway.gateway();
    // From several addresses, because one has half of the connections at most.
    let mut busy = JoinSet::new();
    for number in 0..120_u8 {
        busy.spawn(async move {
            // Who is refused comes again: a place that the client below has had for a moment is taken.
            let mut ticks = interval(Duration::from_millis(10));
            loop {
                ticks.tick().await;
                let from = [127, 0, 0, 2 + number % 4].into();
                let Ok(mut client) = Client::http1_from(from, to).await else { continue };
                let _ended = client.send(ask("default--demo").path("/slow")).await;
            }
        });
    }
    eventually("no connection is left for another client", DEADLINE, async || {
        let Ok(mut client) = Client::http1_from([127, 0, 0, 9].into(), to).await else { return Some(()) };
        // One that still gets in may wait behind the slow ones for a connection to the sandbox.
        let answer = timeout(Duration::from_secs(1), client.send(ask("default--demo"))).await.ok()?;
        answer.is_err().then_some(())
    })
    .await;
    for _ in 0..20 {
        let mut client = Client::http1(gateway.metrics()).await.expect("connect");
        let ready = client.send(Request::get("/ready")).await.expect("a probe is answered");
        assert_eq!(ready.status, 200);
    }
    busy.shutdown().await;
    // Whoever opens more than a few connections here gets no more, and clients of the gateway do not feel it.
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(gateway.metrics()).await.expect("connect"));
    }
    eventually("those over the limit are closed", DEADLINE, async || {
        (gateway.connections().await == 32).then_some(())
    })
    .await;
    eventually("a client is served", DEADLINE, async || {
        let mut client = Client::http1(gateway.gateway()).await.ok()?;
        let reply = client.send(ask("default--demo")).await.ok()?;
        (reply.status == 200).then_some(())
    })
    .await;
    drop(idle);
    eventually("probes are answered again", DEADLINE, async || {
        let mut client = Client::http1(gateway.metrics()).await.ok()?;
        let reply = client.send(Request::get("/ready")).await.ok()?;
        (reply.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn ports_that_cannot_be_are_told_before_envoy_starts() {
    let folder = TempDir::with_prefix("sandgate-metrics-").expect("create a folder");
    let file = folder.path().join("routes.yaml");
    std::fs::write(&file, routes([route("demo").ip([127, 0, 0, 1])])).expect("write");
    let file = file.to_str().expect("text");
    let (place, admin) = (Place::reserve(), LoopbackPort::reserve());
    let (ip, admin) = (place.ip().to_string(), admin.number().to_string());
    let _taken = std::net::TcpListener::bind((place.ip(), METRICS)).expect("listen");
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--admin-port", "0", "--metrics-port", "9902"], 2, "--admin-port"),
        (&["--admin-port", &admin, "--metrics-port", &admin], 2, "--admin-port"),
        (&["--admin-port", &admin, "--port", "9902", "--metrics-port", "9902"], 2, "--port"),
        (&["--admin-port", &admin, "--metrics-port", "0"], 2, "--metrics-port"),
        (&["--admin-port", &admin, "--port", "0", "--metrics-port", "9902"], 1, "--metrics-port"),
    ];
    for (options, code, part) in cases {
        let mut arguments = vec!["run", "--routes", file, "--address", &ip];
        arguments.extend(options);
        let done = Cli::run(&arguments).await;
        assert_eq!(done.code, Some(code), "{options:?}: {}", done.stderr);
        assert!(done.stderr.contains(part), "no {part} in what {options:?} says: {}", done.stderr);
        assert!(done.stdout.is_empty(), "{done:?}");
    }
}
