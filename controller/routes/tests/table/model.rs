//! The naive table: the rules as one would write them down, with no regard for cost. It shares nothing with the real one but its messages.

use std::collections::{BTreeMap, BTreeSet};

use sandgate_routes::{Clash, ObjectKey, Observation, State, Version};

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Applied,
    Takeover(ObjectKey),
    Ambiguous(ObjectKey),
    Stale,
    Invalid,
}

/// What an ID says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Served(ObjectKey),
    Ambiguous,
}

#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) id: String,
    clash: Clash,
    pub(crate) uid: String,
    pub(crate) owner: String,
    pub(crate) state: State,
    pub(crate) version: Version,
    /// The model's own number of the identity.
    pub(crate) identity: u64,
    claims: BTreeSet<usize>,
    seen_by: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Dead {
    pub(crate) key: ObjectKey,
    pub(crate) version: Version,
    deadline: u64,
}

/// A scope of the model: its provider, and whether it has a selector.
#[derive(Clone, Debug)]
pub(crate) struct ModelScope {
    pub(crate) provider: &'static str,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) selector: &'static str,
}

#[derive(Clone, Debug)]
struct Run {
    number: u64,
    scope: usize,
    version: Version,
    superseded: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) live: BTreeMap<ObjectKey, Live>,
    /// In the order of making.
    pub(crate) dead: Vec<Dead>,
    pub(crate) shown: BTreeMap<String, Shown>,
    pub(crate) takeovers: u64,
    pub(crate) dropped: u64,
    scopes: Vec<ModelScope>,
    max_dead: usize,
    max_live: usize,
    lifetime: u64,
    now: u64,
    runs: Vec<Run>,
    runs_begun: u64,
    identities: u64,
}

impl Model {
    pub(crate) fn new(scopes: Vec<ModelScope>, max_dead: usize, max_live: usize, lifetime: u64) -> Self {
        Self { scopes, max_dead, max_live, lifetime, ..Self::default() }
    }

    pub(crate) fn apply(&mut self, observed: &Observation, scope: Option<usize>) -> Said {
        if observed.state == State::Dead {
            return self.delete(&observed.key, Some(&observed.version));
        }
        if let (Some(live), Some(scope)) = (self.live.get_mut(&observed.key), scope) {
            live.claims.insert(scope);
        }
        if observed.id.is_empty() || observed.id.contains(' ') {
            return Said::Invalid;
        }
        let known = self.live.get(&observed.key).cloned();
        let dead = self.dead.iter().position(|dead| dead.key == observed.key);
        let newest =
            known.as_ref().map(|live| &live.version).or_else(|| dead.map(|at| &self.dead[at].version));
        if newest.is_some_and(|newest| observed.version <= *newest) {
            return Said::Stale;
        }
        if known.is_none() && self.live.len() >= self.max_live {
            return Said::Invalid;
        }
        if let Some(at) = dead {
            self.dead.remove(at);
        }
        self.live.remove(&observed.key);
        if let Some(known) = &known
            && known.id != observed.id
        {
            self.left(&known.id, &observed.key);
        }
        let identity = match &known {
            Some(known) if known.uid == observed.uid => known.identity,
            _ => {
                self.identities += 1;
                self.identities
            }
        };
        let (claims, seen_by) = known
            .map_or((scope.into_iter().collect(), BTreeSet::new()), |known| (known.claims, known.seen_by));
        let state = if observed.state == State::Running && observed.ip.is_none() {
            State::Creating
        } else {
            observed.state
        };
        let live = Live {
            id: observed.id.clone(),
            clash: observed.clash,
            uid: observed.uid.clone(),
            owner: observed.owner.clone(),
            state,
            version: observed.version.clone(),
            identity,
            claims,
            seen_by,
        };
        let other = self.claimants(&observed.id).into_iter().next();
        self.live.insert(observed.key.clone(), live);
        if let Some(other) = other
            && self.any_refuses(&observed.id)
        {
            self.shown.insert(observed.id.clone(), Shown::Ambiguous);
            return Said::Ambiguous(other);
        }
        match self.shown.insert(observed.id.clone(), Shown::Served(observed.key.clone())) {
            Some(Shown::Served(other)) if other != observed.key => {
                self.takeovers += 1;
                Said::Takeover(other)
            }
            _ => Said::Applied,
        }
    }

    /// The live objects of an ID, in the order of their keys.
    pub(crate) fn claimants(&self, id: &str) -> Vec<ObjectKey> {
        self.live.iter().filter(|(_, live)| live.id == id).map(|(key, _)| key.clone()).collect()
    }

    fn any_refuses(&self, id: &str) -> bool {
        self.live.values().any(|live| live.id == id && live.clash == Clash::Refuse)
    }

    /// An object does not claim this ID any more.
    fn left(&mut self, id: &str, key: &ObjectKey) {
        match self.shown.get(id) {
            Some(Shown::Ambiguous) => match self.claimants(id).as_slice() {
                [] => drop(self.shown.remove(id)),
                [one] => drop(self.shown.insert(id.to_owned(), Shown::Served(one.clone()))),
                _ => {}
            },
            Some(Shown::Served(holder)) if holder == key => drop(self.shown.remove(id)),
            _ => {}
        }
    }

    pub(crate) fn delete(&mut self, key: &ObjectKey, version: Option<&Version>) -> Said {
        if let Some(live) = self.live.get(key) {
            let version = version.unwrap_or(&live.version).clone();
            if version < live.version {
                return Said::Stale;
            }
            let id = live.id.clone();
            self.live.remove(key);
            self.left(&id, key);
            self.bury(key, version);
            return Said::Applied;
        }
        let Some(version) = version else { return Said::Stale };
        match self.dead.iter_mut().find(|dead| dead.key == *key) {
            Some(dead) if *version < dead.version => return Said::Stale,
            Some(dead) => dead.version = version.clone(),
            None => self.bury(key, version.clone()),
        }
        Said::Applied
    }

    pub(crate) fn expire(&mut self, key: &ObjectKey, version: &Version) -> Said {
        match self.live.get(key) {
            Some(live) if live.version == *version => self.delete(key, Some(version)),
            _ => Said::Stale,
        }
    }

    fn bury(&mut self, key: &ObjectKey, version: Version) {
        self.dead.push(Dead { key: key.clone(), version, deadline: self.now + self.lifetime });
        if self.dead.len() > self.max_dead {
            let lowest = (0..self.dead.len()).min_by_key(|&at| (self.dead[at].version.clone(), at)).unwrap();
            self.dead.remove(lowest);
            self.dropped += 1;
        }
    }

    pub(crate) fn begin(&mut self, scope: usize, version: Version) -> u64 {
        for run in self.runs.iter_mut().filter(|run| run.scope == scope) {
            run.superseded = true;
        }
        self.runs_begun += 1;
        self.runs.push(Run { number: self.runs_begun, scope, version, superseded: false });
        self.runs_begun
    }

    pub(crate) fn observe(&mut self, run: u64, observed: &Observation) -> Said {
        let scope = self.runs.iter().find(|other| other.number == run).map(|run| run.scope);
        let said = self.apply(observed, scope);
        if let Some(live) = self.live.get_mut(&observed.key) {
            live.seen_by.insert(run);
        }
        said
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
        let covers = |key: &ObjectKey| {
            scope.selector.is_empty()
                && scope.provider == key.provider()
                && scope.namespace.is_none_or(|namespace| namespace == key.namespace())
        };
        let mut deleted = 0;
        for key in self.live.keys().cloned().collect::<Vec<_>>() {
            let live = self.live.get_mut(&key).unwrap();
            let ours = live.claims.contains(&run.scope) || (live.claims.is_empty() && covers(&key));
            if !ours || live.seen_by.contains(&run.number) || live.version > run.version {
                continue;
            }
            live.claims.remove(&run.scope);
            if live.claims.is_empty() {
                self.delete(&key, Some(&run.version));
                deleted += 1;
            }
        }
        for dead in self.dead.iter_mut().filter(|dead| covers(&dead.key) && dead.version < run.version) {
            dead.version = run.version.clone();
        }
        deleted
    }

    pub(crate) fn pass(&mut self, time: u64) {
        self.now += time;
    }

    pub(crate) fn sweep(&mut self) -> usize {
        let before = self.dead.len();
        let now = self.now;
        self.dead.retain(|dead| dead.deadline > now);
        before - self.dead.len()
    }
}
