//! What reconcilers ask of the view: a pool with what it has to act on, and a batch with its pods.

use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::Seen;
use sandgate_objects::opensandbox::Malformed;
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool};

use super::fleet::{Fleet, PodClass, PoolCounts};
use super::{Need, OpenSandbox, OwnPod, PodState, PoolPod, Slots, account};
use crate::Key;
use crate::view::{Reserved, View};

/// A pool at one moment: its counts, and as much as was asked for of what it has to act on.
#[derive(Clone, Debug, Default)]
pub struct PoolLook {
    /// How many pods there are.
    pub counts: PoolCounts,
    /// Pods that were asked for and not seen.
    pub reserved: Vec<Reserved>,
    /// Pods to give away: of the revision asked for first, then of others; those that have been ready for
    /// longest first.
    pub free: Vec<Arc<Seen<PoolPod>>>,
    /// Idle pods of other revisions, least useful first.
    pub idle_old: Vec<Arc<Seen<PoolPod>>>,
    /// Idle pods of the revision asked for, least useful first, where there may be too many of them.
    pub idle_new: Vec<Arc<Seen<PoolPod>>>,
    /// Idle pods to be evicted.
    pub evict: Vec<Arc<Seen<PoolPod>>>,
    /// Idle pods that have ended.
    pub dead: Vec<Arc<Seen<PoolPod>>>,
    /// Idle pods of the revision asked for that are not ready, and should be by now.
    pub stuck: Vec<Arc<Seen<PoolPod>>>,
    /// When the next such pod is one of these.
    pub next_stuck: Option<Timestamp>,
    /// Pods that a batch lets go.
    pub releasing: Vec<Arc<Seen<PoolPod>>>,
    /// Pods that say that they are a batch's which does not hold them.
    pub orphans: Vec<Arc<Seen<PoolPod>>>,
    /// Pods that a batch holds without their saying so.
    pub held_unmarked: Vec<Arc<Seen<PoolPod>>>,
    /// The batches that lack something, oldest first.
    pub needs: Vec<Needy>,
    /// Whether there is more than was asked for of something that has to be acted on.
    pub more: bool,
}

/// A batch that lacks something, and what.
pub type Needy = (Arc<Seen<BatchSandbox>>, Need);

/// How full a pool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLevels {
    /// The pool.
    pub pool: Key,
    /// Every pod but those that are being deleted.
    pub total: usize,
    /// Pods that a batch holds.
    pub allocated: usize,
    /// Idle pods that are ready.
    pub available: usize,
    /// Pods that batches lack.
    pub lacking: usize,
}

/// A pod of a batch, or the slot where one is to be.
#[derive(Clone, Debug)]
pub struct BatchPod {
    /// Its index among the replicas.
    pub index: Option<u32>,
    /// Its name.
    pub key: Key,
    /// The pod; none if there is none of that name.
    pub pod: Option<SeenPod>,
}

/// A pod as it was seen, of whichever kind.
#[derive(Clone, Debug)]
pub enum SeenPod {
    /// Of a pool.
    Pool(Arc<Seen<PoolPod>>),
    /// The batch's own.
    Own(Arc<Seen<OwnPod>>),
}

impl Deref for SeenPod {
    type Target = PodState;

    fn deref(&self) -> &PodState {
        match self {
            Self::Pool(seen) => &seen.object,
            Self::Own(seen) => &seen.object,
        }
    }
}

impl View {
    /// A pool, with at most `limit` of each sort of pods and batches that it has to act on at this time.
    pub fn pool_look(&self, pool: &Seen<Pool>, revision: &str, limit: usize, now: Timestamp) -> PoolLook {
        let inner = self.shared.inner.lock();
        let world = &inner.opensandbox;
        let reserved: Vec<_> = inner.reserved.values().filter(|it| it.set == pool.uid).cloned().collect();
        let (needs, mut more) = world.needs_of(&pool.key, limit);
        let Some(fleet) = world.fleets.get(&pool.uid) else {
            return PoolLook { reserved, needs, more, ..PoolLook::default() };
        };
        let counts = fleet.counts(revision);
        let pods = |keys: Vec<&Key>| -> Vec<Arc<Seen<PoolPod>>> {
            keys.into_iter().filter_map(|key| world.pool_pods.get(key).cloned()).collect()
        };
        let mut all = |class: PodClass| {
            let mut keys = fleet.first(&[class], None, limit + 1);
            more |= keys.len() > limit;
            keys.truncate(limit);
            pods(keys)
        };
        let [evict, dead, releasing, orphans, held_unmarked] =
            [PodClass::Evict, PodClass::Dead, PodClass::Releasing, PodClass::Orphan, PodClass::HeldUnmarked]
                .map(&mut all);
        let (stuck, next_stuck) = fleet.stuck(revision, now, limit);
        let lacking: usize = needs.iter().map(|(_, need)| need.lacks()).sum();
        // A batch cannot be given what it has given back.
        let refused: usize = needs.iter().map(|(_, need)| need.released.len()).sum();
        let asked = if lacking == 0 { 0 } else { lacking.saturating_add(refused) };
        let buffer_max = usize::try_from(pool.spec.capacity_spec.buffer_max).unwrap_or_default();
        let may_shrink = counts.idle() + reserved.len() > buffer_max;
        let idle = [PodClass::IdleUnready, PodClass::IdleReady];
        let idle_of = |same| pods(fleet.first(&idle, Some((revision, same)), limit));
        PoolLook {
            counts,
            reserved,
            free: pods(free(fleet, revision, asked.min(limit.saturating_mul(2)))),
            idle_old: idle_of(false),
            // Of a pool that is as it should be nothing is copied.
            idle_new: if may_shrink { idle_of(true) } else { Vec::new() },
            evict,
            dead,
            stuck: pods(stuck),
            next_stuck,
            releasing,
            orphans,
            held_unmarked,
            needs,
            more,
        }
    }

    /// What the pool of a batch has to do for it.
    ///
    /// # Errors
    /// If the annotations of the batch cannot be read.
    pub fn needs(&self, batch: &Seen<BatchSandbox>) -> Result<Need, Malformed> {
        self.shared.inner.lock().opensandbox.need(batch)
    }

    /// The batches that name this pool.
    pub fn batches_of(&self, pool: &Key) -> Vec<Key> {
        let inner = self.shared.inner.lock();
        inner.opensandbox.of_pool.get(pool).into_iter().flatten().cloned().collect()
    }

    /// The batches that hold a pod. There is more than one only where another operator made it so.
    pub fn holders(&self, pod: &Key) -> Vec<Arc<Seen<BatchSandbox>>> {
        let inner = self.shared.inner.lock();
        let world = &inner.opensandbox;
        let holders = world.holders.get(pod).into_iter().flatten();
        holders.filter_map(|key| world.batches.get(key).cloned()).collect()
    }

    /// The pods of a batch in the order of its replicas: of a pool, the slots that are not to be released;
    /// else those that it controls.
    ///
    /// # Errors
    /// If the annotations of the batch cannot be read.
    pub fn batch_pods(&self, batch: &Seen<BatchSandbox>) -> Result<Vec<BatchPod>, Malformed> {
        let inner = self.shared.inner.lock();
        let world = &inner.opensandbox;
        if account::pool_of(batch).is_none() {
            return Ok(world.own_pods_of(batch));
        }
        let slots = Slots::of(batch)?;
        let kept =
            |(_, name): &(u32, &Arc<str>)| !slots.release.contains(*name) && !slots.released.contains(*name);
        let pods = (0..).zip(&slots.pods).filter(kept).map(|(index, name)| {
            let key = Key { namespace: Arc::clone(&batch.key.namespace), name: Arc::clone(name) };
            let pod = world.pool_pods.get(&key);
            // A pod that is marked as another batch's is not this one's, whatever its list says.
            let mark = super::mark_of(batch);
            let pod = pod.filter(|pod| pod.allocated_to.as_deref().is_none_or(|of| of == mark));
            BatchPod { index: Some(index), pod: pod.cloned().map(SeenPod::Pool), key }
        });
        Ok(pods.collect())
    }

    /// The pools of a namespace, in the order of their names.
    pub fn pools_in(&self, namespace: &str) -> Vec<Arc<Seen<Pool>>> {
        let inner = self.shared.inner.lock();
        inner.opensandbox.pools.within(Some(namespace)).cloned().collect()
    }

    /// How full each pool is.
    pub fn pool_levels(&self) -> Vec<PoolLevels> {
        let inner = self.shared.inner.lock();
        let world = &inner.opensandbox;
        let levels = world.pools.iter().map(|pool| {
            let counts = world.fleets.get(&pool.uid).map(|fleet| fleet.counts("")).unwrap_or_default();
            let batches = world.needy.get(&pool.key).into_iter().flatten();
            PoolLevels {
                pool: pool.key.clone(),
                total: counts.total(),
                allocated: counts.held,
                available: counts.ready(),
                lacking: batches.filter_map(|it| world.entries.get(&it.batch)).map(|it| it.lacks).sum(),
            }
        });
        levels.collect()
    }

    /// Whether a pool has as many pods as it may, and none that is idle.
    pub fn is_exhausted(&self, pool: &Key) -> bool {
        let inner = self.shared.inner.lock();
        let world = &inner.opensandbox;
        let Some(pool) = world.pools.get(pool) else { return false };
        let counts = world.fleets.get(&pool.uid).map(|fleet| fleet.counts("")).unwrap_or_default();
        let most = usize::try_from(pool.spec.capacity_spec.pool_max).unwrap_or_default();
        counts.idle() == 0 && counts.total() + counts.leaving >= most
    }

    /// The batches whose annotations cannot be read.
    pub fn malformed_batches(&self) -> Vec<Key> {
        self.shared.inner.lock().opensandbox.malformed.iter().cloned().collect()
    }

    /// Registers the name of a pod of a pool before it is asked for. False if the name is in use.
    pub fn reserve_pod(&self, pool: &Arc<str>, key: &Key, revision: &Arc<str>) -> bool {
        let mut inner = self.shared.inner.lock();
        if inner.opensandbox.pool_pods.get(key).is_some() || inner.reserved.contains_key(key) {
            return false;
        }
        let reserved = Reserved { key: key.clone(), revision: Arc::clone(revision), set: Arc::clone(pool) };
        inner.reserved.insert(key.clone(), reserved);
        true
    }
}

/// Pods to give away, of the revision asked for first.
fn free<'a>(fleet: &'a Fleet, revision: &str, limit: usize) -> Vec<&'a Key> {
    let mut free = fleet.first(&[PodClass::IdleReady], Some((revision, true)), limit);
    let rest = limit - free.len();
    free.extend(fleet.first(&[PodClass::IdleReady], Some((revision, false)), rest));
    free
}

impl OpenSandbox {
    fn need(&self, batch: &Seen<BatchSandbox>) -> Result<Need, Malformed> {
        account::need(batch, |name| self.pool_pods.get(&Key::new(&batch.key.namespace, name)))
    }

    /// The first batches of a pool that lack something, and whether there are more.
    fn needs_of(&self, pool: &Key, limit: usize) -> (Vec<Needy>, bool) {
        let Some(line) = self.needy.get(pool) else { return Default::default() };
        let batches = line.iter().take(limit).filter_map(|turn| self.batches.get(&turn.batch));
        let needs = batches.filter_map(|batch| Some((Arc::clone(batch), self.need(batch).ok()?)));
        (needs.collect(), line.len() > limit)
    }

    fn own_pods_of(&self, batch: &Seen<BatchSandbox>) -> Vec<BatchPod> {
        let keys = self.own.get(&batch.uid).into_iter().flatten();
        let pods = keys.filter_map(|key| self.own_pods.get(key));
        let mut pods: Vec<_> = pods
            .map(|pod| BatchPod {
                index: pod.index,
                key: pod.key.clone(),
                pod: Some(SeenPod::Own(Arc::clone(pod))),
            })
            .collect();
        pods.sort_by(|one, other| {
            let place = |pod: &BatchPod| (pod.index.is_none(), pod.index);
            place(one).cmp(&place(other)).then_with(|| one.key.cmp(&other.key))
        });
        pods
    }
}
