//! A running Envoy with the module, as a scenario sees it.

mod access;
mod admin;
mod builder;
mod config;
mod kubernetes;
mod process;
mod refresh;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

pub use access::Access;
pub use builder::{Builder, Exit};
pub use refresh::refresh_request;

use crate::{Client, DEADLINE, Reply, Request, eventually};
use process::Process;

/// A running Envoy. Dropping it ends the process; when the scenario has failed, the end of its log is shown
/// first.
pub struct Gateway {
    process: Process,
    admin: SocketAddr,
    listeners: BTreeMap<String, SocketAddr>,
    lds: Option<builder::Lds>,
    cds: Option<builder::Cds>,
    restarts: Option<builder::Restarts>,
    folder: TempDir,
}

/// An Envoy that another one has taken over from. Dropping it ends the process.
pub struct Predecessor(Process);

impl Predecessor {
    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        self.0.is_alive()
    }
}

impl Gateway {
    /// Starts to describe one.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// One with these routes and nothing else out of the ordinary.
    pub async fn serving(routes: &str) -> Self {
        Self::builder().routes(routes).start().await
    }

    /// The address of the first listener.
    pub fn address(&self) -> SocketAddr {
        self.listener(config::FIRST_LISTENER)
    }

    /// The address of a listener.
    pub fn listener(&self, name: &str) -> SocketAddr {
        *self.listeners.get(name).unwrap_or_else(|| panic!("no listener {name} in {:?}", self.listeners))
    }

    /// The address of the admin port.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// The folder of this gateway: configs, logs, and the routes file.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The routes file.
    pub fn routes_file(&self) -> PathBuf {
        builder::routes_file(self.folder())
    }

    /// The process ID of Envoy.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends one request on a connection of its own.
    pub async fn send(&self, request: Request) -> Reply {
        self.client().await.send(request).await.expect("an answer from the gateway")
    }

    /// Sends one request to another listener.
    pub async fn send_to(&self, listener: &str, request: Request) -> Reply {
        let mut client = Client::http1(self.listener(listener)).await.expect("connect");
        client.send(request).await.expect("an answer from the gateway")
    }

    /// An HTTP/1.1 connection to the first listener.
    pub async fn client(&self) -> Client {
        Client::http1(self.address()).await.expect("connect to the gateway")
    }

    /// An HTTP/2 connection to the first listener.
    pub async fn http2_client(&self) -> Client {
        Client::http2(self.address()).await.expect("connect to the gateway")
    }

    /// Envoy's log so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Waits for a line of the log that has all these parts, and returns it.
    pub async fn logged(&self, parts: &[&str]) -> String {
        eventually(&format!("a log line with {parts:?}"), DEADLINE, async || {
            self.log()
                .lines()
                .find(|line| parts.iter().all(|part| line.contains(part)))
                .map(ToOwned::to_owned)
        })
        .await
    }

    /// The access log's entry of a request.
    pub async fn access(&self, reply: &Reply) -> Access {
        self.access_where(&format!("the access log of {}", reply.tag), |entry| entry.tag == reply.tag).await
    }

    /// The first entry of the access log that `matches`.
    pub async fn access_where(&self, what: &str, matches: impl Fn(&Access) -> bool) -> Access {
        eventually(what, DEADLINE, async || Access::read(&self.access_log_file()).into_iter().find(&matches))
            .await
    }

    /// The access log's text.
    pub fn access_log(&self) -> String {
        std::fs::read_to_string(self.access_log_file()).unwrap_or_default()
    }

    fn access_log_file(&self) -> PathBuf {
        self.folder().join(config::ACCESS_LOG)
    }

    /// Replaces the listeners of a gateway that was built with [`Builder::lds`]: the filter config of the
    /// first one.
    pub fn update_filter(&mut self, filter: &serde_json::Value) {
        let folder = self.folder.path().to_owned();
        self.lds.as_mut().expect("built with lds()").update(&folder, filter);
    }

    /// Asks Envoy to end (SIGTERM).
    pub fn terminate(&self) {
        self.process.signal("TERM");
    }

    /// Waits until Envoy has ended by itself, and returns its exit code (`None`: ended by a signal).
    pub async fn ended(&mut self) -> Option<i32> {
        self.process.ended(DEADLINE).await
    }

    /// Whether Envoy still runs.
    pub fn is_alive(&mut self) -> bool {
        self.process.is_alive()
    }

    /// Waits until a connection to `address` is refused.
    pub async fn refuses(&self, address: SocketAddr) {
        eventually(&format!("{address} refuses connections"), DEADLINE, async || {
            tokio::net::TcpStream::connect(address).await.is_err().then_some(())
        })
        .await;
    }

    /// The resident memory of Envoy, in bytes.
    pub fn resident_memory(&self) -> u64 {
        self.status_field("VmRSS:") * 1024
    }

    /// The part of it that is no file's, in bytes.
    pub fn anonymous_memory(&self) -> u64 {
        self.status_field("RssAnon:") * 1024
    }

    /// The number of descriptors that Envoy has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("Envoy runs").count()
    }

    /// The number of threads of Envoy.
    pub fn threads(&self) -> u64 {
        self.status_field("Threads:")
    }

    fn status_field(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("Envoy runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a known field");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// Waits for any condition, with the usual deadline.
    pub async fn until<T>(&self, what: &str, condition: impl AsyncFnMut() -> Option<T>) -> T {
        eventually(what, DEADLINE, condition).await
    }

    /// Waits for any condition, with a shorter deadline.
    pub async fn within<T>(
        &self,
        deadline: Duration,
        what: &str,
        condition: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        eventually(what, deadline, condition).await
    }
}
