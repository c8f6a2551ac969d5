//! A whole cluster for the scenarios: API server, controllers and scheduler, nodes that run pods as
//! processes, and our own operator and manager, each a process of its own that can be killed and come back.
//! In the operator's place there may be a double of OpenKruise's controllers ([`OpenKruise`]).
//!
//! ```no_run
//! # async fn scenario() {
//! use sandgate_tests::cluster::{Cluster, Resource, pod_template, sandbox};
//! let cluster = Cluster::builder().start().await;
//! let _node = cluster.node("a").start().await;
//! let _operator = cluster.operator().start().await;
//! let namespace = cluster.namespace("mine").await;
//! let sandboxes = cluster.objects(Resource::Sandbox, &namespace);
//! sandboxes.create(&sandbox("one", &pod_template("envd"))).await;
//! sandboxes.until("one", "it runs", |object| object["status"]["phase"] == "Running").await;
//! # }
//! ```
//!
//! The API server is an [`ApiServer`] with our definitions (`envoy/deploy/crds`) and no others: its
//! kubeconfigs, accounts and kills are those of [`Cluster::api`], and a gateway beside it is a
//! [`Gateway`](crate::Gateway) with one of its kubeconfigs. Everything ends with the scenario, also when the
//! test process is killed.
//!
//! A lost node is seen after 40 s and its pods go after five minutes more, as in every cluster, unless the
//! scenario says otherwise ([`ClusterBuilder::nodes_are_lost_after`]). Kubernetes empties no node while all
//! of them are lost: give such a scenario a second one.

mod daemon;
mod draft;
mod environments;
mod manager;
mod node;
mod objects;
mod openkruise;
mod opensandbox;
mod operator;
mod shared;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

pub use daemon::Daemon;
pub use draft::{
    batch_sandbox, env_template, pod_template, pool, pooled, sandbox, sandbox_env, sandbox_set, snapshot,
};
pub use environments::{Environments, env_phase, sandboxes};
pub use manager::{Manager, ManagerBuilder, SYSTEM_NAMESPACE, api_request, new_sandbox};
pub use node::{Node, NodeBuilder};
pub use objects::{Follower, Objects, Resource};
pub use openkruise::OpenKruise;
pub use opensandbox::{
    Batches, allocated, annotation, condition, endpoints, holds, is_ready, name, released, uid,
};
pub use operator::{Operator, OperatorBuilder};

use crate::kubernetes::{ApiServer, ApiServerBuilder};
use crate::{Cli, DEADLINE, eventually, locations};

/// The file with our definition of Sandbox.
const SANDBOXES: &str = "agents.kruise.io_sandboxes.yaml";

/// A control plane with controllers and scheduler. Clones are handles of the same one; it ends with the last
/// of them.
#[derive(Clone)]
pub struct Cluster {
    api: ApiServer,
    kubeconfig: PathBuf,
    heartbeat: Duration,
}

/// What a cluster is started with.
#[derive(Debug)]
pub struct ClusterBuilder {
    api: ApiServerBuilder,
    controllers: Vec<String>,
    heartbeat: Duration,
    bare: bool,
    openkruise: bool,
}

impl ClusterBuilder {
    /// Adds a flag of kube-apiserver; the last of one name wins.
    #[must_use]
    pub fn api_flag(mut self, flag: &str) -> Self {
        self.api = self.api.flag(flag);
        self
    }

    /// Adds a flag of the controllers (`tests/cluster/controllers.go`).
    #[must_use]
    pub fn controllers_flag(mut self, flag: &str) -> Self {
        self.controllers.push(flag.to_owned());
        self
    }

    /// A node that is silent for `silence` is lost, and its pods are deleted `tolerated` later, to the
    /// second. Nodes of this cluster say often enough that they live.
    #[must_use]
    pub fn nodes_are_lost_after(mut self, silence: Duration, tolerated: Duration) -> Self {
        self.heartbeat = silence / 5;
        let (silence, tolerated) = (silence.as_millis(), tolerated.as_secs());
        self.api_flag(&format!("--default-not-ready-toleration-seconds={tolerated}"))
            .api_flag(&format!("--default-unreachable-toleration-seconds={tolerated}"))
            .controllers_flag("--node-monitor-period=200ms")
            .controllers_flag(&format!("--node-monitor-grace-period={silence}ms"))
            .controllers_flag(&format!("--node-startup-grace-period={silence}ms"))
            // One node in ten seconds otherwise.
            .controllers_flag("--node-eviction-rate=10")
    }

    /// Leaves out our definitions.
    #[must_use]
    pub fn without_definitions(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Takes OpenKruise's definition of Sandbox (`tests/crds`) in the place of ours, which has more fields.
    #[must_use]
    pub fn openkruise_definition(mut self) -> Self {
        self.openkruise = true;
        self
    }

    /// Starts the control plane and waits until it is ready: it serves, and controllers work.
    pub async fn start(self) -> Cluster {
        let program = locations::cluster();
        assert!(
            program.file_name().is_some_and(|name| name == "cluster"),
            "SANDGATE_CLUSTER={} is an API server and no more: with Go `make cluster` builds the rest",
            program.display()
        );
        let api = self.api.controllers(self.controllers).without_definitions().start().await;
        let kubeconfig = api.admin_kubeconfig();
        let cluster = Cluster { api, kubeconfig, heartbeat: self.heartbeat };
        if self.openkruise {
            cluster.api.install("openkruise").await;
            let others = definition_files().into_iter().filter(|file| !file.ends_with(SANDBOXES));
            cluster.install(others).await;
        } else if !self.bare {
            cluster.install_definitions().await;
        }
        cluster.account("default").await;
        cluster
    }
}

impl Cluster {
    /// A cluster of one scenario.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder {
            api: ApiServer::builder(),
            controllers: Vec::new(),
            heartbeat: Duration::from_secs(2),
            bare: false,
            openkruise: false,
        }
    }

    /// The API server.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// A client with all rights.
    pub fn client(&self) -> kube::Client {
        self.api.client()
    }

    /// A kubeconfig with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// Makes a namespace that is the caller's alone, with the account that pods in it run as, and gives its
    /// name.
    pub async fn namespace(&self, prefix: &str) -> String {
        let name = self.api.namespace(prefix).await;
        self.account(&name).await;
        name
    }

    /// Waits for a namespace's default account: a pod made earlier is refused.
    async fn account(&self, namespace: &str) {
        let accounts = self.objects(Resource::ServiceAccount, namespace);
        eventually(&format!("{namespace} has a default account"), 3 * DEADLINE, async || {
            accounts.get("default").await
        })
        .await;
    }

    /// Installs our own definitions and waits until their objects are served.
    pub async fn install_definitions(&self) {
        self.install(definition_files().into_iter()).await;
    }

    async fn install(&self, files: impl Iterator<Item = PathBuf>) {
        for file in files {
            let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            self.api.apply(&text).await;
        }
        for resource in Resource::OURS {
            let objects = self.objects(resource, "default");
            let what = format!("{resource:?} is served");
            eventually(&what, 3 * DEADLINE, async || objects.try_list().await.ok()).await;
        }
    }

    /// The objects of one kind in one namespace; the namespace of a kind that has none is ignored.
    pub fn objects(&self, resource: Resource, namespace: &str) -> Objects {
        Objects::of(self.client(), resource, namespace)
    }

    /// Describes a node.
    pub fn node(&self, name: &str) -> NodeBuilder {
        NodeBuilder::of(self, name, self.heartbeat)
    }

    /// Describes an operator.
    pub fn operator(&self) -> OperatorBuilder {
        OperatorBuilder::of(self)
    }

    /// Starts a double of OpenKruise's controllers, for the objects of one namespace. Our operator must not
    /// run beside it.
    pub fn openkruise(&self, namespace: &str) -> OpenKruise {
        OpenKruise::start(self, namespace)
    }

    /// Describes a manager.
    pub fn manager(&self) -> ManagerBuilder {
        ManagerBuilder::of(self)
    }

    /// Makes an API key of the managers, as an administrator does (`sandgate keys create`), and gives its
    /// text.
    pub async fn api_key(&self, name: &str) -> String {
        manager::create_key(self, name, &[]).await
    }

    /// The same with more flags.
    pub async fn api_key_with(&self, name: &str, flags: &[&str]) -> String {
        manager::create_key(self, name, flags).await
    }

    /// Takes an API key back (`sandgate keys revoke`).
    pub async fn revoke_key(&self, name: &str) {
        manager::revoke_key(self, name).await;
    }

    /// Runs kubectl, of the cluster's version, with all rights, until it ends.
    pub async fn kubectl(&self, arguments: &[&str]) -> Cli {
        Cli::finish(self.kubectl_command(arguments)).await
    }

    /// The same, for a scenario that wants to hear and say something meanwhile.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(locations::cluster());
        // Without a home it keeps no cache, and asks nobody else's config.
        command.arg("kubectl").args(arguments).env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        command.env("HOME", self.api.folder());
        command
    }

    /// A folder that lives as long as the cluster.
    pub(crate) fn folder(&self, prefix: &str) -> PathBuf {
        let folder = self.api.folder().join(self.api.unique(prefix));
        fs::create_dir(&folder).expect("create a folder");
        folder
    }
}

/// The files with our definitions.
fn definition_files() -> Vec<PathBuf> {
    let folder = locations::repository().join("envoy/deploy/crds");
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let files = files.map(|entry| entry.expect("read the folder").path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no definitions", folder.display());
    files
}
