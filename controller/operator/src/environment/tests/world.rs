//! The reconcilers of environments over an API server in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use sandgate_envs::EnvRouterSync;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::SandboxEnv;
use sandgate_routes::Version;
use serde_json::{Value, json};

use crate::batch::tests::server::Server;
use crate::view::Seen;
use crate::{
    Again, Clock as _, EnvSettings, Failed, Key, Leadership, ListedClusters, ManualClock, Metrics,
    NoInstanceTypes, PoolAdoptionReconciler, Random, Reconciler as _, RecordedEvents, SandboxEnvReconciler,
    View, Writes,
};

pub(super) const ENVS: &str = "sandboxenvs";
pub(super) const POOLS: &str = "sandboxpools";
pub(super) const TEMPLATES: &str = "sandboxtemplates";
pub(super) const EPOCH: &str = "2026-01-01T00:00:00Z";

/// What the router was told.
#[derive(Default)]
pub(super) struct Heard(pub(super) Mutex<Vec<String>>);

impl EnvRouterSync for Heard {
    fn on_env_upsert(&self, env: &Seen<SandboxEnv>) {
        let members = env.status.as_ref().map_or(-1, |status| status.member_count);
        self.0.lock().push(format!("{} has {members}", env.key));
    }

    fn on_env_deleted(&self, env: &Key, _: Option<&Version>) {
        self.0.lock().push(format!("{env} is gone"));
    }
}

/// The process: it is replaced when it dies.
pub(super) struct Process {
    pub(super) view: View,
    pub(super) envs: SandboxEnvReconciler,
    pub(super) adoption: PoolAdoptionReconciler,
}

/// The cluster and the operator.
pub(super) struct World {
    pub(super) server: Server,
    pub(super) clock: Arc<ManualClock>,
    pub(super) events: Arc<RecordedEvents>,
    pub(super) router: Arc<Heard>,
    pub(super) clusters: BTreeSet<String>,
    pub(super) process: Process,
}

/// An operator of a cluster.
pub(super) fn process(
    server: &Server,
    clock: &Arc<ManualClock>,
    events: &Arc<RecordedEvents>,
    settings: EnvSettings,
) -> Process {
    let metrics = Metrics::register(&mut Registry::default());
    let view = View::new(Box::new(|_, _, _| {}));
    let writes = Writes::new(server.client(), view.clone(), Leadership::always(), metrics.writes);
    let random = Random::seeded(7);
    let cluster = Arc::clone(&settings.cluster);
    let adoption = PoolAdoptionReconciler::new(
        view.clone(),
        writes.clone(),
        events.clone(),
        &cluster,
        Arc::new(NoInstanceTypes),
    );
    let envs =
        SandboxEnvReconciler::new(view.clone(), writes, events.clone(), clock.clone(), random, settings);
    Process { view, envs, adoption }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_clusters(&[])
    }

    pub(super) fn with_clusters(clusters: &[&str]) -> Self {
        let (server, events, router) = (Server::default(), Arc::default(), Arc::<Heard>::default());
        let clock = Arc::new(ManualClock::new(EPOCH.parse().unwrap()));
        server.at(EPOCH);
        let clusters: BTreeSet<String> = clusters.iter().map(|name| (*name).to_owned()).collect();
        let settings = settings("local", &clusters, &router);
        let process = process(&server, &clock, &events, settings);
        Self { server, clock, events, router, clusters, process }
    }

    /// A world with the template `t`, a pull secret or not, and the environment `e` of these members.
    pub(super) fn of(members: &[Value]) -> Self {
        let world = Self::new();
        world.server.add(TEMPLATES, template());
        world.server.add(ENVS, env(members));
        world
    }

    /// The process is replaced: nothing of it is left but what it wrote.
    pub(super) fn restart(&mut self) {
        let settings = settings("local", &self.clusters, &self.router);
        self.process = process(&self.server, &self.clock, &self.events, settings);
        self.server.list_to(&self.process.view);
    }

    pub(super) fn advance(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
        self.server.at(&self.now().to_string());
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// One look at the environment `e`, of an operator that has seen everything.
    pub(super) async fn look(&self) -> Result<Again, Failed> {
        self.server.watch_to(&self.process.view);
        self.process.envs.reconcile(&Key::new("n", "e")).await
    }

    /// One look at a pool, by the one who adopts.
    pub(super) async fn look_at_pool(&self, name: &str) -> Result<Again, Failed> {
        self.server.watch_to(&self.process.view);
        self.process.adoption.reconcile(&Key::new("n", name)).await
    }

    /// Looks until nothing is asked of the API server any more. A conflict is followed by another look.
    pub(super) async fn settle(&self) {
        for _ in 0..20 {
            self.server.take_asked();
            let done = self.look().await;
            if done.is_ok() && self.server.take_asked().is_empty() {
                return;
            }
        }
        panic!("it goes on for ever: {:?} {:?}", self.look().await, self.server.take_asked());
    }

    /// The writes since the last time.
    pub(super) fn writes(&self) -> Vec<String> {
        self.server.take_asked().into_iter().filter(|line| !line.starts_with("GET")).collect()
    }

    pub(super) fn env(&self) -> Value {
        self.server.get(ENVS, "e").unwrap()
    }

    pub(super) fn pool(&self, name: &str) -> Value {
        self.server.get(POOLS, name).unwrap()
    }

    pub(super) fn pools(&self) -> Vec<String> {
        let name = |pool: &Value| pool["metadata"]["name"].as_str().unwrap().to_owned();
        self.server.all(POOLS).iter().map(name).collect()
    }

    /// The segment of this cluster in the status.
    pub(super) fn observed(&self) -> Value {
        let status = self.env()["status"].clone();
        let segments = status["clusters"].as_array().unwrap();
        segments.iter().find(|segment| segment["clusterID"] == "local").unwrap().clone()
    }

    pub(super) fn condition(&self, kind: &str) -> (String, String) {
        let status = self.env()["status"].clone();
        let conditions = status["conditions"].as_array().unwrap().clone();
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
        let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
        (text(found, "status"), text(found, "reason"))
    }

    pub(super) fn reasons(&self) -> Vec<&'static str> {
        self.events.take().into_iter().map(|event| event.reason).collect()
    }
}

fn settings(cluster: &str, clusters: &BTreeSet<String>, router: &Arc<Heard>) -> EnvSettings {
    EnvSettings {
        cluster: cluster.into(),
        catalog: Arc::new(ListedClusters(clusters.clone())),
        router: router.clone(),
    }
}

/// The template `t`.
pub(super) fn template() -> Value {
    json!({
        "apiVersion": names::API_VERSION, "kind": "SandboxTemplate",
        "metadata": {"name": "t", "labels": {"app": "x", "agentbox.io/sync-source": "hub"},
            "annotations": {"note": "y", "agentbox.navix.sh/docs": "long"}},
        "spec": {"version": "1", "idleImage": "idle:1", "template": pods("main:1")},
    })
}

/// A pod template whose first container has this image.
pub(super) fn pods(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"of": "template"}},
        "spec": {"containers": [{
            "name": "main", "image": image,
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
        }]},
    })
}

/// A member as an API makes it, before anything was rendered.
pub(super) fn member(name: &str, replicas: i32) -> Value {
    json!({"name": name, "metadata": {}, "spec": {"replicas": replicas}, "config": {"scalingGroup": "g"}})
}

/// A member that does not follow its template.
pub(super) fn frozen(name: &str, replicas: i32) -> Value {
    json!({
        "name": name,
        "metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}},
        "spec": {
            "replicas": replicas, "templateName": "t", "idleImage": "idle:1", "template": pods("main:1"),
        },
        "config": {"scalingGroup": "g", "updateStrategy": {"autoUpdate": false}},
    })
}

/// The environment `e` with these members in this cluster.
pub(super) fn env(members: &[Value]) -> Value {
    let mut env = json!({
        "apiVersion": names::API_VERSION, "kind": names::KIND_ENV,
        "metadata": {"name": "e", "namespace": "n", "labels": {"scheduling.navix.sh/team": "red"}},
        "spec": {"templateRef": {"name": "t"}, "mode": "WarmPool"},
    });
    if !members.is_empty() {
        env["spec"]["clusters"] = json!([{"clusterID": "local", "members": members}]);
        env["spec"]["autoscaling"] = json!({"groups": [group("g")]});
    }
    env
}

/// A scaling group as the API server keeps it.
pub(super) fn group(name: &str) -> Value {
    json!({
        "name": name, "enabled": false, "minReplicas": 0,
        "scaleUpPolicy": {
            "mode": "Default", "cooldownSeconds": 30, "idleThresholdSeconds": 30,
            "idleZeroQuietWindowSeconds": 300, "saturationCooldownSeconds": 60,
        },
        "scaleDownPolicy": {
            "idleTimeoutSeconds": 300, "stabilizationSeconds": 60, "protectionWindowSeconds": 10,
        },
    })
}

/// A pool that nobody made for an environment.
pub(super) fn lone_pool(name: &str) -> Value {
    json!({
        "apiVersion": names::API_VERSION, "kind": names::KIND_POOL,
        "metadata": {"name": name, "namespace": "n",
            "labels": {"own": "label", "scheduling.navix.sh/team": "red"},
            "annotations": {"kept": "yes", "agentbox.navix.sh/last-sandbox-create-time": EPOCH}},
        "spec": {"replicas": 3, "templateName": "t", "idleImage": "idle:1", "template": pods("main:1")},
    })
}

/// A type from JSON.
pub(super) fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}
