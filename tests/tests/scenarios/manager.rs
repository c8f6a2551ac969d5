//! The manager on a real cluster: API server, controllers, scheduler, a node that runs processes, our
//! operator, our gateways, and the real command.

mod document;
mod keys;
mod openkruise;
mod outages;
mod pools;
mod replicas;
mod sdk;

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use sandgate_tests::cluster::{Cluster, Manager, Node, Operator, Resource, pod_template, sandbox_set};
use sandgate_tests::{DEADLINE, Gateway, Place, Request, Sandbox, eventually};
use serde_json::{Value, json};

/// Where the sandboxes of these scenarios are.
const NAMESPACE: &str = "default";
/// The template with envd in it.
const BASE: &str = "base";
/// The template without processes.
const HOLLOW: &str = "hollow";

/// A cluster that can make sandboxes.
struct Site {
    // In the order in which they end.
    _operator: Option<Operator>,
    _node: Node,
    cluster: Cluster,
}

impl Site {
    async fn start() -> Self {
        Self::of(Cluster::builder().start().await).await
    }

    async fn of(cluster: Cluster) -> Self {
        let (node, operator) = tokio::join!(cluster.node("a").start(), cluster.operator().start());
        Self { _operator: Some(operator), _node: node, cluster }
    }

    /// One whose sandboxes are made by somebody else than our operator.
    async fn without_operator(cluster: Cluster) -> Self {
        Self { _operator: None, _node: cluster.node("a").start().await, cluster }
    }

    /// Makes a template with so many warm sandboxes, and waits for them.
    async fn template(&self, name: &str, image: &str, warm: u32) {
        let sets = self.cluster.objects(Resource::SandboxSet, NAMESPACE);
        sets.create(&sandbox_set(name, warm, &pod_template(image))).await;
        self.is_warm(name, warm).await;
    }

    /// Waits until a template has so many warm sandboxes.
    async fn is_warm(&self, name: &str, warm: u32) {
        let sets = self.cluster.objects(Resource::SandboxSet, NAMESPACE);
        sets.until(name, &format!("{warm} are warm"), |set| {
            warm == 0 || set["status"]["availableReplicas"].as_u64().is_some_and(|now| now >= warm.into())
        })
        .await;
    }

    /// A gateway that watches the sandboxes through this kubeconfig, and that managers push to.
    async fn gateway(&self, kubeconfig: &Path) -> Gateway {
        let providers = json!([{ "kind": "openkruise", "namespaces": [NAMESPACE] }]);
        Gateway::builder()
            // A push ahead of a watch that is held back must not be undone meanwhile.
            .refresh(json!({ "insecure": true, "confirmation-seconds": 3600 }))
            .kubernetes(kubeconfig, &providers)
            .start()
            .await
    }

    /// A manager that tells these gateways what it does.
    async fn manager(&self, gateways: &[&Gateway]) -> Manager {
        self.manager_by(&self.cluster.kubeconfig(), gateways).await
    }

    /// The same by another way to the API server.
    async fn manager_by(&self, kubeconfig: &Path, gateways: &[&Gateway]) -> Manager {
        // One key of a scenario asks for more than a key of a user may.
        let manager = self.cluster.manager().kubeconfig(kubeconfig);
        let mut manager = manager.flag("--rate=100000").flag("--burst=100000");
        for gateway in gateways {
            manager = manager.gateway(gateway).await;
        }
        manager.start().await
    }

    /// The sandboxes that somebody has claimed and that are not on their way out.
    async fn claimed(&self) -> Vec<Value> {
        let sandboxes = self.cluster.objects(Resource::Sandbox, NAMESPACE);
        let mut found = sandboxes.labelled("agents.kruise.io/sandbox-claimed=true").await;
        found.retain(|object| object["metadata"]["deletionTimestamp"].is_null());
        found
    }

    /// Waits until exactly so many are claimed.
    async fn claimed_are(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} are claimed"), 3 * DEADLINE, async || {
            let claimed = self.claimed().await;
            (claimed.len() == count).then_some(claimed)
        })
        .await
    }
}

/// Whether a gateway brings a request to this port of the sandbox.
async fn serves(gateway: &Gateway, id: &str, port: u16) -> bool {
    let request = Request::get("/").header("e2b-sandbox-id", id).header("e2b-sandbox-port", port.to_string());
    gateway.send(request).await.status == 200
}

/// Answers on every address of this machine, so also on that of every pod without processes.
async fn everywhere() -> Sandbox {
    let free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    Sandbox::start_at(HOLLOW, Place::shared(Ipv4Addr::UNSPECIFIED.into()), &[port]).await
}

/// The ID that the API gave a sandbox.
fn id(object: &Value) -> &str {
    let label = object["metadata"]["labels"]["agents.kruise.io/sandbox-id"].as_str();
    object["sandboxID"].as_str().or(label).unwrap_or_else(|| panic!("an ID in {object:#}"))
}

/// More of a request for a sandbox without processes: nobody answers in it.
fn hollow(more: &Value) -> Value {
    let mut request = json!({
        "timeout": 3600,
        "metadata": { "e2b.agents.kruise.io/skip-init-runtime": "true" },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        request["metadata"][name] = value.clone();
    }
    request
}
