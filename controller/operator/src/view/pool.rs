//! The sandboxes of one set, in the order in which the set lets them go.
//!
//! Each change of a sandbox costs a few tree operations. A look at the set reads counts, and as many children
//! as it acts on: neither grows with the children that did not change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::Sandbox;
use sandgate_objects::openkruise::{API_VERSION, SANDBOX_SET};
use sandgate_routes::{State, Version};

use crate::{Key, Seen};

/// A sandbox that a set still controls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Namespace and name.
    pub key: Key,
    /// Which object of that name it is.
    pub uid: Arc<str>,
    /// The version that was classified.
    pub version: Version,
    /// The revision that it was made from.
    pub revision: Arc<str>,
    /// What the set makes of it.
    pub class: Class,
    /// Its place in the order of a scale-down.
    pub rank: Rank,
    /// When it ends by itself.
    pub ends: Option<Timestamp>,
}

/// What a set makes of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Not ready yet, or not ready any more: it counts.
    Creating,
    /// Ready to be claimed: it counts.
    Available,
    /// Failed, completed or expired: it is replaced.
    Dead,
    /// OpenKruise's controller marked it for deletion and did not delete it.
    Abandoned,
    /// Somebody holds a lock on it while it lives: it is neither counted nor touched.
    Locked,
    /// It is being deleted.
    Leaving,
}

/// The order of a scale-down within one revision: first what has not started, then what was recycled most
/// often, then what is not ready, then the oldest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Whether its pod has started.
    pub has_started: bool,
    /// How often it went back to the pool.
    pub recycled: Reverse<i64>,
    /// Whether it is ready.
    pub is_ready: bool,
    /// When it was created.
    pub created: Timestamp,
    /// The name, which makes the order total.
    pub name: Arc<str>,
}

/// Name and UID of the set that controls a sandbox.
pub(super) fn set_of(sandbox: &Sandbox) -> Option<(&str, &str)> {
    let owners = sandbox.metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
    let is_set = controller.api_version == API_VERSION && controller.kind == SANDBOX_SET;
    is_set.then_some((controller.name.as_str(), controller.uid.as_str()))
}

impl Child {
    pub(super) fn of(seen: &Seen<Sandbox>) -> Self {
        let sandbox = &seen.object;
        let status = sandbox.status.as_ref();
        let class = class_of(sandbox);
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let revision = label(sandbox, names::LABEL_TEMPLATE_HASH).unwrap_or_default();
        let created = sandbox.metadata.creation_timestamp.as_ref();
        Self {
            key: seen.key.clone(),
            uid: Arc::clone(&seen.uid),
            version: seen.version.clone(),
            revision: revision.into(),
            class,
            rank: Rank {
                has_started: !matches!(phase, "" | names::PHASE_PENDING),
                recycled: Reverse(status.and_then(|status| status.recycled_count).unwrap_or_default()),
                is_ready: class == Class::Available,
                created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
                name: Arc::clone(&seen.key.name),
            },
            ends: sandbox.spec.shutdown_time.as_ref().map(|time| time.0),
        }
    }

    /// Whether a set has to look at the change from `self` to `other`.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let same = Self { version: other.version.clone(), ..self.clone() };
        same != *other
    }
}

fn class_of(sandbox: &Sandbox) -> Class {
    if sandbox.metadata.deletion_timestamp.is_some() {
        return Class::Leaving;
    }
    let state = sandbox.address().map(|address| sandbox.live_state(address));
    // Whoever had locked it and did not come back does not keep what has failed.
    let is_dead = matches!(state, Ok(State::Dead));
    if !is_dead && annotation(sandbox, names::ANNOTATION_LOCK).is_some_and(|lock| !lock.is_empty()) {
        let owner = annotation(sandbox, names::ANNOTATION_OWNER);
        let is_abandoned = owner == Some(names::OWNER_SCALE_DOWN);
        return if is_abandoned { Class::Abandoned } else { Class::Locked };
    }
    match state {
        Ok(State::Dead) => Class::Dead,
        Ok(State::Available) => Class::Available,
        _ => Class::Creating,
    }
}

fn label<'a>(sandbox: &'a Sandbox, name: &str) -> Option<&'a str> {
    sandbox.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

fn annotation<'a>(sandbox: &'a Sandbox, name: &str) -> Option<&'a str> {
    sandbox.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// How many children of each class there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of the revision asked for, in creation.
    pub new_creating: usize,
    /// Of the revision asked for, available.
    pub new_available: usize,
    /// Of other revisions, in creation.
    pub old_creating: usize,
    /// Of other revisions, available.
    pub old_available: usize,
}

impl Counts {
    /// All that wait to be claimed, or will.
    pub fn all(&self) -> usize {
        let Self { new_creating, new_available, old_creating, old_available } = self;
        new_creating + new_available + old_creating + old_available
    }
}

type Order = BTreeSet<(Rank, Key)>;

/// The children of one set.
#[derive(Debug, Default)]
pub(super) struct Pool {
    children: BTreeMap<Key, Child>,
    /// Of each revision and class, in the order of a scale-down.
    order: BTreeMap<(Arc<str>, Class), Order>,
    ends: BTreeSet<(Timestamp, Key)>,
}

impl Pool {
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn insert(&mut self, child: Child) {
        self.remove(&child.key);
        let place = (Arc::clone(&child.revision), child.class);
        self.order.entry(place).or_default().insert((child.rank.clone(), child.key.clone()));
        if let Some(ends) = child.ends.filter(|_| child.class < Class::Dead) {
            self.ends.insert((ends, child.key.clone()));
        }
        self.children.insert(child.key.clone(), child);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let Some(child) = self.children.remove(key) else { return };
        let place = (Arc::clone(&child.revision), child.class);
        if let Some(order) = self.order.get_mut(&place) {
            order.remove(&(child.rank, child.key.clone()));
            if order.is_empty() {
                self.order.remove(&place);
            }
        }
        if let Some(ends) = child.ends {
            self.ends.remove(&(ends, child.key));
        }
    }

    /// Counts the children whose end has come among the dead.
    pub(super) fn expire(&mut self, now: Timestamp) {
        while let Some((ends, key)) = self.ends.first().cloned()
            && ends < now
        {
            self.ends.pop_first();
            if let Some(child) = self.children.get(&key).cloned() {
                self.insert(Child { class: Class::Dead, ..child });
            }
        }
    }

    /// When the next child ends by itself.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(ends, _)| *ends)
    }

    pub(super) fn counts(&self, revision: &str) -> Counts {
        let mut counts = Counts::default();
        for ((of, class), order) in &self.order {
            let is_new = **of == *revision;
            match (class, is_new) {
                (Class::Creating, true) => counts.new_creating += order.len(),
                (Class::Creating, false) => counts.old_creating += order.len(),
                (Class::Available, true) => counts.new_available += order.len(),
                (Class::Available, false) => counts.old_available += order.len(),
                _ => {}
            }
        }
        counts
    }

    /// Every revision that a child has.
    pub(super) fn revisions(&self) -> BTreeSet<Arc<str>> {
        self.order.keys().map(|(revision, _)| Arc::clone(revision)).collect()
    }

    /// The first `limit` children of this class, of the revision or of all others, in the order of a
    /// scale-down.
    pub(super) fn first(&self, class: Class, revision: Which<'_>, limit: usize) -> Vec<Child> {
        let places = self.order.iter().filter(|((of, is), _)| *is == class && revision.includes(of));
        let mut keys: Vec<_> = places.flat_map(|(_, order)| order.iter().take(limit)).collect();
        keys.sort_unstable();
        keys.into_iter().take(limit).filter_map(|(_, key)| self.children.get(key).cloned()).collect()
    }
}

/// Which revisions are meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which<'a> {
    Any,
    Only(&'a str),
    AllBut(&'a str),
}

impl Which<'_> {
    fn includes(self, revision: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(one) => revision == one,
            Self::AllBut(one) => revision != one,
        }
    }
}
