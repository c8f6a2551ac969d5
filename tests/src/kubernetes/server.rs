//! The server: started, ready, killed, back again.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use kube::Client;
use kube::config::{KubeConfigOptions, KubeconfigError};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::apply::{self, apply};
use super::flags::{self, ADMIN_TOKEN, ETCD_PORT, Extra, Flags, SECURE_PORT};
use super::process::Process;
use crate::{Client as Plain, Place, Request, eventually};

/// How long the server may take to be ready: seconds alone, more among all the others that start at once.
const START: Duration = Duration::from_secs(120);

/// A server, and this scenario's client of it with all rights.
///
/// Clones are handles of the same server; an own one ends with the last of them.
#[derive(Clone)]
pub struct ApiServer {
    server: Arc<Server>,
    client: Client,
}

struct Server {
    process: Mutex<Option<Process>>,
    flags: Flags,
    place: Place,
    folder: PathBuf,
    names: AtomicU32,
    shared: bool,
    // Last, so that the folder goes after the process.
    _own: Option<TempDir>,
}

/// What an own server is started with.
#[derive(Debug, Default)]
pub struct ApiServerBuilder {
    extra: Extra,
    bare: bool,
}

impl ApiServerBuilder {
    /// Adds a flag of kube-apiserver; the last of one name wins.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.extra.apiserver.push(flag.to_owned());
        self
    }

    /// Starts the controllers and the scheduler too, with these flags of `tests/cluster`.
    #[must_use]
    pub(crate) fn controllers(mut self, flags: Vec<String>) -> Self {
        self.extra.controllers = Some(flags);
        self
    }

    /// Refuses `sendInitialEvents`, as servers before 1.34 do.
    #[must_use]
    pub fn without_streaming_lists(self) -> Self {
        self.flag("--feature-gates=WatchList=false,WatchListClient=false")
    }

    /// Serves every watch from etcd itself, so that [`ApiServer::compact`] is felt at once.
    #[must_use]
    pub fn without_watch_cache(self) -> Self {
        self.flag("--watch-cache=false")
    }

    /// Leaves out the definitions of the providers; [`ApiServer::install`] brings them later.
    #[must_use]
    pub fn without_definitions(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(self) -> ApiServer {
        let folder = TempDir::with_prefix("sandgate-cluster-").expect("a folder for the server");
        let path = folder.path().to_owned();
        let server = Server::start(path, Some(folder), &self.extra).await;
        let server = ApiServer::of(Arc::new(server)).await;
        if !self.bare {
            server.install_all().await;
        }
        server
    }
}

impl ApiServer {
    /// The server that all scenarios of this process share, with the definitions of the three providers.
    pub async fn shared() -> Self {
        static SHARED: OnceCell<Arc<Server>> = OnceCell::const_new();
        let server = SHARED.get_or_init(async || {
            let folder = TempDir::with_prefix("sandgate-cluster-").expect("a folder for the server").keep();
            let server = Arc::new(Server::start(folder, None, &Extra::default()).await);
            Self::of(server.clone()).await.install_all().await;
            server
        });
        Self::of(server.await.clone()).await
    }

    /// The server of the cluster that scenarios of this process share ([`Cluster::shared`]), with controllers
    /// and scheduler and no definitions. Whoever starts it keeps it.
    ///
    /// [`Cluster::shared`]: crate::cluster::Cluster::shared
    pub(crate) async fn shared_with_controllers() -> Self {
        let folder = TempDir::with_prefix("sandgate-cluster-").expect("a folder for the server").keep();
        let extra = Extra { controllers: Some(Vec::new()), ..Extra::default() };
        Self::of(Arc::new(Server::start(folder, None, &extra).await)).await
    }

    /// A handle of the same server whose client lives on the runtime of the caller.
    pub(crate) async fn on_this_runtime(&self) -> Self {
        Self::of(self.server.clone()).await
    }

    /// A server of one scenario.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    async fn of(server: Arc<Server>) -> Self {
        let config = config(&server.url(), &server.authority(), ADMIN_TOKEN).await.expect("a config");
        // A client lives on the runtime that made it, so each scenario has its own.
        Self { client: Client::try_from(config).expect("a client"), server }
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with the rights that a token has.
    pub async fn client_with(&self, token: &str) -> Client {
        let config = config(&self.url(), &self.authority(), token).await.expect("a config");
        Client::try_from(config).expect("a client")
    }

    /// Where the server is: `https://IP:PORT`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        (self.server.ip(), SECURE_PORT).into()
    }

    /// The certificate authority of the server, as PEM.
    pub fn authority(&self) -> PathBuf {
        self.server.authority()
    }

    /// The token of the administrator.
    pub fn admin_token(&self) -> &'static str {
        ADMIN_TOKEN
    }

    /// A folder that lives as long as the server.
    pub(crate) fn folder(&self) -> &Path {
        &self.server.folder
    }

    /// `prefix` and a number that no other call on this server gives.
    pub(crate) fn unique(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.server.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a namespace that is the caller's alone, and gives its name.
    pub async fn namespace(&self, prefix: &str) -> String {
        let name = self.unique(prefix);
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        apply(&self.client, &object).await;
        name
    }

    /// Makes or changes every object of a YAML text with the administrator's rights.
    pub async fn apply(&self, yaml: &str) {
        for object in apply::documents(yaml) {
            apply(&self.client, &object).await;
        }
    }

    /// Asks the server to check an object and not to make it.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn dry_run(&self, object: &Value) -> kube::Result<()> {
        apply::dry_run(&self.client, object).await
    }

    /// Installs one definition of `tests/crds` (`openkruise`, `agent-sandbox`, `opensandbox`) and waits until
    /// its objects are served.
    pub async fn install(&self, provider: &str) {
        apply::install(&self.client, provider).await;
    }

    /// Makes an object whose definition was installed a moment ago, as soon as it is served.
    pub async fn apply_when_served(&self, object: &Value) {
        apply::apply_when_served(&self.client, object).await;
    }

    /// Deletes a definition that a scenario made, and with it every object of it, and waits until all are
    /// gone.
    pub async fn delete_definition(&self, name: &str) {
        apply::delete_definition(&self.client, name).await;
    }

    async fn install_all(&self) {
        let all = apply::DEFINITIONS.map(|provider| apply::install(&self.client, provider));
        futures_util::future::join_all(all).await;
    }

    /// Kills the server and its etcd. Connections break; the port refuses.
    ///
    /// # Panics
    /// For the shared server, which others use.
    pub fn kill(&self) {
        assert!(!self.server.shared(), "the shared server is not one scenario's to kill");
        self.server.process().take().expect("the server runs").kill();
    }

    /// Fails, with the log, when the server has ended by itself.
    pub fn assert_alive(&self) {
        self.server.assert_alive();
    }

    /// Brings a killed server back: same port, same data, same certificate. Waits until it is ready.
    pub async fn start_again(&self) {
        self.server.run().await;
    }

    /// Forgets all history up to now in etcd: a watch from an older version gets `410 Gone`, at once
    /// [without the watch cache](ApiServerBuilder::without_watch_cache), else after a restart.
    pub async fn compact(&self) {
        let now = self.etcd("/v3/kv/range", &json!({ "key": "AA==" })).await;
        let revision = &now["header"]["revision"];
        assert!(revision.is_string(), "no revision in {now}");
        self.etcd("/v3/kv/compaction", &json!({ "revision": revision, "physical": true })).await;
    }

    pub(super) async fn etcd(&self, path: &str, body: &Value) -> Value {
        let mut client = Plain::http1((self.server.ip(), ETCD_PORT).into()).await.expect("reach etcd");
        let request = Request::post(path).body(Full::from(body.to_string()));
        let reply = client.send(request).await.expect("an answer of etcd");
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }
}

impl Server {
    async fn start(folder: PathBuf, own: Option<TempDir>, extra: &Extra) -> Self {
        let place = Place::reserve();
        let flags = flags::prepare(place.ip(), &folder, extra);
        let (process, names) = (Mutex::new(None), AtomicU32::new(1));
        let server = Self { process, flags, place, folder, names, shared: own.is_none(), _own: own };
        server.run().await;
        server
    }

    async fn run(&self) {
        let process = Process::start(&self.flags, &self.folder, self.shared);
        assert!(self.process().replace(process).is_none(), "the server runs already");
        eventually("the API server is ready", START, async || {
            self.assert_alive();
            // Without a certificate, or with half of one, there is no config yet.
            let config = config(&self.url(), &self.authority(), ADMIN_TOKEN).await.ok()?;
            let client = Client::try_from(config).ok()?;
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
            client.request_text(request).await.ok()
        })
        .await;
    }

    fn assert_alive(&self) {
        self.process().as_mut().expect("the server runs").assert_alive();
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> bool {
        self.shared
    }

    fn ip(&self) -> IpAddr {
        self.place.ip()
    }

    fn url(&self) -> String {
        flags::url(self.ip())
    }

    fn authority(&self) -> PathBuf {
        flags::authority(&self.folder)
    }
}

/// A client's config, by way of a kubeconfig as users have it.
pub(super) async fn config(
    url: &str,
    authority: &Path,
    token: &str,
) -> Result<kube::Config, KubeconfigError> {
    let kubeconfig = super::access::kubeconfig(url, Some(authority), &json!({ "token": token }));
    let kubeconfig = serde_json::from_value(kubeconfig).expect("a kubeconfig");
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // A scenario sees what the server says, not what a second try says.
    config.default_retry = false;
    Ok(config)
}
