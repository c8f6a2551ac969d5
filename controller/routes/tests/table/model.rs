//! The naive table: the rules as one would write them down, with no regard for cost. It shares nothing with
//! the real one but its messages.

use std::collections::{BTreeMap, BTreeSet};

use sandgate_routes::{Clash, ObjectKey, Observation, State, Version};

mod ids;
mod pushes;

use ids::Hold;
pub(crate) use ids::Shown;
use pushes::Pushed;

/// The outcome of a message, as the model computes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelOutcome {
    Applied,
    Takeover(ObjectKey),
    Displaced(Option<ObjectKey>),
    Ambiguous(ObjectKey),
    Stale,
    Invalid,
}

/// Where a message comes from: a push, an event of a scope, or a list of a scope, by the number of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Push,
    Event(usize),
    List(usize, u64),
}

impl Source {
    fn scope(self) -> Option<usize> {
        match self {
            Self::Push => None,
            Self::Event(scope) | Self::List(scope, _) => Some(scope),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// The last observation that was applied, in the state it is kept in.
    pub(crate) observed: Observation,
    created: Option<u64>,
    /// The model's own number of the identity.
    pub(crate) identity: u64,
    claims: BTreeSet<usize>,
    seen_by: BTreeSet<u64>,
    pushed: Option<Pushed>,
    place: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Dead {
    place: u32,
    pub(crate) key: ObjectKey,
    pub(crate) version: Version,
    deadline: u64,
    pushed: Option<Pushed>,
}

/// A scope of the model.
#[derive(Clone, Debug)]
pub(crate) struct ModelScope {
    pub(crate) provider: &'static str,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) selector: &'static str,
}

impl ModelScope {
    fn covers(&self, key: &ObjectKey) -> bool {
        self.selector.is_empty()
            && self.provider == key.provider()
            && self.namespace.is_none_or(|namespace| namespace == key.namespace())
    }
}

#[derive(Clone, Debug)]
struct Run {
    number: u64,
    scope: usize,
    version: Version,
    superseded: bool,
}

/// Numbered places, the last to become free used first: where several objects are changed at once, that is
/// the order.
#[derive(Clone, Debug, Default)]
struct Places {
    free: Vec<u32>,
    end: u32,
}

impl Places {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }
}

/// How much and how long is remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelLimits {
    pub(crate) max_dead: usize,
    pub(crate) max_live: usize,
    pub(crate) lifetime: u64,
    pub(crate) confirmation: u64,
    pub(crate) lease: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) live: BTreeMap<ObjectKey, Live>,
    /// In the order of their newest deaths.
    pub(crate) dead: Vec<Dead>,
    pub(crate) shown: BTreeMap<String, Shown>,
    pub(crate) takeovers: u64,
    pub(crate) dropped: u64,
    pub(crate) overruled: u64,
    places: Places,
    graves: Places,
    holds: BTreeMap<String, Hold>,
    ends: Vec<(u64, String)>,
    scopes: Vec<ModelScope>,
    /// The scopes that were used, in the order of their first use.
    used: Vec<usize>,
    /// The floor of each scope, and when its watch was last heard from.
    floors: BTreeMap<usize, (Version, u64)>,
    limits: ModelLimits,
    now: u64,
    runs: Vec<Run>,
    runs_begun: u64,
    identities: u64,
}

impl Model {
    pub(crate) fn new(scopes: Vec<ModelScope>, limits: ModelLimits) -> Self {
        Self { scopes, limits, ..Self::default() }
    }

    fn using(&mut self, scope: usize) {
        if !self.used.contains(&scope) {
            self.used.push(scope);
        }
    }

    pub(crate) fn apply(&mut self, observed: &Observation, from: Source) -> ModelOutcome {
        if let Some(scope) = from.scope() {
            self.using(scope);
        }
        if observed.state == State::Dead {
            return self.delete(&observed.key, Some(&observed.uid), Some(&observed.version), from);
        }
        let outcome = self.upsert(observed, from);
        self.takeovers += u64::from(matches!(outcome, ModelOutcome::Takeover(_)));
        outcome
    }

    fn upsert(&mut self, observed: &Observation, from: Source) -> ModelOutcome {
        let key = &observed.key;
        if let (Some(live), Some(scope)) = (self.live.get_mut(key), from.scope()) {
            live.claims.insert(scope);
        }
        if observed.id.is_empty() || observed.id.contains(' ') {
            return ModelOutcome::Invalid;
        }
        let Some(live) = self.live.get_mut(key) else { return self.insert(observed, from) };
        let known = live.observed.version.clone();
        if from == Source::Push {
            if observed.version <= known {
                self.renew_lease(key);
                return ModelOutcome::Stale;
            }
            if self.is_passed(key, &observed.version) {
                return ModelOutcome::Stale;
            }
        } else {
            let is_news = observed.version > known || observed.version == known && live.pushed.is_some();
            if !is_news {
                if let (true, None, Some(created)) =
                    (live.observed.uid == observed.uid, live.created, observed.created)
                {
                    self.set_created(key, created);
                }
                if observed.version < known {
                    self.set_baseline(observed, from);
                }
                return ModelOutcome::Stale;
            }
            live.pushed = None;
        }
        self.replace(observed, from)
    }

    /// Puts an observation in the place of what is known.
    fn replace(&mut self, observed: &Observation, from: Source) -> ModelOutcome {
        let key = &observed.key;
        let old = self.live[key].clone();
        let is_same = old.observed.uid == observed.uid;
        let created = observed.created.or(old.created.filter(|_| is_same));
        let mut kept = kept(observed);
        if from == Source::Push && is_same && old.observed.id == observed.id && kept.traffic_token.is_none() {
            kept.traffic_token = old.observed.traffic_token.clone();
        }
        if is_same && says_the_same(&kept, &old.observed) {
            if let Some(created) = created {
                self.set_created(key, created);
            }
            return ModelOutcome::Stale;
        }
        let pushed = (from == Source::Push).then(|| self.unconfirmed_upsert(&old, &observed.version));
        let identity = if is_same { old.identity } else { self.next_identity() };
        let moved = old.observed.id != observed.id;
        if moved {
            let gone = self.live.remove(key).unwrap();
            self.left(&gone.observed);
        } else if !is_same {
            self.ended(&old.observed);
        }
        self.live.insert(key.clone(), Live { observed: kept, created, identity, pushed, ..old });
        self.claimed(key)
    }

    fn insert(&mut self, observed: &Observation, from: Source) -> ModelOutcome {
        let key = &observed.key;
        let dead = self.dead.iter().position(|dead| dead.key == *key);
        if dead.is_some_and(|at| observed.version <= self.dead[at].version) {
            self.set_baseline(observed, from);
            return ModelOutcome::Stale;
        }
        let is_passed = match from {
            Source::Push => self.is_passed(key, &observed.version),
            Source::Event(scope) => {
                self.floors.get(&scope).is_some_and(|(floor, _)| observed.version <= *floor)
            }
            Source::List(..) => false,
        };
        if is_passed {
            return ModelOutcome::Stale;
        }
        if self.live.len() >= self.limits.max_live {
            return ModelOutcome::Invalid;
        }
        let buried = dead.map(|at| self.exhume(at));
        let pushed = (from == Source::Push).then(|| {
            self.unconfirmed_unknown(key, buried.and_then(|dead| dead.pushed), &observed.version, true)
        });
        let identity = self.next_identity();
        let seen = pushed.as_ref().map(|pushed| pushed.seen);
        let live = Live {
            observed: kept(observed),
            created: observed.created,
            identity,
            claims: from.scope().into_iter().collect(),
            seen_by: seen.into_iter().collect(),
            pushed,
            place: self.places.take(),
        };
        self.live.insert(key.clone(), live);
        self.claimed(key)
    }

    fn next_identity(&mut self) -> u64 {
        self.identities += 1;
        self.identities
    }

    pub(crate) fn delete(
        &mut self,
        key: &ObjectKey,
        uid: Option<&str>,
        version: Option<&Version>,
        from: Source,
    ) -> ModelOutcome {
        if let Some(scope) = from.scope() {
            self.using(scope);
        }
        let Some(live) = self.live.get_mut(key) else { return self.delete_unknown(key, version, from) };
        let known = live.observed.version.clone();
        let is_older = version.is_some_and(|version| *version < known);
        let version = version.unwrap_or(&known).clone();
        if from == Source::Push {
            if is_older {
                return ModelOutcome::Stale;
            }
            let live = live.clone();
            let pushed = self.unconfirmed_delete(key, &live, &version);
            self.remove(key, version, Some(pushed));
            return ModelOutcome::Applied;
        }
        if is_older {
            let is_same = uid.is_none_or(|uid| uid == live.observed.uid);
            let Some(pushed) = &mut live.pushed else { return ModelOutcome::Stale };
            if !is_same {
                pushed.baseline = None;
                return ModelOutcome::Stale;
            }
        }
        self.remove(key, version, None);
        ModelOutcome::Applied
    }

    /// Takes a live object out.
    fn remove(&mut self, key: &ObjectKey, version: Version, pushed: Option<Pushed>) {
        self.take_out(key);
        self.bury(key, version, pushed);
    }

    fn take_out(&mut self, key: &ObjectKey) {
        let gone = self.live.remove(key).unwrap();
        self.left(&gone.observed);
        self.places.free.push(gone.place);
    }

    /// Takes a tombstone away.
    fn exhume(&mut self, at: usize) -> Dead {
        let dead = self.dead.remove(at);
        self.graves.free.push(dead.place);
        dead
    }

    fn delete_unknown(&mut self, key: &ObjectKey, version: Option<&Version>, from: Source) -> ModelOutcome {
        let Some(version) = version.cloned() else { return ModelOutcome::Stale };
        let at = self.dead.iter().position(|dead| dead.key == *key);
        let was_pushed = at.is_some_and(|at| self.dead[at].pushed.is_some());
        let is_report = from != Source::Push && was_pushed;
        if !is_report {
            let is_older = at.is_some_and(|at| version < self.dead[at].version);
            if is_older || from == Source::Push && self.is_passed(key, &version) {
                return ModelOutcome::Stale;
            }
        }
        let old = at.map(|at| self.dead.remove(at));
        let pushed = (from == Source::Push).then(|| {
            self.unconfirmed_unknown(key, old.as_ref().and_then(|dead| dead.pushed.clone()), &version, false)
        });
        if let Some(old) = old {
            let deadline = self.now + self.limits.lifetime;
            self.dead.push(Dead { version, deadline, pushed, ..old });
        } else {
            self.bury(key, version, pushed);
        }
        ModelOutcome::Applied
    }

    pub(crate) fn expire(&mut self, key: &ObjectKey, version: &Version) -> ModelOutcome {
        match self.live.get(key) {
            Some(live) if live.observed.version == *version => {
                self.remove(key, version.clone(), None);
                ModelOutcome::Applied
            }
            _ => {
                self.end_baseline(key, version);
                ModelOutcome::Stale
            }
        }
    }

    fn bury(&mut self, key: &ObjectKey, version: Version, pushed: Option<Pushed>) {
        let deadline = self.now + self.limits.lifetime;
        if self.dead.len() >= self.limits.max_dead {
            self.dropped += 1;
            if self.dead.is_empty() {
                return;
            }
            self.exhume(0);
        }
        let place = self.graves.take();
        self.dead.push(Dead { place, key: key.clone(), version, deadline, pushed });
    }

    pub(crate) fn begin(&mut self, scope: usize, version: Version) -> u64 {
        self.using(scope);
        for run in self.runs.iter_mut().filter(|run| run.scope == scope) {
            run.superseded = true;
        }
        self.runs_begun += 1;
        self.runs.push(Run { number: self.runs_begun, scope, version, superseded: false });
        self.runs_begun
    }

    pub(crate) fn observe(&mut self, run: u64, observed: &Observation) -> ModelOutcome {
        let scope = self.runs.iter().find(|other| other.number == run).map(|run| run.scope).unwrap();
        let outcome = self.apply(observed, Source::List(scope, run));
        if let Some(live) = self.live.get_mut(&observed.key) {
            live.seen_by.insert(run);
        }
        outcome
    }

    pub(crate) fn abort(&mut self, run: u64) {
        self.runs.retain(|other| other.number != run);
    }

    /// How many objects it deleted.
    pub(crate) fn commit(&mut self, run: u64) -> u64 {
        let Some(run) = self.runs.iter().find(|other| other.number == run).cloned() else { return 0 };
        self.abort(run.number);
        if run.superseded {
            return 0;
        }
        let scope = self.scopes[run.scope].clone();
        let mut deleted = 0;
        for key in self.in_order() {
            let live = self.live.get_mut(&key).unwrap();
            let ours = live.claims.contains(&run.scope) || (live.claims.is_empty() && scope.covers(&key));
            if !ours || live.seen_by.contains(&run.number) || live.observed.version > run.version {
                continue;
            }
            if live.claims.iter().all(|claim| *claim == run.scope) {
                self.delete(&key, None, Some(&run.version), Source::List(run.scope, run.number));
                deleted += 1;
            } else {
                live.claims.remove(&run.scope);
            }
        }
        for dead in self.dead.iter_mut().filter(|dead| scope.covers(&dead.key) && dead.version < run.version)
        {
            dead.version = run.version.clone();
        }
        self.listed(&run);
        deleted
    }

    /// Takes away what a scope has lost. How many there were.
    pub(crate) fn forget_after(&mut self, scope: usize, version: &Version) -> usize {
        self.using(scope);
        let is_lost = |key: &ObjectKey| {
            let live = &self.live[key];
            let is_ours =
                live.claims.contains(&scope) || live.claims.is_empty() && self.scopes[scope].covers(key);
            is_ours && live.observed.version > *version
        };
        let lost: Vec<_> = self.in_order().into_iter().filter(is_lost).collect();
        for key in &lost {
            let version = self.live[key].observed.version.clone();
            self.remove(key, version, None);
        }
        for dead in &mut self.dead {
            dead.pushed = dead.pushed.take().filter(|pushed| pushed.scope != Some(scope));
        }
        self.floors.insert(scope, (version.clone(), self.now));
        lost.len()
    }

    /// The live objects in the order of their places.
    fn in_order(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<_> = self.live.iter().map(|(key, live)| (live.place, key.clone())).collect();
        keys.sort();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    pub(crate) fn pass(&mut self, time: u64) {
        self.now += time;
    }

    pub(crate) fn sweep(&mut self) -> usize {
        let overruled = self.overrule_overdue();
        let mut expired = 0;
        while self.dead.first().is_some_and(|dead| dead.deadline <= self.now) {
            self.exhume(0);
            expired += 1;
        }
        expired.max(self.end_holds()).max(overruled)
    }
}

fn kept(observed: &Observation) -> Observation {
    let state = match (observed.state, observed.ip) {
        (State::Running, None) => State::Creating,
        (state, _) => state,
    };
    Observation { state, ..observed.clone() }
}

fn says_the_same(a: &Observation, b: &Observation) -> bool {
    (&a.id, a.own_id, &a.owner, a.state, &a.version, a.ip, a.clash, &a.traffic_token)
        == (&b.id, b.own_id, &b.owner, b.state, &b.version, b.ip, b.clash, &b.traffic_token)
}

fn refuses(live: &Live) -> bool {
    live.observed.clash == Clash::Refuse
}
