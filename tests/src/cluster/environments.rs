//! Environments in one namespace: made, waited for, and checked against each other.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Cluster, Objects, OperatorBuilder, Resource, env_template, sandbox_env};

const POOL: &str = "agentbox.navix.sh/sandbox-pool";
const PHASE: &str = "agentbox.navix.sh/sandbox-phase";
const SANDBOX_ID: &str = "agentbox.navix.sh/sandbox-id";

/// The cluster of scenarios that have one.
const LOCAL: &str = "local";

/// The kinds of one namespace that scenarios about environments look at.
pub struct Environments {
    /// The cluster.
    pub cluster: Cluster,
    /// The namespace, which is the scenario's alone.
    pub namespace: String,
    /// Its environments.
    pub envs: Objects,
    /// Their pools.
    pub pools: Objects,
    /// Their pods.
    pub pods: Objects,
    /// What was said about them.
    pub events: Objects,
    /// Templates, which all scenarios share.
    pub templates: Objects,
}

impl Environments {
    /// A new namespace.
    pub async fn new(cluster: &Cluster, prefix: &str) -> Self {
        let namespace = cluster.namespace(prefix).await;
        let of = |resource| cluster.objects(resource, &namespace);
        Self {
            envs: of(Resource::SandboxEnv),
            pools: of(Resource::SandboxPool),
            pods: of(Resource::Pod),
            events: of(Resource::Event),
            templates: of(Resource::EnvTemplate),
            cluster: cluster.clone(),
            namespace,
        }
    }

    /// A new namespace of the cluster that scenarios share.
    pub async fn shared(prefix: &str) -> Self {
        Self::new(&Cluster::shared().await, prefix).await
    }

    /// Describes an operator of this namespace.
    pub fn operator(&self) -> OperatorBuilder {
        self.cluster.operator().environments(&self.namespace, LOCAL)
    }

    /// Makes a template, whose name is the scenario's alone, and gives the name.
    pub async fn template(&self, image: &str) -> String {
        let name = format!("{}-t", self.namespace);
        self.templates.create(&env_template(&name, image)).await;
        name
    }

    /// Makes an environment of a template with so many pods in each of these pools.
    pub async fn env(&self, name: &str, template: &str, members: &[(&str, u32)]) -> Value {
        self.envs.create(&sandbox_env(name, template, LOCAL, members)).await
    }

    /// Waits until a pool has so many pods that wait and so many that are sandboxes, and no others.
    pub async fn levels(&self, pool: &str, idle: u32, running: u32) -> Value {
        let what = format!("{idle} idle and ready, {running} running");
        self.pools
            .until(pool, &what, |object| {
                let status = &object["status"];
                let others = ["unavailableIdleReplicas", "startingReplicas", "stoppingReplicas"];
                status["observedGeneration"] == object["metadata"]["generation"]
                    && (&status["idleReplicas"], &status["runningReplicas"])
                        == (&json!(idle), &json!(running))
                    && others.iter().all(|count| status[*count].as_u64().unwrap_or(0) == 0)
            })
            .await
    }

    /// The pods of a pool that are not being deleted. A status counts no others.
    pub async fn pods_of(&self, pool: &str) -> Vec<Value> {
        let mut pods = self.pods.labelled(&format!("{POOL}={pool}")).await;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// Waits until a pod is in a phase, and gives it.
    pub async fn phase(&self, pod: &str, phase: &str) -> Value {
        self.pods
            .until(pod, &format!("it is {phase}"), |object| object["metadata"]["labels"][PHASE] == phase)
            .await
    }
}

/// The phase of a pod of a pool.
pub fn env_phase(pod: &Value) -> &str {
    pod["metadata"]["labels"][PHASE].as_str().unwrap_or_default()
}

/// The sandboxes of these pods.
///
/// # Panics
/// When two pods are one sandbox.
pub fn sandboxes(pods: &[Value]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for pod in pods {
        if let Some(id) = pod["metadata"]["labels"][SANDBOX_ID].as_str() {
            assert!(all.insert(id.to_owned()), "two pods are the sandbox {id}");
        }
    }
    all
}
