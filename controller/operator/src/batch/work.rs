//! The tasks of a batch, as far as the batch has to do with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::opensandbox::names;
use serde_json::{Map, Value, json};

use super::BatchSandboxReconciler;
use super::observe::Observed;
use super::plan::{TaskStep, is_beyond, without_task_finalizer};
use super::pool::PODS;
use crate::events::EventKind;
use crate::tasks::{
    ANNOTATION_TASKS_DONE, BatchTasks, Intent, MissingPod, Report, TaskCounts, TaskPod, TaskSource,
    WhenCompleted,
};
use crate::view::{BatchPod, SeenPod, mark_of};
use crate::writes::{Merge, WriteError};
use crate::{Again, Key};

/// After this time a task that has to stop and has not is given up, with its pod: its executor does not
/// answer, or it does not end.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// When to look again at tasks that are being stopped.
const STOPPING: std::time::Duration = std::time::Duration::from_secs(1);

/// What the tasks of a batch come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// For the status.
    pub(super) counts: TaskCounts,
    /// Pods of a pool that are not needed any more.
    pub(super) release: Vec<Arc<str>>,
    /// Whether there are tasks at all.
    has_tasks: bool,
    /// Pods beyond the replicas that have no task (any more).
    cleared: BTreeSet<Arc<str>>,
    /// Pods that have been about to leave for too long, and may have a task still.
    given_up: BTreeSet<Arc<str>>,
    /// Whether tasks that are being stopped, all of them, have taken too long.
    is_stuck: bool,
    /// Whether no pod has a task.
    is_over: bool,
    /// What the annotation about results has to say; none if it says so.
    pub(super) done: Option<Value>,
    /// When to look again.
    pub(super) again: Option<Timestamp>,
}

impl Work {
    /// Whether a pod may be taken from the batch.
    pub(super) fn lets_go(&self, pod: &BatchPod, is_pooled: bool) -> bool {
        let has_ended = pod.pod.as_ref().is_none_or(|pod| pod.has_ended());
        let name = &pod.key.name;
        // A pod of its own is deleted, and a task that still runs in it ends with it.
        let is_given_up = !is_pooled && self.given_up.contains(name);
        !self.has_tasks || has_ended || self.cleared.contains(name) || is_given_up
    }

    /// Whether no pod has a task.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether tasks that are being stopped have ended, or will not be waited for.
    pub(super) fn is_stopped(&self) -> bool {
        (self.is_over && self.done.is_none()) || self.is_stuck
    }
}

impl BatchSandboxReconciler {
    /// Brings the tasks nearer to what is wanted.
    pub(super) async fn work(&self, observed: &Observed, step: TaskStep) -> Result<Work, WriteError> {
        let intent = match step {
            TaskStep::None => return Ok(Work::default()),
            TaskStep::Forget => {
                self.tasks.forget(&observed.batch.key);
                return Ok(Work::default());
            }
            TaskStep::Run => Intent::Run,
            TaskStep::Stop => Intent::Pause,
            TaskStep::End => Intent::Delete,
        };
        let batch = &observed.batch;
        let template =
            batch.spec.task_template.as_ref().and_then(|template| serde_json::to_value(template).ok());
        let annotations = batch.metadata.annotations.as_ref();
        let known = annotations.and_then(|all| all.get(ANNOTATION_TASKS_DONE)).map(String::as_str);
        let pods = task_pods(observed);
        let releases = batch.spec.releases_completed();
        let asked = BatchTasks {
            key: &batch.key,
            uid: &batch.uid,
            source: TaskSource {
                batch: &batch.key.name,
                replicas: batch.spec.replicas(),
                template: template.as_ref(),
                patches: &batch.spec.shard_task_patches,
            },
            pods: &pods,
            is_whole: self.is_whole(observed).await?,
            intent,
            when_completed: if releases { WhenCompleted::Release } else { WhenCompleted::Retain },
            done: known,
        };
        let mut report = self.tasks.pass(&asked).await.map_err(|_| WriteError::NotLeading)?;
        self.tell(observed, &report);
        if self.bury(observed, &report.missing).await? {
            report = self.tasks.pass(&asked).await.map_err(|_| WriteError::NotLeading)?;
            self.tell(observed, &report);
        }
        let is_too_long = |since: Timestamp| observed.now.duration_since(since) >= PATIENCE;
        let given_up = report.uncleared.into_iter().filter(|(_, since)| is_too_long(*since));
        Ok(Work {
            counts: report.counts,
            release: report.release,
            has_tasks: true,
            cleared: report.cleared.into_iter().collect(),
            given_up: given_up.map(|(name, _)| name).collect(),
            is_stuck: report.stopping_since.is_some_and(is_too_long),
            is_over: report.all_released,
            done: (report.done.as_deref() != known).then(|| report.done.into()),
            again: report.again,
        })
    }

    /// Whether the pods that were observed are all that the batch has: each slot without one was asked for.
    /// It is found out as long as it counts, which is after a restart only.
    async fn is_whole(&self, observed: &Observed) -> Result<bool, WriteError> {
        let batch = &observed.batch;
        if !self.tasks.is_recovering(&batch.key, &batch.uid) {
            return Ok(false);
        }
        for pod in observed.pods.iter().filter(|pod| pod.pod.is_none()) {
            let found = self.writes.get_json(PODS, &pod.key).await?;
            if found.is_some_and(|found| is_ours(observed, &found)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tell(&self, observed: &Observed, report: &Report) {
        for notice in &report.notices {
            self.publish(&observed.batch, notice.kind, notice.reason, "RunTasks", notice.note.clone());
        }
        if let Some(invalid) = &report.invalid {
            let note = invalid.to_string();
            self.publish(&observed.batch, EventKind::Warning, "InvalidTask", "RunTasks", note);
        }
    }

    /// Asks the API server for pods that have tasks and were not seen. Returns whether one of them is gone.
    async fn bury(&self, observed: &Observed, missing: &[MissingPod]) -> Result<bool, WriteError> {
        let batch = &observed.batch;
        let mut any = false;
        for MissingPod { uid, name } in missing {
            let found = self.writes.get_json(PODS, &Key::new(&batch.key.namespace, name)).await?;
            if !found.is_some_and(|pod| pod["metadata"]["uid"] == **uid && is_ours(observed, &pod)) {
                self.tasks.pod_gone(&batch.key, uid);
                any = true;
            }
        }
        Ok(any)
    }

    /// The tasks of a batch that is being deleted: once they have ended, the finalizer is dropped. If one has
    /// not for too long, its pod must not be used by anybody else: the pods are deleted.
    pub(super) async fn end_tasks(&self, observed: &Observed, work: &Work) -> Result<Again, WriteError> {
        let batch = &observed.batch;
        if !work.is_over && !work.is_stuck {
            return Ok(soon(work.again, observed.now));
        }
        let mut metadata = Map::new();
        metadata.insert("finalizers".to_owned(), without_task_finalizer(batch));
        if !work.is_over {
            let note = "not all tasks could be stopped within a minute; the pods are deleted";
            self.publish(batch, EventKind::Warning, "TasksNotStopped", "StopTasks", note.to_owned());
            let annotations = json!({names::ANNOTATION_RECYCLE: names::RECYCLE_DELETE});
            metadata.insert("annotations".to_owned(), annotations);
        }
        self.writes.patch(batch, json!({"metadata": metadata}), Merge::Plain, None).await?;
        self.tasks.forget(&batch.key);
        Ok(Again::Rarely)
    }
}

/// When to look again at tasks that are being stopped.
pub(super) fn soon(again: Option<Timestamp>, now: Timestamp) -> Again {
    let after = again.map_or(Again::After(STOPPING), |at| crate::deadline::until(at, now));
    super::plan::sooner(after, Again::After(STOPPING * 10))
}

/// Whether a pod that was read is the batch's.
fn is_ours(observed: &Observed, pod: &Value) -> bool {
    let batch = &observed.batch;
    let metadata = &pod["metadata"];
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    if owners.any(|owner| owner["controller"] == true && owner["uid"] == *batch.uid) {
        return true;
    }
    let mark = metadata["annotations"][names::ANNOTATION_ALLOCATED_TO].as_str().unwrap_or_default();
    let name = metadata["name"].as_str().unwrap_or_default();
    // A pod that an older operator gave away has no mark.
    let is_unmarked = mark.is_empty() && observed.slots.held().any(|held| **held == *name);
    mark == mark_of(batch) || is_unmarked
}

fn uid_of(pod: &SeenPod) -> Arc<str> {
    match pod {
        SeenPod::Pool(seen) => Arc::clone(&seen.uid),
        SeenPod::Own(seen) => Arc::clone(&seen.uid),
    }
}

fn task_pods(observed: &Observed) -> Vec<TaskPod> {
    let wanted = observed.batch.spec.replicas();
    let pod = |pod: &BatchPod| {
        let seen = pod.pod.as_ref()?;
        Some(TaskPod {
            uid: uid_of(seen),
            name: Arc::clone(&pod.key.name),
            index: pod.index.and_then(|index| usize::try_from(index).ok()),
            ip: seen.ip.clone(),
            has_ended: seen.has_ended(),
            is_leaving: seen.is_deleting || is_beyond(pod, wanted),
            is_deleting: seen.is_deleting,
        })
    };
    observed.pods.iter().filter_map(pod).collect()
}

/// The names that `alloc-release` gets: of pods that the batch has slots for.
pub(super) fn wishes(observed: &Observed, work: &Work, wish: &[BatchPod]) -> BTreeSet<Arc<str>> {
    if !observed.is_pooled {
        return BTreeSet::new();
    }
    let beyond = wish.iter().filter(|pod| work.lets_go(pod, true)).map(|pod| Arc::clone(&pod.key.name));
    let known = |name: &Arc<str>| observed.slots.pods.contains(name);
    beyond.chain(work.release.iter().filter(|name| known(name)).cloned()).collect()
}
