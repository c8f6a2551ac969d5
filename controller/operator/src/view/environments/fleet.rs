//! The pods that name one pool, by who controls each: in classes, in the order of their age.
//!
//! A label says less than an owner: pods that name a pool may be left from an older one of this name, or be
//! somebody else's. So a pool's pods are those that its UID controls, and the others are kept apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::Seen;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPhase};

use crate::Key;

/// What a pod is to its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnvPodClass {
    /// It waits for a claim, and is ready for one.
    IdleReady,
    /// It waits for a claim, and is not ready for one.
    IdleUnready,
    /// It waits for a claim, and is marked to be deleted.
    IdleMarked,
    /// It is claimed, and its images are being changed.
    Starting,
    /// It is a sandbox.
    Running,
    /// It is released, and its images are being changed back.
    Stopping,
    /// Its label says that it cannot be used.
    Failed,
    /// The kubelet says that it has ended by itself, whatever its label says.
    Ended,
    /// It is being deleted.
    Deleting,
}

/// How many pods a pool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvPodCounts {
    /// Those that wait for a claim, ready or not, marked or not.
    pub idle: usize,
    /// Those of them that are ready and not marked.
    pub idle_ready: usize,
    /// Those of them that are not ready.
    pub idle_unready: usize,
    /// Those of them that are marked to be deleted.
    pub idle_marked: usize,
    /// Those that are claimed and not yet sandboxes.
    pub starting: usize,
    /// Those that are sandboxes.
    pub running: usize,
    /// Those that are released and not yet idle.
    pub stopping: usize,
    /// Those that cannot be used.
    pub failed: usize,
    /// Those that have ended by themselves.
    pub ended: usize,
    /// Those that are being deleted. They are in no other count.
    pub deleting: usize,
    /// Those that are of the revision asked for and not being deleted.
    pub updated: usize,
}

impl EnvPodCounts {
    /// The pods that count: idle, claimed and released ones.
    pub fn current(&self) -> usize {
        self.idle + self.starting + self.running + self.stopping
    }
}

impl EnvPodClass {
    /// The class of a pod.
    pub fn of(pod: &EnvPod) -> Self {
        if pod.is_deleting() {
            return Self::Deleting;
        }
        if matches!(pod.phase.as_str(), "Failed" | "Succeeded") {
            return Self::Ended;
        }
        match pod.sandbox_phase() {
            SandboxPhase::Idle if pod.is_marked() => Self::IdleMarked,
            SandboxPhase::Idle if pod.is_ready => Self::IdleReady,
            SandboxPhase::Idle => Self::IdleUnready,
            SandboxPhase::Starting => Self::Starting,
            SandboxPhase::Running => Self::Running,
            SandboxPhase::Stopping => Self::Stopping,
            SandboxPhase::Failed => Self::Failed,
        }
    }

    /// Whether the pod waits for a claim.
    pub fn is_idle(self) -> bool {
        matches!(self, Self::IdleReady | Self::IdleUnready | Self::IdleMarked)
    }
}

/// The place of a pod among those of its class: by age, then by name.
type Place = (Timestamp, Key);

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// The UID of its controller; empty if it has none.
    owner: Arc<str>,
    class: EnvPodClass,
    created: Timestamp,
    revision: Arc<str>,
    /// Since when it waits for a claim.
    idle_since: Timestamp,
}

/// The pods that name one pool.
#[derive(Default)]
pub(super) struct Fleet {
    /// By the UID of who controls them.
    owned: BTreeMap<Arc<str>, Owned>,
    entries: BTreeMap<Key, Entry>,
    /// The pods that were shown anew since somebody last asked.
    changed: BTreeSet<Key>,
}

/// The pods of one controller.
#[derive(Default)]
pub(super) struct Owned {
    classes: BTreeMap<EnvPodClass, BTreeSet<Place>>,
    /// Since when each idle pod waits.
    waits: BTreeSet<Place>,
    /// How many pods that are not being deleted have each revision.
    revisions: BTreeMap<Arc<str>, usize>,
    /// How many pods there are.
    count: usize,
}

impl Entry {
    fn of(pod: &Seen<EnvPod>) -> Self {
        // A pod that was a sandbox before has waited since it was given back.
        let back = pod.time(names::ANNOTATION_TERMINATED_AT);
        let created = pod.created();
        Self {
            owner: pod.controller().map_or("", |owner| &owner.uid).into(),
            class: EnvPodClass::of(pod),
            created,
            revision: pod.label(names::LABEL_TEMPLATE_HASH).into(),
            idle_since: back.filter(|back| *back > created).unwrap_or(created),
        }
    }
}

impl Fleet {
    /// Takes a pod in as it is now. Whether anything is different.
    pub(super) fn put(&mut self, pod: &Seen<EnvPod>) -> bool {
        let entry = Entry::of(pod);
        self.changed.insert(pod.key.clone());
        if self.entries.get(&pod.key) == Some(&entry) {
            return false;
        }
        self.take_out(&pod.key);
        self.owned.entry(Arc::clone(&entry.owner)).or_default().put(&pod.key, &entry);
        self.entries.insert(pod.key.clone(), entry);
        true
    }

    /// Takes a pod out.
    pub(super) fn remove(&mut self, key: &Key) {
        self.take_out(key);
        self.changed.remove(key);
    }

    fn take_out(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else { return };
        let Some(owned) = self.owned.get_mut(&entry.owner) else { return };
        owned.take_out(key, &entry);
        if owned.count == 0 {
            self.owned.remove(&entry.owner);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The pods that were shown anew since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.changed)
    }

    /// Every pod, whoever controls it.
    pub(super) fn all(&self) -> impl Iterator<Item = &Key> {
        self.entries.keys()
    }

    /// The pods that an object of this UID controls, if there are any.
    pub(super) fn of_owner(&self, uid: &str) -> Option<&Owned> {
        self.owned.get(uid)
    }
}

impl Owned {
    fn put(&mut self, key: &Key, entry: &Entry) {
        self.count += 1;
        self.classes.entry(entry.class).or_default().insert((entry.created, key.clone()));
        if entry.class.is_idle() {
            self.waits.insert((entry.idle_since, key.clone()));
        }
        if entry.class != EnvPodClass::Deleting {
            *self.revisions.entry(Arc::clone(&entry.revision)).or_default() += 1;
        }
    }

    fn take_out(&mut self, key: &Key, entry: &Entry) {
        self.count = self.count.saturating_sub(1);
        if let Some(places) = self.classes.get_mut(&entry.class) {
            places.remove(&(entry.created, key.clone()));
        }
        self.waits.remove(&(entry.idle_since, key.clone()));
        if entry.class != EnvPodClass::Deleting
            && let Some(count) = self.revisions.get_mut(&entry.revision)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.revisions.remove(&entry.revision);
            }
        }
    }

    /// The keys of a class, oldest first.
    pub(super) fn of(&self, class: EnvPodClass) -> impl Iterator<Item = &Key> {
        self.classes.get(&class).into_iter().flatten().map(|(_, key)| key)
    }

    /// Since when each idle pod waits, longest first.
    pub(super) fn idle_since(&self, limit: usize) -> Vec<Timestamp> {
        self.waits.iter().take(limit).map(|(since, _)| *since).collect()
    }

    pub(super) fn counts(&self, revision: &str) -> EnvPodCounts {
        let count = |class| self.classes.get(&class).map_or(0, BTreeSet::len);
        let [idle_ready, idle_unready, idle_marked] =
            [EnvPodClass::IdleReady, EnvPodClass::IdleUnready, EnvPodClass::IdleMarked].map(count);
        EnvPodCounts {
            idle: idle_ready + idle_unready + idle_marked,
            idle_ready,
            idle_unready,
            idle_marked,
            starting: count(EnvPodClass::Starting),
            running: count(EnvPodClass::Running),
            stopping: count(EnvPodClass::Stopping),
            failed: count(EnvPodClass::Failed),
            ended: count(EnvPodClass::Ended),
            deleting: count(EnvPodClass::Deleting),
            updated: self.revisions.get(revision).copied().unwrap_or(0),
        }
    }
}
