//! Does what a plan for a batch says, and writes annotations and status of what was done.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_objects::opensandbox::resources::{BatchSandbox, BatchSandboxStatus, SandboxSnapshot};
use sandgate_objects::opensandbox::{Allocation, names};
use serde_json::{Map, Value, json};

use super::BatchSandboxReconciler;
use super::observe::{Observed, pause_snapshot};
use super::plan::{Plan, Settle, SnapshotStep, TaskStep, Turn, sooner};
use super::pod::snapshot;
use super::pool::PODS;
use super::status::{notices, status};
use super::tally::{Tally, endpoints};
use super::work::{Work, soon, wishes};
use crate::deadline::until;
use crate::events::EventKind;
use crate::merge::merge_patch;
use crate::tasks::ANNOTATION_TASKS_DONE;
use crate::view::{BatchPod, Seen, pool_of};
use crate::writes::{Merge, Only, WriteError};
use crate::{Again, Failed, Key};

impl BatchSandboxReconciler {
    pub(super) async fn apply(&self, observed: &Observed, plan: Plan) -> Result<Again, Failed> {
        let batch = &observed.batch;
        match plan {
            Plan::Delete => self.expire(batch).await,
            Plan::Assign(profile) => self.assign(observed, profile).await,
            Plan::Begin(patch) => {
                self.writes.patch(batch, patch, Merge::Plain, None).await?;
                self.tasks.begin(&batch.key, &batch.uid);
                Ok(Again::Rarely)
            }
            // The answer is a change that is looked at next.
            Plan::Patch(patch) => {
                self.writes.patch(batch, patch, Merge::Plain, None).await?;
                Ok(Again::Rarely)
            }
            Plan::Detach { unseen, patch } => {
                for key in unseen {
                    if self.writes.get_json(PODS, &key).await?.is_some() {
                        // The watch will show it, and what becomes of it.
                        return Ok(Again::After(super::plan::UNSEEN));
                    }
                }
                self.writes.patch(batch, patch, Merge::Plain, None).await?;
                Ok(Again::Rarely)
            }
            Plan::Unpool(snapshot) => self.unpool(observed, &snapshot).await,
            Plan::Settle(settle) => self.settle(observed, *settle).await,
        }
    }

    /// Deletes a batch whose time is over, if it is still as it was seen.
    pub(super) async fn expire(&self, batch: &Seen<BatchSandbox>) -> Result<Again, Failed> {
        let seen = (&batch.key, &batch.uid, &batch.version);
        self.writes.delete::<BatchSandbox>(seen, Only::ThisVersion, None).await?;
        let note = "the batch is deleted: spec.expireTime has come";
        self.publish(batch, EventKind::Normal, "Expired", "Delete", note.to_owned());
        Ok(Again::Rarely)
    }

    pub(super) async fn settle(&self, observed: &Observed, mut settle: Settle) -> Result<Again, Failed> {
        // What could not be made is missing in all that follows, and is the answer in the end.
        let created = self.create(&observed.batch, &settle.create).await;
        let known = (!settle.create.is_empty()).then(|| {
            let pods = self.view.batch_pods(&observed.batch).unwrap_or_default();
            Observed { pods, ..observed.clone() }
        });
        let observed = known.as_ref().unwrap_or(observed);
        let work = self.work(observed, settle.tasks).await?;
        match settle.tasks {
            TaskStep::End => return Ok(self.end_tasks(observed, &work).await?),
            // What the tasks have come to is written down before their pods are.
            TaskStep::Stop if !work.is_stopped() => {
                self.annotate(observed, &work, &BTreeSet::new(), &observed.pods).await?;
                return Ok(soon(work.again, observed.now));
            }
            TaskStep::Stop if !work.is_over() => {
                let note =
                    "not all tasks could be stopped within a minute; the snapshot is made all the same";
                self.publish(
                    &observed.batch,
                    EventKind::Warning,
                    "TasksNotStopped",
                    "Pause",
                    note.to_owned(),
                );
            }
            TaskStep::None | TaskStep::Run | TaskStep::Stop | TaskStep::Forget => {}
        }
        settle.delete.retain(|pod| work.lets_go(pod, false) || settle.turn == Turn::Paused);
        if settle.needs_confirmation() {
            self.confirm(&observed.batch).await?;
        }
        let Settle { turn, tasks: _, create: _, delete, replace, wish, snapshot, again } = settle;
        let done = match self.replace(&observed.batch, &replace).await {
            Ok(()) => self.change(&observed.batch, &delete, snapshot).await,
            failed => failed,
        };
        if !turn.is_of_pods() {
            // What is said of a pause depends on what was done for it.
            done?;
            self.report(observed, &turn, &work, &wish).await?;
            return Ok(again);
        }
        let reported = self.report(observed, &turn, &work, &wish).await;
        created?;
        done?;
        reported?;
        Ok(work.again.map_or(again, |at| sooner(again, until(at, observed.now))))
    }

    /// Deletes pods, and makes or deletes the snapshot.
    async fn change(
        &self,
        batch: &Seen<BatchSandbox>,
        delete: &[BatchPod],
        step: SnapshotStep,
    ) -> Result<(), WriteError> {
        self.delete(delete).await?;
        match step {
            SnapshotStep::Keep => {}
            SnapshotStep::Create => self.begin_snapshot(batch).await?,
            SnapshotStep::Delete(snapshot) => {
                let seen = (&snapshot.key, &snapshot.uid, &snapshot.version);
                self.writes.delete::<SandboxSnapshot>(seen, Only::ThisVersion, None).await?;
            }
        }
        Ok(())
    }

    async fn begin_snapshot(&self, batch: &Seen<BatchSandbox>) -> Result<(), WriteError> {
        let key = pause_snapshot(&batch.key);
        match self.writes.create::<SandboxSnapshot>(&key.namespace, &snapshot(batch, &key)).await {
            // An earlier answer may have been lost. The view is told what there is.
            Err(WriteError::AlreadyExists(_)) => self.writes.read::<SandboxSnapshot>(&key).await.map(drop),
            done => done.map(drop),
        }
    }

    /// Writes the annotations and then the status, if they changed.
    async fn report(
        &self,
        observed: &Observed,
        turn: &Turn,
        work: &Work,
        wish: &[BatchPod],
    ) -> Result<(), WriteError> {
        if *turn == Turn::Hold && wish.is_empty() {
            return Ok(());
        }
        let wishes = wishes(observed, work, wish);
        // The pods as they are now.
        let pods = self.view.batch_pods(&observed.batch).unwrap_or_default();
        let pods: Vec<_> = pods.into_iter().filter(|pod| !wishes.contains(&pod.key.name)).collect();
        let batch = self.annotate(observed, work, &wishes, &pods).await?;
        let is_exhausted = |pool: &str| self.view.is_exhausted(&Key::new(&batch.key.namespace, pool));
        let is_pool_exhausted = pool_of(&batch).is_some_and(is_exhausted);
        let tally = Tally { is_pool_exhausted, ..Tally::of(&pods) };
        match status(&batch, turn, &tally, observed.is_pooled, work.counts, observed.now) {
            Some(status) => self.write_status(&batch, &status).await,
            None => Ok(()),
        }
    }

    /// Writes the annotations that are not as they should be. Returns the batch as it is then.
    async fn annotate(
        &self,
        observed: &Observed,
        work: &Work,
        wishes: &BTreeSet<Arc<str>>,
        pods: &[BatchPod],
    ) -> Result<Arc<Seen<BatchSandbox>>, WriteError> {
        let batch = &observed.batch;
        let mut annotations = Map::new();
        let known = batch.metadata.annotations.as_ref().and_then(|all| all.get(names::ANNOTATION_ENDPOINTS));
        let addresses = endpoints(pods);
        let text = json!(addresses).to_string();
        // A batch that never had an address has no list of them.
        let has_any = addresses.iter().any(|address| !address.is_empty());
        if known.map_or(has_any, |known| *known != text) {
            annotations.insert(names::ANNOTATION_ENDPOINTS.to_owned(), text.into());
        }
        if !wishes.is_subset(&observed.slots.release) {
            let all: BTreeSet<_> =
                wishes.iter().chain(&observed.slots.release).map(ToString::to_string).collect();
            let text = all.into_iter().collect::<Allocation>().text();
            annotations.insert(names::ANNOTATION_ALLOC_RELEASE.to_owned(), text.into());
        }
        if let Some(done) = &work.done {
            annotations.insert(ANNOTATION_TASKS_DONE.to_owned(), done.clone());
        }
        if annotations.is_empty() {
            return Ok(Arc::clone(batch));
        }
        let patch = json!({"metadata": {"annotations": annotations}});
        self.writes.patch(batch, patch, Merge::Plain, None).await
    }

    /// Writes the status if it changed, and tells of what changed.
    async fn write_status(
        &self,
        batch: &Arc<Seen<BatchSandbox>>,
        status: &BatchSandboxStatus,
    ) -> Result<(), WriteError> {
        let before = batch.status.as_ref();
        let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
        let known = before.map_or(Value::Null, json);
        let Some(patch) = merge_patch(&known, &json(status)) else { return Ok(()) };
        self.writes.patch(batch, json!({"status": patch}), Merge::Plain, Some("status")).await?;
        for notice in notices(before, status) {
            let kind = if notice.is_warning { EventKind::Warning } else { EventKind::Normal };
            self.publish(batch, kind, notice.reason, "Reconcile", notice.message);
        }
        Ok(())
    }
}
