//! The mark of a pod: whose it is.

use std::sync::Arc;

use futures_util::future::join_all;
use sandgate_objects::opensandbox::resources::BatchSandbox;

use super::super::PoolReconciler;
use super::super::metrics::Outcome;
use super::super::observe::{Observed, Pair, is_marked, marked_batch};
use super::super::pod;
use super::recycling::Recycled;
use super::{Applied, Pass};
use crate::view::{PoolPod, Seen, mark_of};
use crate::writes::{Merge, WriteError};

impl PoolReconciler {
    /// Makes a pod the batch's, before the batch is told.
    pub(super) async fn claim(
        &self,
        batch: &Arc<Seen<BatchSandbox>>,
        pod: &Arc<Seen<PoolPod>>,
        pass: &Pass,
    ) -> Result<Arc<Seen<PoolPod>>, Applied> {
        if is_marked(pod, batch) {
            // It was claimed before the batch was read again: it must still be so.
            let now = self.writes.read::<PoolPod>(&pod.key).await.map_err(Applied::failed)?;
            let is_mine =
                |now: &Arc<Seen<PoolPod>>| now.uid == pod.uid && !now.is_deleting && is_marked(now, batch);
            return now.filter(is_mine).ok_or_else(|| {
                pass.settle(&pod.key);
                Applied::conflicted(WriteError::Conflict("a claimed pod has changed".to_owned()))
            });
        }
        match self.writes.patch(pod, pod::claim(batch), Merge::Plain, None).await {
            Ok(claimed) => {
                pass.keep(&pod.key, &mark_of(batch));
                Ok(claimed)
            }
            Err(error) => Err(self.after(pod, error).await),
        }
    }

    /// Makes a pod nobody's.
    pub(in super::super) async fn unclaim(&self, pod: &Arc<Seen<PoolPod>>) -> Applied {
        match self.writes.patch(pod, pod::unclaim(), Merge::Plain, None).await {
            Ok(_) => Applied::acted(),
            Err(error) => self.after(pod, error).await,
        }
    }

    /// Frees a pod that was recycled and goes on. It is counted once it is free: whatever fails before that
    /// is done again.
    pub(super) async fn set_free(&self, pod: &Arc<Seen<PoolPod>>) -> Applied {
        let has_record = pod.restart_record.is_some();
        let freed = match pod.allocated_to {
            Some(_) => self.unclaim(pod).await,
            None => Applied::acted(),
        };
        if freed.has_acted {
            self.metrics.recycled(if has_record { Outcome::Restarted } else { Outcome::Kept });
        }
        freed
    }

    /// Writes onto pods of an older operator whose they are.
    pub(super) async fn stamp(&self, pairs: &[Pair]) -> Applied {
        let one = |pair: Pair| async move {
            match self.writes.patch(&pair.pod, pod::claim(&pair.batch), Merge::Plain, None).await {
                Ok(_) => Applied::acted(),
                Err(error) => self.after(&pair.pod, error).await,
            }
        };
        join_all(pairs.iter().cloned().map(one)).await.into_iter().collect()
    }

    /// Recycles and frees a pod that has the mark of a batch which does not hold it, and never will: the
    /// caller has seen to that.
    pub(super) async fn orphan(
        &self,
        observed: &Observed,
        batch: Option<&Arc<Seen<BatchSandbox>>>,
        pod: &Arc<Seen<PoolPod>>,
    ) -> Applied {
        match self.recycle(observed, batch, pod).await {
            Ok(Recycled::Ended) => Applied::acted(),
            Ok(Recycled::Kept(pod)) => self.set_free(&pod).await,
            Ok(Recycled::NotOurs) => Applied::default(),
            Ok(Recycled::Waits(again)) => Applied { again, ..Applied::default() },
            Err(applied) => applied,
        }
    }

    /// The same, where the batch of the mark is not known: it is looked for first.
    pub(super) async fn stray(&self, observed: &Observed, pod: &Arc<Seen<PoolPod>>) -> Applied {
        if let Some(key) = marked_batch(pod) {
            match self.writes.read::<BatchSandbox>(&key).await {
                Ok(Some(batch)) if is_marked(pod, &batch) => {
                    let why = "a batch that seemed gone is there".to_owned();
                    return Applied::conflicted(WriteError::Conflict(why));
                }
                Ok(_) => {}
                Err(error) => return Applied::failed(error),
            }
        }
        self.orphan(observed, None, pod).await
    }
}
