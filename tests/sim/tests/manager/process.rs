//! One manager: the cache and the manager of the program itself, fed by the world's watches. What is beyond
//! the API server (the runtimes in sandboxes, the gateways) is [`played`].

mod played;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandgate_cache::{Cache, Clock, ConfigMapFacts, Feed, Viewed};
use sandgate_follow::{Head, Sink};
use sandgate_manager::{
    Caller, Described, Error, Filter, Gateways, ManagerParts, NewSandbox, Observer, Page, Runtime,
    SeededSecrets, Settings, Writes,
};
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use sandgate_routes::Version;
use sandgate_sim::model::object::{text, uid, version};
use sandgate_sim::model::{Change, Kind, Model, Selector};
use sandgate_sim::network::Scope;
use sandgate_sim::{Listing, Process, Random, SimClock, Start};
use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::surroundings;
use played::{Played, Said};

/// The namespace of the managers' own objects.
const SYSTEM: &str = "sandgate-system";

/// What a user may ask for.
pub(crate) enum Ask {
    Create(Box<NewSandbox>),
    Get(String),
    Connect(String, Duration),
    Pause(String),
    Resume(String, Duration),
    SetTimeout(String, Duration),
    Kill(String),
    List(Filter),
}

/// What a user may be answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Described(Box<Described>),
    Listed(Page<Described>),
    Done,
}

struct WorldClock(SimClock);

impl Clock for WorldClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }
}

struct Feeds {
    sandboxes: Feed<SandboxFacts>,
    sets: Feed<SandboxSet>,
    templates: Feed<SandboxTemplate>,
    checkpoints: Feed<Checkpoint>,
    maps: Feed<ConfigMapFacts>,
}

/// One manager.
pub(crate) struct Manager {
    manager: sandgate_manager::Manager,
    cache: Cache,
    feeds: Feeds,
    asked: JoinSet<(u64, Result<Answer, Error>)>,
    under_way: BTreeMap<u64, AbortHandle>,
    answers: Vec<(u64, Result<Answer, Error>)>,
    said: Arc<Said>,
    is_calm: Arc<AtomicBool>,
    /// What users asked for before the manager could answer: its caches have not spoken yet.
    early: Vec<(u64, Arc<Caller>, Ask)>,
    /// What looks for what crashes have left. It ends with the process.
    _sweeps: JoinSet<()>,
}

impl Manager {
    /// A user asks for something. The answer comes later, if it comes.
    pub(crate) fn ask(&mut self, ticket: u64, caller: Arc<Caller>, ask: Ask) {
        if !self.cache.synced() {
            // It is not ready, so no load balancer would send it anything: the connection waits.
            self.early.push((ticket, caller, ask));
            return;
        }
        let manager = self.manager.clone();
        let handle = self.asked.spawn(async move { (ticket, answer(&manager, &caller, ask).await) });
        self.under_way.insert(ticket, handle);
    }

    /// The user goes away.
    pub(crate) fn give_up(&mut self, ticket: u64) {
        self.early.retain(|(early, ..)| *early != ticket);
        if let Some(handle) = self.under_way.remove(&ticket) {
            handle.abort();
        }
    }

    /// Whether nothing goes wrong with the runtimes and gateways that it speaks to.
    pub(crate) fn calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Ordering::Relaxed);
    }

    /// Whether it has given up to take something back, and has said so.
    pub(crate) fn has_left_something(&self) -> bool {
        self.said.has_left.load(Ordering::Relaxed)
    }

    /// The answers that there are.
    pub(crate) fn answers(&mut self) -> Vec<(u64, Result<Answer, Error>)> {
        std::mem::take(&mut self.answers)
    }
}

async fn answer(manager: &sandgate_manager::Manager, caller: &Caller, ask: Ask) -> Result<Answer, Error> {
    let described = |described| Answer::Described(Box::new(described));
    Ok(match ask {
        Ask::Create(wanted) => described(manager.create(caller, *wanted).await?),
        Ask::Get(id) => described(manager.get(caller, &id).await?),
        Ask::Connect(id, time) => described(manager.connect(caller, &id, Some(time)).await?.0),
        Ask::Pause(id) => {
            manager.pause(caller, &id, None).await?;
            Answer::Done
        }
        Ask::Resume(id, time) => described(manager.resume(caller, &id, Some(time), None).await?),
        Ask::SetTimeout(id, time) => {
            manager.set_timeout(caller, &id, time).await?;
            Answer::Done
        }
        Ask::Kill(id) => {
            manager.kill(caller, &id).await?;
            Answer::Done
        }
        Ask::List(filter) => Answer::Listed(manager.list(caller, &filter)?),
    })
}

fn scope<T: Viewed>(namespace: Option<&str>) -> Scope {
    let kind = Kind::of(T::GROUP, T::PLURAL).expect("the model has the kind");
    let selector = Selector::parse(T::SELECTOR).expect("a selector");
    Scope { kind, namespace: namespace.map(str::to_owned), selector }
}

fn at(revision: u64) -> Version {
    revision.to_string().parse().expect("a version")
}

fn feed<S: Sink>(sink: &mut S, what: Listing<'_>) {
    match what {
        Listing::Begin => sink.begin(),
        Listing::Object(object) => apply(sink, object),
        Listing::Complete(revision) => {
            sink.commit(&at(revision));
        }
        Listing::Broken => sink.abandon(),
    }
}

fn apply<S: Sink>(sink: &mut S, object: &Value) {
    let (_, object) = sink.decode(object.to_string().as_bytes()).expect("the manager can read the object");
    sink.apply(object).expect("the manager can use the object");
}

fn show<S: Sink>(sink: &mut S, change: Change, object: &Value) {
    let version = at(version(object));
    if change == Change::Deleted {
        let head = Head {
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/metadata/name").to_owned(),
            version: Some(version.clone()),
            uid: Some(uid(object).to_owned()),
        };
        sink.deleted(&head).expect("the manager can have had the object");
    } else {
        apply(sink, object);
    }
    sink.reached(&version);
}

impl Process for Manager {
    fn watches() -> Vec<Scope> {
        vec![
            scope::<SandboxFacts>(None),
            scope::<SandboxSet>(None),
            scope::<SandboxTemplate>(None),
            scope::<Checkpoint>(None),
            scope::<ConfigMapFacts>(Some(SYSTEM)),
        ]
    }

    fn start(start: Start) -> Self {
        let mut random = Random::new(start.seed);
        let cache = Cache::builder()
            .clock(Arc::new(WorldClock(start.clock)))
            .system_namespace(SYSTEM)
            .without(sandgate_cache::Kind::Secret)
            .without(sandgate_cache::Kind::Pvc)
            .build()
            .expect("a cache");
        let said = Arc::new(Said::default());
        let writes = Writes::new(start.client, cache.clone(), Arc::clone(&said) as Arc<dyn Observer>);
        let is_calm = Arc::new(AtomicBool::new(false));
        let [runtime, gateways] = [(); 2].map(|()| Arc::new(Played::new(random.split(), &is_calm)));
        let settings = Settings { system_namespace: SYSTEM.to_owned(), ..Settings::default() };
        let manager = sandgate_manager::Manager::new(ManagerParts {
            cache: cache.clone(),
            writes,
            gateways: Gateways::new(Some(gateways), settings.push_wait),
            runtime: Runtime::new(runtime, settings.runtime_port),
            secrets: Arc::new(SeededSecrets::new(start.seed)),
            random: sandgate_cache::Random::seeded(start.seed.rotate_left(17)),
            settings,
            environments: None,
        });
        let mut sweeps = JoinSet::new();
        let sweeping = manager.clone();
        sweeps.spawn(async move { sweeping.keep_swept().await });
        Self {
            feeds: Feeds {
                sandboxes: cache.feed(),
                sets: cache.feed(),
                templates: cache.feed(),
                checkpoints: cache.feed(),
                maps: cache.feed(),
            },
            manager,
            cache,
            asked: JoinSet::new(),
            under_way: BTreeMap::new(),
            answers: Vec::new(),
            said,
            is_calm,
            early: Vec::new(),
            _sweeps: sweeps,
        }
    }

    fn listed(&mut self, scope: &Scope, what: Listing<'_>) {
        let feeds = &mut self.feeds;
        match scope.kind.plural {
            "sandboxes" => feed(&mut feeds.sandboxes, what),
            "sandboxsets" => feed(&mut feeds.sets, what),
            "sandboxtemplates" => feed(&mut feeds.templates, what),
            "checkpoints" => feed(&mut feeds.checkpoints, what),
            _ => feed(&mut feeds.maps, what),
        }
        if self.cache.synced() {
            for (ticket, caller, ask) in std::mem::take(&mut self.early) {
                self.ask(ticket, caller, ask);
            }
        }
    }

    fn observed(&mut self, scope: &Scope, change: Change, object: &Value) {
        let feeds = &mut self.feeds;
        match scope.kind.plural {
            "sandboxes" => show(&mut feeds.sandboxes, change, object),
            "sandboxsets" => show(&mut feeds.sets, change, object),
            "sandboxtemplates" => show(&mut feeds.templates, change, object),
            "checkpoints" => show(&mut feeds.checkpoints, change, object),
            _ => show(&mut feeds.maps, change, object),
        }
    }

    fn work(&mut self) -> Option<String> {
        None
    }

    fn ended(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(ended) = self.asked.try_join_next() {
            match ended {
                Ok((ticket, answer)) => {
                    self.under_way.remove(&ticket);
                    let how = match &answer {
                        Ok(_) => "done".to_owned(),
                        Err(error) => format!("{:?}: {error}", error.kind),
                    };
                    lines.push(format!("#{ticket} ends: {how}"));
                    self.answers.push((ticket, answer));
                }
                Err(error) if error.is_panic() => lines.push(format!("PANIC in a request: {error}")),
                Err(_) => {}
            }
        }
        lines
    }

    fn next_due(&self) -> Option<Instant> {
        None
    }

    fn lead(&mut self, _: bool) {}

    fn surroundings(model: &mut Model, random: &mut Random, failures: u64) -> Option<String> {
        surroundings::step(model, random, failures)
    }
}
