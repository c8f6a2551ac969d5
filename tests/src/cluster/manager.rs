//! Our manager: the real command, as a process of its own, and what speaks to its API.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use http_body_util::Full;
use serde_json::{Value, json};

use super::{Cluster, Daemon};
use crate::{Cli, Client, DEADLINE, Gateway, Place, Reply, Request, Tries, locations};

/// The namespace of the managers' own objects.
pub const SYSTEM_NAMESPACE: &str = "sandgate-system";

/// The port of the API.
const API: u16 = 8080;
/// The port of probes and metrics.
const PROBES: u16 = 8091;
/// How long an answer of the API may take: it may have to wait for a pod, among others that start.
const PATIENCE: Duration = Duration::from_secs(120);

/// Describes a manager.
pub struct ManagerBuilder {
    cluster: Cluster,
    kubeconfig: PathBuf,
    listen: Option<SocketAddr>,
    flags: Vec<String>,
}

impl ManagerBuilder {
    pub(super) fn of(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), kubeconfig: cluster.kubeconfig(), listen: None, flags: Vec::new() }
    }

    /// Adds a flag (`sandgate-manager --help`).
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Another way to the API server than the administrator's own: an account with fewer rights, or a
    /// [`Wire`](crate::kubernetes::Wire) between the two.
    #[must_use]
    pub fn kubeconfig(mut self, file: &Path) -> Self {
        file.clone_into(&mut self.kubeconfig);
        self
    }

    /// Tells this gateway of what it does, besides those that were named before. The gateway must receive
    /// routes ([`Builder::refresh`](crate::Builder::refresh)).
    pub async fn gateway(self, gateway: &Gateway) -> Self {
        self.gateway_at(gateway.refresh_address().await)
    }

    /// The same of a gateway that receives routes here.
    #[must_use]
    pub fn gateway_at(self, address: SocketAddr) -> Self {
        self.flag(&format!("--gateway=http://{address}"))
    }

    /// Serves the API here, and not on an address of its own.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Starts it and waits until it is ready.
    pub async fn start(self) -> Manager {
        make_system_namespace(&self.cluster).await;
        let mut manager = self.spawn();
        manager.until_ready().await;
        manager
    }

    /// Starts it and waits for nothing.
    pub fn spawn(self) -> Manager {
        let (folder, place) = (self.cluster.folder("manager"), Place::reserve());
        let address = self.listen.unwrap_or_else(|| (place.ip(), API).into());
        let mut command = Command::new(locations::manager());
        command
            .arg(format!("--listen={address}"))
            .arg(format!("--probe-listen={}:{PROBES}", place.ip()))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(&self.flags)
            .env("RUST_BACKTRACE", "1");
        let mut manager = Manager {
            daemon: None,
            command,
            log: folder.join("log"),
            address,
            place,
            _cluster: self.cluster,
        };
        manager.run();
        manager
    }
}

/// A manager. Dropping it kills it.
pub struct Manager {
    daemon: Option<Daemon>,
    command: Command,
    log: PathBuf,
    address: SocketAddr,
    place: Place,
    // Last, so that the folder goes after the process.
    _cluster: Cluster,
}

impl Manager {
    /// Where its API is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("the manager runs").pid()
    }

    /// What it has written, in all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it for a page of its probes: `/healthz`, `/readyz`, `/metrics`.
    pub async fn page(&self, path: &str) -> Option<Reply> {
        let mut client = Client::http1((self.place.ip(), PROBES).into()).await.ok()?;
        client.send(Request::get(path)).await.ok()
    }

    /// Its metrics.
    pub async fn metrics(&self) -> String {
        let reply = self.page("/metrics").await.expect("an answer of the manager");
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text().to_owned()
    }

    /// Asks its API with a key, on a connection of its own.
    pub async fn ask(&self, key: &str, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let request = api_request(key, method, path, body);
        self.send(request).await.unwrap_or_else(|e| panic!("{method} {path}: {e}\n{}", self.log()))
    }

    /// Sends its API any request.
    ///
    /// # Errors
    /// When it does not answer to the end, as when it is killed.
    pub async fn send(&self, request: Request) -> std::io::Result<Reply> {
        let mut client = Client::http1(self.address()).await?;
        client.send_within(PATIENCE, request).await.map_err(std::io::Error::other)
    }

    /// Makes a sandbox of a template, with more fields of the request if any.
    ///
    /// # Panics
    /// When there is none.
    pub async fn create(&self, key: &str, template: &str, more: &Value) -> Value {
        let reply = self.ask(key, "POST", "/v2/sandboxes", Some(&new_sandbox(template, more))).await;
        assert_eq!(reply.status, 201, "{}\n{}", reply.text(), self.log());
        reply.json()
    }

    /// Waits until it says that it is ready.
    pub async fn until_ready(&mut self) {
        let mut tries = Tries::new("the manager is ready", DEADLINE * 3);
        loop {
            tries.next().await;
            self.assert_alive();
            if self.page("/readyz").await.is_some_and(|reply| reply.status == 200) {
                return;
            }
        }
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        drop(self.daemon.take().expect("the manager runs"));
    }

    /// Asks it to end (SIGTERM), waits until it has, and says how.
    pub async fn stop(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("the manager runs");
        daemon.stop().await
    }

    /// Fails, with the log, when it has ended by itself.
    pub fn assert_alive(&mut self) {
        self.daemon.as_mut().expect("the manager runs").assert_alive();
    }

    /// Starts it again after an end, with the same flags, and waits until it is ready.
    pub async fn start_again(&mut self) {
        self.run();
        self.until_ready().await;
    }

    fn run(&mut self) {
        assert!(self.daemon.is_none(), "the manager runs already");
        self.daemon = Some(Daemon::start("the manager", &self.command, &self.log, "KILL"));
    }
}

/// A request of the API.
pub fn api_request(key: &str, method: &str, path: &str, body: Option<&Value>) -> Request {
    let request = Request::get(path).method(method).header("x-api-key", key);
    match body {
        Some(body) => request.header("content-type", "application/json").body(Full::from(body.to_string())),
        None => request,
    }
}

/// The body of a create, with more fields if any.
pub fn new_sandbox(template: &str, more: &Value) -> Value {
    let mut body = json!({ "templateID": template });
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

/// Makes the namespace of the managers' own objects, as an installation does.
async fn make_system_namespace(cluster: &Cluster) {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
    cluster.api().apply(&object.to_string()).await;
}

pub(super) async fn create_key(cluster: &Cluster, name: &str, flags: &[&str]) -> String {
    make_system_namespace(cluster).await;
    let said = keys(cluster, &[&["create", "--name", name], flags].concat()).await;
    let key = said.trim();
    assert!(key.starts_with("e2b_") && !key.contains(char::is_whitespace), "not a key and no more: {key}");
    key.to_owned()
}

pub(super) async fn revoke_key(cluster: &Cluster, name: &str) {
    let listed: Value = serde_json::from_str(&keys(cluster, &["list", "--json"]).await).expect("JSON");
    let all = listed.as_array().or_else(|| listed["keys"].as_array()).expect("a list of keys");
    let key = all.iter().find(|key| key["name"] == name).unwrap_or_else(|| panic!("no {name} in {listed}"));
    keys(cluster, &["revoke", key["id"].as_str().expect("an ID")]).await;
}

/// Runs `sandgate keys` with all rights.
async fn keys(cluster: &Cluster, arguments: &[&str]) -> String {
    let mut command = Command::new(locations::cli());
    command.arg("keys").args(arguments).arg("--kubeconfig").arg(cluster.kubeconfig()).stdin(Stdio::null());
    let done = Cli::finish(command).await;
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    done.stdout
}
