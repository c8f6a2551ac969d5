//! One operator: the view, the queues and the reconcilers of the program itself, fed by the world's watches.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_follow::{Head, Sink};
use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet, SandboxTemplate};
use sandgate_operator::{
    Again, Category, Clock, Controller, Failed, Feed, Key, Leadership, Limits, Metrics, Next, NoEvents, Pace,
    Pauses, PodFacts, Queue, Random, Reconciler, SandboxReconciler, SandboxSetReconciler, Tenure, Term, View,
    Viewed, Workers, Writes,
};
use sandgate_routes::Version;
use sandgate_sim::model::object::{text, uid, version};
use sandgate_sim::model::{Change, Kind, Selector};
use sandgate_sim::network::Scope;
use sandgate_sim::{Listing, Process, SimClock, Start};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cut::{self, Cut};

/// How many objects of each kind are looked at at a time.
const WORKERS: usize = 4;
/// The rare look would repair what an event should have brought: no run is so long.
const RARELY: Duration = Duration::from_secs(365 * 24 * 3600);

struct WorldClock(SimClock);

impl Clock for WorldClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }
}

/// What the runs of reconcilers tell.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

/// A reconciler that tells how its runs end.
struct Told<R> {
    reconciler: R,
    log: Log,
}

/// Tells that a run has panicked, which the workers would survive.
struct Fuse<'a>(&'a Log, &'a Key);

impl Drop for Fuse<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.lock().push(format!("PANIC in {}", self.1));
        }
    }
}

impl<R: Reconciler> Reconciler for Told<R> {
    const NAME: &'static str = R::NAME;

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let _fuse = Fuse(&self.log, key);
        let mut run = Box::pin(self.reconciler.reconcile(key));
        let ended = poll_fn(|context| match cut::at_this_poll() {
            None => run.as_mut().poll(context),
            Some(Cut::Dead) => Poll::Pending,
            Some(Cut::Dropped) => Poll::Ready(Err(Failed {
                category: Category::Unanswered,
                message: "it was dropped".to_owned(),
                source: None,
            })),
        });
        let ended = ended.await;
        let how = match &ended {
            Ok(again) => format!("{again:?}"),
            Err(failed) => format!("{:?}: {failed}", failed.category),
        };
        self.log.0.lock().push(format!("{} {key} ends: {how}", R::NAME));
        ended
    }
}

struct Feeds {
    sandboxes: Feed<Sandbox>,
    sets: Feed<SandboxSet>,
    templates: Feed<SandboxTemplate>,
    pods: Feed<PodFacts>,
}

/// One operator.
pub(crate) struct Operator {
    view: View,
    feeds: Feeds,
    sandboxes: Arc<Workers<Told<SandboxReconciler>>>,
    sets: Arc<Workers<Told<SandboxSetReconciler>>>,
    queues: [Queue; 2],
    running: [JoinSet<()>; 2],
    tenure: Tenure,
    leads: bool,
    term: Term,
    turn: usize,
    log: Log,
}

fn scope<T: Viewed>() -> Scope {
    let kind = Kind::of(T::GROUP, T::PLURAL).expect("the model has the kind");
    Scope { kind, namespace: None, selector: Selector::parse(T::SELECTOR).expect("a selector") }
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
    let (_, object) = sink.decode(object.to_string().as_bytes()).expect("the operator can read the object");
    sink.apply(object).expect("the operator can use the object");
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
        sink.deleted(&head).expect("the operator can have had the object");
    } else {
        apply(sink, object);
    }
    sink.reached(&version);
}

impl Process for Operator {
    fn watches() -> Vec<Scope> {
        vec![scope::<Sandbox>(), scope::<SandboxSet>(), scope::<SandboxTemplate>(), scope::<PodFacts>()]
    }

    fn start(start: Start) -> Self {
        let mut random = Random::seeded(start.seed);
        let pace = Pace { rarely: RARELY, ..Pace::default() };
        let queues = [(); 2].map(|()| Queue::new(pace, Random::seeded(random.number())));
        let [of_sandboxes, of_sets] = queues.clone();
        let view = View::new(Box::new(move |controller, key| match controller {
            Controller::Sandbox => of_sandboxes.add(key.clone()),
            Controller::SandboxSet => of_sets.add(key.clone()),
        }));
        let (tenure, leadership) = Leadership::new();
        let (metrics, log) = (Metrics::default(), Log::default());
        let writes = Writes::new(start.client, view.clone(), leadership.clone(), metrics.writes.clone());
        let clock: Arc<dyn Clock> = Arc::new(WorldClock(start.clock));
        let sandboxes = SandboxReconciler::new(
            view.clone(),
            writes.clone(),
            Arc::new(NoEvents),
            Arc::clone(&clock),
            Pauses::default(),
        );
        let sets = SandboxSetReconciler::new(view.clone(), writes, Arc::new(NoEvents), clock, random);
        Self {
            feeds: Feeds {
                sandboxes: view.feed(),
                sets: view.feed(),
                templates: view.feed(),
                pods: view.feed(),
            },
            sandboxes: workers(sandboxes, &queues[0], &leadership, &metrics, &log),
            sets: workers(sets, &queues[1], &leadership, &metrics, &log),
            view,
            queues,
            running: [JoinSet::new(), JoinSet::new()],
            tenure,
            leads: false,
            term: Term(i32::try_from(start.number).unwrap_or(i32::MAX)),
            turn: 0,
            log,
        }
    }

    fn listed(&mut self, scope: &Scope, what: Listing<'_>) {
        let feeds = &mut self.feeds;
        match scope.kind.plural {
            "sandboxes" => feed(&mut feeds.sandboxes, what),
            "sandboxsets" => feed(&mut feeds.sets, what),
            "sandboxtemplates" => feed(&mut feeds.templates, what),
            _ => feed(&mut feeds.pods, what),
        }
    }

    fn observed(&mut self, scope: &Scope, change: Change, object: &Value) {
        let feeds = &mut self.feeds;
        match scope.kind.plural {
            "sandboxes" => show(&mut feeds.sandboxes, change, object),
            "sandboxsets" => show(&mut feeds.sets, change, object),
            "sandboxtemplates" => show(&mut feeds.templates, change, object),
            _ => show(&mut feeds.pods, change, object),
        }
    }

    fn work(&mut self) -> Option<String> {
        if !self.leads || !self.view.synced() {
            return None;
        }
        for _ in 0..2 {
            self.turn = 1 - self.turn;
            let of = self.turn;
            if self.running[of].len() >= WORKERS {
                continue;
            }
            let Next::Job(job) = self.queues[of].try_next(Instant::now()) else { continue };
            let begun = format!("{} {}", ["sandbox", "sandboxset"][of], job.key());
            let (sandboxes, sets) = (Arc::clone(&self.sandboxes), Arc::clone(&self.sets));
            self.running[of].spawn(async move {
                let stop = CancellationToken::new();
                match of {
                    0 => sandboxes.perform(job, &stop).await,
                    _ => sets.perform(job, &stop).await,
                }
            });
            return Some(begun);
        }
        None
    }

    fn ended(&mut self) -> Vec<String> {
        for running in &mut self.running {
            while let Some(ended) = running.try_join_next() {
                ended.expect("the workers do not panic");
            }
        }
        std::mem::take(&mut self.log.0.lock())
    }

    fn next_due(&self) -> Option<Instant> {
        if !self.leads || !self.view.synced() {
            return None;
        }
        let now = Instant::now();
        let due = |queue: &Queue| match queue.try_next(now) {
            Next::Job(job) => {
                job.put_back();
                Some(now)
            }
            Next::At(at) => Some(at),
            Next::Empty | Next::Stopped => None,
        };
        self.queues.iter().filter_map(due).min()
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
        if leads {
            self.tenure.lead(self.term, Instant::now() + RARELY);
        } else {
            self.tenure.end();
        }
    }
}

fn workers<R: Reconciler>(
    reconciler: R,
    queue: &Queue,
    leadership: &Leadership,
    metrics: &Metrics,
    log: &Log,
) -> Arc<Workers<Told<R>>> {
    let reconciler = Told { reconciler, log: log.clone() };
    let (queue, leadership, metrics) = (queue.clone(), leadership.clone(), metrics.controller(R::NAME));
    Arc::new(Workers::new(reconciler, queue, leadership, Arc::new(NoEvents), metrics, Limits::default()))
}
