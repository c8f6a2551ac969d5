//! The pods of one pool, in the order in which the pool gives them away and lets them go.
//!
//! Each change of a pod costs a few tree operations. A look at the pool reads counts, and as many pods as it
//! acts on: neither grows with the pods that did not change.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::opensandbox::names;

use super::{PodPhase, PodState};
use crate::Key;

/// How long an idle pod may wait in a way that it will not get out of without help.
const FAILING_FOR: SignedDuration = SignedDuration::from_secs(60);

/// How long an idle pod that has a node may be unready: the time after which a Deployment says that it makes
/// no progress.
const UNREADY_FOR: SignedDuration = SignedDuration::from_secs(600);

/// What a pool makes of one of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodClass {
    /// It is being deleted.
    Leaving,
    /// A batch holds it.
    Held,
    /// A batch holds it, and nobody has written onto the pod whose it is.
    HeldUnmarked,
    /// A batch holds it and wants to let it go.
    Releasing,
    /// It says of itself that it is a batch's, and that batch does not hold it.
    Orphan,
    /// Idle, and somebody asked for its eviction.
    Evict,
    /// Idle, and it has ended by itself.
    Dead,
    /// Idle, not ready.
    IdleUnready,
    /// Idle and ready: it may be given away.
    IdleReady,
}

/// How a pod of a pool stands with the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// No batch holds it.
    Free,
    /// A batch holds it.
    Held,
    /// A batch holds it and wants to let it go.
    Releasing,
}

/// The order in which idle pods are let go: first what was not placed, then what has not started, then what
/// is not ready, then what has been ready for longest, has a container that was restarted most often, is
/// newest. How long a pod has not been ready says nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    has_node: bool,
    phase: PodPhase,
    is_ready: bool,
    ready_since: Option<Timestamp>,
    restarts: Reverse<u32>,
    created: Reverse<Timestamp>,
    name: Arc<str>,
}

/// Where a pod is kept in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) class: PodClass,
    revision: Arc<str>,
    rank: Rank,
    /// When it is given up, if it is idle and is not ready by then.
    given_up: Option<Timestamp>,
}

impl Place {
    pub(super) fn of(key: &Key, pod: &PodState, standing: Standing) -> Self {
        let class = match standing {
            _ if pod.is_deleting => PodClass::Leaving,
            Standing::Releasing => PodClass::Releasing,
            Standing::Held if pod.allocated_to.is_none() => PodClass::HeldUnmarked,
            Standing::Held => PodClass::Held,
            Standing::Free if pod.allocated_to.is_some() => PodClass::Orphan,
            Standing::Free if pod.wants_eviction => PodClass::Evict,
            Standing::Free if pod.has_ended() => PodClass::Dead,
            Standing::Free if pod.is_ready => PodClass::IdleReady,
            Standing::Free => PodClass::IdleUnready,
        };
        Self {
            class,
            revision: Arc::clone(&pod.revision),
            rank: Rank {
                has_node: pod.node.is_some(),
                phase: pod.phase,
                is_ready: pod.is_ready,
                ready_since: pod.ready_since.filter(|_| pod.is_ready),
                restarts: Reverse(pod.restarts()),
                created: Reverse(pod.created),
                name: Arc::clone(&key.name),
            },
            given_up: given_up(pod).filter(|_| class == PodClass::IdleUnready),
        }
    }
}

/// When a pod that is not ready is given up. One without a node never is: another one would not be placed
/// either.
fn given_up(pod: &PodState) -> Option<Timestamp> {
    pod.node.as_ref()?;
    let is_failing = |reason: &str| names::FAILED_WAITING.contains(&reason);
    let fails = pod.containers.iter().any(|it| it.waiting.as_deref().is_some_and(is_failing));
    let since = pod.ready_since.map_or(pod.created, |since| since.max(pod.created));
    since.checked_add(if fails { FAILING_FOR } else { UNREADY_FOR }).ok()
}

/// How many pods a pool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Being deleted.
    pub leaving: usize,
    /// Held by a batch, those that it lets go among them.
    pub held: usize,
    /// A batch's by their own word alone.
    pub orphans: usize,
    /// Idle and to be evicted.
    pub evicting: usize,
    /// Idle and ended.
    pub dead: usize,
    /// Idle and ready, of the revision asked for.
    pub ready_new: usize,
    /// Idle and ready, of other revisions.
    pub ready_old: usize,
    /// Idle and not ready, of the revision asked for.
    pub unready_new: usize,
    /// Idle and not ready, of other revisions.
    pub unready_old: usize,
    /// Of the revision asked for, idle or not, but for those that are being deleted.
    pub updated: usize,
}

impl PoolCounts {
    /// Every pod but those that are being deleted.
    pub fn total(&self) -> usize {
        self.held + self.orphans + self.evicting + self.dead + self.idle()
    }

    /// Pods that may be given away, now or when they are ready.
    pub fn idle(&self) -> usize {
        self.ready() + self.unready_new + self.unready_old
    }

    /// Pods that may be given away now.
    pub fn ready(&self) -> usize {
        self.ready_new + self.ready_old
    }
}

/// Pods, in the order in which they are let go.
type Ranked = BTreeSet<(Rank, Key)>;

/// The pods of one pool.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    places: BTreeMap<Key, Place>,
    order: BTreeMap<(PodClass, Arc<str>), Ranked>,
    /// Idle pods that are not ready, in the order in which they are given up.
    given_up: BTreeSet<(Timestamp, Key)>,
}

impl Fleet {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Puts a pod where it belongs. Whether that changed anything.
    pub(super) fn put(&mut self, key: &Key, place: Place) -> bool {
        if self.places.get(key) == Some(&place) {
            return false;
        }
        self.take(key);
        let Place { class, revision, rank, given_up } = place.clone();
        self.given_up.extend(given_up.map(|at| (at, key.clone())));
        self.order.entry((class, revision)).or_default().insert((rank, key.clone()));
        self.places.insert(key.clone(), place);
        true
    }

    /// Takes a pod out. Whether it was there.
    pub(super) fn take(&mut self, key: &Key) -> bool {
        let Some(Place { class, revision, rank, given_up }) = self.places.remove(key) else { return false };
        if let Some(at) = given_up {
            self.given_up.remove(&(at, key.clone()));
        }
        let at = (class, revision);
        if let Some(order) = self.order.get_mut(&at) {
            order.remove(&(rank, key.clone()));
            if order.is_empty() {
                self.order.remove(&at);
            }
        }
        true
    }

    pub(super) fn counts(&self, revision: &str) -> PoolCounts {
        let mut counts = PoolCounts::default();
        for ((class, of), order) in &self.order {
            let (is_new, count) = (**of == *revision, order.len());
            if is_new && *class != PodClass::Leaving {
                counts.updated += count;
            }
            *match (class, is_new) {
                (PodClass::Leaving, _) => &mut counts.leaving,
                (PodClass::Held | PodClass::HeldUnmarked | PodClass::Releasing, _) => &mut counts.held,
                (PodClass::Orphan, _) => &mut counts.orphans,
                (PodClass::Evict, _) => &mut counts.evicting,
                (PodClass::Dead, _) => &mut counts.dead,
                (PodClass::IdleReady, true) => &mut counts.ready_new,
                (PodClass::IdleReady, false) => &mut counts.ready_old,
                (PodClass::IdleUnready, true) => &mut counts.unready_new,
                (PodClass::IdleUnready, false) => &mut counts.unready_old,
            } += count;
        }
        counts
    }

    /// The first idle pods of this revision that are not ready in time, and when the next one is given up.
    pub(super) fn stuck(
        &self,
        revision: &str,
        now: Timestamp,
        limit: usize,
    ) -> (Vec<&Key>, Option<Timestamp>) {
        let of_revision =
            |(_, key): &&(Timestamp, Key)| self.places.get(key).is_some_and(|it| *it.revision == *revision);
        let mut all = self.given_up.iter().filter(of_revision).peekable();
        let mut stuck = Vec::new();
        while stuck.len() < limit
            && let Some((_, key)) = all.next_if(|(at, _)| *at <= now)
        {
            stuck.push(key);
        }
        (stuck, all.peek().map(|(at, _)| *at))
    }

    /// The first pods of these classes, of this revision, of all others (`Some(false)`), or of any.
    pub(super) fn first(
        &self,
        classes: &[PodClass],
        revision: Option<(&str, bool)>,
        limit: usize,
    ) -> Vec<&Key> {
        let is_meant = |of: &str| revision.is_none_or(|(revision, same)| (of == revision) == same);
        let meant = self.order.iter().filter(|((class, of), _)| classes.contains(class) && is_meant(of));
        let mut found: Vec<_> = meant.flat_map(|(_, order)| order.iter().take(limit)).collect();
        found.sort_unstable();
        found.into_iter().take(limit).map(|(_, key)| key).collect()
    }
}
