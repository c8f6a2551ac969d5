//! What is done for one batch.
//!
//! # Protocol
//! The mark on the pod is the lock; the list of the batch says what was given. In this order:
//! 1. The pods to give are claimed, the pods to take back are recycled, and whatever the patch depends on and
//!    the view may know too late is read.
//! 2. One patch of the batch, which carries the version that 1. was decided on.
//! 3. Pods that were taken back and live lose their mark, and can be given to the next batch. Orphans are
//!    recycled first.
//!
//! Whatever is cut off after 1. leaves pods that say that they are a batch's which does not hold them:
//! orphans. Whatever is cut off after 2. leaves pods with the mark of a batch that has given them back:
//! orphans, too.
//!
//! # Why no pod is in two batches
//! - A pod is given to a batch only in a patch of a version of the batch that was read before the pod was
//!   seen, by its own version, to be claimed for it.
//! - A mark is taken off only after the batch was written or read with the pod's name among those that were
//!   given back. Before that, a patch that gives the pod does not see the name, and conflicts. After that, it
//!   sees it, and does not give the pod.
//! - A name leaves that list only once the pod is known not to have the mark.
//!
//! So of two controllers that act at the same time one loses, whoever leads.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::{join, join_all, join3};
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::BatchSandbox;

use super::super::PoolReconciler;
use super::super::ledger::{Happened, Known, compose};
use super::super::observe::{LOOK, Observed, is_marked};
use super::super::plan::{Gift, Turn};
use super::recycling::Recycled;
use super::{Applied, Pass};
use crate::Key;
use crate::view::{PoolPod, Seen, Slots, mark_of, may_have_a_task};
use crate::writes::{Merge, WriteError};

/// Pods of a batch that came back and live.
type Kept = Vec<Arc<Seen<PoolPod>>>;

/// How many pods one turn asks the API server for at most. What is left is asked for in the next one.
const ASKED: usize = LOOK;
/// How many names without a slot a turn asks for beside that: those of pods that are gone leave the list.
const TIDIED: usize = 16;

impl PoolReconciler {
    /// Does what is to be done for one batch.
    pub(super) async fn turn(&self, observed: &Observed, turn: &Turn, pass: &Pass) -> Applied {
        let Turn { batch, give, release, orphans, forget } = turn;
        // A list that cannot be read any more takes the batch out.
        let (Ok(before), Ok(need)) = (Slots::of(batch), self.view.needs(batch)) else {
            return Applied::default();
        };
        let mut done = Applied::default();
        let mut happened = Happened::default();
        let lets_go: BTreeSet<_> = before.to_release(batch).into_iter().collect();
        let release: Vec<_> = release.iter().filter(|pod| lets_go.contains(&pod.key.name)).collect();
        // The view may have learnt since that a pod is there that the plan took for lost.
        let is_wanted = |gift: &&Gift| gift.slot.is_none_or(|slot| need.replace.contains(&slot));
        let give: Vec<_> = give.iter().filter(is_wanted).cloned().collect();
        let cut = before.pods.iter().rev().take(need.cut);
        let mut asked: BTreeSet<_> =
            cut.chain(forget).chain(&need.release_over).take(ASKED).cloned().collect();
        asked.extend(self.gone(batch, &before).into_iter().cloned());
        let (given, back, parted) = join3(
            self.give(observed, batch, &before, &give, pass),
            self.take_back(observed, batch, &release),
            self.parted(batch, &asked),
        )
        .await;
        let (given, applied) = given;
        done.add(applied);
        let (kept, applied) = back;
        done.add(applied);
        let (parted, applied) = parted;
        done.add(applied);

        happened.cut = need.cut;
        happened.given = given.iter().map(|(slot, pod)| (*slot, Arc::clone(&pod.key.name))).collect();
        let over = need.release_over.iter().filter(|name| parted.contains(*name));
        happened.back.extend(over.cloned());
        happened.back.extend(kept.back.iter().cloned());
        happened.parted = parted;
        happened.parted.extend(kept.ended.iter().cloned());
        let orphans: Vec<_> =
            orphans.iter().filter(|pod| !before.held().any(|name| *name == pod.key.name)).collect();
        happened.back.extend(orphans.iter().map(|pod| Arc::clone(&pod.key.name)));

        match self.write_ledger(batch, &before, &happened, &given, !orphans.is_empty()).await {
            Ok(has_acted) => {
                done.has_acted |= has_acted;
                given.iter().for_each(|(_, pod)| pass.settle(&pod.key));
                if !given.is_empty() {
                    self.served(observed, batch, given.len(), need.lacks());
                }
            }
            Err(error) => {
                if matches!(error, WriteError::Unanswered(_)) {
                    // It may have been done: these pods are the batch's until it says otherwise.
                    given.iter().for_each(|(_, pod)| pass.settle(&pod.key));
                }
                done.add(self.after(batch, error).await);
                return done;
            }
        }
        let freed = join_all(kept.kept.iter().map(|pod| self.set_free(pod)));
        let orphans = join_all(orphans.into_iter().map(|pod| self.orphan(observed, Some(batch), pod)));
        let (freed, orphans) = join(freed, orphans).await;
        freed.into_iter().chain(orphans).for_each(|one| done.add(one));
        done
    }

    /// Some of the names that the batch gave back, that have no slot, and whose pod the view does not have.
    fn gone<'a>(&self, batch: &Seen<BatchSandbox>, slots: &'a Slots) -> Vec<&'a Arc<str>> {
        let in_slots: BTreeSet<_> = slots.pods.iter().collect();
        let key = |name: &str| Key::new(&batch.key.namespace, name);
        let is_gone = |name: &&Arc<str>| self.view.get::<PoolPod>(&key(name)).is_none();
        let names = slots.released.iter().filter(|name| !in_slots.contains(name)).filter(is_gone);
        names.take(TIDIED).collect()
    }

    /// Patches the batch. Whether it had to be. With nothing to write, and orphans to be freed because of
    /// what stands there, it is read: what is known of it may be old.
    async fn write_ledger(
        &self,
        batch: &Arc<Seen<BatchSandbox>>,
        before: &Slots,
        happened: &Happened,
        given: &[(Option<usize>, Arc<Seen<PoolPod>>)],
        has_orphans: bool,
    ) -> Result<bool, WriteError> {
        let namespace = &batch.key.namespace;
        let known = |name: &str| {
            let given = given.iter().map(|(_, pod)| pod).find(|pod| *pod.key.name == *name).cloned();
            let pod = given.or_else(|| self.view.get::<PoolPod>(&Key::new(namespace, name)))?;
            // As the controller of batches writes it: what is ending is not at its address for long.
            let mark = mark_of(batch);
            let is_there = !pod.is_deleting
                && !pod.has_ended()
                && pod.allocated_to.as_deref().is_none_or(|of| of == mark);
            Some(Known { ip: pod.ip.clone().filter(|_| is_there) })
        };
        if let Some(patch) = compose(batch, before, happened, known) {
            self.writes.patch(batch, patch, Merge::Plain, None).await?;
            return Ok(true);
        }
        if has_orphans {
            let is_same = |now: &Seen<BatchSandbox>| now.uid == batch.uid && now.version == batch.version;
            if !self.writes.read::<BatchSandbox>(&batch.key).await?.is_some_and(|now| is_same(&now)) {
                return Err(WriteError::Conflict("the batch has changed".to_owned()));
            }
        }
        Ok(false)
    }

    /// Claims pods. Those that could be.
    async fn give(
        &self,
        observed: &Observed,
        batch: &Arc<Seen<BatchSandbox>>,
        before: &Slots,
        give: &[Gift],
        pass: &Pass,
    ) -> (Vec<(Option<usize>, Arc<Seen<PoolPod>>)>, Applied) {
        let one = |gift: &Gift| {
            let (slot, pod) = (gift.slot, Arc::clone(&gift.pod));
            async move {
                // What was given back is not the batch's any more, whatever became of it.
                let old = slot.and_then(|slot| before.pods.get(slot));
                if let Some(old) = old.filter(|old| !before.released.contains(*old)) {
                    match self.is_lost(observed, batch, old).await {
                        Ok(true) => {}
                        Ok(false) => {
                            let why = "a pod that seemed lost is there".to_owned();
                            return Err(Applied::conflicted(WriteError::Conflict(why)));
                        }
                        Err(error) => return Err(Applied::failed(error)),
                    }
                }
                Ok((slot, self.claim(batch, &pod, pass).await?))
            }
        };
        let (mut given, mut done) = (Vec::new(), Applied::default());
        for one in join_all(give.iter().map(one)).await {
            match one {
                Ok(one) => {
                    done.has_acted = true;
                    given.push(one);
                }
                Err(applied) => done.add(applied),
            }
        }
        (given, done)
    }

    /// Whether the pod of a slot is lost: one that the view does not have is looked for.
    async fn is_lost(
        &self,
        observed: &Observed,
        batch: &Seen<BatchSandbox>,
        name: &str,
    ) -> Result<bool, WriteError> {
        let key = Key::new(&batch.key.namespace, name);
        if self.view.get::<PoolPod>(&key).is_some() {
            return Ok(true);
        }
        let pod = self.writes.read::<PoolPod>(&key).await?;
        let mark = mark_of(batch);
        Ok(pod.is_none_or(|pod| {
            let is_mine = pod.allocated_to.as_deref().is_none_or(|of| of == mark);
            // One without the label is none of the pool's pods any more, and the view never shows it.
            pod.pool.is_none() || pod.is_deleting || !is_mine || !pod.is_of_pool(&observed.pool.key.name)
        }))
    }

    /// Which of these pods are not the batch's any more, by a live read. One that no pool has is nobody's: it
    /// is given to no batch, whatever it says of itself.
    async fn parted(
        &self,
        batch: &Arc<Seen<BatchSandbox>>,
        names: &BTreeSet<Arc<str>>,
    ) -> (BTreeSet<Arc<str>>, Applied) {
        let key =
            |name: &Arc<str>| Key { namespace: Arc::clone(&batch.key.namespace), name: Arc::clone(name) };
        let reads = names.iter().map(|name| async move {
            let _permit = self.reading.acquire().await;
            self.writes.read::<PoolPod>(&key(name)).await
        });
        let (mut parted, mut done) = (BTreeSet::new(), Applied::default());
        for (name, read) in names.iter().zip(join_all(reads).await) {
            match read {
                Ok(Some(pod)) if !pod.is_deleting && is_marked(&pod, batch) && is_in_a_pool(&pod) => {}
                Ok(_) => drop(parted.insert(Arc::clone(name))),
                Err(error) => done.add(Applied::failed(error)),
            }
        }
        (parted, done)
    }

    /// Recycles the pods that the batch lets go.
    async fn take_back(
        &self,
        observed: &Observed,
        batch: &Arc<Seen<BatchSandbox>>,
        pods: &[&Arc<Seen<PoolPod>>],
    ) -> (Back, Applied) {
        let one = |pod: Arc<Seen<PoolPod>>| async move {
            // Somebody else's pod is none of this batch's business: the name alone is given back.
            match pod.allocated_to.is_some() && !is_marked(&pod, batch) {
                true => Ok(Recycled::NotOurs),
                false => self.recycle(observed, Some(batch), &pod).await,
            }
        };
        let all = join_all(pods.iter().map(|pod| one(Arc::clone(pod)))).await;
        let (mut back, mut done) = (Back::default(), Applied::default());
        for (pod, one) in pods.iter().zip(all) {
            let name = Arc::clone(&pod.key.name);
            match one {
                Ok(Recycled::Ended) => {
                    done.has_acted = true;
                    back.ended.insert(Arc::clone(&name));
                    back.back.insert(name);
                }
                Ok(Recycled::Kept(pod)) => {
                    back.kept.push(pod);
                    back.back.insert(name);
                }
                Ok(Recycled::NotOurs) => drop(back.back.insert(name)),
                Ok(Recycled::Waits(again)) => done.again = [done.again, again].into_iter().flatten().min(),
                Err(applied) => done.add(applied),
            }
        }
        (back, done)
    }
}

/// What came back from a batch.
#[derive(Default)]
struct Back {
    /// The names to give back.
    back: BTreeSet<Arc<str>>,
    /// Those of pods that are ending.
    ended: BTreeSet<Arc<str>>,
    /// Pods that go on, to be freed.
    kept: Kept,
}

/// Whether the pod is one of a pool's fleet: its label says so, and a pool controls it.
fn is_in_a_pool(pod: &PoolPod) -> bool {
    pod.pool.is_some() && pod.pool_uid().is_some()
}

/// Whether the batch has this pod recycled by being deleted, whatever the pool says: it asks for that, or may
/// have left a task in the pod.
pub(super) fn wants_deletion(batch: &BatchSandbox, pod: &str) -> bool {
    let annotations = batch.metadata.annotations.as_ref();
    let recycle = annotations.and_then(|it| it.get(names::ANNOTATION_RECYCLE));
    recycle.is_some_and(|it| it == names::RECYCLE_DELETE) || may_have_a_task(batch, pod)
}
