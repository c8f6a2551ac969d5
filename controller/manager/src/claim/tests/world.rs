//! A model of the API server, the managers in front of it, and a controller that makes sandboxes ready.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sandgate_cache::{Cache, Clock, Key, Kind, Random, Seen};
use sandgate_objects::openkruise::resources::{PodTemplate, SandboxFacts};
use sandgate_sim::model::{CONFIG_MAPS, Change, Model, Place, SANDBOX_SETS, SANDBOXES};
use sandgate_sim::network::{Network, UnderWay};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::{ClaimParts, ClaimSettings, Claims, Prepare};
use crate::{Caller, Error, ErrorKind, Network as Rules, NewSandbox, SeededSecrets, Writes};

pub(super) const NAMESPACE: &str = "team";
pub(super) const SYSTEM: &str = "sandgate-system";

pub(super) type Answer = Result<Arc<Seen<SandboxFacts>>, Error>;

/// Runs a test on a paused clock.
pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test)
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is done and answered.
    Done,
    /// It never arrives, and its sender learns that it will not learn.
    Lost,
    /// It is done, and its sender learns that it will not learn.
    Unanswered,
    /// It is on its way.
    Held,
    /// The server has no time for it.
    Refused(u16),
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

/// What the other parts of the manager were asked for.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) calls: Mutex<Vec<String>>,
    pub(super) refuses: AtomicBool,
    pub(super) init_fails: AtomicBool,
    pub(super) init_hangs: AtomicBool,
    pub(super) init_panics: AtomicBool,
}

impl Steps {
    fn called(&self, what: String) {
        self.calls.lock().push(what);
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.calls.lock().iter().filter(|call| call.starts_with(what)).count()
    }
}

impl Prepare for Steps {
    async fn admit(&self, _: &Caller, lock: &str, template: Option<&PodTemplate>) -> Result<(), Error> {
        assert!(template.is_some());
        self.called(format!("admit {lock}"));
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::QuotaExceeded, "sandbox.count: the limit is 0"));
        }
        Ok(())
    }

    async fn release(&self, _: &Caller, lock: &str) {
        self.called(format!("release {lock}"));
    }

    async fn init(&self, sandbox: &Arc<Seen<SandboxFacts>>) -> Result<(), Error> {
        self.called(format!("init {}", sandbox.key.name));
        assert!(!self.init_panics.load(Ordering::Relaxed), "the test wants a panic");
        if self.init_hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.init_fails.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Timeout, "the runtime did not answer"));
        }
        Ok(())
    }

    async fn restrict(&self, sandbox: &Arc<Seen<SandboxFacts>>, _: &Rules) -> Result<(), Error> {
        self.called(format!("restrict {}", sandbox.key.name));
        Ok(())
    }

    async fn announce(&self, sandbox: &Arc<Seen<SandboxFacts>>) {
        self.called(format!("announce {}", sandbox.key.name));
    }

    async fn withdraw(&self, sandbox: &Arc<Seen<SandboxFacts>>) {
        self.called(format!("withdraw {}", sandbox.key.name));
    }
}

/// One manager.
pub(super) struct Replica {
    pub(super) cache: Cache,
    pub(super) claims: Option<Claims<Steps>>,
    pub(super) steps: Arc<Steps>,
    /// Up to which revision its watch has come.
    seen: u64,
    /// Its watch shows nothing for now.
    pub(super) lags: bool,
}

/// Everything.
pub(super) struct World {
    network: Network,
    pub(super) model: Model,
    pub(super) replicas: Vec<Replica>,
    /// Whether a controller makes new sandboxes ready.
    pub(super) controls: bool,
    /// How the managers behave that are started from here.
    pub(super) settings: ClaimSettings,
    clock: Arc<Wall>,
    made: u64,
}

impl World {
    pub(super) fn new() -> Self {
        let at = "2026-11-18T10:00:00Z".parse().unwrap();
        Self {
            network: Network::default(),
            model: Model::new(1, at, 100_000),
            replicas: Vec::new(),
            controls: true,
            settings: ClaimSettings { system_namespace: SYSTEM.to_owned(), ..ClaimSettings::default() },
            clock: Arc::new(Wall { began: Instant::now(), at }),
            made: 0,
        }
    }

    /// A world with so many managers and a pool of so many sandboxes.
    pub(super) fn with(replicas: usize, stock: usize) -> Self {
        let mut world = Self::new();
        world.set("base", "base");
        world.stock("base", stock);
        for _ in 0..replicas {
            world.start();
        }
        world
    }

    /// Starts another manager, which has listed everything.
    pub(super) fn start(&mut self) -> usize {
        let number = self.replicas.len();
        let seed = u64::try_from(number).unwrap() + 1;
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let cache = Cache::builder().system_namespace(SYSTEM).clock(clock).build().unwrap();
        let steps = Arc::new(Steps::default());
        let writes = Writes::new(self.network.client(seed), cache.clone(), Arc::new(()));
        let claims = Claims::new(ClaimParts {
            cache: cache.clone(),
            writes,
            prepare: Arc::clone(&steps),
            secrets: Arc::new(SeededSecrets::new(seed)),
            random: Random::seeded(seed),
            settings: self.settings.clone(),
        });
        let claims = Some(claims);
        self.replicas.push(Replica { cache, claims, steps, seen: 0, lags: false });
        self.show();
        let version = NonZeroU64::new(self.model.revision()).unwrap().into();
        for kind in Kind::ALL {
            self.replicas[number].cache.listed(kind, &version);
        }
        number
    }

    /// A set. The sandboxes that a controller of OpenKruise makes for it name its template.
    pub(super) fn set(&mut self, name: &str, template: &str) {
        let spec = if name == template {
            json!({ "replicas": 3, "template": pod() })
        } else {
            json!({ "replicas": 3, "templateRef": { "name": template } })
        };
        let set = json!({ "metadata": { "name": name }, "spec": spec });
        let made = self.model.create(&SANDBOX_SETS, NAMESPACE, set).unwrap();
        let mut set = Value::clone(&made);
        set["status"] = json!({ "updateRevision": "r1" });
        self.model.put(&Place::new(&SANDBOX_SETS, NAMESPACE, name), set);
    }

    /// Puts sandboxes into a pool.
    pub(super) fn stock(&mut self, set: &str, count: usize) -> Vec<String> {
        (0..count).map(|_| self.stocked(set, set, "r1")).collect()
    }

    /// Puts a sandbox into a pool.
    pub(super) fn stocked(&mut self, set: &str, template: &str, revision: &str) -> String {
        self.made += 1;
        let name = format!("{set}-{}", self.made);
        let of = self.model.get(&Place::new(&SANDBOX_SETS, NAMESPACE, set)).unwrap();
        let uid = of["metadata"]["uid"].clone();
        let sandbox = json!({
            "metadata": {
                "name": name,
                "labels": {
                    "agents.kruise.io/sandbox-pool": set,
                    "agents.kruise.io/sandbox-template": template,
                    "agents.kruise.io/sandbox-claimed": "false",
                    "agents.kruise.io/template-hash": revision,
                },
                "ownerReferences": [{
                    "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxSet", "name": set,
                    "uid": uid, "controller": true,
                }],
            },
            "spec": { "template": pod() },
        });
        let made = self.model.create(&SANDBOXES, NAMESPACE, sandbox).unwrap();
        self.make_ready(&made);
        name
    }

    /// What the controller does to a sandbox.
    fn make_ready(&mut self, sandbox: &Value) {
        let mut sandbox = sandbox.clone();
        sandbox["status"] = json!({
            "phase": "Running",
            "observedGeneration": sandbox["metadata"]["generation"],
            "podInfo": { "podIP": "10.0.0.1" },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "PodReady", "message": "",
                "lastTransitionTime": "2026-11-18T10:00:00Z",
            }],
        });
        self.model.put(&Place::of(&SANDBOXES, &sandbox), sandbox);
    }

    /// Somebody else writes something to a sandbox.
    pub(super) fn touch(&mut self, name: &str) {
        let place = Place::new(&SANDBOXES, NAMESPACE, name);
        let mut sandbox = Value::clone(self.model.get(&place).unwrap());
        sandbox["metadata"]["annotations"]["touched"] = self.model.revision().to_string().into();
        self.model.put(&place, sandbox);
    }

    /// Somebody else claims a sandbox.
    pub(super) fn take(&mut self, name: &str) {
        let place = Place::new(&SANDBOXES, NAMESPACE, name);
        let mut sandbox = Value::clone(self.model.get(&place).unwrap());
        let metadata = &mut sandbox["metadata"];
        metadata["annotations"]["agents.kruise.io/lock"] = "another's".into();
        metadata["labels"]["agents.kruise.io/sandbox-claimed"] = "true".into();
        metadata["ownerReferences"] = Value::Null;
        self.model.put(&place, sandbox);
    }

    /// Somebody else deletes a sandbox.
    pub(super) fn delete(&mut self, name: &str) {
        self.model.delete(&Place::new(&SANDBOXES, NAMESPACE, name), &Default::default()).unwrap();
    }

    /// Asks a manager for a sandbox.
    pub(super) fn create(&self, replica: usize, wanted: NewSandbox) -> JoinHandle<Answer> {
        let claims = self.replicas[replica].claims.clone().expect("it lives");
        tokio::spawn(async move { claims.create(&caller(), wanted).await })
    }

    /// The manager dies: everything that it does stops where it is.
    pub(super) fn crash(&mut self, replica: usize) {
        self.replicas[replica].claims = None;
    }

    /// The requests that wait, in the order of sending.
    pub(super) fn under_way(&self) -> Vec<UnderWay> {
        self.network.under_way().into_iter().filter(|call| !call.answered).collect()
    }

    /// One round: every task runs until it waits, then every request has its fate, then watches show what
    /// happened.
    pub(super) async fn round(&mut self, fate: impl FnMut(&UnderWay) -> Fate) {
        self.round_of(Duration::from_millis(1), fate).await;
    }

    /// One round that takes so long.
    pub(super) async fn round_of(&mut self, long: Duration, mut fate: impl FnMut(&UnderWay) -> Fate) {
        tokio::time::sleep(long).await;
        self.model.set_now(self.clock.now());
        for call in self.network.under_way() {
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
            let new = |sandbox: &&Arc<Value>| {
                let of = |field: &str| sandbox.pointer(field).cloned();
                of("/status/observedGeneration") != of("/metadata/generation")
            };
            let new: Vec<_> = self.model.list(&SANDBOXES).filter(new).cloned().collect();
            for sandbox in new {
                self.make_ready(&sandbox);
            }
        }
        self.show();
    }

    /// Rounds in which every request is done, until it ends.
    pub(super) async fn end(&mut self, create: JoinHandle<Answer>) -> Answer {
        self.end_with(create, |_| Fate::Done).await
    }

    /// Rounds with these fates, until it ends.
    pub(super) async fn end_with(
        &mut self,
        create: JoinHandle<Answer>,
        mut fate: impl FnMut(&UnderWay) -> Fate,
    ) -> Answer {
        for round in 0..100_000 {
            if create.is_finished() {
                return create.await.unwrap();
            }
            // Whoever waits for long need not be looked at so often.
            let long = Duration::from_millis(if round < 200 { 1 } else { 20 });
            self.round_of(long, &mut fate).await;
        }
        panic!("it never ends");
    }

    /// Rounds with these fates, until it is so.
    pub(super) async fn until(
        &mut self,
        is_so: impl Fn(&Self) -> bool,
        mut fate: impl FnMut(&UnderWay) -> Fate,
    ) {
        for _ in 0..1_000 {
            if is_so(self) {
                return;
            }
            self.round_of(Duration::from_millis(50), &mut fate).await;
        }
        panic!("it is never so");
    }

    /// So many rounds in which every request is done.
    pub(super) async fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round(|_| Fate::Done).await;
        }
    }

    /// Half a minute of rounds with these fates.
    pub(super) async fn half_a_minute(&mut self, fate: impl FnMut(&UnderWay) -> Fate) {
        self.seconds(30, fate).await;
    }

    /// So many seconds of rounds with these fates.
    pub(super) async fn seconds(&mut self, count: usize, mut fate: impl FnMut(&UnderWay) -> Fate) {
        for _ in 0..count * 20 {
            self.round_of(Duration::from_millis(50), &mut fate).await;
        }
    }

    /// The watches that do not lag show what happened.
    pub(super) fn show(&mut self) {
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

    /// The names of the sandboxes that somebody has.
    pub(super) fn claimed(&self) -> Vec<String> {
        let is_claimed = |sandbox: &&Arc<Value>| {
            sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-claimed"] == "true"
        };
        let name = |sandbox: &Arc<Value>| sandbox["metadata"]["name"].as_str().unwrap().to_owned();
        self.model.list(&SANDBOXES).filter(is_claimed).map(name).collect()
    }

    /// A sandbox.
    pub(super) fn sandbox(&self, name: &str) -> Arc<Value> {
        Arc::clone(self.model.get(&Place::new(&SANDBOXES, NAMESPACE, name)).unwrap())
    }

    /// How many sandboxes there are.
    pub(super) fn sandboxes(&self) -> usize {
        self.model.list(&SANDBOXES).count()
    }

    /// The states of the markers.
    pub(super) fn markers(&self) -> Vec<String> {
        let state = |marker: &Arc<Value>| marker["data"]["state"].as_str().unwrap().to_owned();
        self.model.list(&CONFIG_MAPS).map(state).collect()
    }
}

pub(super) fn caller() -> Caller {
    Caller { owner: "owner-1".into(), team: "t".into(), namespace: Some(NAMESPACE.into()), quota: [].into() }
}

/// What pods are made from.
pub(super) fn pod() -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "main", "image": "base:1" }] },
    })
}

/// A sandbox of the set `base`.
pub(super) fn wanted() -> NewSandbox {
    NewSandbox {
        template: "base".to_owned(),
        timeout: Some(Duration::from_secs(300)),
        ..NewSandbox::default()
    }
}

/// The same, from the pool alone.
pub(super) fn from_stock() -> NewSandbox {
    let mut wanted = wanted();
    wanted.extensions.only_from_stock = true;
    wanted
}

/// The same, with an `Idempotency-Key`.
pub(super) fn keyed(key: &str) -> NewSandbox {
    NewSandbox { idempotency_key: Some(key.to_owned()), ..wanted() }
}

pub(super) fn name(answer: &Answer) -> String {
    answer.as_ref().unwrap().key.name.to_string()
}
