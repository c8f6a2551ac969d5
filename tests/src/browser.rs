//! A real browser, as the user of a sandbox's web page has it.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use crate::locations;

/// Chromium with a profile of its own, which remembers what pages have left in it.
pub struct Browser {
    profile: TempDir,
}

impl Browser {
    /// A browser that has been nowhere yet.
    pub fn new() -> Self {
        Self { profile: TempDir::with_prefix("sandgate-browser-").expect("create a profile") }
    }

    /// A new browser's first page.
    pub async fn page(server: SocketAddr, host: &str, path: &str) -> String {
        Self::new().visit(server, host, path).await
    }

    /// Navigates to `http://{host}:{port}{path}` on `server` and returns the page as the browser understood
    /// it.
    pub async fn visit(&self, server: SocketAddr, host: &str, path: &str) -> String {
        let run = Command::new(locations::chromium())
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", self.profile.path().display()))
            .arg(format!("--host-resolver-rules=MAP {host} {}", server.ip()))
            .arg("--dump-dom")
            .arg(format!("http://{host}:{}{path}", server.port()))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        // A cold browser on a loaded machine takes its time.
        let output =
            timeout(Duration::from_secs(60), run).await.expect("a page in time").expect("run Chromium");
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "Chromium: {}", String::from_utf8_lossy(&output.stderr));
        page
    }
}

impl Default for Browser {
    fn default() -> Self {
        Self::new()
    }
}
