//! A cluster in which things go wrong, and the processes under test in it.
//!
//! One seed makes one run. It runs on one thread, on a Tokio runtime whose clock is paused. A run is a
//! sequence of steps. Each does one thing: the server gets a request, a caller gets an answer, a watch shows
//! an event, a process dies, time passes. Then every task runs until it waits for something, and the next
//! step is chosen. So each wait of each task is a place where any of those things may happen.

mod clock;
mod cluster;
mod fates;
mod tail;
#[cfg(test)]
mod tests;
mod watching;
mod weather;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

pub use clock::SimClock;
pub use cluster::{is_orphan, kubelet, restart};
pub use fates::Committed;
pub use weather::Weather;

use crate::model::{Change, Model};
use crate::network::{Network, Scope, UnderWay};
use crate::{Random, Trace};
use watching::Watching;

/// One running copy of the program under test. It is dropped when it dies, with every task of its own.
pub trait Process {
    /// What it watches.
    fn watches() -> Vec<Scope>;

    /// Starts it, with nothing in its memory.
    fn start(start: Start) -> Self;

    /// A list of a scope begins, goes on, is complete, or is broken off.
    fn listed(&mut self, scope: &Scope, what: Listing<'_>);

    /// A watch shows a change.
    fn observed(&mut self, scope: &Scope, change: Change, object: &Value);

    /// Begins the next piece of work that is due, and says which. It ends in a task.
    fn work(&mut self) -> Option<String>;

    /// What has ended since, in the order of ending.
    fn ended(&mut self) -> Vec<String>;

    /// When the next piece of work is due.
    fn next_due(&self) -> Option<Instant>;

    /// It begins or ceases to lead.
    fn lead(&mut self, leads: bool);

    /// One step of those parts of the cluster that run beside the program; says what was done. They are the
    /// nodes, which run pods, unless the program stands on something else. Of a thousand steps `failures`
    /// make things worse.
    fn surroundings(model: &mut Model, random: &mut Random, failures: u64) -> Option<String> {
        kubelet(model, random, failures).map(|done| format!("node: {done}"))
    }
}

/// What happens while a list is read.
#[derive(Clone, Copy, Debug)]
pub enum Listing<'a> {
    /// It begins.
    Begin,
    /// It has this object.
    Object(&'a Value),
    /// These were all, at this revision. The changes after it follow as events.
    Complete(u64),
    /// The rest will not come.
    Broken,
}

/// What a process is started with.
pub struct Start {
    /// Its number: no other process has it, nor one that was started before.
    pub number: u64,
    /// Its way to the API server.
    pub client: kube::Client,
    /// The time.
    pub clock: SimClock,
    /// Its own source of random numbers.
    pub seed: u64,
}

struct Running<P> {
    process: P,
    watches: Vec<Watching>,
    leads: bool,
}

/// What a step has done.
#[derive(Debug)]
pub enum Happened {
    /// The server has done a request, or refused it.
    Committed(Committed),
    /// A process was started.
    Started(u64),
    /// Something else, which the trace tells.
    Other,
}

/// A run.
pub struct World<P> {
    /// The API server.
    pub model: Model,
    /// What happened.
    pub trace: Trace,
    /// The source of choices.
    pub random: Random,
    clock: SimClock,
    network: Network,
    weather: Weather,
    /// One slot for each copy; the number of a process changes when it is started anew.
    slots: Vec<u64>,
    running: BTreeMap<u64, Running<P>>,
    /// Nothing becomes of the requests of these processes.
    held: BTreeSet<u64>,
    started: u64,
    steps: u64,
}

/// How often something is chosen that has nothing to be done to, before a step does nothing.
const ATTEMPTS: usize = 20;

/// What was chosen.
enum Step {
    /// It was done.
    Done(Happened),
    /// So much time is to pass.
    Pass(Duration),
}

/// What the next step may be.
#[derive(Clone, Copy)]
enum Choice {
    Commit,
    Deliver,
    Lose,
    Refuse,
    Watch,
    Relist,
    Compact,
    Work,
    Crash,
    Lead,
    Clock,
    Kubelet,
    Garbage,
}

impl<P: Process> World<P> {
    /// A run with this many copies of the program, of which the first leads.
    ///
    /// # Panics
    /// Outside of a Tokio runtime with a paused clock.
    pub fn new(seed: u64, copies: usize, weather: Weather) -> Self {
        let start = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 20_000);
        let mut random = Random::new(seed);
        let clock = SimClock::new(start);
        let history = 20 + random.below(400);
        let mut world = Self {
            model: Model::new(random.next(), start, history),
            trace: Trace::default(),
            random,
            clock,
            network: Network::default(),
            weather,
            slots: Vec::new(),
            running: BTreeMap::new(),
            held: BTreeSet::new(),
            started: 0,
            steps: 0,
        };
        for slot in 0..copies {
            let number = world.start(slot == 0);
            world.slots.push(number);
        }
        world
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What may go wrong from now on.
    pub fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// How many copies there are.
    pub fn copies(&self) -> usize {
        self.slots.len()
    }

    /// The number of a copy: another one when it was started anew.
    ///
    /// # Panics
    /// If there are not as many copies.
    pub fn number(&self, slot: usize) -> u64 {
        self.slots[slot]
    }

    /// A copy, for those who ask something of it.
    ///
    /// # Panics
    /// If there are not as many copies.
    pub fn process(&mut self, slot: usize) -> &mut P {
        &mut self.running.get_mut(&self.slots[slot]).expect("every slot has a process").process
    }

    /// How many processes were started, those that died included.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// The numbers of the copies that believe to lead.
    pub fn leaders(&self) -> Vec<u64> {
        self.running.iter().filter(|(_, running)| running.leads).map(|(number, _)| *number).collect()
    }

    /// Does one step. What is chosen may have nothing to be done to; then something else is chosen.
    pub async fn step(&mut self) -> Happened {
        let happened = match (0..ATTEMPTS).find_map(|_| self.attempt()) {
            Some(Step::Done(happened)) => happened,
            Some(Step::Pass(time)) => self.pass(time).await,
            None => Happened::Other,
        };
        self.settle().await;
        happened
    }

    fn attempt(&mut self) -> Option<Step> {
        let weather = self.weather;
        let choices = [
            (weather.commit, Choice::Commit),
            (weather.deliver, Choice::Deliver),
            (weather.lose, Choice::Lose),
            (weather.refuse, Choice::Refuse),
            (weather.watch, Choice::Watch),
            (weather.relist, Choice::Relist),
            (weather.compact, Choice::Compact),
            (weather.work, Choice::Work),
            (weather.crash, Choice::Crash),
            (weather.lead, Choice::Lead),
            (weather.clock, Choice::Clock),
            (weather.kubelet, Choice::Kubelet),
            (weather.garbage, Choice::Garbage),
        ];
        let happened = match self.random.weighted(&choices)? {
            Choice::Commit => self.commit_one(),
            Choice::Deliver => self.deliver_one(),
            Choice::Lose => self.lose_one(),
            Choice::Refuse => self.refuse_one(),
            Choice::Watch => self.watch_one(),
            Choice::Relist => self.cut_one(),
            Choice::Compact => self.compact(),
            Choice::Work => self.work_one(),
            Choice::Crash => self.crash_one(),
            Choice::Lead => self.lead_one(),
            Choice::Clock => {
                let time = *self.random.pick(&[20, 300, 2_000, 12_000, 90_000]);
                return Some(Step::Pass(Duration::from_millis(time)));
            }
            Choice::Kubelet => {
                let done = P::surroundings(&mut self.model, &mut self.random, weather.failures);
                self.say(done)
            }
            Choice::Garbage => {
                let done = cluster::garbage(&mut self.model, &mut self.random);
                self.say(done.map(|done| format!("garbage collector: {done}")))
            }
        };
        happened.map(Step::Done)
    }

    /// The requests that are under way.
    pub fn under_way(&self) -> Vec<UnderWay> {
        self.network.under_way()
    }

    /// Adds a line to the trace for something that was done to the model from outside, such as by a user.
    pub fn tell(&mut self, line: &str) {
        let at = self.clock.passed();
        let revision = self.model.revision();
        self.trace.push(format!("{:>5} {at:>9.3}s r{revision} {line}", self.steps));
    }

    fn say(&mut self, line: Option<String>) -> Option<Happened> {
        self.tell(&line?);
        Some(Happened::Other)
    }

    /// Lets every task run until it waits: paused time passes only when none can run.
    pub async fn settle(&mut self) {
        self.steps += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.model.set_now(self.clock.now());
        for number in self.slots.clone() {
            let ended =
                self.running.get_mut(&number).map(|running| running.process.ended()).unwrap_or_default();
            for line in ended {
                self.tell(&format!("p{number}: {line}"));
            }
        }
    }

    async fn pass(&mut self, time: Duration) -> Happened {
        tokio::time::sleep(time).await;
        self.tell(&format!("{} ms pass", time.as_millis()));
        Happened::Other
    }

    fn start(&mut self, leads: bool) -> u64 {
        self.started += 1;
        let number = self.started;
        let (client, clock, seed) = (self.network.client(number), self.clock, self.random.next());
        let mut process = P::start(Start { number, client, clock, seed });
        process.lead(leads);
        // One kind may be shown much later than another.
        let random = &mut self.random;
        let mut watch = |scope| Watching::new(scope, *random.pick(&[1, 10, 10]));
        let watches = P::watches().into_iter().map(&mut watch).collect();
        self.running.insert(number, Running { process, watches, leads });
        self.tell(&format!("p{number} starts{}", if leads { " and leads" } else { "" }));
        number
    }

    fn some_slot(&mut self) -> Option<usize> {
        if self.slots.is_empty() { None } else { Some(self.random.below(self.slots.len())) }
    }

    fn crash_one(&mut self) -> Option<Happened> {
        let slot = self.some_slot()?;
        self.crash(slot);
        Some(Happened::Started(self.slots[slot]))
    }

    /// A copy dies and is started anew. The requests that it has sent are still under way.
    pub fn crash(&mut self, slot: usize) {
        let number = self.slots[slot];
        let dead = self.running.remove(&number);
        self.network.bury(number);
        self.tell(&format!("p{number} dies"));
        self.slots[slot] = self.start(dead.is_some_and(|dead| dead.leads));
    }

    fn lead_one(&mut self) -> Option<Happened> {
        let slot = self.some_slot()?;
        let number = self.slots[slot];
        let running = self.running.get_mut(&number)?;
        running.leads = !running.leads;
        running.process.lead(running.leads);
        let leads = running.leads;
        self.say(Some(format!("p{number} {} lead", if leads { "begins to" } else { "ceases to" })))
    }

    fn work_one(&mut self) -> Option<Happened> {
        let slot = self.some_slot()?;
        let number = self.slots[slot];
        let begun = self.running.get_mut(&number)?.process.work()?;
        self.say(Some(format!("p{number} begins {begun}")))
    }

    fn compact(&mut self) -> Option<Happened> {
        let revision = self.model.revision();
        self.model.compact(revision);
        self.say(Some(format!("the history up to {revision} is forgotten")))
    }
}
