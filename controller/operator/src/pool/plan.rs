//! What is to be done for a pool: a function of what was observed, and of nothing else.
//!
//! 1. **Allocate**: batches that lack pods get some that are ready, first come, first served. Slots that have
//!    lost their pod come before new ones.
//! 2. **Take back**: pods that their batches let go are recycled, and so are those that say that they are a
//!    batch's which does not hold them.
//! 3. **Evict** idle pods, by the pool's handler, and delete those that have ended or should be ready by now.
//! 4. **Update**: idle pods of older revisions go, by the pool's strategy.
//! 5. **Scale**: see [`capacity`]. Of too many the least useful ones go, those of older
//!    revisions first.
//!
//! No pod is meant by two of these.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::opensandbox::resources::BatchSandbox;

use super::allocate::Request;
use super::capacity::{self, Levels};
use super::evict::Eviction;
use super::observe::{Observed, Pair};
use super::terms::share;
use super::update::Outdated;
use crate::Key;
use crate::failures::Failures;
use crate::view::{Need, PoolPod, Seen, mark_of};

/// How many pods one look at a pool makes at most: the batches from 16 to 256.
pub(super) const MAX_CREATES: usize = 16 + 32 + 64 + 128 + 256;

/// A pod for a batch.
#[derive(Clone, Debug)]
pub(super) struct Gift {
    /// The slot that it takes; none is the next one.
    pub(super) slot: Option<usize>,
    /// The pod.
    pub(super) pod: Arc<Seen<PoolPod>>,
}

/// What is to be done about one batch, in one patch.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The batch.
    pub(super) batch: Arc<Seen<BatchSandbox>>,
    /// Pods to give.
    pub(super) give: Vec<Gift>,
    /// Pods to take back.
    pub(super) release: Vec<Arc<Seen<PoolPod>>>,
    /// Pods that say that they are its, and that it does not hold.
    pub(super) orphans: Vec<Arc<Seen<PoolPod>>>,
    /// Pods that it could be given if it had not given them back before: to be taken out of that list.
    pub(super) forget: BTreeSet<Arc<str>>,
}

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// What is to be done about batches.
    pub(super) turns: Vec<Turn>,
    /// Pods that say that they are a batch's which is not known.
    pub(super) strays: Vec<Arc<Seen<PoolPod>>>,
    /// Pods that were claimed in this look for batches that do not want them any more.
    pub(super) unclaim: Vec<Arc<Seen<PoolPod>>>,
    /// Pods onto which is to be written whose they are.
    pub(super) stamp: Vec<Pair>,
    /// Idle pods to evict.
    pub(super) evict: Vec<Arc<Seen<PoolPod>>>,
    /// Idle pods that are not ready in time, to be given up.
    pub(super) stuck: Vec<Arc<Seen<PoolPod>>>,
    /// Other idle pods to delete.
    pub(super) delete: Vec<Arc<Seen<PoolPod>>>,
    /// How many pods to make.
    pub(super) create: usize,
    /// How many pods batches lack that they are not given.
    pub(super) unmet: usize,
    /// Whether `poolMax` keeps pods from being made that batches wait for.
    pub(super) is_exhausted: bool,
    /// The failures, with those that were found now.
    pub(super) failures: Failures,
    /// When to look again.
    pub(super) again: Option<Timestamp>,
}

/// The pods that were claimed in this look and not given yet, each with its mark.
pub(super) type Claimed = BTreeMap<Key, Arc<str>>;

/// Makes the plan.
pub(super) fn plan(observed: &Observed, claimed: &Claimed) -> Plan {
    let look = &observed.look;
    let mut plan = Plan { failures: observed.failures.clone(), ..Plan::default() };
    let mut turns = Turns::default();
    let given = allocate(observed, claimed, &mut plan, &mut turns);
    for Pair { pod, batch } in &observed.releasing {
        turns.of(batch).release.push(Arc::clone(pod));
    }
    let is_claimed = |pod: &Arc<Seen<PoolPod>>| claimed.contains_key(&pod.key);
    for Pair { pod, batch } in observed.orphans.iter().filter(|pair| !given.contains(&pair.pod.key)) {
        match is_claimed(pod) {
            true => plan.unclaim.push(Arc::clone(pod)),
            false => turns.of(batch).orphans.push(Arc::clone(pod)),
        }
    }
    let (unclaim, strays): (Vec<_>, Vec<_>) = observed.strays.iter().cloned().partition(is_claimed);
    plan.unclaim.extend(unclaim);
    plan.strays = strays;
    plan.turns = turns.all;
    plan.stamp.clone_from(&observed.unmarked);
    let goes = |pod: &&Arc<Seen<PoolPod>>| observed.strategies.eviction.of_idle(pod) == Eviction::Delete;
    plan.evict = look.evict.iter().filter(goes).cloned().collect();
    plan.delete.clone_from(&look.dead);
    let has_failed = |pod: &&Arc<Seen<PoolPod>>| pod.revision == observed.revision;
    if let Some(created) = look.dead.iter().filter(has_failed).map(|pod| pod.created).max() {
        plan.failures = plan.failures.and(&observed.revision, created, observed.now);
    }
    give_up(observed, &mut plan);
    scale(observed, &mut plan, &given);
    plan
}

/// Gives up pods that are not ready in time. They count as failures; while the pool waits after failures they
/// stay, as nothing is made in their place.
fn give_up(observed: &Observed, plan: &mut Plan) {
    let Observed { look, revision, now, .. } = observed;
    plan.again = look.next_stuck;
    let Some(created) = look.stuck.iter().map(|pod| pod.created).max() else { return };
    if let Some(until) = plan.failures.wait(revision, *now) {
        plan.again = sooner(plan.again, until);
        return;
    }
    plan.failures = std::mem::take(&mut plan.failures).and_stuck(revision, created, *now);
    plan.stuck.clone_from(&look.stuck);
}

fn sooner(at: Option<Timestamp>, other: Timestamp) -> Option<Timestamp> {
    Some(at.map_or(other, |at| at.min(other)))
}

/// The turns of batches, one for each.
#[derive(Default)]
struct Turns {
    all: Vec<Turn>,
    places: BTreeMap<Key, usize>,
}

impl Turns {
    fn of(&mut self, batch: &Arc<Seen<BatchSandbox>>) -> &mut Turn {
        let place = *self.places.entry(batch.key.clone()).or_insert_with(|| {
            let (give, release, orphans) = (Vec::new(), Vec::new(), Vec::new());
            let batch = Arc::clone(batch);
            self.all.push(Turn { batch, give, release, orphans, forget: BTreeSet::new() });
            self.all.len() - 1
        });
        &mut self.all[place]
    }
}

/// Gives pods away. Returns the pods that are given.
fn allocate(observed: &Observed, claimed: &Claimed, plan: &mut Plan, turns: &mut Turns) -> BTreeSet<Key> {
    let look = &observed.look;
    let refused: Vec<BTreeSet<_>> = look
        .needs
        .iter()
        .map(|(_, need)| need.slots.iter().chain(&need.released).cloned().collect())
        .collect();
    // What was claimed for a batch in this look is the batch's, if it still wants it.
    let mut kept: Vec<Vec<Arc<Seen<PoolPod>>>> = vec![Vec::new(); look.needs.len()];
    for ((batch, need), (kept, refused)) in look.needs.iter().zip(kept.iter_mut().zip(&refused)) {
        let mark = mark_of(batch);
        let pods = observed.orphans.iter().map(|pair| &pair.pod);
        let mine = pods.filter(|pod| claimed.get(&pod.key).is_some_and(|of| **of == *mark));
        let mine = mine.filter(|pod| pod.is_ready && !refused.contains(&pod.key.name));
        kept.extend(mine.take(need.lacks()).cloned());
    }
    let requests: Vec<_> = look
        .needs
        .iter()
        .zip(&kept)
        .zip(&refused)
        .map(|(((_, need), kept), refused)| Request { wanted: need.lacks() - kept.len(), refused })
        .collect();
    let names: Vec<_> = look.free.iter().map(|pod| Arc::clone(&pod.key.name)).collect();
    let assigned = observed.strategies.allocation.assign(&requests, &names);
    let mut given: BTreeSet<_> = kept.iter().flatten().map(|pod| pod.key.clone()).collect();
    given.extend(assigned.iter().flatten().map(|&at| look.free[at].key.clone()));
    for (((batch, need), kept), assigned) in look.needs.iter().zip(kept).zip(assigned) {
        let pods: Vec<_> =
            kept.into_iter().chain(assigned.into_iter().map(|at| Arc::clone(&look.free[at]))).collect();
        let missing = need.lacks() - pods.len();
        plan.unmet += missing;
        let forget: BTreeSet<_> = match missing {
            0 => BTreeSet::new(),
            _ => {
                let left = look.free.iter().filter(|pod| !given.contains(&pod.key));
                let left = left.map(|pod| &pod.key.name).filter(|name| need.released.contains(*name));
                left.filter(|name| !need.slots.contains(*name)).take(missing).cloned().collect()
            }
        };
        if pods.is_empty() && forget.is_empty() && !has_other_needs(need) {
            continue;
        }
        let slots = need.replace.iter().map(|slot| Some(*slot)).chain(std::iter::repeat(None));
        let turn = turns.of(batch);
        turn.give = slots.zip(pods).map(|(slot, pod)| Gift { slot, pod }).collect();
        turn.forget = forget;
    }
    given
}

fn has_other_needs(need: &Need) -> bool {
    need.cut > 0 || !need.release_over.is_empty() || need.drop_finalizer || need.add_finalizer
}

/// Updates and scales.
fn scale(observed: &Observed, plan: &mut Plan, given: &BTreeSet<Key>) {
    let Observed { pool, look, terms, now, .. } = observed;
    let counts = look.counts;
    let free_given = look.free.iter().filter(|pod| given.contains(&pod.key));
    let given_old = free_given.clone().filter(|pod| pod.revision != observed.revision).count();
    let given_free = free_given.count();
    let given_claimed = given.len() - given_free;
    let reserved = look.reserved.len();
    let wait = plan.failures.wait(&observed.revision, *now);
    let unready = (counts.unready_new + counts.unready_old).saturating_sub(plan.stuck.len());
    let (ready, in_flight) = (counts.ready().saturating_sub(given_free), unready + reserved);
    let all = counts.total() + reserved + counts.leaving;
    let room = terms.pool_max.saturating_sub(all);
    // What the maximum keeps from being made is not on its way.
    let missing = (plan.unmet + terms.buffer_min).saturating_sub(ready + in_flight).min(room);
    let strategy = pool.spec.update_strategy.as_ref();
    let replaced = observed.strategies.update.replace(&Outdated {
        max_unavailable: strategy.and_then(|strategy| strategy.max_unavailable.as_ref()),
        pods: counts.held + counts.idle() + counts.orphans,
        unready_old: counts.unready_old,
        ready_old: counts.ready_old.saturating_sub(given_old),
        unavailable_new: counts.unready_new + reserved + missing,
        room,
        leaving: counts.leaving,
        is_waiting: wait.is_some(),
    });
    let given_up: BTreeSet<_> = plan.stuck.iter().map(|pod| pod.key.clone()).collect();
    let stays = |pod: &&Arc<Seen<PoolPod>>| !given.contains(&pod.key) && !given_up.contains(&pod.key);
    let (ready_old, unready_old): (Vec<_>, Vec<_>) =
        look.idle_old.iter().filter(stays).cloned().partition(|pod| pod.is_ready);
    let mut old = unready_old.into_iter().chain(ready_old);
    let goes: Vec<_> = old.by_ref().take(replaced).collect();
    let ready_goes = goes.iter().filter(|pod| pod.is_ready).count();
    let levels = Levels {
        held: counts.held + given_free + given_claimed,
        waited_for: plan.unmet,
        ready: ready.saturating_sub(ready_goes),
        in_flight: in_flight.saturating_sub(goes.len() - ready_goes),
        replaced: goes.len(),
        others: counts.orphans.saturating_sub(given_claimed)
            + counts.evicting
            + counts.dead
            + plan.stuck.len(),
        // What those who wait were offered and is left, they cannot be given.
        refused: if plan.unmet > 0 { look.free.len().saturating_sub(given_free) } else { 0 },
        leaving: counts.leaving,
    };
    let limit = pool.spec.scale_strategy.as_ref().and_then(|it| it.max_unavailable.as_ref());
    let change = capacity::change(terms, &levels, |whole| share(limit, whole));
    plan.delete.extend(goes);
    plan.delete.extend(old.chain(look.idle_new.iter().filter(stays).cloned()).take(change.delete));
    plan.is_exhausted = change.is_exhausted;
    let is_behind = counts.ready_old > given_old;
    match wait {
        None => plan.create = change.create.min(MAX_CREATES),
        Some(until) if change.create > 0 || is_behind => plan.again = sooner(plan.again, until),
        Some(_) => {}
    }
}
