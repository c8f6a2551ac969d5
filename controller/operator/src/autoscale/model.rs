//! Pools whose autoscaler is at work, second by second, without a cluster.
//!
//! A pool of the model makes pods that need a time to boot, marks idle ones before it deletes them, and gives
//! them to claims in the order in which they became idle. Its clients keep so many sandboxes as the demand of
//! the second says. The autoscaler of each pool looks every few seconds, and what it found is a [`ScaleRow`].

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::sandbox_env::resources::{AutoscalingStatus, ScalingGroup};

use super::{
    AdmissionLadder, AdmissionRefusal, RefusalKind, ScaleDecision, ScaleLevels, ScaleLimits, ScalePlan,
    ScalePool, ScaleReason, ScaleSession, ScaleSnapshot, ScaleVerdict,
};

/// How long an idle pod is marked before it is deleted.
const PROTECTION: i64 = 10;

/// A group of pools.
#[derive(Clone, Debug)]
pub struct ScaleModel {
    /// The group.
    pub group: ScalingGroup,
    /// Its pools.
    pub pools: Vec<ModelPool>,
    /// The seconds between two looks at a pool.
    pub cycle: i64,
    /// The most replicas of all pools together that are admitted.
    pub quota: Option<i32>,
    /// What was found and decided, in order.
    pub rows: Vec<ScaleRow>,
    second: i64,
}

/// A pool of the model.
#[derive(Clone, Debug)]
pub struct ModelPool {
    /// The name.
    pub name: String,
    /// What its member says.
    pub limits: ScaleLimits,
    /// The replicas.
    pub replicas: i32,
    /// How long things take.
    pub times: ModelTimes,
    /// The sandboxes that run.
    pub running: i32,
    idle: VecDeque<IdlePod>,
    /// When each claimed pod runs.
    starting: VecDeque<i64>,
    /// When each released pod is idle.
    stopping: VecDeque<i64>,
    /// Claims without a pod.
    waiting: i32,
    last_create: Option<i64>,
    status: AutoscalingStatus,
    session: ScaleSession,
}

/// How long things take in a pool of the model, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct ModelTimes {
    /// Until a pod that was made can be claimed.
    pub boot: i64,
    /// From a claim until the sandbox runs.
    pub start: i64,
    /// From a release until the pod is idle.
    pub stop: i64,
}

impl Default for ModelTimes {
    fn default() -> Self {
        Self { boot: 20, start: 2, stop: 2 }
    }
}

#[derive(Clone, Copy, Debug)]
struct IdlePod {
    since: i64,
    ready: i64,
    marked: Option<i64>,
}

/// What a look found and decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleRow {
    /// When.
    pub second: i64,
    /// The name of the pool.
    pub pool: String,
    /// How many sandboxes its clients want.
    pub demand: i32,
    /// The pool in numbers.
    pub levels: ScaleLevels,
    /// What was decided.
    pub verdict: ScaleVerdict,
    /// The replicas afterwards.
    pub replicas: i32,
    /// What people were told.
    pub told: Option<ScaleReason>,
}

impl ModelPool {
    /// A pool without pods.
    pub fn new(name: impl Into<String>, limits: ScaleLimits) -> Self {
        Self {
            name: name.into(),
            limits,
            replicas: 0,
            times: ModelTimes::default(),
            running: 0,
            idle: VecDeque::new(),
            starting: VecDeque::new(),
            stopping: VecDeque::new(),
            waiting: 0,
            last_create: None,
            status: AutoscalingStatus::default(),
            session: ScaleSession::default(),
        }
    }

    /// The pool with these times.
    #[must_use]
    pub fn with_times(self, times: ModelTimes) -> Self {
        Self { times, ..self }
    }

    /// The pool with so many idle pods more, made at the beginning.
    #[must_use]
    pub fn with_idle(mut self, idle: i32) -> Self {
        self.replicas = self.replicas.saturating_add(idle);
        self.idle.extend((0..idle).map(|_| IdlePod { since: 0, ready: 0, marked: None }));
        self
    }

    /// The pool with so many sandboxes more.
    #[must_use]
    pub fn with_running(mut self, running: i32) -> Self {
        self.replicas = self.replicas.saturating_add(running);
        self.running += running;
        self
    }

    /// The pool in numbers.
    pub fn levels(&self) -> ScaleLevels {
        ScaleLevels {
            replicas: self.replicas,
            idle: size(&self.idle),
            running: self.running,
            starting: size(&self.starting),
            stopping: size(&self.stopping),
            failed: 0,
            queue: self.waiting.saturating_add(size(&self.starting)),
        }
    }

    /// One sandbox is released, and its client claims another.
    fn replace(&mut self, second: i64) {
        if self.running > 0 {
            self.running -= 1;
            self.stopping.push_back(second + self.times.stop);
        }
    }

    fn live(&mut self, second: i64, demand: i32) {
        while self.starting.pop_front_if(|done| *done <= second).is_some() {
            self.running += 1;
        }
        while self.stopping.pop_front_if(|done| *done <= second).is_some() {
            self.idle.push_back(IdlePod { since: second, ready: second, marked: None });
        }
        let clients = self.running + size(&self.starting) + self.waiting;
        self.waiting = self.waiting.saturating_add(demand.saturating_sub(clients)).max(0);
        while self.running > 0 && self.running + size(&self.starting) > demand {
            self.replace(second);
        }
        while self.waiting > 0
            && let Some(place) = self.idle.iter().position(|pod| pod.ready <= second && pod.marked.is_none())
        {
            self.idle.remove(place);
            self.starting.push_back(second + self.times.start);
            self.waiting -= 1;
            self.last_create = Some(second);
        }
        self.scale(second);
    }

    /// What the controller of the pool does.
    fn scale(&mut self, second: i64) {
        let pods = size(&self.idle) + size(&self.starting) + self.running + size(&self.stopping);
        let (missing, surplus) = (self.replicas.saturating_sub(pods), pods.saturating_sub(self.replicas));
        if surplus <= 0 {
            self.idle.iter_mut().for_each(|pod| pod.marked = None);
            let made = IdlePod { since: second, ready: second + self.times.boot, marked: None };
            self.idle.extend((0..missing).map(|_| made));
            return;
        }
        for pod in self.idle.iter_mut().take(usize::try_from(surplus).unwrap_or_default()) {
            pod.marked.get_or_insert(second);
        }
        self.idle.retain(|pod| pod.marked.is_none_or(|marked| marked + PROTECTION > second));
    }

    fn seen(&self) -> ScalePool {
        ScalePool {
            name: self.name.clone(),
            levels: self.levels(),
            limits: self.limits,
            status: self.status.clone(),
            last_create: self.last_create.map(time),
            idle_since: self.idle.iter().map(|pod| time(pod.since)).collect(),
        }
    }
}

impl ScaleModel {
    /// A group whose pools are looked at every ten seconds.
    pub fn new(group: ScalingGroup, pools: impl IntoIterator<Item = ModelPool>) -> Self {
        let pools = pools.into_iter().collect();
        Self { group, pools, cycle: 10, quota: None, rows: Vec::new(), second: 0 }
    }

    /// Lets so many seconds pass. `demand` says how many sandboxes the clients of a pool want in a second.
    pub fn run(&mut self, seconds: i64, demand: impl Fn(usize, i64) -> i32) {
        for _ in 0..seconds {
            self.second += 1;
            for place in 0..self.pools.len() {
                let demand = demand(place, self.second);
                self.pools[place].live(self.second, demand);
                if self.second % self.cycle == 0 {
                    self.look(place, demand);
                }
            }
        }
    }

    /// One sandbox of each pool is released, and its client claims another.
    pub fn replace_one(&mut self) {
        let second = self.second;
        self.pools.iter_mut().for_each(|pool| pool.replace(second));
    }

    /// The replicas of all pools.
    pub fn replicas(&self) -> i32 {
        self.pools.iter().map(|pool| pool.replicas).sum()
    }

    fn look(&mut self, place: usize, demand: i32) {
        let siblings: Vec<_> = self.pools.iter().map(ModelPool::seen).collect();
        let snapshot = ScaleSnapshot {
            pool: siblings[place].clone(),
            group: Some(self.group.clone()),
            siblings,
            generation: None,
            session: self.pools[place].session.clone(),
            now: time(self.second),
        };
        let others = self.replicas() - self.pools[place].replicas;
        let ScalePlan { from: _, replicas, status, event, session, wake_at: _, verdict } =
            match snapshot.decide() {
                ScaleDecision::Plan(plan) => plan,
                ScaleDecision::Ask(growth) => {
                    let mut ladder = AdmissionLadder::new(growth.from, growth.to);
                    while let Some(candidate) = ladder.candidate() {
                        ladder.answered(self.ask(others.saturating_add(candidate)).map(|()| candidate));
                    }
                    growth.settle(&ladder.outcome())
                }
            };
        let pool = &mut self.pools[place];
        let levels = pool.levels();
        pool.replicas = replicas.unwrap_or(pool.replicas);
        pool.status = status.unwrap_or_else(|| pool.status.clone());
        pool.session.apply(session);
        let (replicas, told) = (pool.replicas, event.map(|event| event.reason));
        let (second, pool) = (self.second, pool.name.clone());
        self.rows.push(ScaleRow { second, pool, demand, levels, verdict, replicas, told });
    }

    fn ask(&self, all: i32) -> Result<(), AdmissionRefusal> {
        if self.quota.is_none_or(|quota| all <= quota) {
            return Ok(());
        }
        let message = "exceeded quota".to_owned();
        Err(AdmissionRefusal { kind: RefusalKind::Insufficient, message, retry_after: None })
    }
}

/// A second of the model.
fn time(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH.saturating_add(SignedDuration::from_secs(second)).unwrap_or(Timestamp::MAX)
}

fn size<T>(of: &VecDeque<T>) -> i32 {
    i32::try_from(of.len()).unwrap_or(i32::MAX)
}
