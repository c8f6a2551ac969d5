//! Whose an ID is, by the naive table: all claimants are looked at each time.

use sandgate_routes::{ObjectKey, Observation, State};

use super::{Live, Model, ModelOutcome, refuses};

/// What a lookup of an ID finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Served(ObjectKey),
    /// No object is served. This one stands for all claimants.
    Ambiguous(ObjectKey),
}

impl Shown {
    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Self::Served(key) | Self::Ambiguous(key) => key,
        }
    }
}

/// For whom an ID is kept.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    provider: String,
    namespace: String,
    is_own: bool,
    /// Nothing while it is only known for whom it would be kept.
    until: Option<u64>,
    /// The ID is ambiguous, and one of these was served last.
    is_remembered: bool,
}

impl Model {
    /// The live objects of an ID, the first in rank first.
    fn ranked(&self, id: &str) -> Vec<(&ObjectKey, &Live)> {
        let mut claimants: Vec<_> = self.live.iter().filter(|(_, live)| live.observed.id == id).collect();
        claimants.sort_by_key(|(key, live)| {
            let uid = live.observed.uid.clone();
            (!live.observed.own_id, live.created.is_none(), live.created, uid, (*key).clone())
        });
        claimants
    }

    fn admits(&self, id: &str, key: &ObjectKey, is_own: bool) -> bool {
        self.holds.get(id).is_none_or(|hold| {
            hold.until.is_none()
                || (hold.provider == key.provider() && hold.namespace == key.namespace())
                || (is_own && !hold.is_own)
        })
    }

    fn hold(key: &ObjectKey, is_own: bool, until: Option<u64>) -> Hold {
        Hold {
            provider: key.provider().to_owned(),
            namespace: key.namespace().to_owned(),
            is_own,
            until,
            is_remembered: false,
        }
    }

    fn keep(&mut self, id: &str, key: &ObjectKey, is_own: bool) {
        let until = self.now + self.limits.lifetime;
        let hold = Self::hold(key, is_own, Some(until));
        if self.holds.insert(id.to_owned(), hold).is_none_or(|old| old.until != Some(until)) {
            self.ends.push((until, id.to_owned()));
        }
    }

    /// Chooses the claimant that is shown.
    fn choose(&mut self, id: &str) {
        let before = self.shown.remove(id);
        let ranked = self.ranked(id);
        let first = ranked.iter().find(|(key, live)| self.admits(id, key, live.observed.own_id));
        let Some(first) = first.map(|(key, _)| (*key).clone()) else { return };
        let could_be_served = |live: &Live| matches!(live.observed.state, State::Running | State::Paused);
        let mut rivals = ranked
            .iter()
            .filter(|(key, live)| key.provider() == first.provider() && could_be_served(live))
            .map(|(_, live)| refuses(live))
            .collect::<Vec<_>>();
        rivals.sort_unstable();
        let ambiguous = rivals.len() > 1 && rivals.ends_with(&[true]);
        if !ambiguous {
            self.holds.retain(|held, hold| held != id || hold.until.is_some());
            self.holds.entry(id.to_owned()).and_modify(|hold| hold.is_remembered = false);
        } else if let Some(Shown::Served(served)) = before {
            if !self.is_kept_for(id, &served) {
                let is_own = self.live[&served].observed.own_id;
                self.holds.insert(id.to_owned(), Self::hold(&served, is_own, None));
            }
            self.holds.entry(id.to_owned()).and_modify(|hold| hold.is_remembered = true);
        }
        let shown = if ambiguous { Shown::Ambiguous(first) } else { Shown::Served(first) };
        self.shown.insert(id.to_owned(), shown);
    }

    /// Whether an object is served and is the only claimant of its ID: there is nothing to choose.
    fn is_alone(&self, key: &ObjectKey, id: &str) -> bool {
        self.ranked(id).len() == 1 && self.shown.get(id) == Some(&Shown::Served(key.clone()))
    }

    /// An object claims its ID with a new observation. Returns the outcome.
    pub(super) fn claimed(&mut self, key: &ObjectKey) -> ModelOutcome {
        let id = self.live[key].observed.id.clone();
        let before = self.shown.get(&id).cloned();
        if self.is_alone(key, &id) {
            return ModelOutcome::Applied;
        }
        self.choose(&id);
        match self.shown.get(&id) {
            Some(Shown::Ambiguous(_)) => {
                let others = self.live.iter().filter(|(other, live)| *other != key && live.observed.id == id);
                ModelOutcome::Ambiguous(others.map(|(other, _)| other.clone()).min().unwrap())
            }
            Some(Shown::Served(holder)) if holder == key => match before {
                Some(Shown::Served(other)) if other != *key => ModelOutcome::Takeover(other),
                _ => ModelOutcome::Applied,
            },
            Some(Shown::Served(holder)) => ModelOutcome::Displaced(Some(holder.clone())),
            None => ModelOutcome::Displaced(None),
        }
    }

    fn is_kept_for(&self, id: &str, key: &ObjectKey) -> bool {
        let is_mine = |hold: &Hold| hold.provider == key.provider() && hold.namespace == key.namespace();
        self.holds.get(id).is_some_and(is_mine)
    }

    /// An identity that claimed its ID has ended. Returns whether another claimant may be served now.
    pub(super) fn ended(&mut self, gone: &Observation) -> bool {
        let Observation { key, id, own_id, .. } = gone;
        let is_remembered = match self.shown.get(id) {
            Some(Shown::Ambiguous(_)) => self.holds.get(id).is_some_and(|hold| hold.is_remembered),
            _ => false,
        };
        let is_to_keep = match self.shown.get(id) {
            Some(Shown::Served(holder)) => holder == key,
            Some(Shown::Ambiguous(_)) => self.is_kept_for(id, key),
            None => false,
        };
        if is_to_keep {
            self.keep(id, key, *own_id);
            self.holds.entry(id.clone()).and_modify(|hold| hold.is_remembered = is_remembered);
        }
        is_to_keep || matches!(self.shown.get(id), Some(Shown::Ambiguous(_)))
    }

    /// An object, which is out already, does not claim its ID any more.
    pub(super) fn left(&mut self, gone: &Observation) {
        if self.ended(gone) {
            self.choose(&gone.id);
        }
    }

    pub(super) fn set_created(&mut self, key: &ObjectKey, created: u64) {
        let live = self.live.get_mut(key).unwrap();
        live.created = Some(created);
        let id = live.observed.id.clone();
        if !self.is_alone(key, &id) {
            self.choose(&id);
        }
    }

    /// Ends the holds whose time is over or that are too many. How many there were.
    pub(super) fn end_holds(&mut self) -> usize {
        let mut ended = 0;
        while let Some((until, id)) = self.ends.first().cloned() {
            if until > self.now && self.ends.len() <= self.limits.max_dead {
                break;
            }
            self.ends.remove(0);
            if self.holds.get(&id).is_some_and(|hold| hold.until == Some(until)) {
                self.holds.entry(id.clone()).and_modify(|hold| hold.until = None);
                self.holds.retain(|held, hold| *held != id || hold.is_remembered);
                self.choose(&id);
                ended += 1;
            }
        }
        ended
    }
}
