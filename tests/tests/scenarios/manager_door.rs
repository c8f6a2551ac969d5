//! One door for both planes: with a `manager` section the gateway sends the E2B API to the manager, and
//! everything else where it goes without one.
//!
//! The manager is a server that says what it got, as sandboxes do.

use std::fs;
use std::net::SocketAddr;

use http_body_util::Full;
use sandgate_tests::{
    Authority, Cli, Client, Place, RawSandbox, Reply, Request, RouteEntry, Running, Sandbox, WebSocket,
    route, routes,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::sandbox;

const DOMAIN: &str = "sandbox.test";

/// `sandgate run` with a sandbox `demo` and this config.
struct Site {
    folder: TempDir,
    running: Running,
    gateway: SocketAddr,
    admin: SocketAddr,
    demo: Sandbox,
}

impl Site {
    async fn open(config: &Value) -> Self {
        Self::with(config, &[]).await
    }

    /// The same with more sandboxes.
    async fn with(config: &Value, more: &[RouteEntry]) -> Self {
        let demo = sandbox("demo").await;
        let folder = TempDir::with_prefix("sandgate-manager-").expect("create a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("write");
            path.display().to_string()
        };
        // A sandbox with the ID `api`: whoever could be reached as it would get what is for the manager.
        let known = [route("demo").ip(demo.ip()), route("api").id("api").ip(demo.ip())];
        let text = routes(known.into_iter().chain(more.iter().cloned()));
        let (routes, config) = (file("routes.yaml", &text), file("gateway.yaml", &config.to_string()));
        let mut arguments = vec!["run", "--port", "0", "--admin-port", "0", "--concurrency", "2"];
        arguments.extend(["--config", &config, "--routes", &routes]);
        let mut running = Running::start(&arguments);
        let (gateway, admin) = (running.address("gateway").await, running.address("admin").await);
        Self { folder, running, gateway, admin, demo }
    }

    async fn send(&self, request: Request) -> Reply {
        let mut client = Client::http1(self.gateway).await.expect("connect");
        client.send(request).await.expect("an answer")
    }

    async fn send_http2(&self, request: Request) -> Reply {
        let mut client = Client::http2(self.gateway).await.expect("connect");
        client.send(request).await.expect("an answer")
    }

    /// A number of Envoy's, by the end of its name.
    async fn stat(&self, name: &str) -> u64 {
        let mut client = Client::http1(self.admin).await.expect("connect");
        let reply = client.send(Request::get(&format!("/stats?filter={name}$"))).await.expect("an answer");
        let line = reply.text().lines().find_map(|line| line.rsplit_once(": ")?.1.trim().parse().ok());
        line.unwrap_or_else(|| panic!("no {name} in {}", reply.text()))
    }
}

fn with_manager(manager: &Sandbox, filter: &Value) -> Value {
    json!({ "manager": { "address": manager.authority() }, "filter": filter })
}

fn filters() -> [Value; 3] {
    [
        json!({}),
        json!({ "domains": [DOMAIN] }),
        json!({ "domains": [DOMAIN], "dialects": { "kruise": { "path": true } }, "clear-route-cache": true }),
    ]
}

#[tokio::test]
async fn the_api_is_reached_by_its_path_on_any_host_and_by_its_own_host_as_it_was_asked() {
    let manager = Sandbox::start("manager").await;
    for filter in filters() {
        let site = Site::open(&with_manager(&manager, &filter)).await;
        for (host, path) in [
            ("gateway.example", "/kruise/api/sandboxes?limit=3&x=%2F"),
            ("8000-default--demo.sandbox.test", "/kruise/api"),
            ("127.0.0.1:7788", "/kruise/api/v2/sandboxes"),
            ("api.sandbox.test", "/sandboxes?a=b"),
            ("api.sandbox.test:8443", "/v2/sandboxes"),
            ("API.Sandbox.test", "/health"),
            ("api.sandbox.test", "/kruise/api/sandboxes//x/../y"),
            // The API's host is the manager's whatever the path or a header says.
            ("api.sandbox.test", "/kruise/default--demo/8000/x"),
            ("api.sandbox.test", "/default--demo/8000/x"),
        ] {
            let request = |method: &str| {
                Request::get(path)
                    .method(method)
                    .host(host)
                    .header("x-api-key", "e2b_00")
                    .header("x-request-id", "abc")
                    .header("idempotency-key", "once")
                    .header("e2b-sandbox-id", "default--demo")
            };
            for reply in [
                site.send(request("GET")).await,
                site.send(request("DELETE")).await,
                site.send_http2(request("POST")).await,
            ] {
                assert_eq!(reply.sandbox(), "manager", "{host}{path}");
                let seen = reply.json();
                assert_eq!((&seen["path"], &seen["host"]), (&json!(path), &json!(host)));
                for (name, value) in
                    [("x-api-key", "e2b_00"), ("x-request-id", "abc"), ("idempotency-key", "once")]
                {
                    assert_eq!(reply.seen(name), [value]);
                }
                assert_eq!(reply.seen("x-forwarded-for").len(), 1, "the client's address");
            }
        }
        assert_eq!(site.demo.requests(), 0);
    }
}

#[tokio::test]
async fn what_is_for_a_sandbox_goes_to_it_and_what_is_for_nobody_is_refused_as_without_a_manager() {
    let manager = Sandbox::start("manager").await;
    for filter in filters() {
        let with = Site::open(&with_manager(&manager, &filter)).await;
        let without = Site::open(&json!({ "filter": filter })).await;
        for (host, path, id) in [
            ("8000-default--demo.sandbox.test", "/x", None),
            ("8000-default--demo.sandbox.test", "/api/kruise/api", None),
            ("gateway.example", "/kruise/default--demo/8000/y", None),
            // The sandbox's own path may read as the manager's.
            ("gateway.example", "/kruise/default--demo/8000/kruise/api/x", None),
            ("gateway.example", "/x", Some("default--demo")),
            ("8000-api.sandbox.test", "/x", None),
            ("gateway.example", "/kruise/apix/8000/", None),
            ("gateway.example", "/kruise/API/8000/", None),
            ("gateway.example", "/", None),
            ("apis.sandbox.test", "/", None),
            ("sandbox.test", "/", None),
            ("8000-nobody.sandbox.test", "/", None),
        ] {
            let request = || {
                let request = Request::get(path).host(host);
                let Some(id) = id else { return request };
                request.header("e2b-sandbox-id", id).header("e2b-sandbox-port", "8000")
            };
            let (one, other) = (with.send(request()).await, without.send(request()).await);
            assert_eq!(one.status, other.status, "{host}{path}");
            let parts = |reply: &Reply| {
                let body = reply.json();
                ["sandbox", "path", "host", "code", "reason", "message"].map(|key| body[key].clone())
            };
            assert_eq!(parts(&one), parts(&other), "{host}{path}");
        }
        assert!(with.demo.requests() > 0);
    }
    assert_eq!(manager.requests(), 0);
}

#[tokio::test]
async fn no_sandbox_is_reached_as_api_and_without_a_manager_nobody_is() {
    let manager = Sandbox::start("manager").await;
    let with = Site::open(&with_manager(&manager, &json!({}))).await;
    let without = Site::open(&json!({})).await;
    for (host, path) in [("gateway.example", "/kruise/api/8000/x"), ("api.sandbox.test", "/x")] {
        let request = || Request::get(path).host(host).header("e2b-sandbox-port", "8000");
        assert_eq!(with.send(request()).await.sandbox(), "manager", "{host}{path}");
        let refused = without.send(request()).await;
        assert_eq!((refused.status, &refused.json()["reason"]), (404, &json!("not_addressed")));
    }
    assert_eq!(with.demo.requests() + without.demo.requests(), 0);
}

#[tokio::test]
async fn bodies_pass_whole_and_an_answer_may_take_longer_than_envoys_default() {
    let manager = Sandbox::start("manager").await;
    let site = Site::open(&with_manager(&manager, &json!({}))).await;
    let body = vec![b'x'; 1 << 20];
    let upload = Request::post("/upload").host("api.sandbox.test").body(Full::from(body));
    let seen = site.send(upload).await;
    assert_eq!((seen.sandbox(), &seen.json()["bytes"]), ("manager".to_owned(), &json!(1 << 20)));
    // Fifteen seconds is how long a route waits that says nothing.
    let late = Request::post("/sandboxes").path("/late?milliseconds=15500").host("api.sandbox.test");
    assert_eq!(site.send(late).await.sandbox(), "manager");
    // No request to the manager is an upgrade.
    let refused = WebSocket::open(site.gateway, Some("api.sandbox.test"), "/ws", &[]).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again_by_anybody_and_one_that_was_not_may_be() {
    let create = || Request::post("/kruise/api/sandboxes").header("x-envoy-retry-on", "5xx,reset");
    // It takes the request, and hangs up or says what is no answer.
    for answer in ["", "this is no HTTP\r\n\r\n"] {
        let manager = RawSandbox::answering(answer).await;
        let address = SocketAddr::new(manager.ip(), manager.port());
        let site = Site::open(&json!({ "manager": { "address": address.to_string() } })).await;
        let reply = site.send(create()).await;
        assert!([502, 503].contains(&reply.status), "{answer:?}: {} {}", reply.status, reply.text());
        // E2B's SDK sends a create again after such a status, unless it is told not to.
        assert_eq!(reply.header("should-retry"), "false", "{answer:?}: {}", reply.text());
        assert_eq!((manager.requests(), site.stat("cluster.manager.upstream_rq_retry").await), (1, 0));
    }

    let place = Place::reserve();
    let nobody = json!({ "manager": { "address": format!("{}:1", place.ip()) } });
    let site = Site::open(&nobody).await;
    let reply = site.send(create()).await;
    assert_eq!((reply.status, reply.header("should-retry")), (503, ""), "{}", reply.text());
    let demo = Request::get("/x").host("8000-default--demo.sandbox.test");
    assert_eq!(site.send(demo).await.sandbox(), "demo");
}

/// What a sandbox does with a request is its own business: nothing is said of it that is said of the manager.
#[tokio::test]
async fn a_sandbox_that_hangs_up_is_answered_for_as_without_a_manager() {
    let manager = Sandbox::start("manager").await;
    let sandbox = RawSandbox::answering("").await;
    let mut answers = Vec::new();
    for config in [with_manager(&manager, &json!({})), json!({})] {
        let site = Site::with(&config, &[route("rude").ip(sandbox.ip())]).await;
        let ask = Request::post("/x").host(&format!("{}-default--rude.sandbox.test", sandbox.port()));
        let reply = site.send(ask).await;
        answers.push((reply.status, reply.text().to_owned(), reply.header("should-retry").to_owned()));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!((answers[0].0, answers[0].2.as_str(), sandbox.requests()), (503, "", 2), "{answers:?}");
}

#[tokio::test]
async fn a_manager_is_found_by_name_and_one_that_is_not_keeps_nobody_from_sandboxes() {
    let manager = Sandbox::start_at("manager", Place::shared([127, 0, 0, 1].into()), &[0]).await;
    let named = json!({ "manager": { "address": format!("localhost:{}", manager.port()) } });
    let site = Site::open(&named).await;
    assert_eq!(site.send(Request::get("/kruise/api/x")).await.sandbox(), "manager");

    let site = Site::open(&json!({ "manager": { "address": "nobody.invalid:80" } })).await;
    let reply = site.send(Request::get("/kruise/api/x")).await;
    assert_eq!((reply.status, reply.header("should-retry")), (503, ""), "it may be sent again");
    let demo = Request::get("/x").host("8000-default--demo.sandbox.test");
    assert_eq!(site.send(demo).await.sandbox(), "demo");
}

#[tokio::test]
async fn over_tls_the_manager_has_to_show_the_name_that_is_expected() {
    let folder = TempDir::new().expect("create a folder");
    let authority = Authority::new(folder.path());
    let manager = Sandbox::over_tls("manager", &[0], authority.server("manager.test", false)).await;
    for (name, status) in [("manager.test", 200), ("other.test", 503)] {
        let tls = json!({ "ca": authority.file(), "server-name": name });
        let site = Site::open(&json!({ "manager": { "address": manager.authority(), "tls": tls } })).await;
        let reply = site.send(Request::get("/kruise/api/x")).await;
        assert_eq!(reply.status, status, "{name}: {}", reply.text());
        assert_eq!(reply.header("should-retry"), "", "{name}: the request was not sent");
    }
}

#[tokio::test]
async fn explain_says_which_requests_are_the_managers() {
    let manager = Sandbox::start("manager").await;
    for filter in filters() {
        let site = Site::open(&with_manager(&manager, &filter)).await;
        let config = site.folder.path().join("gateway.yaml").display().to_string();
        for (host, path) in [
            ("gateway.example", "/kruise/api/x"),
            ("gateway.example", "/kruise/api?x"),
            ("gateway.example", "/kruise/apix"),
            ("api.sandbox.test:80", "/x"),
            ("api.sandbox.test.", "/x"),
            ("api.elsewhere.test", "/x"),
            ("api.default--demo-8000.sandbox.test", "/x"),
            ("api", "/x"),
            ("8000-default--demo.sandbox.test", "/x"),
        ] {
            let before = manager.requests();
            site.send(Request::get(path).host(host)).await;
            let reached = manager.requests() > before;
            let header = format!("Host: {host}");
            let done = Cli::run(&["explain", "--json", "--config", &config, "-H", &header, path]).await;
            let report: Value =
                serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
            assert_eq!(report["answer"]["outcome"] == "manager", reached, "{host}{path}: {report}");
        }
        assert!(site.running.stderr().is_empty() || !site.running.stderr().contains("panicked"));
    }
}
