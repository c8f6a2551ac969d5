//! The YAML blocks of the book.

use std::fs;
use std::path::Path;

use sandgate_tests::book::Block;
use sandgate_tests::deploy::{self, NAMESPACE, documents, template};
use sandgate_tests::kubernetes::ApiServer;
use sandgate_tests::{Authority, Cli};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::blocks;
use crate::deploy::dry_run;

/// The names that the certificates in place of the book's are for.
const DOMAINS: [&str; 2] = ["*.sandboxes.example.com", "*.sandboxes.localhost"];

/// A folder with the files that the book's configs name.
fn folder() -> TempDir {
    let folder = TempDir::with_prefix("sandgate-book-").expect("create a folder");
    let authority = Authority::new(folder.path());
    let pair = authority.pair(&DOMAINS);
    let ca = fs::read(authority.file()).expect("the authority");
    for part in ["", "tls", "clients"] {
        let part = folder.path().join(part);
        fs::create_dir_all(&part).expect("create a folder");
        for (name, content) in [
            ("tls.crt", pair.certificate.as_bytes()),
            ("tls.key", pair.key.as_bytes()),
            ("cert.pem", pair.certificate.as_bytes()),
            ("key.pem", pair.key.as_bytes()),
            ("ca.crt", &ca),
            ("clients.crt", &ca),
        ] {
            fs::write(part.join(name), content).expect("write");
        }
    }
    fs::write(folder.path().join("push.key"), [b'k'; 44]).expect("write");
    let auth = folder.path().join("auth");
    fs::create_dir_all(&auth).expect("create a folder");
    for (name, content) in [
        ("route-keys", "a=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        ("scoped-old", "0123456789abcdef0123456789abcdef"),
        ("scoped-new", "fedcba9876543210fedcba9876543210"),
        ("callers", "0123456789abcdef"),
    ] {
        fs::write(auth.join(name), content).expect("write");
    }
    fs::write(folder.path().join("routes.yaml"), "routes: []\n").expect("write");
    folder
}

/// Runs `sandgate validate` in a folder; what it complains of.
async fn validate(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut command = std::process::Command::new(sandgate_tests::locations::cli());
    command.arg("validate").args(arguments).current_dir(folder);
    let done = Cli::finish(command).await;
    if done.code == Some(0) { Ok(()) } else { Err(done.stderr) }
}

async fn config(text: &str) -> Result<(), String> {
    let folder = folder();
    let here = folder.path().display().to_string();
    fs::write(folder.path().join("gateway.yaml"), text.replace("/etc/sandgate", &here)).expect("write");
    validate(folder.path(), &["gateway.yaml"]).await
}

#[tokio::test]
async fn configs_are_valid() {
    for block in blocks("yaml", "config") {
        config(&block.text).await.unwrap_or_else(|e| panic!("{}: {e}", block.place));
    }
    let wrong = config("filter: { colour: blue }\n").await.expect_err("an unknown key");
    assert!(wrong.contains("filter.colour"), "{wrong}");
}

#[tokio::test]
async fn routes_files_are_valid() {
    let routes = async |text: &str| {
        let folder = folder();
        fs::write(folder.path().join("routes.yaml"), text).expect("write");
        validate(folder.path(), &["--routes", "routes.yaml"]).await
    };
    for block in blocks("yaml", "routes") {
        routes(&block.text).await.unwrap_or_else(|e| panic!("{}: {e}", block.place));
    }
    let wrong = routes("routes: [{ name: a, ip: nowhere }]\n").await.expect_err("no address");
    assert!(wrong.contains("routes[0].ip"), "{wrong}");
}

#[tokio::test]
async fn values_are_taken_by_the_chart() {
    let values = async |text: &str| {
        let folder = folder();
        let file = folder.path().join("values.yaml");
        fs::write(&file, text).expect("write");
        template(&["--values", file.to_str().expect("text")]).await
    };
    for block in blocks("yaml", "values") {
        values(&block.text).await.unwrap_or_else(|e| panic!("{}: {e}", block.place));
    }
    values("colour: blue\n").await.expect_err("an unknown value");
}

/// Namespaces that the book's objects are in.
async fn server() -> ApiServer {
    let api = ApiServer::shared().await;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    api.apply(&namespace.to_string()).await;
    api
}

/// The keys of a pod's spec, as a pod that has all that it must have.
fn pod(block: &Block) -> Value {
    let mut spec: Value =
        serde_saphyr::from_str(&block.text).unwrap_or_else(|e| panic!("{}: {e}", block.place));
    if spec["containers"].is_null() {
        spec["containers"] = json!([{ "name": "gateway" }]);
    }
    for container in spec["containers"].as_array_mut().expect("a list of containers") {
        if container["image"].is_null() {
            container["image"] = json!("registry.example.com/sandgate/gateway");
        }
    }
    let metadata = json!({ "name": "of-the-book", "namespace": NAMESPACE });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

#[tokio::test]
async fn parts_of_pods_are_taken_by_a_real_api_server() {
    let api = server().await;
    for block in blocks("yaml", "pod") {
        let pod = pod(&block);
        api.dry_run(&pod).await.unwrap_or_else(|e| panic!("{}: {e}", block.place));
        let mut spoilt = pod;
        spoilt["spec"]["containers"][0]["colour"] = json!("blue");
        let refused = api.dry_run(&spoilt).await.expect_err("an unknown field").to_string();
        assert!(refused.contains("colour"), "{refused}");
    }
}

/// At a server that has the shipped definitions and no others.
#[tokio::test]
async fn objects_of_the_operators_kinds_are_taken_by_a_real_api_server() {
    let api = ApiServer::builder().without_definitions().start().await;
    for file in fs::read_dir(deploy::folder().join("crds")).expect("the definitions").flatten() {
        api.apply(&fs::read_to_string(file.path()).expect("read")).await;
    }
    let blocks = blocks("yaml", "object");
    for object in blocks.iter().flat_map(|block| documents(&block.text)) {
        dry_run(&api, &object).await.unwrap_or_else(|e| panic!("{}: {e}", object["metadata"]["name"]));
        let mut spoilt = object;
        spoilt["spec"]["colour"] = json!("blue");
        let refused = dry_run(&api, &spoilt).await.expect_err("an unknown field").to_string();
        assert!(refused.contains("colour"), "{refused}");
    }
}

#[test]
fn objects_of_other_projects_have_a_kind_and_a_name() {
    for block in blocks("yaml", "foreign") {
        for object in documents(&block.text) {
            for place in ["/apiVersion", "/kind", "/metadata/name"] {
                let text = object.pointer(place).and_then(Value::as_str);
                assert!(text.is_some_and(|text| !text.is_empty()), "{}: no {place}", block.place);
            }
        }
    }
}
