//! A model of the API server, a pool and its batches in it, and the reconciler in front of it.

mod line;
mod reads;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use sandgate_objects::opensandbox::{Allocation, names};
use sandgate_sim::model::object::{self, text};
use sandgate_sim::model::{BATCHES, Change, DeleteOptions, Model, PODS, POOLS, Place};
use serde_json::{Value, json};
use tokio::sync::Notify;

pub(super) use line::Fate;
use line::{Script, client};

use crate::failures::Failures;
use crate::pool::observe::{Observed, observe};
use crate::pool::plan::{Claimed, Plan, plan};
use crate::pool::{Exec, ExecError, PoolReconciler, PoolSettings};
use crate::view::{Kind, View};
use crate::{
    Again, Clock as _, Failed, Key, Leadership, ManualClock, Metrics, Published, Random, Reconciler as _,
    RecordedEvents, Writes,
};

pub(super) const NAMESPACE: &str = "n";
pub(super) const POOL: &str = "pool";

/// Containers that are restarted, or not.
#[derive(Default)]
pub(super) struct Restarts {
    commands: Mutex<Vec<String>>,
    /// Commands end when this says so, if there is one.
    hangs: Mutex<Option<Arc<Notify>>>,
}

impl Exec for Restarts {
    fn run<'a>(
        &'a self,
        pod: &'a Key,
        container: &'a str,
        command: &'a [String],
    ) -> BoxFuture<'a, Result<(), ExecError>> {
        self.commands.lock().push(format!("{} {container}: {}", pod.name, command.join(" ")));
        let hangs = self.hangs.lock().clone();
        async move {
            if let Some(end) = hangs {
                end.notified().await;
            }
            Ok(())
        }
        .boxed()
    }
}

/// Everything.
pub(super) struct World {
    pub(super) model: Arc<Mutex<Model>>,
    pub(super) script: Arc<Mutex<Script>>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) process: Process,
    settings: PoolSettings,
    dead: Arc<Notify>,
    starts: u64,
    pods: u32,
}

/// A running copy of the program, with nothing in its memory when it starts.
pub(super) struct Process {
    pub(super) view: View,
    pub(super) events: Arc<RecordedEvents>,
    pub(super) exec: Arc<Restarts>,
    pub(super) pools: PoolReconciler,
    metrics: Registry,
    shown: u64,
}

pub(super) fn key(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}

impl World {
    /// A pool with these terms: `bufferMin`, `bufferMax`, `poolMin`, `poolMax`.
    pub(super) fn new(terms: [i32; 4]) -> Self {
        Self::with(terms, PoolSettings::default())
    }

    /// The same, with a controller that does so much at a time.
    pub(super) fn with(
        [buffer_min, buffer_max, pool_min, pool_max]: [i32; 4],
        settings: PoolSettings,
    ) -> Self {
        let start = Timestamp::from_second(1_000_000).unwrap();
        let model = Arc::new(Mutex::new(Model::new(7, start, 100_000)));
        let pool = json!({
            "metadata": {"name": POOL},
            "spec": {
                "template": {"spec": {"containers": [{"name": "main", "image": "base:1"}]}},
                "capacitySpec": {
                    "bufferMin": buffer_min, "bufferMax": buffer_max, "poolMin": pool_min, "poolMax": pool_max,
                },
                "scaleStrategy": {"maxUnavailable": "100%"},
            },
        });
        model.lock().create(&POOLS, NAMESPACE, pool).unwrap();
        let (script, dead) = (Arc::<Mutex<Script>>::default(), Arc::<Notify>::default());
        let clock = Arc::new(ManualClock::new(start));
        let process = Process::start(&model, &script, &dead, &clock, settings, 1);
        let mut world = Self { model, script, clock, process, settings, dead, starts: 1, pods: 0 };
        world.show();
        world
    }

    /// The process dies and is started anew.
    pub(super) fn restart(&mut self) {
        self.starts += 1;
        self.process = self.other_process();
        self.show();
    }

    /// Another process, beside this one.
    pub(super) fn other(&mut self) -> Process {
        self.starts += 1;
        self.other_process()
    }

    fn other_process(&self) -> Process {
        Process::start(&self.model, &self.script, &self.dead, &self.clock, self.settings, self.starts)
    }

    /// Requests and answers are on their way for a while, each for another one.
    pub(super) fn delayed(&self, seed: u64) {
        self.script.lock().delays = Some(Random::seeded(seed));
    }

    /// Shows the view everything that has happened.
    pub(super) fn show(&mut self) {
        self.process.show(&self.model.lock());
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
        self.model.lock().set_now(self.clock.now());
    }

    pub(super) fn fate(&self, number: usize, fate: Fate) {
        self.script.lock().fates.insert(number, fate);
    }

    /// Somebody changes something before the next request whose line has this part.
    pub(super) fn meddle(&self, part: &str, meddling: impl FnOnce(&mut Model) + Send + 'static) {
        self.script.lock().meddling.push((part.to_owned(), Box::new(meddling)));
    }

    /// The requests since, which are forgotten here.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().asked)
    }

    pub(super) fn edit(&mut self, place: &Place, change: impl FnOnce(&mut Value)) {
        edit(&mut self.model.lock(), place, change);
        self.show();
    }

    pub(super) fn edit_pool(&mut self, change: impl FnOnce(&mut Value)) {
        self.edit(&Place::new(&POOLS, NAMESPACE, POOL), |pool| {
            change(pool);
            let generation = pool["metadata"]["generation"].as_i64().unwrap();
            pool["metadata"]["generation"] = json!(generation + 1);
        });
    }

    pub(super) fn recycle_by(&mut self, strategy: &str) {
        self.edit_pool(|pool| pool["spec"]["recycleStrategy"] = json!({"type": strategy}));
    }

    pub(super) fn image(&mut self, image: &str) {
        self.edit_pool(|pool| pool["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image));
    }

    pub(super) fn edit_batch(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.edit(&Place::new(&BATCHES, NAMESPACE, name), change);
    }

    pub(super) fn edit_pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.edit(&Place::new(&PODS, NAMESPACE, name), change);
    }

    /// The same, and the view is not shown it.
    pub(super) fn edit_unseen(&self, batch: &str, change: impl FnOnce(&mut Value)) {
        edit_batch(&mut self.model.lock(), batch, change);
    }

    pub(super) fn wish_unseen(&self, batch: &str, pod: &str) {
        let mut wished = self.wished(batch);
        wished.push(pod.to_owned());
        let text = json!({"pods": wished}).to_string();
        self.edit_unseen(batch, |batch| {
            batch["metadata"]["annotations"][names::ANNOTATION_ALLOC_RELEASE] = json!(text);
        });
    }

    pub(super) fn delete_unseen(&self, batch: &str) {
        let place = Place::new(&BATCHES, NAMESPACE, batch);
        self.model.lock().delete(&place, &DeleteOptions::default()).unwrap();
    }

    pub(super) fn lose_unseen(&self, pod: &str) {
        let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        self.model.lock().delete(&Place::new(&PODS, NAMESPACE, pod), &options).unwrap();
    }

    /// Makes a batch that wants so many pods of the pool. Each is a second younger than the one before.
    pub(super) fn batch(&mut self, name: &str, replicas: i32) {
        self.batch_unseen(name, replicas);
        self.show();
    }

    pub(super) fn batch_unseen(&mut self, name: &str, replicas: i32) {
        self.pass(1);
        let batch = json!({
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "poolRef": POOL},
        });
        self.model.lock().create(&BATCHES, NAMESPACE, batch).unwrap();
    }

    pub(super) fn delete(&mut self, place: &Place) {
        self.model.lock().delete(place, &DeleteOptions::default()).unwrap();
        self.show();
    }

    pub(super) fn delete_batch(&mut self, name: &str) {
        self.delete(&Place::new(&BATCHES, NAMESPACE, name));
    }

    /// A pod that somebody takes away at once.
    pub(super) fn lose_pod(&mut self, name: &str) {
        let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        self.model.lock().delete(&Place::new(&PODS, NAMESPACE, name), &options).unwrap();
        self.show();
    }

    /// Makes a pod of the pool's present revision, in this phase.
    pub(super) fn pod_in(&mut self, phase: &str, is_ready: bool) -> String {
        self.pods += 1;
        let name = format!("p{}", self.pods);
        let pool = self.observed().pool;
        let revision = crate::pool::pod::revision(&pool.spec);
        let pod = crate::pool::pod::manifest(&pool, &revision, &key(&name));
        let mut model = self.model.lock();
        model.create(&PODS, NAMESPACE, pod).unwrap();
        become_(&mut model, &name, phase, is_ready);
        drop(model);
        self.show();
        name
    }

    /// Makes a pod that is ready.
    pub(super) fn ready(&mut self) -> String {
        self.pass(1);
        self.pod_in("Running", true)
    }

    /// Every pod that starts runs and is ready, and every pod that ends is gone.
    pub(super) fn nodes(&mut self) {
        self.nodes_unseen();
        self.show();
    }

    pub(super) fn nodes_unseen(&self) {
        let mut model = self.model.lock();
        let all: Vec<_> = model.list(&PODS).cloned().collect();
        for pod in all {
            let name = text(&pod, "/metadata/name");
            if object::deleting(&pod) {
                let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
                model.delete(&Place::new(&PODS, NAMESPACE, name), &options).unwrap();
            } else if text(&pod, "/status/phase").is_empty() || text(&pod, "/status/phase") == "Pending" {
                become_(&mut model, name, "Running", true);
            }
        }
    }

    /// Restarts the containers of a pod, as a node does.
    pub(super) fn restarted(&mut self, name: &str) {
        self.edit_pod(name, |pod| {
            let count = pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0) + 1;
            pod["status"]["containerStatuses"][0]["restartCount"] = json!(count);
            pod["status"]["containerStatuses"][0]["containerID"] = json!(format!("{name}-{count}"));
        });
    }

    pub(super) fn observed(&self) -> Observed {
        let pool = self.process.view.get(&key(POOL)).unwrap();
        observe(&self.process.view, pool, Failures::default(), self.clock.now())
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observed(), &Claimed::new())
    }

    /// One look at the pool.
    pub(super) async fn look(&mut self) -> Result<Again, Failed> {
        let done = self.process.pools.reconcile(&key(POOL)).await;
        self.show();
        self.check();
        done
    }

    /// One look that may be the process's last. Whether it was.
    pub(super) async fn look_and_die(&mut self) -> bool {
        let pool = key(POOL);
        let is_dead = tokio::select! {
            biased;
            () = self.dead.notified() => true,
            _ = self.process.pools.reconcile(&pool) => false,
        };
        if is_dead {
            self.restart();
        }
        self.show();
        self.check();
        is_dead
    }

    /// Looks until nothing changes any more. Nodes do their part if `with_nodes`.
    pub(super) async fn settle(&mut self, with_nodes: bool) {
        for _ in 0..60 {
            let before = self.model.lock().revision();
            let done = self.look().await;
            if with_nodes {
                self.nodes();
            }
            let wait = match done {
                Ok(Again::After(wait)) => i64::try_from(wait.as_secs()).unwrap() + 1,
                Ok(_) => 1,
                Err(_) => 2,
            };
            self.pass(wait);
            rest(Duration::from_secs(1)).await;
            if self.model.lock().revision() == before && matches!(done, Ok(Again::Rarely | Again::Forget)) {
                return;
            }
        }
        panic!("no end: {:?}", self.asked());
    }

    /// Every pod is held by one batch at most, by the word of the server.
    pub(super) fn check(&self) {
        let model = self.model.lock();
        let mut holders: BTreeMap<String, String> = BTreeMap::new();
        for batch in model.list(&BATCHES) {
            let name = text(batch, "/metadata/name");
            let slots = pods_of(batch, names::ANNOTATION_ALLOC_STATUS);
            let released: BTreeSet<_> =
                pods_of(batch, names::ANNOTATION_ALLOC_RELEASED).into_iter().collect();
            for pod in slots.into_iter().filter(|pod| !released.contains(pod)) {
                let other = holders.insert(pod.clone(), name.to_owned());
                assert_eq!(other, None, "{pod} is held twice, by {name} too");
                let has_finalizer = object::list(batch, "/metadata/finalizers")
                    .contains(&json!(names::FINALIZER_POOL_ALLOCATION));
                assert!(has_finalizer, "{name} holds {pod} without the finalizer");
            }
        }
    }
}

impl Process {
    fn start(
        model: &Arc<Mutex<Model>>,
        script: &Arc<Mutex<Script>>,
        dead: &Arc<Notify>,
        clock: &Arc<ManualClock>,
        settings: PoolSettings,
        seed: u64,
    ) -> Self {
        let view = View::new(Box::new(|_, _, _| {}));
        let client = client(Arc::clone(model), Arc::clone(script), Arc::clone(dead));
        let writes = Writes::new(client, view.clone(), Leadership::always(), Metrics::default().writes);
        let (events, exec) = (Arc::<RecordedEvents>::default(), Arc::<Restarts>::default());
        let mut metrics = Registry::default();
        let pools = PoolReconciler::new(
            view.clone(),
            writes,
            events.clone(),
            clock.clone(),
            Random::seeded(seed),
            exec.clone(),
            settings,
            crate::pool::PoolMetrics::register(&mut metrics),
        );
        Self { view, events, exec, pools, metrics, shown: 0 }
    }

    /// Shows the view everything but this pod.
    pub(super) fn show_but(&self, hidden: &str, model: &Model) {
        for (place, object) in model.all() {
            if let Some(kind) = kind_of(place)
                && place.name != hidden
            {
                self.view.observe_json(kind, object.to_string().as_bytes()).unwrap();
            }
        }
    }

    /// Shows the view everything that has happened since.
    pub(super) fn show(&mut self, model: &Model) {
        if self.shown == 0 {
            for (place, object) in model.all() {
                if let Some(kind) = kind_of(place) {
                    self.view.observe_json(kind, object.to_string().as_bytes()).unwrap();
                }
            }
        } else {
            for event in model.since(self.shown).unwrap() {
                let Some(kind) = kind_of(&event.place) else { continue };
                // A watch by label shows that a pod has lost the label as its end.
                let is_selected =
                    kind != Kind::PoolPod || !object::label(&event.object, names::LABEL_POOL_NAME).is_empty();
                if event.change == Change::Deleted || !is_selected {
                    let version = NonZeroU64::new(event.revision).unwrap().into();
                    let (name, uid) = (key(&event.place.name), object::uid(&event.object));
                    self.view.deleted(kind, &name, uid, &version);
                } else {
                    self.view.observe_json(kind, event.object.to_string().as_bytes()).unwrap();
                }
            }
        }
        self.shown = model.revision();
    }
}

fn kind_of(place: &Place) -> Option<Kind> {
    match place.kind.plural {
        "pools" => Some(Kind::Pool),
        "batchsandboxes" => Some(Kind::BatchSandbox),
        "pods" => Some(Kind::PoolPod),
        _ => None,
    }
}

pub(super) fn edit(model: &mut Model, place: &Place, change: impl FnOnce(&mut Value)) {
    let mut object = Value::clone(model.get(place).unwrap());
    change(&mut object);
    model.put(place, object);
}

pub(super) fn edit_batch(model: &mut Model, name: &str, change: impl FnOnce(&mut Value)) {
    edit(model, &Place::new(&BATCHES, NAMESPACE, name), change);
}

fn become_(model: &mut Model, name: &str, phase: &str, is_ready: bool) {
    let now = model.now().to_string();
    edit(model, &Place::new(&PODS, NAMESPACE, name), |pod| {
        pod["spec"]["nodeName"] = json!("node");
        let is = if is_ready { "True" } else { "False" };
        pod["status"] = json!({
            "phase": phase,
            "podIP": format!("ip-{name}"),
            "conditions": [{"type": "Ready", "status": is, "lastTransitionTime": now}],
            "containerStatuses": [
                {"name": "main", "containerID": format!("{name}-0"), "restartCount": 0, "state": {"running": {}}},
            ],
        });
    });
}

fn pods_of(batch: &Value, annotation: &str) -> Vec<String> {
    let text = object::annotation(batch, annotation);
    Allocation::parse(text).ok().flatten().unwrap_or_default().pods
}

/// Lets everything run that can, until nothing is due for this long. On the paused clock this takes no time.
pub(super) async fn rest(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Runs a test on a paused clock.
pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test)
}
