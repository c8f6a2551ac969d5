//! A node: `tests/node`, which runs pods as processes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Cluster, Daemon, Resource};
use crate::{DEADLINE, Tries, locations};

/// Describes a node.
pub struct NodeBuilder {
    cluster: Cluster,
    name: String,
    flags: Vec<String>,
    images: PathBuf,
}

impl NodeBuilder {
    pub(super) fn of(cluster: &Cluster, name: &str, heartbeat: Duration) -> Self {
        Self {
            cluster: cluster.clone(),
            name: name.to_owned(),
            flags: vec![format!("--heartbeat={}ms", heartbeat.as_millis())],
            images: images(),
        }
    }

    /// Adds a flag (`cluster node --help`); the last of one name wins.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Another table of images than `tests/cluster/images.yaml`.
    #[must_use]
    pub fn images(mut self, table: PathBuf) -> Self {
        self.images = table;
        self
    }

    /// Starts it and waits until pods can be bound to it.
    pub async fn start(self) -> Node {
        let folder = self.cluster.folder("node");
        let mut command = Command::new(locations::cluster());
        command
            .args(["node", "--until-stdin-ends", "--name", &self.name, "--kubeconfig"])
            .arg(self.cluster.kubeconfig())
            .arg("--images")
            .arg(&self.images)
            .arg("--folder")
            .arg(&folder)
            .args(&self.flags);
        let log = folder.join("log");
        let mut node = Node { daemon: None, name: self.name, command, log, cluster: self.cluster };
        node.run().await;
        node
    }
}

/// The images of the scenarios and of the demo.
fn images() -> PathBuf {
    locations::repository().join("tests/cluster/images.yaml")
}

/// A node. Dropping it ends it and every process of its pods; its object stays, as that of a broken machine
/// does.
pub struct Node {
    daemon: Option<Daemon>,
    name: String,
    command: Command,
    log: PathBuf,
    // Last, so that the folder goes after the process.
    cluster: Cluster,
}

impl Node {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("the node runs").pid()
    }

    /// What it has written.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Fails, with the log, when it has ended by itself.
    pub fn assert_alive(&mut self) {
        self.daemon.as_mut().expect("the node runs").assert_alive();
    }

    /// Ends it and its pods' processes at once, as when a machine breaks.
    pub fn kill(&mut self) {
        drop(self.daemon.take().expect("the node runs"));
    }

    /// Starts it again after a kill.
    pub async fn start_again(&mut self) {
        assert!(self.daemon.is_none(), "the node runs already");
        self.run().await;
    }

    /// Cuts its network: it neither hears nor says anything, while the processes of its pods go on.
    pub async fn lose(&mut self) {
        self.order("cut", "cut").await;
    }

    /// Brings its network back.
    pub async fn find(&mut self) {
        self.order("heal", "healed").await;
        self.until_ready("True").await;
    }

    /// Waits until the cluster sees it as lost.
    pub async fn until_lost(&self) {
        self.until_ready("Unknown").await;
    }

    async fn order(&mut self, order: &str, answer: &str) {
        let daemon = self.daemon.as_mut().expect("the node runs");
        let before = daemon.lines();
        daemon.tell(order);
        daemon.says(answer, before).await;
    }

    async fn run(&mut self) {
        let before = self.log().lines().count();
        // Killed, it takes its processes with it.
        let daemon = Daemon::start(&format!("node {}", self.name), &self.command, &self.log, "KILL");
        // Held before anything is awaited: a node that is dropped on the way ends as one that is ready.
        self.daemon.insert(daemon).says("ready", before).await;
        self.until_ready("True").await;
    }

    async fn until_ready(&self, status: &str) {
        let nodes = self.cluster.objects(Resource::Node, "");
        let what = format!("node {} has Ready {status}", self.name);
        let mut tries = Tries::new(&what, DEADLINE * 3);
        loop {
            tries.next().await;
            let node = nodes.get(&self.name).await.unwrap_or_default();
            let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            if conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == status) {
                return;
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // With time to end the processes of its pods, so that nothing is left in its folder.
            daemon.end();
        }
    }
}
