//! A cluster with one node of hollow pods, an operator, and environments of them.

use std::time::Duration;

use sandgate_tests::cluster::{Cluster, Environments, Manager, Node, Operator, env_template, sandbox_env};
use sandgate_tests::eventually;
use serde_json::{Value, json};

/// The cluster, as environments name it.
pub(crate) const CLUSTER: &str = "local";
/// The template of every environment.
pub(crate) const TEMPLATE: &str = "hollow";
/// How long so many pods may take to come or to go.
const PATIENCE: Duration = Duration::from_secs(1800);

pub(crate) struct Site {
    pub(crate) place: Environments,
    pub(crate) operator: Operator,
    _node: Node,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::builder().api_flag("--delete-collection-workers=16").start().await;
        let node = cluster.node("hollow").start().await;
        let place = Environments::new(&cluster, "envs").await;
        let mut template = env_template(TEMPLATE, "hollow");
        template["spec"]["idleImage"] = json!("hollow-idle");
        place.templates.create(&template).await;
        let operator = place.operator().flag("--log=warn").start().await;
        Self { place, operator, _node: node }
    }

    /// The manager, without a limit of requests a second.
    pub(crate) async fn manager(&self) -> Manager {
        let cluster = &self.place.cluster;
        cluster
            .manager()
            .flag(&format!("--namespace={}", self.place.namespace))
            .flag("--environments")
            .flag(&format!("--local-cluster-id={CLUSTER}"))
            .flag("--rate=0")
            .start()
            .await
    }

    /// Makes an environment with one pool of so many pods.
    pub(crate) async fn env(&self, name: &str, pods: u32) {
        self.place.envs.create(&sandbox_env(name, TEMPLATE, CLUSTER, &[(name, pods)])).await;
    }

    /// Waits until a pool has so many pods that wait and so many sandboxes.
    pub(crate) async fn levels(&self, pool: &str, idle: u32, running: u32) {
        eventually(&format!("{pool}: {idle} idle, {running} running"), PATIENCE, async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let object = self.place.pools.get(pool).await?;
            let is = |field: &str, count: u32| object["status"][field] == count;
            let at_rest = is("startingReplicas", 0) && is("stoppingReplicas", 0);
            let all_ready = is("unavailableIdleReplicas", 0);
            (is("idleReplicas", idle) && is("runningReplicas", running) && at_rest && all_ready).then_some(())
        })
        .await;
    }

    /// Deletes an environment and waits until nothing of it is left.
    pub(crate) async fn end(&self, env: &str) {
        self.place.envs.delete(env).await;
        eventually(&format!("{env} is gone"), PATIENCE, async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let pods = self.place.pods_of(env).await;
            (pods.is_empty() && self.place.pools.get(env).await.is_none()).then_some(())
        })
        .await;
    }

    /// The pods of a pool that wait.
    pub(crate) async fn idle_pods(&self, pool: &str) -> Vec<Value> {
        let selector = format!("agentbox.navix.sh/sandbox-pool={pool},agentbox.navix.sh/sandbox-phase=idle");
        self.place.pods.labelled(&selector).await
    }
}
