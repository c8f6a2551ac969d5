//! OpenSandbox's SDK, as its users have it.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::process::Command;

use crate::e2b::{run, said};
use crate::locations;

/// The Python SDK at the version of `tests/opensandbox/requirements.txt`, installed into the cache when it is
/// first needed.
pub struct OpenSandboxSdk;

impl OpenSandboxSdk {
    /// Runs commands and moves files in a sandbox, through a gateway, in each of the three ways that a
    /// sandbox can be named: what came of each call, by way.
    pub async fn work(gateway: SocketAddr, id: &str, token: &str) -> Value {
        let folder = locations::repository().join("tests/opensandbox");
        let packages = run(Command::new(folder.join("install"))).await;
        let mut works = Command::new("python3");
        works.arg(folder.join("works.py")).arg(gateway.to_string()).args([id, token]);
        works.env("PYTHONPATH", packages.trim()).env("PYTHONDONTWRITEBYTECODE", "1");
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            works.env_remove(name);
        }
        said(works).await
    }
}
