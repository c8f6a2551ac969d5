//! A model of the API server, a pool of an environment in it, its nodes, and the reconciler in front of it.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use http::Request as HttpRequest;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use sandgate_cache::Viewed as _;
use sandgate_envs::change::{Claim, Released, Stop, claim, release};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPool, SandboxPoolSpec};
use sandgate_sim::model::object::{self, text};
use sandgate_sim::model::{Change, DeleteOptions, ENV_POOLS, ENVS, Model, PODS, Part, Patch, Place};
use sandgate_sim::network::answer;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::service_fn;

use crate::env_pool::{EnvPoolMetrics, EnvPoolReconciler};
use crate::view::{EnvPodCounts, Kind, Seen, View};
use crate::{
    Admissions, Again, Clock as _, Failed, Key, Leadership, ManualClock, Metrics, Random, Reconciler as _,
    RecordedEvents, Writes,
};

pub(super) const NAMESPACE: &str = "n";
pub(super) const POOL: &str = "p";

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It never arrives.
    Lost,
    /// It is done, and nobody learns of it.
    Unanswered,
    /// It is refused.
    Refused,
    /// The process dies before it is sent.
    DiesBefore,
    /// The process dies when it has been done.
    DiesAfter,
}

/// A change of the model by somebody else.
type Meddling = Box<dyn FnOnce(&mut Model) + Send>;

/// What happens to requests, by their numbers.
#[derive(Default)]
pub(super) struct Script {
    pub(super) asked: Vec<String>,
    fates: BTreeMap<usize, Fate>,
    /// The ends of the lines of requests that are refused, however often.
    pub(super) refused: Vec<String>,
    /// Before the first request whose line contains this.
    meddling: Vec<(String, Meddling)>,
}

/// Everything.
pub(super) struct World {
    pub(super) model: Arc<Mutex<Model>>,
    pub(super) script: Arc<Mutex<Script>>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) process: Process,
    dead: Arc<Notify>,
    starts: u64,
    containers: u32,
    sandboxes: u32,
}

/// A running copy of the program, with nothing in its memory when it starts.
pub(super) struct Process {
    pub(super) view: View,
    pub(super) writes: Writes,
    pub(super) events: Arc<RecordedEvents>,
    pub(super) pools: EnvPoolReconciler,
    shown: u64,
}

pub(super) fn key(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}

pub(super) fn pod_place(name: &str) -> Place {
    Place::new(&PODS, NAMESPACE, name)
}

pub(super) fn pool_place() -> Place {
    Place::new(&ENV_POOLS, NAMESPACE, POOL)
}

fn client(model: Arc<Mutex<Model>>, script: Arc<Mutex<Script>>, dead: Arc<Notify>) -> Client {
    let service = service_fn(move |request: HttpRequest<Body>| {
        let (model, script, dead) = (Arc::clone(&model), Arc::clone(&script), Arc::clone(&dead));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(std::io::Error::other)?.to_vec();
            let path = parts.uri.path().rsplit("/namespaces/n/").next().unwrap_or_default();
            let line = format!("{} {path}", parts.method);
            let (fate, meddling) = {
                let mut script = script.lock();
                let number = script.asked.len();
                let met = script.meddling.iter().position(|(part, _)| line.contains(part.as_str()));
                let meddling = met.map(|met| script.meddling.remove(met).1);
                let refused = script.refused.iter().any(|end| line.ends_with(end.as_str()));
                let fate = script.fates.get(&number).copied().or(refused.then_some(Fate::Refused));
                script.asked.push(line);
                (fate, meddling)
            };
            if let Some(meddling) = meddling {
                meddling(&mut model.lock());
            }
            let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            let die = || async {
                dead.notify_one();
                std::future::pending::<()>().await;
            };
            match fate {
                Some(Fate::DiesBefore) => die().await,
                Some(Fate::Lost) => return Err(broken()),
                Some(Fate::Refused) => {
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                        "reason": "Forbidden", "message": "exceeded quota",
                    });
                    let response = http::Response::builder().status(403);
                    return Ok(response.body(Body::from(status.to_string().into_bytes())).unwrap());
                }
                _ => {}
            }
            let response = answer(&mut model.lock(), HttpRequest::from_parts(parts, body));
            match fate {
                Some(Fate::DiesAfter) => die().await,
                Some(Fate::Unanswered) => return Err(broken()),
                _ => {}
            }
            Ok(response.map(Body::from))
        }
    });
    Client::new(service, NAMESPACE)
}

impl Process {
    fn start(
        world: (&Arc<Mutex<Model>>, &Arc<Mutex<Script>>, &Arc<Notify>),
        clock: &Arc<ManualClock>,
        seed: u64,
    ) -> Self {
        let view = View::new(Box::new(|_, _, _| {}));
        let (model, script, dead) = world;
        let client = client(Arc::clone(model), Arc::clone(script), Arc::clone(dead));
        let writes = Writes::new(client, view.clone(), Leadership::always(), Metrics::default().writes);
        let events = Arc::<RecordedEvents>::default();
        let pools = EnvPoolReconciler::new(
            view.clone(),
            writes.clone(),
            events.clone(),
            clock.clone(),
            Random::seeded(seed),
            "local",
            EnvPoolMetrics::default(),
        );
        Self { view, writes, events, pools, shown: 0 }
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
                if event.change == Change::Deleted {
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
        "sandboxpools" => Some(Kind::EnvPool),
        "sandboxenvs" => Some(Kind::SandboxEnv),
        "pods" => Some(Kind::EnvPod),
        _ => None,
    }
}

pub(super) fn template() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "app:1"}]}})
}

impl World {
    /// A pool with so many replicas.
    pub(super) fn new(replicas: i32) -> Self {
        let start = Timestamp::from_second(1_000_000).unwrap();
        let model = Arc::new(Mutex::new(Model::new(7, start, 1_000_000)));
        let pool = json!({
            "metadata": {"name": POOL, "labels": {(names::LABEL_ENV): "e"}},
            "spec": {"replicas": replicas, "idleImage": "idle:1", "template": template()},
        });
        model.lock().create(&ENV_POOLS, NAMESPACE, pool).unwrap();
        let (script, dead) = (Arc::<Mutex<Script>>::default(), Arc::<Notify>::default());
        let clock = Arc::new(ManualClock::new(start));
        let process = Process::start((&model, &script, &dead), &clock, 1);
        let mut world = Self { model, script, clock, process, dead, starts: 1, containers: 0, sandboxes: 0 };
        world.show();
        world
    }

    /// A pool that has so many pods, which wait and are ready.
    pub(super) async fn ready(replicas: i32) -> Self {
        let mut world = Self::new(replicas);
        world.settle().await;
        assert_eq!(world.counts().idle_ready, usize::try_from(replicas).unwrap());
        world.asked();
        world.process.events.take();
        world
    }

    /// Another process, beside this one.
    pub(super) fn other(&mut self) -> Process {
        self.starts += 1;
        Process::start((&self.model, &self.script, &self.dead), &self.clock, self.starts)
    }

    /// The same, with plugins.
    pub(super) fn other_with(&mut self, admissions: Admissions) -> Process {
        let other = self.other();
        Process { pools: other.pools.with_admissions(admissions), ..other }
    }

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

    pub(super) fn edit_pool(&mut self, change: impl FnOnce(&mut Value)) {
        edit(&mut self.model.lock(), &pool_place(), |pool| {
            change(pool);
            let generation = pool["metadata"]["generation"].as_i64().unwrap();
            pool["metadata"]["generation"] = json!(generation + 1);
        });
        self.show();
    }

    pub(super) fn scale(&mut self, replicas: i32) {
        self.edit_pool(|pool| pool["spec"]["replicas"] = json!(replicas));
    }

    pub(super) fn edit_pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        edit(&mut self.model.lock(), &pod_place(name), change);
        self.show();
    }

    /// An environment whose group has this protection window.
    pub(super) fn environment(&mut self, window: i32) {
        let env = json!({
            "metadata": {"name": "e"},
            "spec": {
                "templateRef": {"name": "t"},
                "clusters": [{"clusterID": "local", "members": [{"name": POOL, "config": {"scalingGroup": "g"}}]}],
                "autoscaling": {"groups": [
                    {"name": "g", "scaleDownPolicy": {"protectionWindowSeconds": window}},
                ]},
            },
        });
        self.model.lock().create(&ENVS, NAMESPACE, env).unwrap();
        self.show();
    }

    pub(super) fn pool(&self) -> Value {
        Value::clone(self.model.lock().get(&pool_place()).unwrap())
    }

    pub(super) fn pod(&self, name: &str) -> Option<Value> {
        self.model.lock().get(&pod_place(name)).ok().map(|pod| Value::clone(pod))
    }

    /// The pods that are not being deleted, with their phases.
    pub(super) fn phases(&self) -> BTreeMap<String, String> {
        let model = self.model.lock();
        let live = model.list(&PODS).filter(|pod| !object::deleting(pod));
        let phase = |pod: &Value| object::label(pod, names::LABEL_PHASE).to_owned();
        live.map(|pod| (text(pod, "/metadata/name").to_owned(), phase(pod))).collect()
    }

    pub(super) fn live(&self) -> Vec<String> {
        self.phases().into_keys().collect()
    }

    pub(super) fn counts(&self) -> EnvPodCounts {
        let pool = self.process.view.get::<SandboxPool>(&key(POOL)).unwrap();
        self.process.view.env_pod_counts(&key(POOL), &super::super::revision_of(&pool.spec))
    }

    /// What the containers and nodes do: every pod runs what its spec asks for, and what ends is gone.
    pub(super) fn nodes(&mut self) {
        let mut model = self.model.lock();
        let all: Vec<_> = model.list(&PODS).map(|pod| Value::clone(pod)).collect();
        for pod in all {
            let name = text(&pod, "/metadata/name").to_owned();
            if object::deleting(&pod) {
                let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
                let _ = model.delete(&pod_place(&name), &options);
                continue;
            }
            let image = text(&pod, "/spec/containers/0/image").to_owned();
            if text(&pod, "/status/containerStatuses/0/image") != image
                && text(&pod, "/status/phase") != "Failed"
            {
                self.containers += 1;
                runs(&mut model, &name, &image, self.containers);
            }
        }
        drop(model);
        self.show();
    }

    /// Claims a pod as a manager does, with the version that the server has. Whether it was had.
    pub(super) fn claim(&mut self, name: &str) -> bool {
        self.sandboxes += 1;
        let sandbox = format!("s-{}", self.sandboxes);
        let claimed = claim_in(&mut self.model.lock(), name, &sandbox, self.clock.now());
        self.show();
        claimed
    }

    pub(super) fn claim_any(&mut self) -> Option<String> {
        let idle = self.phases().into_iter().find(|(_, phase)| phase == "idle").map(|(name, _)| name)?;
        self.claim(&idle).then_some(idle)
    }

    /// Releases a sandbox as a manager does.
    pub(super) fn release(&mut self, name: &str) {
        let mut model = self.model.lock();
        let pod = read(model.get(&pod_place(name)).unwrap());
        let stop = Stop { reason: names::STOP_RELEASED, ..Stop::default() };
        let Released::Patch(patch) = release(&pod, &self.spec(&model), &stop, self.clock.now()) else {
            return;
        };
        model.patch(&pod_place(name), Part::Main, &Patch::Strategic(patch)).unwrap();
        drop(model);
        self.show();
    }

    fn spec(&self, model: &Model) -> SandboxPoolSpec {
        serde_json::from_value(model.get(&pool_place()).unwrap()["spec"].clone()).unwrap()
    }

    /// One look at the pool.
    pub(super) async fn look(&mut self) -> Result<Again, Failed> {
        let done = self.process.pools.reconcile(&key(POOL)).await;
        self.show();
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
            self.process = self.other();
        }
        self.show();
        is_dead
    }

    /// Looks, with nodes and time, until nothing changes any more but time.
    pub(super) async fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..80 {
            let before = self.model.lock().revision();
            let done = self.look().await;
            self.nodes();
            let wait = match done {
                Ok(Again::After(wait)) => i64::try_from(wait.as_secs()).unwrap() + 1,
                Ok(_) => 1,
                Err(_) => 2,
            };
            self.pass(wait);
            quiet = if self.model.lock().revision() == before { quiet + 1 } else { 0 };
            // Pods to which a write was refused are left alone for a while.
            if quiet == 5 {
                return;
            }
        }
        panic!("no end: {:?}", self.asked());
    }
}

/// Claims a pod in the model. False if it cannot be claimed.
pub(super) fn claim_in(model: &mut Model, name: &str, sandbox: &str, at: Timestamp) -> bool {
    let Ok(pod) = model.get(&pod_place(name)).map(|pod| read(pod)) else { return false };
    let spec = serde_json::from_value(model.get(&pool_place()).unwrap()["spec"].clone()).unwrap();
    let wish = Claim { sandbox: sandbox.to_owned(), at, ..Claim::default() };
    let Ok(patch) = claim(&pod, &spec, &wish) else { return false };
    model.patch(&pod_place(name), Part::Main, &Patch::Strategic(patch)).is_ok()
}

pub(super) fn edit(model: &mut Model, place: &Place, change: impl FnOnce(&mut Value)) {
    let mut object = Value::clone(model.get(place).unwrap());
    change(&mut object);
    model.put(place, object);
}

fn runs(model: &mut Model, name: &str, image: &str, container: u32) {
    let now = model.now().to_string();
    edit(model, &pod_place(name), |pod| {
        let restarts =
            pod["status"]["containerStatuses"][0]["restartCount"].as_i64().map_or(0, |count| count + 1);
        pod["spec"]["nodeName"] = json!("node");
        pod["status"] = json!({
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            "containerStatuses": [{
                "name": "main", "image": image, "containerID": format!("c-{container}"),
                "restartCount": restarts, "ready": true, "state": {"running": {}},
            }],
        });
    });
}

pub(super) fn read(pod: &Value) -> EnvPod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// A pod as the view has it.
pub(super) fn seen(pod: &Value) -> Arc<Seen<EnvPod>> {
    Arc::new(EnvPod::read(pod.to_string().as_bytes()).unwrap())
}

/// Runs something without a clock of its own.
pub(super) fn run<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(what)
}
