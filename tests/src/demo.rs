//! `make demo`: a cluster, a node, our operator, our manager and a gateway on this machine, with sandboxes to
//! try.
//!
//! [`Demo::start`] says on the way what it does. [`Demo::text`] is what the user gets: lines to copy, and
//! `export` lines for a shell. Everything runs in processes of its own, outside the terminal's process group,
//! and ends when the [`Demo`] is dropped, whatever it was at: first the manager and the gateway, then the
//! operator, the node with its pods' processes, the control plane, and the folder with all their files.

mod gateway;
mod text;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use gateway::Gateway;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Manager, Node, Operator, Resource, pod_template, sandbox, sandbox_set};
use crate::{Client, Request, eventually};

/// The namespace of the demo's sandboxes.
const NAMESPACE: &str = "default";
/// The set with the warm sandboxes.
const SET: &str = "base";
/// The sandbox that is there to be used.
const SANDBOX: &str = "demo";
/// Its ID at the gateway.
const ID: &str = "default--demo";
/// The port of its page.
const PAGE: u16 = 3000;

/// How long a step may take: images of pods are local, but the machine may be busy with a build.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the user chooses.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The gateway's port; 0 for a free one.
    pub port: u16,
    /// The port of the gateway's admin pages; 0 for a free one.
    pub admin_port: u16,
    /// The port of the manager's API; 0 for a free one.
    pub api_port: u16,
    /// How many sandboxes the set keeps warm.
    pub warm: u32,
    /// How many nodes there are.
    pub nodes: u16,
}

/// A running demo. Dropping it ends it and leaves nothing.
pub struct Demo {
    // In the order in which they end.
    manager: Manager,
    gateway: Gateway,
    key: String,
    operator: Operator,
    nodes: Vec<Node>,
    cluster: Cluster,
}

impl Demo {
    /// Starts everything and waits until the sandboxes are there and the gateway serves them. `told` hears of
    /// each step.
    pub async fn start(options: Options, told: impl Fn(&str)) -> Self {
        told("the control plane: etcd, API server, controllers, scheduler");
        let cluster = Cluster::builder().start().await;
        told("a node that runs pods as processes, the operator, the gateway, the manager");
        let nodes = async {
            let starts = (1..=options.nodes).map(|number| cluster.node(&format!("node-{number}")).start());
            futures_util::future::join_all(starts).await
        };
        let gateway = Gateway::start(&cluster, options.port, options.admin_port);
        let served = async {
            let gateway = gateway.await;
            let manager = cluster.manager().gateway_at(gateway.pushed_to().await);
            let manager = match options.api_port {
                0 => manager,
                port => manager.listen((Ipv4Addr::LOCALHOST, port).into()),
            };
            (manager.start().await, gateway)
        };
        let key = cluster.api_key("demo");
        let (nodes, operator, key, (manager, gateway)) =
            tokio::join!(nodes, cluster.operator().start(), key, served);
        let demo = Self { manager, gateway, key, operator, nodes, cluster };
        told(&format!("the set {SET} with {} warm sandboxes, and the sandbox {SANDBOX}", options.warm));
        demo.make_sandboxes(options.warm).await;
        told("the first request through the gateway");
        demo.until_served().await;
        demo.write_environment();
        demo
    }

    async fn make_sandboxes(&self, warm: u32) {
        let template = template();
        let sets = self.cluster.objects(Resource::SandboxSet, NAMESPACE);
        let sandboxes = self.cluster.objects(Resource::Sandbox, NAMESPACE);
        sets.create(&sandbox_set(SET, warm, &template)).await;
        sandboxes.create(&sandbox(SANDBOX, &template)).await;
        eventually("the sandbox runs", PATIENCE, async || {
            let ready = |object: &Value| object["status"]["phase"] == "Running";
            sandboxes.get(SANDBOX).await.filter(ready)
        })
        .await;
        eventually("the set is full", PATIENCE, async || {
            let full = |object: &Value| object["status"]["availableReplicas"].as_u64() == Some(warm.into());
            sets.get(SET).await.filter(|object| warm == 0 || full(object))
        })
        .await;
    }

    async fn until_served(&self) {
        eventually("the gateway serves the sandbox", PATIENCE, async || {
            let mut client = Client::http1(self.gateway.address()).await.ok()?;
            let reply = client.send(Request::get(&format!("/kruise/{ID}/{PAGE}/"))).await.ok()?;
            (reply.status == 200).then_some(())
        })
        .await;
    }

    /// Where requests to sandboxes go.
    pub fn gateway(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Where the manager's API is, as a URL.
    pub fn api(&self) -> String {
        self.manager.url()
    }

    /// Where the gateway's admin pages are.
    pub fn admin(&self) -> SocketAddr {
        self.gateway.admin()
    }

    /// Fails, with the end of its log, when a part of the demo has ended by itself.
    pub fn assert_alive(&mut self) {
        self.gateway.assert_alive();
        self.manager.assert_alive();
        self.operator.assert_alive();
        self.nodes.iter_mut().for_each(Node::assert_alive);
        self.cluster.api().assert_alive();
    }
}

/// A sandbox of the demo: envd for E2B's SDK, and a page for curl.
fn template() -> Value {
    let mut template = pod_template("envd");
    let page = json!({
        "name": "page",
        "image": "hello",
        "readinessProbe":
            { "httpGet": { "path": "/", "port": PAGE }, "periodSeconds": 1, "timeoutSeconds": 10 },
    });
    template["spec"]["containers"].as_array_mut().expect("a list").push(page);
    template
}

/// Says steps on standard error, with the time since the start.
pub fn teller() -> impl Fn(&str) {
    let begin = Instant::now();
    move |step| eprintln!("demo: {:5.1} s  {step}", begin.elapsed().as_secs_f64())
}
