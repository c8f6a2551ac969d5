//! E2B's SDK, as its users have it.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::locations;

/// The Python SDK at the version of `tests/e2b/requirements.txt`, installed into the cache when it is first needed.
pub struct E2bSdk;

impl E2bSdk {
    /// Asks for the health, a file and a command of the sandbox at a gateway: what came of each call.
    pub async fn ask(gateway: SocketAddr, id: &str) -> Value {
        let folder = locations::repository().join("tests/e2b");
        let packages = run(Command::new(folder.join("install"))).await;
        let mut ask = Command::new("python3");
        ask.arg(folder.join("ask.py"))
            .arg(format!("http://{gateway}"))
            .arg(id)
            .env("PYTHONPATH", packages.trim());
        let seen = run(ask).await;
        serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"))
    }
}

async fn run(mut command: Command) -> String {
    let run = command.env_remove("E2B_DEBUG").stdin(Stdio::null()).kill_on_drop(true).output();
    // The first run downloads packages.
    let output = timeout(Duration::from_secs(120), run).await.expect("an end in time").expect("a start");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
