//! One operator: the view, the queues and the workers of the program itself, driven by the world.

use std::sync::Arc;

use sandgate_operator::{
    Controller, Key, Kind, Leadership, Metrics, Next, Pace, Queue, Random, Reconciler, Tenure, Term, View,
    Writes,
};
use sandgate_sim::Start;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::feeds::Feeds;
use super::told::{Log, Ran, workers};
use super::{RARELY, WorldClock};

/// How many objects of each kind are looked at at a time.
const WORKERS: usize = 4;

/// The controllers of one process.
pub(crate) struct Crew {
    /// What the program knows.
    pub(crate) view: View,
    /// How it learns that.
    pub(crate) feeds: Feeds,
    kinds: &'static [Kind],
    teams: Vec<Team>,
    leadership: Leadership,
    metrics: Metrics,
    tenure: Tenure,
    leads: bool,
    term: Term,
    turn: usize,
    log: Log,
}

/// A controller.
struct Team {
    queue: Queue,
    workers: Arc<dyn Ran>,
    running: JoinSet<()>,
}

/// What a process is made of, for those who put its reconcilers together.
pub(crate) struct Parts {
    /// Its own random numbers.
    pub(crate) random: Random,
    /// The writer.
    pub(crate) writes: Writes,
    /// The time.
    pub(crate) clock: Arc<WorldClock>,
    queues: Vec<(Controller, Queue)>,
}

impl Crew {
    /// A process without reconcilers yet, which will be of these controllers and know these kinds.
    pub(crate) fn new(start: Start, controllers: &[Controller], kinds: &'static [Kind]) -> (Self, Parts) {
        let mut random = Random::seeded(start.seed);
        let pace = Pace { rarely: RARELY, ..Pace::default() };
        let mut queue = |of: &Controller| (*of, Queue::new(pace, Random::seeded(random.number())));
        let queues: Vec<_> = controllers.iter().map(&mut queue).collect();
        let marked = queues.clone();
        let view = View::new(Box::new(move |controller, key: &Key, haste| {
            let found = marked.iter().find(|(of, _)| *of == controller);
            found.expect("only its own controllers are marked").1.add_in(key.clone(), haste);
        }));
        let (tenure, leadership) = Leadership::new();
        let metrics = Metrics::default();
        let writes = Writes::new(start.client, view.clone(), leadership.clone(), metrics.writes.clone());
        let crew = Self {
            view,
            feeds: Feeds::default(),
            kinds,
            teams: Vec::new(),
            leadership,
            metrics,
            tenure,
            leads: false,
            term: Term(i32::try_from(start.number).unwrap_or(i32::MAX)),
            turn: 0,
            log: Log::default(),
        };
        (crew, Parts { random, writes, clock: Arc::new(WorldClock(start.clock)), queues })
    }

    /// Adds the reconciler of a controller.
    pub(crate) fn add<R: Reconciler>(&mut self, parts: &Parts, controller: Controller, reconciler: R) {
        let queue = &parts.queues.iter().find(|(of, _)| *of == controller).expect("one of its own").1;
        let workers = workers(reconciler, queue, &self.leadership, &self.metrics, &self.log);
        self.teams.push(Team { queue: queue.clone(), workers, running: JoinSet::new() });
    }

    fn works(&self) -> bool {
        self.leads && self.view.synced(self.kinds)
    }

    /// Begins the next piece of work that is due, and says which.
    pub(crate) fn work(&mut self) -> Option<String> {
        if !self.works() {
            return None;
        }
        for _ in 0..self.teams.len() {
            self.turn = (self.turn + 1) % self.teams.len();
            let team = &mut self.teams[self.turn];
            if team.running.len() >= WORKERS {
                continue;
            }
            let Next::Job(job) = team.queue.try_next(Instant::now()) else { continue };
            let begun = format!("{} {}", team.workers.name(), job.key());
            team.running.spawn(Arc::clone(&team.workers).perform(job));
            return Some(begun);
        }
        None
    }

    /// What has ended since.
    pub(crate) fn ended(&mut self) -> Vec<String> {
        for team in &mut self.teams {
            while let Some(ended) = team.running.try_join_next() {
                ended.expect("the workers do not panic");
            }
        }
        self.log.take()
    }

    /// When the next piece of work is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        if !self.works() {
            return None;
        }
        let now = Instant::now();
        let due = |team: &Team| match team.queue.try_next(now) {
            Next::Job(job) => {
                job.put_back();
                Some(now)
            }
            Next::At(at) => Some(at),
            Next::Empty | Next::Stopped => None,
        };
        self.teams.iter().filter_map(due).min()
    }

    /// It begins or ceases to lead.
    pub(crate) fn lead(&mut self, leads: bool) {
        self.leads = leads;
        if leads {
            self.tenure.lead(self.term, Instant::now() + RARELY);
        } else {
            self.tenure.end();
        }
    }
}
