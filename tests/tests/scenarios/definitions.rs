//! The definitions of OpenKruise's and OpenSandbox's kinds and of environments (`envoy/deploy/crds`) as a
//! real API server reads them: what they refuse and with which words, what they accept, and what `kubectl`
//! shows.

use std::fs;

use http::Request;
use http::header::ACCEPT;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use sandgate_tests::kubernetes::ApiServer;
use sandgate_tests::locations;
use serde_json::{Value, json};

mod accepted;
mod environments;
mod opensandbox;
mod refused;

/// Has the server check an object and not keep it.
const DRY_RUN: &str = "&dryRun=All";
const API_VERSION: &str = "agents.kruise.io/v1alpha1";
/// What `kubectl get` asks for.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The files of `envoy/deploy/crds`.
fn files() -> Vec<String> {
    let folder = locations::repository().join("envoy/deploy/crds");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the definitions").map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).expect("a definition")).collect()
}

/// Installs the definitions, in place of those that are there, and waits until they are served.
async fn install(server: &ApiServer, namespace: &str) {
    for file in files() {
        server.apply(&file).await;
    }
    for (kind, spec) in [
        ("Sandbox", json!({ "template": pod_template() })),
        ("SandboxSet", json!({ "replicas": 0, "template": pod_template() })),
        ("SandboxTemplate", json!({ "template": pod_template() })),
        ("Checkpoint", json!({ "sandboxName": "a" })),
        ("BatchSandbox", json!({ "replicas": 0, "poolRef": "a" })),
        ("Pool", json!({ "capacitySpec": opensandbox::capacity(0, 0, 0, 0) })),
        ("SandboxSnapshot", json!({ "sandboxName": "a" })),
    ] {
        server.apply_when_served(&object(kind, namespace, "served", &spec)).await;
    }
}

/// A server with the definitions, and a namespace.
async fn start() -> (ApiServer, String) {
    let server = ApiServer::builder().without_definitions().start().await;
    let namespace = server.namespace("definitions").await;
    install(&server, &namespace).await;
    (server, namespace)
}

fn object(kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    let version = if opensandbox::is_of(kind) { opensandbox::API_VERSION } else { API_VERSION };
    json!({
        "apiVersion": version, "kind": kind, "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
    })
}

fn pod_template() -> Value {
    json!({ "spec": { "containers": [{ "name": "main", "image": "demo" }] } })
}

/// Every rule and every limit, in one pass over one server.
#[tokio::test]
async fn what_can_never_work_is_refused_with_what_to_do_instead() {
    let (server, namespace) = start().await;
    for case in refused::cases().into_iter().chain(opensandbox::refused()) {
        let bad = object(case.kind, &namespace, case.name, &case.spec);
        let message = match create(&server, &bad, DRY_RUN).await {
            Err(kube::Error::Api(status)) if status.code == 422 => status.message.clone(),
            other => panic!("{other:?} for {bad}"),
        };
        assert!(message.contains(case.says), "{message:?} does not say {:?}", case.says);
        // What is wrong is the one thing: put right, it is accepted.
        let good = object(case.kind, &namespace, case.good_name, &case.good);
        create(&server, &good, DRY_RUN).await.unwrap_or_else(|error| panic!("{error} for {good}"));
    }
}

#[tokio::test]
async fn what_openkruise_and_opensandbox_make_is_accepted_and_kept() {
    let (server, namespace) = start().await;
    for made in accepted::objects(&namespace).into_iter().chain(opensandbox::accepted(&namespace)) {
        create(&server, &made, "").await.unwrap_or_else(|error| panic!("{error} for {made}"));
        let resource = path(&made);
        let kept: Value = get(&server, &resource, "application/json").await;
        assert!(holds(&kept["spec"], &made["spec"]), "{kept:#} has not all of {made:#}");
        if made["status"].is_null() {
            continue;
        }
        // Without the types, as Go sends a status: the rest of the object is not looked at.
        let client = server.client();
        let body = json!({ "status": made["status"] }).to_string().into_bytes();
        let request = Request::patch(format!("{resource}/status?fieldValidation=Strict"))
            .header("content-type", "application/merge-patch+json")
            .body(body)
            .expect("a request");
        let kept: Value = client.request(request).await.unwrap_or_else(|error| panic!("{error} for {made}"));
        assert!(holds(&kept["status"], &made["status"]), "{kept:#} has not all of {made:#}");
    }
}

/// Objects that were made before these definitions, which would refuse them today.
#[tokio::test]
async fn an_object_from_before_can_be_changed_and_deleted() {
    let server = ApiServer::builder().without_definitions().start().await;
    let namespace = server.namespace("before").await;
    server.install("openkruise").await;
    let long = "x".repeat(64);
    let both = json!({ "template": pod_template(), "templateRef": { "name": "t", "kind": "PodTemplate" } });
    let mut old = object("Sandbox", &namespace, &long, &both);
    old["metadata"]["finalizers"] = json!(["agents.kruise.io/sandbox"]);
    server.apply(&old.to_string()).await;
    install(&server, &namespace).await;

    let kind = GroupVersionKind::gvk("agents.kruise.io", "v1alpha1", "Sandbox");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(server.client(), &namespace, &resource);
    let patch = async |body: Value| {
        let patched = api.patch(&long, &PatchParams::default(), &Patch::Merge(&body)).await;
        patched.map(drop).map_err(|error| error.to_string())
    };
    patch(json!({ "spec": { "paused": true } })).await.expect("it can be paused");
    patch(json!({ "metadata": { "labels": { "a": "b" } } })).await.expect("it can be labelled");
    let status = json!({ "status": { "phase": "Paused" } });
    api.patch_status(&long, &PatchParams::default(), &Patch::Merge(&status)).await.expect("it has a status");
    // It can be put right, and then not wrong again.
    let worse = patch(json!({ "spec": { "templateRef": { "kind": "Pod" } } })).await.unwrap_err();
    assert!(worse.contains("leave kind out"), "{worse}");
    patch(json!({ "spec": { "templateRef": null } })).await.expect("it can be put right");
    let again = patch(json!({ "spec": { "templateRef": { "name": "t" } } })).await.unwrap_err();
    assert!(again.contains("set exactly one of template"), "{again}");
    api.delete(&long, &DeleteParams::default()).await.expect("it can be deleted");
    patch(json!({ "metadata": { "finalizers": null } })).await.expect("its finalizer can go");
    assert!(api.get_opt(&long).await.expect("an answer").is_none(), "it is gone");
}

#[tokio::test]
async fn kubectl_shows_and_scales_and_explains_them() {
    let (server, namespace) = start().await;
    let spec = json!({ "replicas": 3, "template": pod_template() });
    let set = object("SandboxSet", &namespace, "base", &spec);
    server.apply(&set.to_string()).await;
    let stored: Value = get(&server, &path(&set), "application/json").await;
    assert_eq!(
        stored["spec"]["updateStrategy"],
        json!({ "maxUnavailable": "20%" }),
        "the default of OpenKruise"
    );

    for (plural, shown, wide) in [
        ("sandboxes", "Name Phase Ready Pool Claimed Paused Age", "IP Node Shutdown Message"),
        ("sandboxsets", "Name Desired Replicas Available Updated Age", "Revision Template"),
        ("sandboxtemplates", "Name Image Age", ""),
        ("checkpoints", "Name Phase Sandbox ID Age", "Pod Message"),
    ] {
        assert_columns(&server, API_VERSION, &namespace, (plural, shown, wide)).await;
    }
    let mut sandbox =
        object("Sandbox", &namespace, "one", &json!({ "paused": true, "template": pod_template() }));
    sandbox["metadata"]["labels"] =
        json!({ "agents.kruise.io/sandbox-pool": "base", "agents.kruise.io/sandbox-claimed": "true" });
    server.apply(&sandbox.to_string()).await;
    let table = get(&server, &path(&sandbox), TABLE).await;
    let cells = table["rows"][0]["cells"].as_array().expect("cells");
    assert_eq!(
        cells[..6],
        [json!("one"), json!(null), json!(null), json!("base"), json!("true"), json!(true)]
    );

    let scale = get(&server, &format!("{}/scale", path(&set)), "application/json").await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    let body = json!({ "spec": { "replicas": 5 } }).to_string().into_bytes();
    let request = Request::patch(format!("{}/scale", path(&set)))
        .header("content-type", "application/merge-patch+json")
        .body(body)
        .expect("a request");
    server.client().request::<Value>(request).await.expect("scaled");
    let stored: Value = get(&server, &path(&set), "application/json").await;
    assert_eq!(stored["spec"]["replicas"], 5);

    // What `kubectl explain` reads: every field says what it is.
    for file in files() {
        let definition: Value = serde_saphyr::from_str(&file).expect("YAML");
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_described(schema, definition["spec"]["names"]["kind"].as_str().expect("a kind"));
    }
    let names = get(&server, &format!("/apis/{API_VERSION}"), "application/json").await;
    let short = |plural: &str| {
        let resources = names["resources"].as_array().expect("resources");
        let found = resources.iter().find(|resource| resource["name"] == plural).expect("a resource");
        (found["shortNames"].clone(), found["categories"].clone())
    };
    for (plural, name) in
        [("sandboxes", "sbx"), ("sandboxsets", "sbs"), ("sandboxtemplates", "sbt"), ("checkpoints", "cp")]
    {
        assert_eq!(short(plural), (json!([name]), json!(["agents"])), "{plural}");
    }
}

/// The columns of `kubectl get`: of the kind with this plural, those that are always shown, and the others.
async fn assert_columns(
    server: &ApiServer,
    version: &str,
    namespace: &str,
    (plural, shown, wide): (&str, &str, &str),
) {
    let table = get(server, &format!("/apis/{version}/namespaces/{namespace}/{plural}"), TABLE).await;
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let names = |priority: i64| {
        let of = columns.iter().filter(|column| column["priority"] == priority);
        of.map(|column| column["name"].as_str().expect("a name")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((names(0).as_str(), names(1).as_str()), (shown, wide), "{plural}");
}

fn assert_described(schema: &Value, at: &str) {
    assert!(schema["description"].as_str().is_some_and(|text| text.len() > 5), "{at} has no description");
    for (key, field) in schema["properties"].as_object().into_iter().flatten() {
        assert_described(field, &format!("{at}.{key}"));
    }
    for (key, field) in schema["items"]["properties"].as_object().into_iter().flatten() {
        assert_described(field, &format!("{at}[].{key}"));
    }
}

fn path(object: &Value) -> String {
    let kind = object["kind"].as_str().expect("a kind").to_lowercase();
    let plural = if kind.ends_with('x') { format!("{kind}es") } else { format!("{kind}s") };
    let version = object["apiVersion"].as_str().expect("a version");
    let text = |key: &str| object["metadata"][key].as_str().expect("metadata").to_owned();
    format!("/apis/{version}/namespaces/{}/{plural}/{}", text("namespace"), text("name"))
}

/// What the server says to a new object. A field that it does not know is an error.
async fn create(server: &ApiServer, object: &Value, query: &str) -> kube::Result<()> {
    let path = path(object);
    let (collection, _) = path.rsplit_once('/').expect("a collection");
    let request = Request::post(format!("{collection}?fieldValidation=Strict{query}"))
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .expect("a request");
    server.client().request::<Value>(request).await.map(drop)
}

async fn get(server: &ApiServer, path: &str, accept: &str) -> Value {
    let request = Request::get(path).header(ACCEPT, accept).body(Vec::new()).expect("a request");
    server.client().request(request).await.unwrap_or_else(|error| panic!("{error} for {path}"))
}

/// Whether `all` has everything that `part` has. The server adds defaults, and a null is nothing.
fn holds(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => part.iter().all(|(key, part)| match all.get(key) {
            Some(all) => holds(all, part),
            None => part.is_null(),
        }),
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(all, part)| holds(all, part))
        }
        _ => all == part,
    }
}
