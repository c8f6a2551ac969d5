use std::path::Path;
use std::sync::mpsc;

use serde_json::json;
use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn gateway(settings: &serde_json::Value) -> Gateway {
    Gateway::new(&Settings::parse(settings.to_string().as_bytes()).expect("valid settings"))
        .expect("good keys")
}

fn write_routes(path: &Path, id: &str) {
    std::fs::write(path, json!({ "routes": [{ "name": id, "id": id, "ip": "10.0.0.1" }] }).to_string())
        .expect("written");
}

/// Starts the gateway and returns a function that waits for a condition, checked whenever the gateway
/// announces.
fn start(gateway: &Gateway) -> impl Fn(&dyn Fn() -> bool) {
    let (announce, announced) = mpsc::channel();
    gateway.start(move || announce.send(()).unwrap_or_default()).expect("the threads start");
    move |condition| {
        while !condition() {
            announced.recv_timeout(PATIENCE).expect("an announcement before the condition holds");
        }
    }
}

#[test]
fn a_new_gateway_starts_nothing() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("routes.json");
    write_routes(&path, "one");
    let gateway = gateway(&json!({ "routes-file": path }));
    assert!(!gateway.may_open() && !gateway.reader().is_ready());
    assert!(gateway.threads().iter().all(|thread| !thread.up));
    assert_eq!(gateway.opens_in(), None);
}

#[test]
fn a_gateway_is_ready_with_its_first_load_and_keeps_its_table_after_the_stop() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("routes.json");
    write_routes(&path, "one");
    let gateway = gateway(&json!({ "routes-file": path }));
    let wait_until = start(&gateway);
    wait_until(&|| gateway.may_open());
    assert!(gateway.reader().is_ready() && gateway.reader().get("one").is_some());
    assert_eq!(gateway.threads().iter().map(|thread| thread.name).collect::<Vec<_>>(), ["sandgate"]);
    assert!(gateway.sources_up() && !gateway.receiver_up());
    write_routes(&path, "two");
    wait_until(&|| gateway.reader().get("two").is_some());
    gateway.stop();
    gateway.supervise();
    assert!(!gateway.sources_up(), "a stopped thread is not restarted");
    assert!(gateway.reader().get("two").is_some());
}

#[test]
fn a_gateway_with_two_sources_is_not_ready_by_one_of_them() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("routes.json");
    write_routes(&path, "one");
    // The kubeconfig does not exist, so the cluster's first list never completes.
    let kubernetes = json!({
        "kubeconfig": folder.path().join("missing"),
        "providers": [{ "kind": "openkruise" }],
        "open-after-seconds": 3600,
    });
    let gateway = gateway(&json!({ "routes-file": path, "kubernetes": kubernetes }));
    let wait_until = start(&gateway);
    wait_until(&|| gateway.reader().get("one").is_some());
    let failed = || gateway.kubernetes_status().is_some_and(|status| status.scopes()[0].error.is_some());
    wait_until(&failed);
    assert!(!gateway.reader().is_ready() && !gateway.may_open());
    assert!(gateway.opens_in().is_some_and(|left| !left.is_zero() && left <= Duration::from_secs(3600)));
    gateway.stop();
}

#[test]
fn pushes_have_a_thread_of_their_own_and_its_port_is_an_own_address() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("routes.json");
    write_routes(&path, "one");
    let refresh = json!({ "address": "127.0.0.1", "port": 0, "insecure": true, "provider": "openkruise" });
    let gateway = gateway(&json!({
        "routes-file": path,
        "refresh": refresh,
        "pod-ranges": ["10.0.0.0/8"],
        "own-addresses": ["127.0.0.1:7788"],
    }));
    assert_eq!(gateway.own_addresses().count(), 1);
    let wait_until = start(&gateway);
    wait_until(&|| gateway.may_open());
    // The receiver announces nothing when it begins to listen, so this is polled.
    let begun = Instant::now();
    while gateway.own_addresses().count() == 1 {
        assert!(begun.elapsed() < PATIENCE, "the receiver does not listen");
        std::thread::yield_now();
    }
    assert!(gateway.receiver_up());
    gateway.drain();
    assert!(gateway.refresh_status().is_some_and(|status| status.draining));
    gateway.stop();
    assert!(!gateway.receiver_up());
}

#[test]
fn keys_have_a_thread_of_their_own_and_a_gateway_with_a_bad_file_of_keys_is_not_made() {
    let folder = TempDir::new().expect("a folder");
    let (routes, secret) = (folder.path().join("routes.json"), folder.path().join("secret"));
    write_routes(&routes, "one");
    let settings = json!({ "routes-file": routes, "auth": { "scoped-token": { "files": [secret] } } });
    let parsed = Settings::parse(settings.to_string().as_bytes()).expect("valid settings");
    let error = Gateway::new(&parsed).err().expect("there is no such file").to_string();
    assert!(error.contains("/secret: "), "{error}");
    std::fs::write(&secret, "x".repeat(32)).expect("written");
    let gateway = gateway(&settings);
    assert_eq!(gateway.keyring().map(|keyring| keyring.keys().scoped.len()), Some(1));
    assert!(!gateway.keyring_up());
    let wait_until = start(&gateway);
    wait_until(&|| gateway.may_open());
    let names: Vec<_> = gateway.threads().iter().map(|thread| thread.name).collect();
    assert_eq!(names, ["sandgate", "sandgate-auth"]);
    assert!(gateway.keyring_up());
    gateway.stop();
    assert!(!gateway.keyring_up());
    assert_eq!(gateway.keyring().map(|keyring| keyring.keys().scoped.len()), Some(1), "they stay");
}
