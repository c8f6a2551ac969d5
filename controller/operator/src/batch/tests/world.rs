//! The reconcilers of batches and snapshots over an API server in memory, and what else a cluster does: pods
//! that start and end, Jobs, the garbage collector.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::executors::Played;
use super::server::Server;
use crate::batch::{BatchSandboxReconciler, BatchSettings};
use crate::snapshot::{SandboxSnapshotReconciler, SnapshotSettings};
use crate::tasks::TaskMetrics;
use crate::view::{Controller, View};
use crate::{
    Again, Category, Clock, Key, Leadership, ManualClock, Metrics, Published, Reconciler as _,
    RecordedEvents, Writes,
};

pub(crate) const EPOCH: &str = "2026-01-01T00:00:00Z";

/// An image that cannot be pulled.
pub(crate) const BAD_IMAGE: &str = "bad";

/// What a node says that cannot reach the registry.
const NO_REGISTRY: &str = "failed to pull image \"base\": dial tcp: lookup registry.test: no such host";

/// The digest of an image.
pub(crate) fn digest(image: &str) -> String {
    Sha256::digest(image.as_bytes())
        .iter()
        .fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// A name with a tag, as a name with its digest.
pub(crate) fn pinned(image: &str) -> String {
    format!("{}@{}", image.rsplit_once(':').unwrap().0, digest(image))
}

type Dirty = Arc<Mutex<BTreeSet<(Controller, Key)>>>;

/// The process: it is replaced when it dies.
struct Process {
    view: View,
    dirty: Dirty,
    batches: BatchSandboxReconciler,
    snapshots: SandboxSnapshotReconciler,
}

/// The cluster and the operator.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) events: Arc<RecordedEvents>,
    pub(crate) executors: Arc<Played>,
    /// Where snapshots go.
    pub(crate) registry: Option<String>,
    /// Whether Jobs succeed.
    pub(crate) commits: bool,
    /// Whether the first try of a Job fails, and the next one runs for long.
    pub(crate) stumbles: bool,
    /// Whether pods become ready.
    pub(crate) starts: bool,
    /// How many pods get a node, from now on, that cannot pull their images.
    pub(crate) on_bad_nodes: usize,
    /// How often the process died.
    pub(crate) deaths: usize,
    process: Process,
    timers: BTreeMap<(Controller, Key), Timestamp>,
    addresses: usize,
}

fn process(
    server: &Server,
    clock: &Arc<ManualClock>,
    events: &Arc<RecordedEvents>,
    executors: &Arc<Played>,
    registry: Option<&String>,
) -> Process {
    let dirty = Dirty::default();
    let marked = Arc::clone(&dirty);
    let view = View::new(Box::new(move |controller, key, _| {
        marked.lock().insert((controller, key.clone()));
    }));
    let metrics = Metrics::register(&mut Registry::default());
    let writes = Writes::new(server.client(), view.clone(), Leadership::always(), metrics.writes);
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let batches = BatchSandboxReconciler::new(
        view.clone(),
        writes.clone(),
        Arc::clone(events) as _,
        Arc::clone(&clock),
        Arc::clone(executors) as _,
        TaskMetrics::register(&mut Registry::default()),
        BatchSettings { own_namespace: "n".to_owned(), resume_pull_secret: Some("pull".to_owned()) },
    );
    let settings = SnapshotSettings { registry: registry.cloned(), ..SnapshotSettings::default() };
    let snapshots =
        SandboxSnapshotReconciler::new(view.clone(), writes, Arc::clone(events) as _, clock, settings);
    server.list_to(&view);
    Process { view, dirty, batches, snapshots }
}

impl World {
    pub(crate) fn new() -> Self {
        let server = Server::default();
        server.at(EPOCH);
        let clock = Arc::new(ManualClock::new(EPOCH.parse().unwrap()));
        let (events, executors) = (Arc::default(), Arc::default());
        let registry = Some("registry/x".to_owned());
        let process = process(&server, &clock, &events, &executors, registry.as_ref());
        Self {
            server,
            clock,
            events,
            executors,
            registry,
            commits: true,
            stumbles: false,
            starts: true,
            on_bad_nodes: 0,
            deaths: 0,
            process,
            timers: BTreeMap::new(),
            addresses: 0,
        }
    }

    /// The process dies, and another begins with nothing but the API server.
    pub(crate) fn restart(&mut self) {
        self.timers.clear();
        self.process =
            process(&self.server, &self.clock, &self.events, &self.executors, self.registry.as_ref());
    }

    /// Somebody creates a batch.
    pub(crate) fn add_batch(&self, spec: Value) -> Value {
        self.server.add("batchsandboxes", batch("b", spec))
    }

    pub(crate) fn batch(&self) -> Value {
        self.server.get("batchsandboxes", "b").expect("the batch is there")
    }

    pub(crate) fn status(&self) -> Value {
        self.batch()["status"].clone()
    }

    pub(crate) fn phase(&self) -> String {
        self.status()["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// The types of the conditions that are true, each with its reason.
    pub(crate) fn conditions(&self) -> Vec<String> {
        let status = self.status();
        let all = status["conditions"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        all.map(|it| format!("{}={}", text(&it["type"]), text(&it["reason"]))).collect()
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<String> {
        self.batch()["metadata"]["annotations"][name].as_str().map(str::to_owned)
    }

    pub(crate) fn endpoints(&self) -> Option<String> {
        self.annotation("sandbox.opensandbox.io/endpoints")
    }

    /// Somebody changes the batch.
    pub(crate) fn edit(&self, change: impl FnOnce(&mut Value)) {
        self.server.change("batchsandboxes", "b", change);
    }

    pub(crate) fn pods(&self) -> Vec<String> {
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.server.all("pods").iter().map(name).collect()
    }

    pub(crate) fn told(&self) -> Vec<Published> {
        self.events.take()
    }

    /// What the rest of the cluster does: starts pods, ends them, runs Jobs, collects garbage.
    fn play(&mut self) {
        self.collect();
        for pod in self.server.all("pods") {
            let name = pod["metadata"]["name"].as_str().unwrap();
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.executors.gone(pod["status"]["podIP"].as_str().unwrap_or_default());
                self.server.remove("pods", name);
            } else if pod["spec"]["nodeName"].is_null() && self.starts {
                self.addresses += 1;
                let ip = format!("10.0.0.{}", self.addresses);
                let is_bad = self.on_bad_nodes > 0;
                self.on_bad_nodes = self.on_bad_nodes.saturating_sub(1);
                self.server.change("pods", name, |pod| match is_bad {
                    true => cannot_pull(pod, NO_REGISTRY),
                    false => start(pod, &ip),
                });
            }
        }
        for job in self.server.all("jobs") {
            if job["status"].is_null() {
                self.run(&job);
            }
        }
    }

    fn run(&self, job: &Value) {
        let name = job["metadata"]["name"].as_str().unwrap();
        if self.stumbles {
            return self.server.change("jobs", name, |job| job["status"] = json!({"failed": 1, "active": 1}));
        }
        if !self.commits && name.ends_with("-commit") {
            let failed = json!({"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"});
            return self.server.change("jobs", name, |job| job["status"] = json!({"conditions": [failed]}));
        }
        if name.ends_with("-commit") && self.server.get("pods", &format!("{name}-x")).is_none() {
            let args = job["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
            let images = args[2..].iter().map(|arg| {
                let (name, image) = arg.as_str().unwrap().split_once(':').unwrap();
                json!({"name": name, "image": image, "digest": digest(image)})
            });
            let message = json!({"containers": images.collect::<Vec<_>>()}).to_string();
            let owner = json!([{"uid": job["metadata"]["uid"], "controller": true}]);
            let ended = json!({"terminated": {"exitCode": 0, "message": message}});
            self.server.add("pods", json!({
                "metadata": {
                    "name": format!("{name}-x"), "namespace": "n", "labels": {"job-name": name},
                    "ownerReferences": owner,
                },
                "spec": {"nodeName": "node", "containers": []},
                "status": {"phase": "Succeeded", "containerStatuses": [{"name": "commit", "state": ended}]},
            }));
        }
        self.server.change("jobs", name, |job| job["status"] = json!({"succeeded": 1}));
    }

    /// Deletes what a controller has left behind.
    fn collect(&self) {
        let kinds = ["batchsandboxes", "pools", "sandboxsnapshots", "jobs", "pods"];
        let all: Vec<_> = kinds.iter().flat_map(|kind| self.server.all(kind)).collect();
        let living: BTreeSet<_> = all.iter().map(|it| it["metadata"]["uid"].as_str().unwrap()).collect();
        for kind in kinds {
            for object in self.server.all(kind) {
                let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                if owners.any(|owner| !living.contains(owner["uid"].as_str().unwrap())) {
                    self.server.delete(kind, object["metadata"]["name"].as_str().unwrap());
                }
            }
        }
    }

    /// One look at one object.
    pub(crate) async fn look(&mut self, controller: Controller, key: &Key) {
        let killed = Arc::clone(&self.server.killed);
        let process = &self.process;
        let ended = tokio::select! {
            biased;
            ended = async {
                match controller {
                    Controller::BatchSandbox => process.batches.reconcile(key).await,
                    Controller::SandboxSnapshot => process.snapshots.reconcile(key).await,
                    _ => Ok(Again::Rarely),
                }
            } => ended,
            () = killed.notified() => {
                self.deaths += 1;
                return self.restart();
            }
        };
        let after = match ended {
            Ok(Again::After(after)) => Some(after),
            Ok(Again::Rarely | Again::Forget) => None,
            Err(failed) if failed.category == Category::Conflict => Some(Duration::ZERO),
            Err(_) => Some(Duration::from_secs(1)),
        };
        let id = (controller, key.clone());
        match after {
            Some(after) => {
                let at = self.clock.now() + SignedDuration::try_from(after).unwrap();
                self.timers.insert(id, at);
            }
            None => drop(self.timers.remove(&id)),
        }
    }

    /// Lets everything happen that happens by itself within this time.
    pub(crate) async fn pass(&mut self, seconds: i64) {
        let end = self.clock.now() + SignedDuration::from_secs(seconds);
        for _ in 0..2000 {
            self.play();
            self.server.watch_to(&self.process.view);
            let dirty = std::mem::take(&mut *self.process.dirty.lock());
            if !dirty.is_empty() {
                for (controller, key) in dirty {
                    self.look(controller, &key).await;
                }
                continue;
            }
            let Some((id, at)) = self.timers.iter().min_by_key(|(_, at)| **at) else { return };
            if *at > end {
                self.clock.advance(end.duration_since(self.clock.now()));
                return;
            }
            let (id, at) = (id.clone(), *at);
            self.timers.remove(&id);
            let wait = at.duration_since(self.clock.now());
            if wait > SignedDuration::ZERO {
                self.clock.advance(wait);
            }
            self.look(id.0, &id.1).await;
        }
        panic!("it never comes to rest: {:#}", self.batch());
    }

    /// Lets everything happen that happens by itself within seconds.
    pub(crate) async fn settle(&mut self) {
        self.pass(30).await;
    }

    /// When the batch has to be looked at whatever fails.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.process.batches.deadline(&Key::new("n", "b"))
    }

    /// Lets everything happen, without the rest of the cluster.
    pub(crate) async fn look_at_batch(&mut self) {
        self.server.watch_to(&self.process.view);
        self.look(Controller::BatchSandbox, &Key::new("n", "b")).await;
    }
}

fn start(pod: &mut Value, ip: &str) {
    pod["spec"]["nodeName"] = json!("node");
    if pod["spec"]["containers"][0]["image"] == BAD_IMAGE {
        return cannot_pull(pod, "");
    }
    let name = pod["metadata"]["name"].clone();
    pod["status"] = json!({
        "phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "main", "containerID": name, "state": {"running": {}}}],
    });
}

/// The pod has a node that says this of its image.
fn cannot_pull(pod: &mut Value, message: &str) {
    pod["spec"]["nodeName"] = json!("node");
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": message}});
    pod["status"] = json!({"phase": "Pending", "containerStatuses": [{"name": "main", "state": waiting}]});
}

pub(crate) fn batch(name: &str, spec: Value) -> Value {
    let mut batch = json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1",
        "kind": "BatchSandbox",
        "metadata": {"name": name, "namespace": "n"},
    });
    batch["spec"] = spec;
    batch
}

/// A pod template with this image.
pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

/// A pool of this name, with a template.
pub(crate) fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1",
        "kind": "Pool",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {
            "template": template("base"),
            "capacitySpec": {"bufferMin": 0, "bufferMax": 5, "poolMin": 0, "poolMax": 10},
        },
    })
}

/// A pod of a pool that a batch has.
pub(crate) fn pool_pod(name: &str, pool: &Value, batch: Option<&Value>) -> Value {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "n",
            "labels": {
                "app": "x",
                "sandbox.opensandbox.io/pool-name": pool["metadata"]["name"],
                "sandbox.opensandbox.io/pool-revision": "r",
            },
            "annotations": {"note": "y"},
            "ownerReferences": [{
                "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Pool",
                "name": pool["metadata"]["name"], "uid": pool["metadata"]["uid"], "controller": true,
            }],
        },
        "spec": {"containers": [{"name": "main", "image": "base"}]},
    });
    if let Some(batch) = batch {
        let mark = format!("{}/{}", text(&batch["metadata"]["uid"]), text(&batch["metadata"]["name"]));
        pod["metadata"]["annotations"]["sandgate.dev/allocated-to"] = mark.into();
        pod["metadata"]["labels"]["batch-sandbox.sandbox.opensandbox.io/name"] =
            batch["metadata"]["name"].clone();
    }
    pod
}
