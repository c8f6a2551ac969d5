//! Sandboxes made by our own operator: a real control plane, a node that runs real processes, the real
//! command, and the gateway beside them.

mod failures;
mod leaders;
mod lives;
mod sets;

use std::collections::BTreeMap;

use sandgate_tests::cluster::{Cluster, Objects, Resource};
use sandgate_tests::{DEADLINE, Gateway, Reply, Request, eventually};
use serde_json::{Value, json};

/// The port of the image `hello`.
const HELLO: u16 = 3000;

/// The kinds of one namespace that these scenarios look at.
struct Place {
    namespace: String,
    sandboxes: Objects,
    sets: Objects,
    pods: Objects,
}

impl Place {
    async fn new(cluster: &Cluster, prefix: &str) -> Self {
        let namespace = cluster.namespace(prefix).await;
        Self {
            sandboxes: cluster.objects(Resource::Sandbox, &namespace),
            sets: cluster.objects(Resource::SandboxSet, &namespace),
            pods: cluster.objects(Resource::Pod, &namespace),
            namespace,
        }
    }

    /// Waits until a set has so many sandboxes, all of them available and of its newest revision, and says so
    /// in its status. The status may be older than a claim, so the sandboxes themselves are looked at too.
    async fn filled(&self, set: &str, replicas: usize) -> Vec<Value> {
        self.sets
            .until(set, &format!("it has {replicas} available"), |object| {
                let (status, count) = (&object["status"], json!(replicas));
                status["observedGeneration"] == object["metadata"]["generation"]
                    && ["replicas", "availableReplicas", "updatedReplicas", "updatedAvailableReplicas"]
                        .iter()
                        .all(|field| status[field] == count)
            })
            .await;
        eventually(&format!("{set} has {replicas} that run"), 3 * DEADLINE, async || {
            let children = self.children(set).await;
            (children.len() == replicas && children.iter().all(runs)).then_some(children)
        })
        .await
    }

    /// The sandboxes that a set still controls and that are not on their way out.
    async fn children(&self, set: &str) -> Vec<Value> {
        let mut children = self.sandboxes.labelled(&format!("agents.kruise.io/sandbox-pool={set}")).await;
        children.retain(|child| {
            child["metadata"]["ownerReferences"][0]["kind"] == "SandboxSet"
                && child["metadata"]["deletionTimestamp"].is_null()
        });
        children
    }

    /// Claims a sandbox as a manager does: one update takes it from its set and locks it.
    async fn claim(&self, sandbox: &Value) -> Value {
        let patch = json!({
            "metadata": {
                "resourceVersion": sandbox["metadata"]["resourceVersion"],
                "ownerReferences": [],
                "labels": { "agents.kruise.io/sandbox-claimed": "true" },
                "annotations": { "agents.kruise.io/lock": "a-claim", "agents.kruise.io/owner": "someone" },
            },
        });
        self.sandboxes.patch(name(sandbox), &patch).await
    }

    /// Every pod belongs to exactly one living sandbox of its name, and every address to one pod.
    async fn assert_no_pod_is_shared(&self) {
        let sandboxes = self.sandboxes.list().await;
        let uids: BTreeMap<&str, &Value> =
            sandboxes.iter().map(|object| (name(object), &object["metadata"]["uid"])).collect();
        let mut addresses = BTreeMap::new();
        for pod in self.pods.list().await {
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            let owners = pod["metadata"]["ownerReferences"].as_array().expect("owners");
            assert_eq!(owners.len(), 1, "one owner: {pod:#}");
            assert_eq!(Some(&&owners[0]["uid"]), uids.get(name(&pod)), "its sandbox: {pod:#}");
            if let Some(ip) = pod["status"]["podIP"].as_str() {
                let before = addresses.insert(ip.to_owned(), name(&pod).to_owned());
                assert_eq!(before, None, "{ip} is two pods'");
            }
        }
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind)["status"] == "True"
}

fn runs(object: &Value) -> bool {
    object["status"]["phase"] == "Running" && is_true(object, "Ready")
}

fn is_paused(object: &Value) -> bool {
    object["status"]["phase"] == "Paused" && is_true(object, "SandboxPaused")
}

/// A gateway of the sandboxes in one namespace.
async fn gateway(cluster: &Cluster, namespace: &str) -> Gateway {
    let providers = json!([{ "kind": "openkruise", "namespaces": [namespace] }]);
    Gateway::builder().kubernetes(&cluster.kubeconfig(), &providers).start().await
}

fn ask(place: &Place, sandbox: &str) -> Request {
    Request::get("/")
        .header("e2b-sandbox-id", format!("{}--{sandbox}", place.namespace))
        .header("e2b-sandbox-port", HELLO.to_string())
}

/// Asks until the sandbox answers, and checks that it is this one.
async fn served(gateway: &Gateway, place: &Place, sandbox: &str) -> Reply {
    eventually(&format!("{sandbox} answers"), DEADLINE, async || {
        let reply = gateway.send(ask(place, sandbox)).await;
        if reply.status != 200 {
            return None;
        }
        assert_eq!(reply.text(), format!("hello from {sandbox}\n"), "another sandbox answered");
        Some(reply)
    })
    .await
}

/// Asks until the gateway refuses for this reason.
async fn refused(gateway: &Gateway, place: &Place, sandbox: &str, reason: &str) {
    eventually(&format!("{sandbox} is refused: {reason}"), DEADLINE, async || {
        let reply = gateway.send(ask(place, sandbox)).await;
        (reply.status == 502 && reply.json()["reason"] == reason).then_some(())
    })
    .await;
}
