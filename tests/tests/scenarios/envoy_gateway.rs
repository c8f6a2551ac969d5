//! The recipe for Envoy Gateway (`envoy/docs/envoy-gateway.md`): its files are accepted by the real definitions, and what Envoy
//! Gateway's own translators make of them serves sandboxes on the real Envoy.
//!
//! No cluster runs Envoy Gateway here. Its translators have run once, offline, and `tests/envoy-gateway/translated` has what came
//! of it; one scenario finds a recipe that has changed since.

mod translated;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sandgate_tests::kubernetes::{ApiServer, Object, kruise};
use sandgate_tests::{
    Authority, Client, DEADLINE, Gateway, Reply, Request, Sandbox, WebSocket, eventually, locations,
};
use serde_json::{Value, json};

use crate::support::{PORT, sandbox};
use translated::{LISTENER, TLS_LISTENER, Translated};

const NAMESPACES: [&str; 2] = ["envoy-gateway-system", "sandgate-system"];

fn recipe() -> PathBuf {
    locations::repository().join("envoy/deploy/envoy-gateway")
}

/// The files of the recipe that hold objects, by name; `values.yaml` is for Helm.
fn files() -> Vec<(String, String)> {
    let folder = fs::read_dir(recipe()).expect("the recipe has a folder");
    let mut files: Vec<_> = folder
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(name, _)| name.ends_with(".yaml") && name != "values.yaml")
        .map(|(name, path)| (name, fs::read_to_string(path).expect("read a file of the recipe")))
        .collect();
    files.sort();
    files
}

fn objects(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error} in:\n{yaml}"))
}

/// A server with the namespaces that the recipe's objects are in.
async fn with_namespaces(api: ApiServer) -> ApiServer {
    for name in NAMESPACES {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        api.apply(&namespace.to_string()).await;
    }
    api
}

/// The kinds of the recipe's objects that Kubernetes does not have by itself.
const KINDS: [&str; 7] = [
    "gatewayclasses.gateway.networking.k8s.io",
    "gateways.gateway.networking.k8s.io",
    "httproutes.gateway.networking.k8s.io",
    "clienttrafficpolicies.gateway.envoyproxy.io",
    "envoyextensionpolicies.gateway.envoyproxy.io",
    "envoypatchpolicies.gateway.envoyproxy.io",
    "envoyproxies.gateway.envoyproxy.io",
];

/// Their definitions, of Envoy Gateway's chart, downloaded when first needed.
fn definitions() -> Vec<String> {
    let fetch = locations::repository().join("tests/envoy-gateway/fetch");
    let said = Command::new(fetch).output().expect("run tests/envoy-gateway/fetch");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let module = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    let charts = module.join("charts/gateway-helm/charts/crds/crds");
    let generated =
        fs::read_dir(charts.join("generated")).expect("Envoy Gateway's own definitions").flatten();
    let files = generated.map(|entry| entry.path()).chain([charts.join("gatewayapi-crds.yaml")]);
    let text: String = files
        .map(|file| fs::read_to_string(file).expect("read definitions"))
        .flat_map(|text| ["\n---\n".to_owned(), text])
        .collect();
    // Megabytes of text: only what is needed is parsed.
    let wanted = |document: &&str| KINDS.iter().any(|kind| document.contains(&format!("\n  name: {kind}\n")));
    let found: Vec<String> = text.split("\n---").filter(wanted).map(ToOwned::to_owned).collect();
    assert_eq!(found.len(), KINDS.len(), "a definition of each kind");
    found
}

#[tokio::test]
async fn every_object_of_the_recipe_is_accepted_by_the_real_definitions() {
    let api = with_namespaces(ApiServer::builder().without_definitions().start().await).await;
    for definition in definitions() {
        api.apply(&definition).await;
    }
    let mut kinds = Vec::new();
    for (name, yaml) in files() {
        for object in objects(&yaml) {
            // A definition is served a moment after it is there.
            let served = format!("the kind of {name} is served");
            let said = eventually(&served, DEADLINE * 3, async || {
                let said = api.dry_run(&object).await;
                let unknown = said.as_ref().is_err_and(|error| error.contains("404"));
                (!unknown).then_some(said)
            });
            assert_eq!(said.await, Ok(()), "{name}");
            kinds.push(object["kind"].as_str().expect("a kind").to_owned());
        }
    }
    kinds.sort();
    let expected = [
        "ClientTrafficPolicy",
        "ClusterRoleBinding",
        "EndpointSlice",
        "EnvoyExtensionPolicy",
        "EnvoyPatchPolicy",
        "EnvoyProxy",
        "Gateway",
        "GatewayClass",
        "HTTPRoute",
        "Service",
    ];
    assert_eq!(kinds, expected);

    // The server would have found a word that the definitions do not have, and a rule of theirs that is broken.
    let (_, proxy) = files().into_iter().find(|(name, _)| name == "envoyproxy.yaml").expect("the proxies");
    let misspelt = &objects(&proxy.replace("dynamicModules:", "dynamicModule:"))[0];
    let refused = api.dry_run(misspelt).await.expect_err("a misspelt field is refused");
    assert!(refused.contains("dynamicModule"), "{refused}");
    let remote = &objects(&proxy.replace("type: Local", "type: Remote"))[0];
    let refused = api.dry_run(remote).await.expect_err("a source that is not there is refused");
    assert!(refused.contains("Remote"), "{refused}");
}

#[test]
fn the_translation_is_of_the_recipe_as_it_is() {
    let sums = locations::repository().join("tests/envoy-gateway/translated/SHA256SUMS");
    let checked = Command::new("sha256sum")
        .args(["--check", "--quiet", "--strict"])
        .arg(sums)
        .current_dir(locations::repository())
        .output()
        .expect("run sha256sum");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success(),
        "changed since it was translated; run tests/envoy-gateway/translate:\n{said}"
    );
}

#[test]
fn envoy_gateway_accepts_and_programs_every_policy() {
    for translation in ["whole", "https", "guarded"] {
        let conditions = Translated::read(translation).conditions();
        for expected in [
            ("gateways", "Programmed"),
            ("httpRoutes", "Accepted"),
            ("clientTrafficPolicies", "Accepted"),
            ("envoyExtensionPolicies", "Accepted"),
            ("envoyPatchPolicies", "Programmed"),
        ] {
            let told = conditions.iter().any(|(kind, condition, ..)| (&**kind, &**condition) == expected);
            assert!(told, "{translation}: no word of {expected:?} in {conditions:?}");
        }
        for (kind, condition, status, message) in &conditions {
            assert_eq!(status, "True", "{translation}: {kind} {condition}: {message}");
        }
    }
}

#[test]
fn the_proxies_run_envoy_of_our_image_as_the_account_that_has_the_rights() {
    let made = Translated::read("whole");
    let pod = made.pod();
    let envoy = &pod["containers"][0];
    // Found by PATH: `envoy/image` puts it into /usr/local/bin.
    assert_eq!((&envoy["name"], &envoy["command"]), (&json!("envoy"), &json!(["envoy"])));
    assert_eq!(envoy["image"], "registry.example.com/sandgate/gateway:0.1.0");
    let account =
        (pod["serviceAccountName"].as_str(), made.value["deployment"]["metadata"]["namespace"].as_str());
    let binding = &objects(&fs::read_to_string(recipe().join("rbac.yaml")).expect("the rights"))[0];
    let subject = &binding["subjects"][0];
    assert_eq!(account, (subject["name"].as_str(), subject["namespace"].as_str()));
    // No token is mounted by default, so the recipe's own volume has to be there.
    assert_eq!(pod["automountServiceAccountToken"], false);
    let mounts = envoy["volumeMounts"].as_array().expect("mounts");
    let mount =
        mounts.iter().find(|mount| mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount");
    let volume = &mount.expect("the account's token")["name"];
    assert!(pod["volumes"].as_array().expect("volumes").iter().any(|found| found["name"] == *volume));
}

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
    // The last one is whole, with a policy of Envoy Gateway's on its routes that the patches must not take away.
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
