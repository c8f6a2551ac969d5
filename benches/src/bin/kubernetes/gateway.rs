//! The whole gateway: Envoy with the module, started by `sandgate run` as a user does.

use std::path::Path;
use std::time::{Duration, Instant};

use sandgate_tests::{Running, eventually};
use serde_json::json;
use tempfile::TempDir;

use crate::fleet::Fleet;

/// How long a gateway may take to its first list.
const READY: Duration = Duration::from_secs(300);

pub(crate) struct Gateway {
    envoy: u32,
    /// Seconds from the start of the command until it said that it serves.
    pub(crate) ready: f64,
    _running: Running,
    _folder: TempDir,
}

/// Whether there is all that a gateway needs.
pub(crate) fn available() -> bool {
    let all = ["SANDGATE_ENVOY", "SANDGATE_MODULE", "SANDGATE_BIN"];
    let missing: Vec<&str> = all.into_iter().filter(|name| std::env::var_os(name).is_none()).collect();
    if !missing.is_empty() {
        println!("the gateway is left out: {} not set", missing.join(", "));
    }
    missing.is_empty()
}

impl Gateway {
    /// Watches a namespace of the fleet's server; an empty one for a gateway that has nothing to serve.
    pub(crate) async fn start(fleet: &Fleet, namespace: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("gateway.yaml");
        let provider = json!({ "kind": "openkruise", "namespaces": [namespace] });
        let gateway = json!({ "kubernetes": { "kubeconfig": fleet.kubeconfig, "providers": [provider] } });
        write(&file, &json!({ "gateway": gateway }).to_string());
        let config = file.to_str().expect("text");
        let began = Instant::now();
        let running = Running::start(&[
            "run",
            "--port",
            "0",
            "--admin-port",
            "0",
            "--concurrency",
            "1",
            "--config",
            config,
        ]);
        let serves = async || running.stdout().contains("http://").then_some(());
        eventually("the gateway serves", READY, serves).await;
        let ready = began.elapsed().as_secs_f64();
        let envoy = *running.children().first().expect("Envoy is its child");
        Gateway { envoy, ready, _running: running, _folder: folder }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.envoy
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write the config");
}
