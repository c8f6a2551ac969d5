//! Holds: IDs that are reserved for a while after the object served under them is gone.
//!
//! Clients of a deleted object still send requests for a while. Until the hold ends, no object from another
//! provider or namespace is served under the ID; a successor of the same is. An object that has the ID as its
//! own name is served too, unless the deleted one had it so: otherwise a label could keep a name from its
//! owner.
//!
//! A hold ends with its time, not with a successor: otherwise the order of delivery would decide between a
//! successor and a rival.
//!
//! Holds store hashes only, in a queue by their ends: a million deletes in ten minutes must stay small. Two
//! IDs with one hash can only make each other wait.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use crate::Route;
use crate::index::Index;
use crate::key::RawKey;

/// The successors that an ID is held for: the objects of one provider and namespace, by hash. The lowest bit
/// says whether the deleted object had the ID as its own name.
#[derive(Clone, Copy)]
struct Heirs(u64);

impl Heirs {
    fn new(group: u64, is_own: bool) -> Self {
        Self(group | u64::from(is_own))
    }

    fn group(self) -> u64 {
        self.0 & !1
    }

    fn is_own(self) -> bool {
        self.0 & 1 == 1
    }
}

struct Hold {
    id_hash: u64,
    heirs: Heirs,
    until: u64,
}

pub(crate) struct Holds {
    hasher: RandomState,
    /// In the order of their ends. One that was made anew since, or is over, is not in the index and is
    /// passed over.
    queue: VecDeque<Hold>,
    /// The number of the first in the queue; the others have the numbers after it, which may come round.
    first: u32,
    /// The number of an ID's hold, by the ID's hash.
    index: Index,
    /// Who was served last under an ID that is ambiguous now, by the ID's hash: for their group it is kept
    /// when one of them goes. Where there is a hold too, it is for the same group.
    remembered: HashMap<u64, u64>,
    cap: usize,
}

impl Holds {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            queue: VecDeque::new(),
            first: 0,
            index: Index::new(),
            remembered: HashMap::new(),
            cap: cap.min(u32::MAX as usize / 2),
        }
    }

    fn group(&self, key: RawKey<'_>) -> u64 {
        Heirs(self.hasher.hash_one((key.provider, key.namespace))).group()
    }

    fn at(&self, number: u32) -> Option<&Hold> {
        self.queue.get(number.wrapping_sub(self.first) as usize)
    }

    fn number_of(&self, id_hash: u64) -> Option<u32> {
        self.index.find(id_hash, |number| self.at(number).is_some_and(|hold| hold.id_hash == id_hash))
    }

    fn hold_of(&self, id_hash: u64) -> Option<&Hold> {
        self.at(self.number_of(id_hash)?)
    }

    fn end(&mut self, id_hash: u64) {
        if let Some(number) = self.number_of(id_hash) {
            self.index.remove(id_hash, number);
        }
    }

    fn begin(&mut self, gone: &Route, until: u64) {
        let id_hash = gone.id_hash();
        let heirs = Heirs::new(self.group(gone.raw_key()), gone.has_own_id());
        if let Some(number) = self.number_of(id_hash) {
            let at = number.wrapping_sub(self.first) as usize;
            if let Some(hold) = self.queue.get_mut(at).filter(|hold| hold.until == until) {
                hold.heirs = heirs;
                return;
            }
            self.index.remove(id_hash, number);
        }
        let number = self.first.wrapping_add(u32::try_from(self.queue.len()).unwrap_or(u32::MAX));
        self.queue.push_back(Hold { id_hash, heirs, until });
        let Self { queue, first, index, .. } = self;
        let hash_of = |number: u32| {
            let hold = queue.get(number.wrapping_sub(*first) as usize);
            hold.map_or(0, |hold| hold.id_hash)
        };
        index.insert(id_hash, number, hash_of);
    }

    /// Keeps the ID of `gone` for its own until then.
    pub(crate) fn keep(&mut self, gone: &Route, until: u64) {
        self.remembered.remove(&gone.id_hash());
        self.begin(gone, until);
    }

    /// Remembers who was served under an ID that is ambiguous now.
    pub(crate) fn remember(&mut self, served: &Route) {
        let (id_hash, group) = (served.id_hash(), self.group(served.raw_key()));
        if self.hold_of(id_hash).is_some_and(|hold| hold.heirs.group() != group) {
            self.end(id_hash);
        }
        self.remembered.insert(id_hash, group);
    }

    /// Whether the ID of `claimant` is not kept for others.
    pub(crate) fn admits(&self, claimant: &Route) -> bool {
        self.hold_of(claimant.id_hash()).is_none_or(|hold| {
            hold.heirs.group() == self.group(claimant.raw_key())
                || claimant.has_own_id() && !hold.heirs.is_own()
        })
    }

    /// Keeps an ambiguous ID, if `gone` is of those who were served under it last.
    pub(crate) fn renew(&mut self, gone: &Route, until: u64) {
        let (id_hash, group) = (gone.id_hash(), self.group(gone.raw_key()));
        let held = self.hold_of(id_hash).map(|hold| hold.heirs.group());
        if held.or_else(|| self.remembered.get(&id_hash).copied()) == Some(group) {
            self.begin(gone, until);
        }
    }

    /// Forgets who was served last under an ID that was ambiguous: an object is served now. A hold stays.
    pub(crate) fn forget(&mut self, id_hash: u64) {
        self.remembered.remove(&id_hash);
    }

    /// Ends the hold that is over, or that is too many, and says of which ID, by its hash.
    pub(crate) fn end_one(&mut self, now: u64) -> Option<u64> {
        while let Some(&Hold { id_hash, until, .. }) = self.queue.front() {
            if until > now && self.queue.len() <= self.cap {
                return None;
            }
            let ended = self
                .number_of(id_hash)
                .filter(|number| self.at(*number).is_some_and(|hold| hold.until == until));
            if let Some(number) = ended {
                self.index.remove(id_hash, number);
            }
            self.queue.pop_front();
            self.first = self.first.wrapping_add(1);
            if ended.is_some() {
                return Some(id_hash);
            }
        }
        None
    }
}
