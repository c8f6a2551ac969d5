//! E2B's SDK, as its users have it.

mod life;

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

pub use life::{Edition, Where};

use crate::{DEADLINE, Place, eventually, locations};

/// The Python SDK at the version of `tests/e2b/requirements.txt`, installed into the cache when it is first
/// needed.
pub struct E2bSdk;

impl E2bSdk {
    /// Asks for the health, a file and a command of the sandbox at a gateway: what came of each call.
    pub async fn ask(gateway: SocketAddr, id: &str) -> Value {
        let mut ask = script("ask").await;
        ask.arg(format!("http://{gateway}")).arg(id);
        said(ask).await
    }

    /// Works in a sandbox under a domain of one's own (`DOMAIN[:PORT]`), over TLS, trusting the authority of
    /// this file and no other: what came of each call.
    pub async fn work(domain: &str, authority: &Path, id: &str) -> Value {
        let mut work = script("own_domain").await;
        work.arg(id).env("E2B_DOMAIN", domain).env("SSL_CERT_FILE", authority).env_remove("SSL_CERT_DIR");
        // A proxy of this machine would resolve the name in the SDK's place.
        for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            work.env_remove(name);
        }
        said(work).await
    }

    /// Uses all that the SDK asks of envd, at a gateway: what came of each call. Envd gets its token first,
    /// as from a control plane.
    pub async fn exercise(gateway: SocketAddr, envd: &Envd, id: &str) -> Value {
        let mut works = script("envd_works").await;
        works.arg(format!("http://{gateway}")).arg(format!("http://{}:49983", envd.ip())).arg(id);
        said(works).await
    }

    /// Leaves commands running in a sandbox: their process IDs.
    pub async fn leave(gateway: SocketAddr, id: &str) -> Vec<u64> {
        let mut left = script("left").await;
        left.arg(format!("http://{gateway}")).arg(id);
        let left = said(left).await;
        left.as_array().expect("a list").iter().map(|pid| pid.as_u64().expect("a process ID")).collect()
    }
}

fn folder() -> PathBuf {
    locations::repository().join("tests/e2b")
}

async fn script(name: &str) -> Command {
    Edition::Python.script(name).await
}

pub(crate) async fn said(command: Command) -> Value {
    let seen = run(command).await;
    serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"))
}

pub(crate) async fn run(mut command: Command) -> String {
    let run = command.env_remove("E2B_DEBUG").stdin(Stdio::null()).kill_on_drop(true).output();
    // The first run downloads packages.
    let output = timeout(Duration::from_secs(300), run).await.expect("an end in time").expect("a start");
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {wrong}{said}", output.status);
    said.into_owned()
}

/// A sandbox with the server that the SDK speaks to (`tests/envd`), on an address of its own and with files
/// of its own.
pub struct Envd {
    child: Child,
    place: Place,
    folder: TempDir,
}

impl Envd {
    /// Starts it, at envd's port.
    pub async fn start() -> Self {
        let place = Place::reserve();
        let output = TempDir::with_prefix("sandgate-envd-").expect("create a folder");
        let child = std::process::Command::new("python3")
            .arg(locations::repository().join("tests/envd/envd.py"))
            .arg(place.ip().to_string())
            .arg("--root")
            .arg(output.path().join("root"))
            .stdin(Stdio::null())
            .stdout(File::create(output.path().join("seen")).expect("create a file"))
            .spawn()
            .expect("start envd");
        let envd = Self { child, place, folder: output };
        eventually("envd listens", DEADLINE, async || envd.output().starts_with("listens").then_some(()))
            .await;
        envd
    }

    /// Its address.
    pub fn ip(&self) -> IpAddr {
        self.place.ip()
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("seen")).unwrap_or_default()
    }

    /// What it saw of each request: `host`, `proto` and `path`.
    pub fn seen(&self) -> Vec<Value> {
        self.output()
            .lines()
            .skip(1)
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect()
    }
}

impl Envd {
    /// Ends it with a signal, and waits until it has ended.
    pub fn end(&mut self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").arg(format!("-{signal}")).arg(pid).status();
        assert!(sent.expect("run kill").success(), "signal {signal}");
        let _status = self.child.wait().expect("wait for envd");
    }
}

impl Drop for Envd {
    fn drop(&mut self) {
        // With its processes, before its folder is removed.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.end("TERM");
        }
    }
}
