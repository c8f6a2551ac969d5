//! IDs that are kept free for a while after the one who was served under them is gone.
//!
//! Clients of the dead go on sending for a while. Until the hold ends nobody from elsewhere may be served under the
//! ID; a successor in the same namespace, and of the same provider, may. An object that has the ID as its own name may
//! too, unless the dead had it so: otherwise anybody could keep a name from its owner by a label.
//!
//! A hold ends with its time, not with a successor: whether a rival comes before the successor or after it is a matter
//! of delivery.
//!
//! A hold knows hashes only: at a million deletes in ten minutes it has to be small. Two that share one are kept apart
//! from nothing worse than a wait.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use crate::Route;
use crate::key::RawKey;

/// For whom an ID is kept.
#[derive(Clone, Copy)]
struct Hold {
    group: u64,
    is_own: bool,
    /// Nothing while it is only known for whom it would be kept.
    until: Option<u64>,
    /// The ID is ambiguous, and one of these was served under it last: for them it is kept when one of them goes.
    is_remembered: bool,
}

pub(crate) struct Holds {
    hasher: RandomState,
    holds: HashMap<u64, Hold>,
    // In the order of their ends; one that was made anew since is passed over.
    ends: VecDeque<(u64, u64)>,
    cap: usize,
}

impl Holds {
    pub(crate) fn new(cap: usize) -> Self {
        Self { hasher: RandomState::new(), holds: HashMap::new(), ends: VecDeque::new(), cap }
    }

    fn group(&self, key: RawKey<'_>) -> u64 {
        self.hasher.hash_one((key.provider, key.namespace))
    }

    fn hold_of(&self, route: &Route) -> Hold {
        let group = self.group(route.raw_key());
        Hold { group, is_own: route.has_own_id(), until: None, is_remembered: false }
    }

    /// Keeps the ID of `gone` for its own until then.
    pub(crate) fn keep(&mut self, gone: &Route, until: u64) {
        let hold = Hold { until: Some(until), ..self.hold_of(gone) };
        self.set(gone.id_hash(), hold);
    }

    fn set(&mut self, id_hash: u64, hold: Hold) {
        let old = self.holds.insert(id_hash, hold);
        if let Some(until) = hold.until
            && old.is_none_or(|old| old.until != Some(until))
        {
            self.ends.push_back((until, id_hash));
        }
    }

    /// Remembers who was served under an ID that is ambiguous now.
    pub(crate) fn remember(&mut self, served: &Route) {
        let hold = Hold { is_remembered: true, ..self.hold_of(served) };
        match self.holds.get_mut(&served.id_hash()).filter(|old| old.group == hold.group) {
            Some(old) => old.is_remembered = true,
            None => self.set(served.id_hash(), hold),
        }
    }

    /// Whether the ID of `claimant` is not kept for others.
    pub(crate) fn admits(&self, claimant: &Route) -> bool {
        self.holds.get(&claimant.id_hash()).is_none_or(|hold| {
            hold.until.is_none()
                || hold.group == self.group(claimant.raw_key())
                || claimant.has_own_id() && !hold.is_own
        })
    }

    /// Keeps an ambiguous ID, if `gone` is of those who were served under it last.
    pub(crate) fn renew(&mut self, gone: &Route, until: u64) {
        let hold = self.hold_of(gone);
        if let Some(&Hold { is_remembered, .. }) =
            self.holds.get(&gone.id_hash()).filter(|old| old.group == hold.group)
        {
            self.set(gone.id_hash(), Hold { until: Some(until), is_remembered, ..hold });
        }
    }

    /// Somebody is served under the ID: it need not be known who was before. What is kept stays kept.
    pub(crate) fn forget(&mut self, id_hash: u64) {
        if let Some(hold) = self.holds.get_mut(&id_hash) {
            hold.is_remembered = false;
            if hold.until.is_none() {
                self.holds.remove(&id_hash);
            }
        }
    }

    /// Ends the hold that is over, or that is too many, and says of which ID, by its hash.
    pub(crate) fn end_one(&mut self, now: u64) -> Option<u64> {
        while let Some(&(until, id_hash)) = self.ends.front() {
            if until > now && self.ends.len() <= self.cap {
                return None;
            }
            self.ends.pop_front();
            if let Some(hold) = self.holds.get_mut(&id_hash).filter(|hold| hold.until == Some(until)) {
                hold.until = None;
                if !hold.is_remembered {
                    self.holds.remove(&id_hash);
                }
                return Some(id_hash);
            }
        }
        None
    }
}
