//! A model of the API server, managers in front of it, a controller that runs sandboxes, and gateways and
//! runtimes that write down what they are told.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Request;
use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sandgate_cache::testing::condition;
use sandgate_cache::{Cache, Clock, Key, Kind, Random};
use sandgate_peering::{Delivery, RouteMessage};
use sandgate_sim::model::{CONFIG_MAPS, Change, Model, Place, SANDBOX_SETS, SANDBOXES};
use sandgate_sim::network::{Guard, Network, UnderWay};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{
    Caller, Described, EnvFeed, Error, ErrorKind, Gateways, Limit, Manager, ManagerParts, NewSandbox, Push,
    Runtime, SeededSecrets, Settings, Transport, Writes,
};

pub(crate) const NAMESPACE: &str = "team";
const SYSTEM: &str = "sandgate-system";

/// Lets this time pass on the paused clock: everything that is due by then happens first.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Runs a test on a paused clock.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test)
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done and answered.
    Done,
    /// It never arrives, and its sender learns that it will not learn.
    Lost,
    /// It is done, and its sender learns that it will not learn.
    Unanswered,
    /// The server refuses it.
    Refused(u16),
    /// It is still on its way.
    Held,
}

/// The wall clock goes with the timers.
struct Wall {
    began: Instant,
    at: Timestamp,
}

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        self.at + SignedDuration::try_from(self.began.elapsed()).unwrap()
    }
}

/// The gateways: what they were told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) messages: Mutex<Vec<RouteMessage>>,
    /// None of them answers.
    pub(crate) is_mute: AtomicBool,
}

impl Push for Told {
    fn push(&self, message: &RouteMessage, deadline: Instant) -> BoxFuture<'static, Vec<Delivery>> {
        self.messages.lock().push(message.clone());
        let is_mute = self.is_mute.load(Ordering::Relaxed);
        async move {
            if !is_mute {
                return vec![Delivery::Delivered];
            }
            tokio::time::sleep_until(deadline).await;
            vec![Delivery::Pending]
        }
        .boxed()
    }
}

/// The runtimes: what they were asked, and what they answer.
pub(crate) struct Envd {
    pub(crate) asked: Mutex<Vec<(String, String)>>,
    pub(crate) answers: Mutex<u16>,
    /// How long an answer takes.
    pub(crate) takes: Mutex<Duration>,
    pub(crate) body: Mutex<Bytes>,
}

impl Default for Envd {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            answers: Mutex::new(204),
            takes: Mutex::default(),
            body: Mutex::default(),
        }
    }
}

impl Transport for Envd {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<(u16, Bytes), String>> {
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        self.asked.lock().push((request.uri().to_string(), body));
        let answer = (*self.answers.lock(), self.body.lock().clone());
        let takes = *self.takes.lock();
        async move {
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// One manager.
pub(crate) struct Replica {
    pub(crate) manager: Option<Manager>,
    cache: Cache,
    /// Up to which revision its watch has come.
    seen: u64,
    /// Its watch shows nothing for now.
    pub(crate) lags: bool,
}

/// Everything.
pub(crate) struct World {
    network: Network,
    pub(crate) model: Model,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) told: Arc<Told>,
    pub(crate) envd: Arc<Envd>,
    /// Whether the controller works.
    pub(crate) controls: bool,
    pub(crate) settings: Settings,
    /// Whether managers that are started serve environments, of the cluster `here`.
    pub(crate) environments: bool,
    /// Managers that are started are not told of environments; only their caches are.
    pub(crate) is_deaf: bool,
    clock: Arc<Wall>,
    made: u64,
}

impl World {
    /// A world with so many managers and a pool of so many sandboxes.
    pub(crate) fn with(replicas: usize, stock: usize) -> Self {
        let at = "2026-11-18T10:00:00Z".parse().unwrap();
        let mut world = Self {
            network: Network::default(),
            model: Model::new(1, at, 100_000),
            replicas: Vec::new(),
            told: Arc::default(),
            envd: Arc::default(),
            controls: true,
            settings: Settings { system_namespace: SYSTEM.to_owned(), ..Settings::default() },
            environments: false,
            is_deaf: false,
            clock: Arc::new(Wall { began: Instant::now(), at }),
            made: 0,
        };
        let metadata = json!({"name": "base", "labels": {"app": "web"}});
        let set = json!({"metadata": metadata, "spec": {"replicas": 3, "template": pod()}});
        world.model.create(&SANDBOX_SETS, NAMESPACE, set).unwrap();
        for _ in 0..stock {
            world.stock();
        }
        for _ in 0..replicas {
            world.start();
        }
        world
    }

    /// Starts another manager, which has listed everything.
    pub(crate) fn start(&mut self) -> usize {
        let number = self.replicas.len();
        let seed = u64::try_from(number).unwrap() + 1;
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let cache = Cache::builder().system_namespace(SYSTEM).selector(&self.settings.selector).clock(clock);
        let feed = self.environments.then(|| EnvFeed::new("here"));
        let cache = match &feed {
            Some(feed) if self.is_deaf => feed.follow_pods(cache),
            Some(feed) => feed.follow(cache),
            None => cache,
        };
        let cache = cache.build().unwrap();
        let push = Arc::clone(&self.told) as Arc<dyn Push>;
        let envd = Arc::clone(&self.envd) as Arc<dyn Transport>;
        let manager = Manager::new(ManagerParts {
            cache: cache.clone(),
            writes: Writes::new(self.network.client(seed), cache.clone(), Arc::new(())),
            gateways: Gateways::new(Some(push), self.settings.push_wait),
            runtime: Runtime::new(envd, self.settings.runtime_port),
            secrets: Arc::new(SeededSecrets::new(seed)),
            random: Random::seeded(seed),
            settings: self.settings.clone(),
            environments: feed,
        });
        self.replicas.push(Replica { manager: Some(manager), cache, seen: 0, lags: false });
        self.show();
        let version = NonZeroU64::new(self.model.revision()).unwrap().into();
        for kind in Kind::ALL {
            self.replicas[number].cache.listed(kind, &version);
        }
        number
    }

    /// Puts a sandbox into the pool.
    pub(crate) fn stock(&mut self) {
        self.made += 1;
        let set = self.model.get(&Place::new(&SANDBOX_SETS, NAMESPACE, "base")).unwrap();
        let uid = set["metadata"]["uid"].clone();
        let sandbox = json!({
            "metadata": {
                "name": format!("base-{}", self.made),
                "labels": {
                    "app": "web",
                    "agents.kruise.io/sandbox-pool": "base", "agents.kruise.io/sandbox-template": "base",
                    "agents.kruise.io/sandbox-claimed": "false",
                },
                "ownerReferences": [{
                    "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxSet", "name": "base",
                    "uid": uid, "controller": true,
                }],
            },
            "spec": {"template": pod()},
        });
        let mut made = Value::clone(&self.model.create(&SANDBOXES, NAMESPACE, sandbox).unwrap());
        runs(&mut made, "10.0.0.1");
        self.model.put(&Place::of(&SANDBOXES, &made), made);
    }

    pub(crate) fn manager(&self, replica: usize) -> Manager {
        self.replicas[replica].manager.clone().expect("it lives")
    }

    /// The manager dies: everything that it does stops where it is.
    pub(crate) fn crash(&mut self, replica: usize) {
        self.replicas[replica].manager = None;
        self.network.bury(u64::try_from(replica).unwrap() + 1);
    }

    /// The watches of a manager break: it goes on with what it knows.
    pub(crate) async fn cut(&mut self, replica: usize) {
        self.replicas[replica].lags = true;
        self.replicas[replica].cache.stop().await;
    }

    /// The controller says that no runtime can pause the sandbox.
    pub(crate) fn refuse_pause(&mut self, described: &Described) {
        self.put(described, |sandbox| {
            let mut refused = condition("SandboxPaused", false, "HibernateUnsupported");
            refused["message"] = "nothing keeps a pod's state".into();
            sandbox["status"]["conditions"].as_array_mut().unwrap().push(refused);
        });
    }

    /// A sandbox that the caller has.
    pub(crate) async fn created(&mut self, caller: &Caller) -> Described {
        let (manager, caller) = (self.manager(0), caller.clone());
        self.end(async move { manager.create(&caller, wanted()).await }).await.unwrap()
    }

    /// One round: every task runs until it waits, then every request has its fate, then the controller works
    /// and watches show what happened.
    pub(crate) async fn round(&mut self, mut fate: impl FnMut(&UnderWay) -> Fate) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.model.set_now(self.clock.now());
        for call in self.network.under_way() {
            assert_ne!(call.operation.guard(), Guard::None, "{}", call.operation);
            match fate(&call) {
                Fate::Done => {
                    self.network.commit(call.number, &mut self.model);
                    self.network.deliver(call.number);
                }
                Fate::Lost => self.network.lose(call.number),
                Fate::Unanswered => {
                    self.network.commit(call.number, &mut self.model);
                    self.network.lose(call.number);
                }
                Fate::Refused(code) => {
                    self.network.refuse(call.number, code);
                    self.network.deliver(call.number);
                }
                Fate::Held => {}
            }
        }
        if self.controls {
            self.control();
            crate::envs::tests::world::control(&mut self.model, self.clock.now());
        }
        self.show();
    }

    /// Rounds in which every request is done, until it ends.
    pub(crate) async fn end<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.end_with(tokio::spawn(work), |_| Fate::Done).await
    }

    /// Rounds with these fates, until it ends.
    pub(crate) async fn end_with<T>(
        &mut self,
        work: JoinHandle<Result<T, Error>>,
        mut fate: impl FnMut(&UnderWay) -> Fate,
    ) -> Result<T, Error> {
        for _ in 0..1_000_000 {
            if work.is_finished() {
                return work.await.unwrap();
            }
            self.round(&mut fate).await;
        }
        panic!("it never ends");
    }

    /// So many rounds in which every request is done.
    pub(crate) async fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round(|_| Fate::Done).await;
        }
    }

    /// Rounds with these fates, until something holds.
    pub(crate) async fn until(
        &mut self,
        holds: impl Fn(&Self) -> bool,
        mut fate: impl FnMut(&UnderWay) -> Fate,
    ) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            self.round(&mut fate).await;
        }
        panic!("it never holds");
    }

    /// One step of the controller for each sandbox.
    fn control(&mut self) {
        let all: Vec<_> = self.model.list(&SANDBOXES).cloned().collect();
        for old in all {
            let mut sandbox = Value::clone(&old);
            let wants_pause = sandbox["spec"]["paused"] == true;
            let paused = sandbox_condition(&sandbox, "SandboxPaused");
            match (sandbox["status"]["phase"].as_str().unwrap_or_default(), wants_pause) {
                ("Running", true) => stops(&mut sandbox, false),
                ("Paused", true) if paused != "True" => stops(&mut sandbox, true),
                ("Paused", false) if paused != "True" => stops(&mut sandbox, true),
                ("Paused", false) => sandbox["status"]["phase"] = "Resuming".into(),
                ("Resuming" | "", false) => runs(&mut sandbox, "10.0.0.2"),
                _ => {}
            }
            if sandbox["status"].is_object() {
                sandbox["status"]["observedGeneration"] = sandbox["metadata"]["generation"].clone();
            }
            if sandbox != *old {
                self.model.put(&Place::of(&SANDBOXES, &sandbox), sandbox);
            }
        }
    }

    /// The watches that do not lag show what happened.
    pub(crate) fn show(&mut self) {
        for replica in self.replicas.iter_mut().filter(|replica| !replica.lags) {
            for event in self.model.since(replica.seen).unwrap() {
                replica.seen = event.revision;
                let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == event.place.kind.plural);
                let Some(kind) = kind else { continue };
                if event.change == Change::Deleted {
                    let key = Key::new(&event.place.namespace, &event.place.name);
                    let uid = event.object["metadata"]["uid"].as_str().unwrap();
                    let version = NonZeroU64::new(event.revision).unwrap().into();
                    replica.cache.deleted(kind, &key, uid, &version);
                } else {
                    replica.cache.observe_json(kind, event.object.to_string().as_bytes()).unwrap();
                }
            }
        }
    }

    /// The sandbox that was described.
    pub(crate) fn sandbox(&self, described: &Described) -> Value {
        Value::clone(self.model.get(&place(described)).unwrap())
    }

    /// Somebody else writes a sandbox.
    pub(crate) fn put(&mut self, described: &Described, change: impl FnOnce(&mut Value)) {
        let mut sandbox = self.sandbox(described);
        change(&mut sandbox);
        self.model.put(&place(described), sandbox);
        self.show();
    }

    /// How many sandboxes somebody has, and how many of them run.
    pub(crate) fn claimed(&self) -> (usize, usize) {
        let claimed = "agents.kruise.io/sandbox-claimed";
        let is_claimed = |sandbox: &&Arc<Value>| sandbox["metadata"]["labels"][claimed] == "true";
        let all: Vec<_> = self.model.list(&SANDBOXES).filter(is_claimed).collect();
        (all.len(), all.iter().filter(|sandbox| sandbox["spec"]["paused"] != true).count())
    }

    /// How many ConfigMaps there are.
    pub(crate) fn config_maps(&self) -> usize {
        self.model.list(&CONFIG_MAPS).count()
    }

    /// The states that the gateways were told since the last call.
    pub(crate) fn states(&self) -> Vec<String> {
        self.told.messages.lock().drain(..).map(|message| message.state).collect()
    }
}

pub(crate) fn place(described: &Described) -> Place {
    let (namespace, name) = described.resource.split_once('/').unwrap();
    Place::new(&SANDBOXES, namespace, name)
}

fn sandbox_condition(sandbox: &Value, kind: &str) -> String {
    let mut conditions = sandbox["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind);
    found.map_or_else(String::new, |condition| condition["status"].as_str().unwrap().to_owned())
}

fn runs(sandbox: &mut Value, ip: &str) {
    sandbox["status"] = json!({
        "phase": "Running", "podInfo": {"podIP": ip}, "conditions": [condition("Ready", true, "PodReady")],
        "observedGeneration": sandbox["metadata"]["generation"],
    });
}

fn stops(sandbox: &mut Value, is_complete: bool) {
    sandbox["status"]["phase"] = "Paused".into();
    let reason = if is_complete { "StopPauseSucceed" } else { "Pending" };
    sandbox["status"]["conditions"] =
        json!([condition("Ready", false, "PodReady"), condition("SandboxPaused", is_complete, reason),]);
}

/// A caller of this name, with these limits.
pub(crate) fn caller(owner: &str, quota: &[Limit]) -> Caller {
    Caller { owner: owner.into(), team: "t".into(), namespace: Some(NAMESPACE.into()), quota: quota.into() }
}

/// A caller without limits.
pub(crate) fn somebody() -> Caller {
    caller("owner-1", &[])
}

/// What pods are made from.
fn pod() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{
            "name": "main", "image": "base:1",
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
        }]},
    })
}

/// A sandbox of the set `base`, with five minutes.
pub(crate) fn wanted() -> NewSandbox {
    NewSandbox {
        template: "base".to_owned(),
        timeout: Some(Duration::from_secs(300)),
        metadata: [("user".to_owned(), "ada".to_owned())].into(),
        ..NewSandbox::default()
    }
}

/// The kind of the error.
pub(crate) fn kind<T: std::fmt::Debug>(answer: Result<T, Error>) -> ErrorKind {
    answer.unwrap_err().kind
}
