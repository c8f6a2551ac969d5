//! The soak of the operator: a cluster with two nodes of hollow pods, and everything that happens to
//! sandboxes and sets, at modest rates.
//!
//! Sandboxes are claimed, paused, resumed and deleted; they expire, and some never start. Sets are made,
//! scaled, rolled and deleted, and one of them has a template that fails. Pods are deleted and are not ready
//! for a while; a node is lost with all of its pods. What is left of it is sampled as in the soak of a
//! gateway, and judged by the same rules.

mod columns;
mod lives;
mod sets;
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

pub use columns::OPERATOR_COLUMNS;

use super::Sample;
use crate::cluster::{Cluster, Node, Operator, Resource, pod_template, sandbox, sandbox_set};
use crate::eventually_every;
use columns::Probe;
use world::World;

/// The set that sandboxes are claimed from, and how many it has.
const BASE: (&str, u32) = ("base", 4);

/// The time between two samples of somebody who waits: each is a write and several lists, and without a pause
/// they would be the load.
pub const PACE: Duration = Duration::from_millis(250);

/// What everybody who takes part does, by the names it is counted under.
const KINDS: [&str; 12] = [
    "claimed",
    "paused",
    "resumed",
    "deleted",
    "expired",
    "image missing",
    "not ready for a while",
    "scaled up",
    "scaled down",
    "rolled",
    "set of failures",
    "pod deleted",
];

/// An operator with its load. Dropping it ends everything.
pub struct OperatorSoak {
    // In this order: those who use something go before it.
    actors: JoinSet<()>,
    world: Arc<World>,
    probe: Probe,
    operator: Operator,
    /// The node that is lost now and then.
    node: Node,
    is_lost: bool,
    begun: Instant,
    _kept: Node,
}

impl OperatorSoak {
    /// Starts cluster, nodes and operator, and waits for a set of warm sandboxes. Nothing happens yet. All
    /// rates are multiplied with `speed`: at 1 the whole cluster takes half a core or so. A node that is
    /// silent for `silence` is lost.
    pub async fn start(speed: f64, silence: Duration) -> Self {
        let cluster = Cluster::builder()
            .nodes_are_lost_after(silence, Duration::from_secs(2))
            // Events come and go: a minute after the first of them their number is level.
            .api_flag("--event-ttl=60s")
            .start()
            .await;
        let kept = cluster.node("kept").start().await;
        let node = cluster.node("lost").start().await;
        let operator = cluster.operator().elected(15).start().await;
        let namespace = cluster.namespace("soak").await;
        let world = Arc::new(World::new(cluster, namespace, speed));
        let (name, replicas) = BASE;
        world.sets().create(&sandbox_set(name, replicas, &pod_template("hollow"))).await;
        let is_full = |set: &Value| set["status"]["availableReplicas"] == replicas;
        world.sets().until(name, "it is filled", is_full).await;
        world.sandboxes().create(&sandbox("probe", &pod_template("hollow"))).await;
        world.sandboxes().until("probe", "it runs", |object| object["status"]["phase"] == "Running").await;
        let probe = Probe::default();
        let (actors, begun) = (JoinSet::new(), Instant::now());
        Self { actors, world, probe, operator, node, is_lost: false, begun, _kept: kept }
    }

    /// Begins the churn.
    pub fn begin(&mut self) {
        let world = || Arc::clone(&self.world);
        let actors = &mut self.actors;
        for _ in 0..2 {
            actors.spawn(lives::claimed(world()));
        }
        actors.spawn(lives::expiring(world()));
        actors.spawn(lives::without_image(world()));
        actors.spawn(lives::flapping(world()));
        actors.spawn(sets::scaled(world()));
        actors.spawn(sets::rolled(world()));
        actors.spawn(sets::failing(world()));
        actors.spawn(sets::losing_pods(world()));
        self.begun = Instant::now();
    }

    /// Kills a node with its pods. A few seconds later the cluster gives it up, and the sets replace what it
    /// had. To be done rarely: a set that loses sandboxes again and again waits ever longer before it makes
    /// new ones, since it cannot know that its template is not to blame.
    pub fn lose_node(&mut self) {
        self.node.kill();
        self.is_lost = true;
        self.world.churn.did("node lost");
    }

    /// Starts the lost node again, if one is lost.
    pub async fn find_node(&mut self) {
        if std::mem::take(&mut self.is_lost) {
            self.node.start_again().await;
        }
    }

    /// The operator.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// What the operator uses, and what the cluster has, now.
    pub async fn sample(&mut self) -> Sample {
        columns::sample(&self.world, &self.operator, &mut self.probe, self.begun.elapsed()).await
    }

    /// How often each thing was done so far, by its name.
    pub fn done(&self) -> Vec<(&'static str, u64)> {
        self.world.churn.done()
    }

    /// Whether every kind of thing has been done so often; the loss of a node is not asked for.
    pub fn has_done(&self, least: u64) -> bool {
        self.world.churn.has_done(&KINDS, least)
    }

    /// What nobody should see.
    pub fn unexpected(&self) -> Vec<String> {
        self.world.churn.unexpected_so_far()
    }

    /// Ends the churn: what it has made is deleted.
    ///
    /// # Panics
    /// When one who took part did.
    pub async fn end(&mut self) {
        self.find_node().await;
        self.world.churn.stop();
        let all = async {
            while let Some(ended) = self.actors.join_next().await {
                ended.expect("nobody who took part in the churn panics");
            }
        };
        let patience = 2 * world::PATIENCE;
        tokio::time::timeout(patience, all).await.expect("everybody who takes part in the churn ends it");
        let metrics = self.operator.metrics().await;
        for outcome in ["Panicked", "TimedOut"] {
            let count = columns::metric(
                &metrics,
                "sandgate_operator_reconciles_total",
                &format!("outcome=\"{outcome}\""),
            );
            if count > 0.0 {
                self.world.churn.unexpected(format!("{count} looks of the operator: {outcome}"));
            }
        }
    }

    /// Waits until every count is back where it was before the churn, at `start`.
    pub async fn settled(&mut self, start: &Sample) -> Sample {
        let patience = Duration::from_secs(120);
        let mut left = Vec::new();
        let waited = tokio::time::timeout(patience, async {
            eventually_every(PACE, "the counts return", patience * 2, async || {
                let now = self.sample().await;
                left = now.above(start);
                left.is_empty().then_some(now)
            })
            .await
        });
        match waited.await {
            Ok(now) => now,
            Err(_) => panic!("not back within {patience:?}: {}\n{}", left.join(", "), self.remains().await),
        }
    }

    /// The sandboxes and pods that there are, for whoever has to find out why.
    async fn remains(&self) -> String {
        let mut text = String::new();
        for resource in [Resource::SandboxSet, Resource::Sandbox, Resource::Pod] {
            for object in self.world.objects(resource).list().await {
                let (name, phase) = (&object["metadata"]["name"], &object["status"]["phase"]);
                text.push_str(&format!("{resource:?} {name} {phase}\n"));
            }
        }
        text
    }
}
