//! How a gateway is described and started.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Gateway;
use super::config::{self, FIRST_LISTENER, at};
use super::process::Process;
use crate::{DEADLINE, Request, eventually, locations, replace_by_rename};

pub(super) fn routes_file(folder: &Path) -> PathBuf {
    folder.join("mount").join("routes.yaml")
}

fn cds_file(folder: &Path) -> PathBuf {
    folder.join("cds").join("clusters.json")
}

fn lds_file(folder: &Path) -> PathBuf {
    folder.join("lds").join("listeners.json")
}

/// How an Envoy ended that was expected to end.
#[derive(Debug)]
pub struct Exit {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All of its output.
    pub log: String,
}

impl Exit {
    fn of(output: &Output) -> Self {
        let mut log = String::from_utf8_lossy(&output.stdout).into_owned();
        log.push_str(&String::from_utf8_lossy(&output.stderr));
        Self { code: crate::image::exit_code(output.status), log }
    }
}

/// The listeners of a gateway that takes them from a watched file.
pub(super) struct Lds {
    config: Value,
    extra_routes: Vec<Value>,
    version: u32,
}

impl Lds {
    pub(super) fn update(&mut self, folder: &Path, filter: &Value) {
        self.version += 1;
        let mut listener = config::listener(&self.config, FIRST_LISTENER, Some(filter), &self.extra_routes);
        listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
        let update = json!({ "version_info": self.version.to_string(), "resources": [listener] });
        replace_by_rename(&lds_file(folder), &update.to_string());
    }
}

/// The clusters of a gateway that takes them from a watched file.
pub(super) struct Cds {
    clusters: Vec<Value>,
    version: u32,
}

impl Cds {
    pub(super) fn update(&mut self, folder: &Path, change: impl Fn(&mut Value)) {
        self.version += 1;
        for cluster in &mut self.clusters {
            cluster["@type"] = json!("type.googleapis.com/envoy.config.cluster.v3.Cluster");
            change(cluster);
        }
        let update = json!({ "version_info": self.version.to_string(), "resources": self.clusters });
        replace_by_rename(&cds_file(folder), &update.to_string());
    }
}

type Adjustment = Box<dyn FnOnce(&mut Value)>;

/// Describes a gateway. What is not said is as in `envoy/config/gateway.yaml`, but the filter config is
/// empty: all defaults.
pub struct Builder {
    folder: TempDir,
    module: Option<PathBuf>,
    routes: Option<String>,
    settings: Option<Value>,
    filter: Option<Value>,
    listeners: Vec<(String, Value)>,
    routes_of_envoy: Vec<Value>,
    clusters: Vec<Value>,
    adjustments: Vec<Adjustment>,
    cluster: Vec<(String, Value)>,
    cds: Option<Cds>,
    restarts: Option<Restarts>,
    lds: bool,
    concurrency: u32,
    arguments: Vec<String>,
}

impl Builder {
    pub(super) fn new() -> Self {
        let folder = TempDir::with_prefix("sandgate-").expect("create a folder");
        fs::create_dir(folder.path().join("mount")).expect("create the folder of the routes file");
        // Where the sandboxes of the scenarios are, which is nowhere a real one may be.
        let pod_ranges = json!(["127.0.0.0/8", "::1/128"]);
        let settings = json!({ "routes-file": routes_file(folder.path()), "pod-ranges": pod_ranges });
        Self {
            folder,
            module: None,
            routes: None,
            settings: Some(settings),
            filter: Some(json!({})),
            listeners: Vec::new(),
            routes_of_envoy: Vec::new(),
            clusters: Vec::new(),
            adjustments: Vec::new(),
            cluster: Vec::new(),
            cds: None,
            restarts: None,
            lds: false,
            concurrency: 2,
            arguments: Vec::new(),
        }
    }

    /// The folder the gateway will use.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where the routes file will be.
    pub fn routes_file(&self) -> PathBuf {
        routes_file(self.folder())
    }

    /// The content of the routes file. Without it there is none.
    #[must_use]
    pub fn routes(mut self, text: &str) -> Self {
        self.routes = Some(text.to_owned());
        self
    }

    /// The content of the routes file unless it is given.
    pub(super) fn default_routes(mut self, text: &str) -> Self {
        self.routes.get_or_insert_with(|| text.to_owned());
        self
    }

    /// The config of the HTTP filter on the first listener.
    #[must_use]
    pub fn filter(mut self, filter: Value) -> Self {
        self.filter = Some(filter);
        self
    }

    /// The filter config as it is shipped.
    #[must_use]
    pub fn shipped_filter(mut self) -> Self {
        self.filter = None;
        self
    }

    /// One key of the bootstrap extension's config.
    #[must_use]
    pub fn setting(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.settings.as_mut().expect("there is a bootstrap extension")[key] = value.into();
        self
    }

    /// Routes come from a cluster and from no file. `providers` is the list of that name in the config.
    #[must_use]
    pub fn kubernetes(mut self, kubeconfig: &Path, providers: &Value) -> Self {
        let settings = self.settings.as_mut().expect("there is a bootstrap extension");
        settings.as_object_mut().expect("settings are an object").remove("routes-file");
        self.setting("kubernetes", json!({ "kubeconfig": kubeconfig, "providers": providers }))
    }

    /// The listeners open after so many seconds, complete or not.
    #[must_use]
    pub fn open_after(mut self, seconds: u64) -> Self {
        let settings = self.settings.as_mut().expect("there is a bootstrap extension");
        settings["kubernetes"]["open-after-seconds"] = seconds.into();
        self
    }

    /// No bootstrap extension.
    #[must_use]
    pub fn without_bootstrap_extension(mut self) -> Self {
        self.settings = None;
        self
    }

    /// Another listener with a filter config of its own.
    #[must_use]
    pub fn listener(mut self, name: &str, filter: Value) -> Self {
        self.listeners.push((name.to_owned(), filter));
        self
    }

    /// A route of Envoy before the shipped one, on every listener.
    #[must_use]
    pub fn envoy_route(mut self, route: Value) -> Self {
        self.routes_of_envoy.push(route);
        self
    }

    /// A cluster of one fixed address.
    #[must_use]
    pub fn static_cluster(mut self, name: &str, sandbox: &crate::Sandbox) -> Self {
        let address = json!({ "address": sandbox.ip().to_string(), "port_value": sandbox.port() });
        self.clusters.push(json!({
            "name": name,
            "type": "STATIC",
            "connect_timeout": "5s",
            "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": [
                { "endpoint": { "address": { "socket_address": address } } },
            ]}]},
        }));
        self
    }

    /// Another module than the one under test.
    #[must_use]
    pub fn module(mut self, module: PathBuf) -> Self {
        self.module = Some(module);
        self
    }

    /// One key of the config of both of Sandgate's clusters.
    #[must_use]
    pub fn cluster(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.cluster.push((key.to_owned(), value.into()));
        self
    }

    /// Envoy's own cluster type in the place of Sandgate's, as shipped.
    #[must_use]
    pub fn original_dst(mut self) -> Self {
        self.filter.get_or_insert_with(|| json!({}))["upstream"] = json!("original-dst");
        self.adjust(|config| {
            *at(config, "/static_resources/clusters") = config::original_dst();
            config::without_retries(config);
        })
    }

    /// Clusters come from a file that Envoy watches.
    #[must_use]
    pub fn cds(mut self) -> Self {
        self.cds = Some(Cds { clusters: Vec::new(), version: 0 });
        self
    }

    /// Another Envoy may take over from this one ([`Gateway::restart`]). The listener has a fixed port for
    /// that.
    #[must_use]
    pub fn restartable(mut self) -> Self {
        self.restarts = Some(Restarts::new());
        self
    }

    /// Listeners come from a file that Envoy watches.
    #[must_use]
    pub fn lds(mut self) -> Self {
        self.lds = true;
        self
    }

    /// The number of workers.
    #[must_use]
    pub fn concurrency(mut self, workers: u32) -> Self {
        self.concurrency = workers;
        self
    }

    /// More arguments of Envoy's command line.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Any other change of the config, made last.
    #[must_use]
    pub fn adjust(mut self, adjustment: impl FnOnce(&mut Value) + 'static) -> Self {
        self.adjustments.push(Box::new(adjustment));
        self
    }

    /// Starts Envoy and waits until it serves.
    pub async fn start(self) -> Gateway {
        let mut gateway = self.spawn().await;
        gateway.live().await;
        gateway
    }

    /// Starts Envoy and waits for its admin port only.
    pub async fn spawn(mut self) -> Gateway {
        let mut command = self.prepare();
        let admin_file = self.folder().join("admin.address");
        command.arg("--admin-address-path").arg(&admin_file);
        let log = self.folder().join("envoy.log");
        let mut process = Process::spawn(command, &log);
        let admin = eventually("Envoy opens its admin port", DEADLINE, async || {
            assert!(process.is_alive(), "Envoy ended at once:\n{}", process.log());
            fs::read_to_string(&admin_file).ok()?.trim().parse().ok()
        })
        .await;
        let lds = self.lds.then(|| self.listeners_file());
        let (cds, restarts) = (self.cds, self.restarts);
        Gateway { process, admin, listeners: BTreeMap::new(), lds, cds, restarts, folder: self.folder }
    }

    /// Runs Envoy until it ends by itself, as it does when its config is refused.
    pub async fn run_to_exit(mut self) -> Exit {
        let mut command = self.prepare();
        let running =
            tokio::process::Command::from(command_with_output(&mut command)).kill_on_drop(true).output();
        let output = tokio::time::timeout(DEADLINE, running).await.expect("Envoy ends within the deadline");
        Exit::of(&output.expect("run Envoy"))
    }

    /// `envoy --mode validate` on this config.
    pub async fn validate(mut self) -> Exit {
        let mut command = self.prepare();
        command.args(["--mode", "validate"]);
        let running =
            tokio::process::Command::from(command_with_output(&mut command)).kill_on_drop(true).output();
        let output =
            tokio::time::timeout(DEADLINE, running).await.expect("validation ends within the deadline");
        Exit::of(&output.expect("run Envoy"))
    }

    fn config(&mut self) -> Value {
        let module = self.module.clone().unwrap_or_else(locations::module);
        let mut config = config::localised(self.folder(), &module, self.settings.as_ref());
        let first = config::listener(&config, FIRST_LISTENER, self.filter.as_ref(), &self.routes_of_envoy);
        let mut listeners = vec![first];
        for (name, filter) in &self.listeners {
            listeners.push(config::listener(&config, name, Some(filter), &self.routes_of_envoy));
        }
        *at(&mut config, "/static_resources/listeners") = listeners.into();
        let clusters =
            at(&mut config, "/static_resources/clusters").as_array_mut().expect("clusters are a list");
        clusters.append(&mut self.clusters);
        for cluster in
            at(&mut config, "/static_resources/clusters").as_array_mut().expect("clusters are a list")
        {
            if let Some(own) = cluster.pointer_mut("/cluster_type/typed_config/cluster_config/value") {
                for (key, value) in &self.cluster {
                    own[key] = value.clone();
                }
            }
        }
        if let Some(restarts) = &self.restarts {
            *at(&mut config, "/static_resources/listeners/0/address/socket_address/port_value") =
                json!(restarts.port);
        }
        for adjustment in self.adjustments.drain(..) {
            adjustment(&mut config);
        }
        if let Some(cds) = &mut self.cds {
            let clusters = std::mem::take(at(&mut config, "/static_resources/clusters"));
            cds.clusters = clusters.as_array().expect("clusters are a list").clone();
            let file = cds_file(self.folder.path());
            fs::create_dir(file.parent().expect("a folder")).expect("create the folder of the clusters");
            cds.update(self.folder.path(), |_| {});
            config::without_cluster_checks(&mut config);
            config["dynamic_resources"]["cds_config"] = json!({
                "resource_api_version": "V3",
                "path_config_source": { "path": file, "watched_directory": { "path": file.parent() } },
            });
        }
        if self.lds {
            let file = lds_file(self.folder());
            config["dynamic_resources"]["lds_config"] = json!({
                "resource_api_version": "V3",
                "path_config_source": { "path": file, "watched_directory": { "path": file.parent() } },
            });
            *at(&mut config, "/static_resources/listeners") = json!([]);
        }
        config
    }

    fn listeners_file(&self) -> Lds {
        let module = self.module.clone().unwrap_or_else(locations::module);
        let config = config::localised(self.folder(), &module, self.settings.as_ref());
        Lds { config, extra_routes: self.routes_of_envoy.clone(), version: 0 }
    }

    /// Writes all files and returns the command without what tells the ways of running apart.
    fn prepare(&mut self) -> Command {
        if let Some(routes) = &self.routes {
            fs::write(self.routes_file(), routes).expect("write the routes file");
        }
        if self.lds {
            fs::create_dir(self.folder().join("lds")).expect("create the folder of the listeners");
            let filter = self.filter.clone().expect("LDS needs a filter config");
            self.listeners_file().update(self.folder(), &filter);
        }
        let bootstrap = self.folder().join("bootstrap.json");
        let config = self.config();
        fs::write(&bootstrap, config.to_string()).expect("write the config");
        let mut command = envoy(self.folder());
        command.args(["--concurrency", &self.concurrency.to_string()]).args(&self.arguments);
        match &self.restarts {
            Some(restarts) => restarts.describe(&mut command),
            None => {
                command.arg("--disable-hot-restart");
            }
        }
        command
    }
}

/// Envoy with the config in `folder`.
fn envoy(folder: &Path) -> Command {
    let mut command = Command::new(locations::envoy());
    command
        .arg("--config-path")
        .arg(folder.join("bootstrap.json"))
        .args(["--file-flush-interval-msec", "10"])
        .args(["--service-node", "test", "--service-cluster", "test"])
        // The core of the error is in the log; a crash is seen by the exit code.
        .current_dir(folder);
    command
}

/// What Envoys that take over from each other have in common.
pub(super) struct Restarts {
    base_id: u32,
    port: u16,
    epoch: u32,
}

impl Restarts {
    fn new() -> Self {
        // A port that was free a moment ago: the next Envoy finds the socket of the last one by its port.
        let probe = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = probe.local_addr().expect("a bound listener has an address").port();
        Self { base_id: u32::from(port), port, epoch: 0 }
    }

    fn describe(&self, command: &mut Command) {
        command
            .args(["--base-id", &self.base_id.to_string(), "--restart-epoch", &self.epoch.to_string()])
            .args(["--drain-time-s", "600", "--parent-shutdown-time-s", "900"]);
    }
}

impl Gateway {
    /// Starts another Envoy with the same config that takes over the listeners, and gives the old one's
    /// process.
    pub async fn restart(&mut self) -> super::Predecessor {
        let restarts = self.restarts.as_mut().expect("built with restartable()");
        restarts.epoch += 1;
        let folder = self.folder.path();
        let mut command = envoy(folder);
        restarts.describe(&mut command);
        let admin_file = folder.join(format!("admin-{}.address", restarts.epoch));
        command.args(["--concurrency", "2"]).arg("--admin-address-path").arg(&admin_file);
        let log = folder.join(format!("envoy-{}.log", restarts.epoch));
        let mut process = Process::spawn(command, &log);
        self.admin = eventually("the next Envoy opens its admin port", DEADLINE, async || {
            assert!(process.is_alive(), "the next Envoy ended at once:\n{}", process.log());
            fs::read_to_string(&admin_file).ok()?.trim().parse().ok()
        })
        .await;
        let old = std::mem::replace(&mut self.process, process);
        self.live().await;
        super::Predecessor(old)
    }

    /// Changes every cluster of a gateway that was built with [`Builder::cds`].
    pub fn update_clusters(&mut self, change: impl Fn(&mut Value)) {
        let folder = self.folder.path().to_owned();
        self.cds.as_mut().expect("built with cds()").update(&folder, change);
    }
}

/// Takes the prepared command with its output caught.
fn command_with_output(command: &mut Command) -> Command {
    let program = command.get_program().to_owned();
    let mut owned = std::mem::replace(command, Command::new(program));
    owned.stdin(std::process::Stdio::null());
    owned
}

impl Gateway {
    /// Waits until Envoy serves, and learns the ports of its listeners.
    pub async fn live(&mut self) {
        let process = &mut self.process;
        let admin = self.admin;
        self.listeners = eventually("Envoy is LIVE with its listeners", DEADLINE, async || {
            assert!(process.is_alive(), "Envoy has ended:\n{}", process.log());
            let mut client = crate::Client::http1(admin).await.ok()?;
            let ready = client.send(Request::get("/ready")).await.ok()?;
            if ready.text().trim() != "LIVE" {
                return None;
            }
            let listeners = client.send(Request::get("/listeners?format=json")).await.ok()?.json();
            let listeners = read_listeners(&listeners);
            (!listeners.is_empty()).then_some(listeners)
        })
        .await;
    }

    /// Learns the ports of the listeners that Envoy has bound, whether or not they are open.
    pub async fn learn_listeners(&mut self) {
        let listeners = self.admin("/listeners?format=json").await.json();
        self.listeners = read_listeners(&listeners);
    }
}

fn read_listeners(listeners: &Value) -> BTreeMap<String, std::net::SocketAddr> {
    let statuses = listeners["listener_statuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let address = |status: &Value| {
        let socket = &status["local_address"]["socket_address"];
        let ip: std::net::IpAddr = socket["address"].as_str()?.parse().ok()?;
        Some((
            status["name"].as_str()?.to_owned(),
            (ip, u16::try_from(socket["port_value"].as_u64()?).ok()?).into(),
        ))
    };
    statuses.iter().filter_map(address).collect()
}
