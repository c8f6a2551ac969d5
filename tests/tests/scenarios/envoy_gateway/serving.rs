//! Envoy with what Envoy Gateway makes of the recipe, and sandboxes behind it.

use std::fs;
use std::path::PathBuf;

use sandgate_tests::kubernetes::{ApiServer, Object, kruise};
use sandgate_tests::{Authority, Client, Gateway, Reply, Request, Sandbox, WebSocket, locations};
use serde_json::{Value, json};

use super::translated::{LISTENER, TLS_LISTENER, Translated};
use super::{recipe, with_namespaces};
use crate::support::{PORT, sandbox};

/// Rights as the recipe gives them, a running sandbox, and Envoy with what was translated.
struct World {
    _api: ApiServer,
    object: Object,
    kubeconfig: PathBuf,
    demo: Sandbox,
    host: String,
}

impl World {
    async fn new() -> Self {
        let api = with_namespaces(ApiServer::builder().start().await).await;
        let role = locations::repository().join("envoy/deploy/rbac/openkruise.yaml");
        for file in [role, recipe().join("rbac.yaml")] {
            api.apply(&fs::read_to_string(file).expect("read rights")).await;
        }
        let account = api.service_account("envoy-gateway-system", "sandgate-proxy").await;
        let kubeconfig = api.kubeconfig(&account.token().await);
        let demo = sandbox("demo").await;
        let object = kruise(&api, "default", "demo").running(demo.ip()).create().await;
        let host = format!("{PORT}-{}.sandbox.example.com", object.id());
        Self { _api: api, object, kubeconfig, demo, host }
    }

    async fn serving(&self, translation: &str) -> Gateway {
        let gateway = Translated::read(translation).start(&self.kubeconfig, None).await;
        gateway.stat_is("sandgate.routes_running", 1).await;
        gateway
    }

    async fn ask(&self, gateway: &Gateway, path: &str) -> Reply {
        gateway.send_to(LISTENER, Request::get(path).host(&self.host).header("x_sandbox_id", "x")).await
    }
}

/// One API server for all three, because it is what takes the time.
#[tokio::test]
async fn what_envoy_gateway_makes_of_the_recipe_serves_sandboxes_and_nobody_else() {
    let world = World::new().await;
    a_part_that_is_missing_closes_the_door(&world).await;
    with_tls_the_same_patches_fit(&world).await;
    the_whole_serves_sandboxes(&world).await;
}

async fn the_whole_serves_sandboxes(world: &World) {
    let gateway = world.serving("whole").await;

    // Byte for byte, and without the header that a server could take for the gateway's word.
    let path = "/a/../b//c%2Fd?e=%2f";
    let reply = world.ask(&gateway, path).await;
    assert_eq!((reply.sandbox(), reply.seen_path()), ("demo".to_owned(), path.to_owned()));
    assert_eq!(reply.seen("x-sandbox-id"), ["default--demo"]);
    assert!(reply.seen("x_sandbox_id").is_empty());
    assert_eq!(gateway.access(&reply).await.upstream, format!("{}:{PORT}", world.demo.ip()));
    gateway.stat_is("sandgate.rq_forwarded", 1).await;

    // No client is trusted with Envoy's own headers, from a private address neither.
    let trusted = Request::get("/").host(&world.host).header("x-envoy-upstream-rq-timeout-ms", "1");
    let reply = gateway.send_to(LISTENER, trusted).await;
    assert!(reply.seen("x-envoy-upstream-rq-timeout-ms").is_empty(), "{}", reply.text());

    let address = gateway.listener(LISTENER);
    let mut socket = WebSocket::open(address, Some(&world.host), "/ws", &[]).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    socket.close().await;
    let mut socket = WebSocket::over_http2(address, &world.host, "/ws").await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    socket.close().await;

    let grpc = Request::post("/trailers")
        .host(&world.host)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let mut client = Client::http2(address).await.expect("connect");
    let reply = client.send(grpc).await.expect("an answer");
    assert_eq!(reply.trailers.get("grpc-status").map(|status| status.as_bytes()), Some(&b"0"[..]));
    let hosts = gateway.cluster_status("sandbox-http2").await;
    assert_eq!(hosts["hosts"], 1, "{hosts}");

    let unknown = Request::get("/").host("8000-default--nobody.sandbox.example.com");
    let reply = gateway.send_to(LISTENER, unknown).await;
    assert_eq!((reply.status, &reply.json()["reason"]), (502, &json!("sandbox_not_found")));
    let unaddressed = gateway.send_to(LISTENER, Request::get("/").host("www.sandbox.example.com")).await;
    assert_eq!((unaddressed.status, &unaddressed.json()["reason"]), (404, &json!("not_addressed")));
    // Not a host of the HTTPRoute: Envoy's own answer.
    let other = gateway.send_to(LISTENER, Request::get("/").host("www.example.com")).await;
    assert_eq!((other.status, other.text()), (404, ""));

    // A sandbox that the cluster has no more is gone here too.
    let asked = world.demo.requests();
    world.object.delete().await;
    gateway.stat_is("sandgate.routes_running", 0).await;
    assert_eq!(world.ask(&gateway, "/").await.status, 502);
    assert_eq!(world.demo.requests(), asked);
}

async fn with_tls_the_same_patches_fit(world: &World) {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let gateway =
        Translated::read("https").start(&world.kubeconfig, Some(&authority.client(&world.host))).await;
    let address = gateway.listener(TLS_LISTENER);
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "20", "--path-as-is", "--cacert"])
        .arg(authority.file())
        .args(["--resolve", &format!("{}:{}:{}", world.host, address.port(), address.ip())])
        .arg(format!("https://{}:{}/a/../b", world.host, address.port()));
    let said = curl.output().await.expect("run curl");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let answer: Value = serde_json::from_slice(&said.stdout).expect("an answer of the sandbox");
    assert_eq!((&answer["sandbox"], &answer["path"]), (&json!("demo"), &json!("/a/../b")));
    gateway.stat_is("sandgate.rq_forwarded", 1).await;
}

async fn a_part_that_is_missing_closes_the_door(world: &World) {
    // The last one is whole, with a policy of Envoy Gateway's on its routes that the patches must not take
    // away.
    for (missing, status) in [("without-filter", 503), ("without-patches", 500), ("guarded", 403)] {
        let gateway = world.serving(missing).await;
        let reply = world.ask(&gateway, "/").await;
        assert_eq!(reply.status, status, "{missing}: {}", reply.text());
        // Refused before Sandgate has looked who is asked for.
        let unknown = Request::get("/").host("8000-default--nobody.sandbox.example.com");
        let unknown = gateway.send_to(LISTENER, unknown).await.status;
        assert_eq!(unknown == status, missing != "without-patches", "{missing}: {unknown}");
        let by_header = Request::get("/").host(&world.host).header("e2b-sandbox-id", "default--demo");
        assert_eq!(gateway.send_to(LISTENER, by_header).await.status, status, "{missing}");
    }
    assert_eq!(world.demo.requests(), 0);
}
