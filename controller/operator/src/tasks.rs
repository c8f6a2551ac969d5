//! The tasks of a batch: processes that the task executors of its pods run.
//!
//! A batch with a `taskTemplate` has one task a replica, `{batch}-{index}`. [`Tasks`] keeps a
//! [`Scheduler`] for each such batch, and [`Tasks::pass`] brings one batch's tasks nearer to what is wanted:
//! the scheduler decides, the [`Executors`] are asked and told, and the [`Report`] says what the batch's
//! status, annotations and finalizer have to say now.
//!
//! # What is promised
//! - A task is given to one pod. It is given to another only when the first is confirmed to be gone or to
//!   have ended, or when its executor has answered that it does not have the task any more. So a task runs
//!   at least once, and twice at a time only if a pod that the API server does not know any more still runs.
//! - A task that has ended is not run again. Its executor is asked once more before it is told to stop the
//!   task. A result outlives its pod in the batch's annotation [`ANNOTATION_TASKS_DONE`], which is written
//!   before the executor is told to forget the task. Lost are the results of a pod that is lost, and of what
//!   ends in the moment between the last question and the stop.
//! - What no executor has said is not assumed. A poll that fails releases nothing.
//! - Nothing is lost by a restart of this process: it asks every pod of the batch what it has, before it
//!   gives a task to any.

mod client;
mod done;
mod executors;
mod metrics;
mod pass;
mod scheduler;
mod specs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Clock, Key, Leadership, Term};
pub use client::{HttpExecutors, TokenError, TokenFile};
pub use done::{ANNOTATION_TASKS_DONE, Done};
pub use executors::{ExecutorError, Executors};
pub use metrics::TaskMetrics;
pub use scheduler::{
    Ask, Intent, Look, MissingPod, Notice, Report, Request, Scheduler, TaskCounts, TaskPod, WhenCompleted,
};
pub use specs::{FromTemplate, InvalidTask, TaskSchedulingStrategy, TaskSource};

/// The tasks of all batches. One pass at a time is made for a batch, as its queue does by itself.
pub struct Tasks {
    strategy: Box<dyn TaskSchedulingStrategy>,
    executors: Arc<dyn Executors>,
    leadership: Leadership,
    clock: Arc<dyn Clock>,
    metrics: TaskMetrics,
    batches: Mutex<BTreeMap<Key, Known>>,
}

/// The scheduler of one batch. That of another UID, or of an earlier leadership, is not asked any more:
/// somebody else may have given out tasks since.
struct Known {
    uid: Arc<str>,
    term: Term,
    scheduler: Arc<Mutex<Scheduler>>,
}

/// A batch whose tasks are looked at.
#[derive(Clone, Copy, Debug)]
pub struct BatchTasks<'a> {
    /// The batch.
    pub key: &'a Key,
    /// Its UID.
    pub uid: &'a Arc<str>,
    /// What its tasks are made from.
    pub source: TaskSource<'a>,
    /// The pods that it has, without those in `alloc-release`.
    pub pods: &'a [TaskPod],
    /// Whether `pods` are all that it has: each name of `alloc-status`, without `alloc-release`, is a pod
    /// that the view has or that a live read has shown to be gone. After a restart no task is given out,
    /// and nothing counts as released, before that was so once. It does not count unless
    /// [`is_recovering`](Tasks::is_recovering).
    pub is_whole: bool,
    /// What shall become of its tasks.
    pub intent: Intent,
    /// What becomes of the pods of tasks that have ended.
    pub when_completed: WhenCompleted,
    /// Its annotation [`ANNOTATION_TASKS_DONE`].
    pub done: Option<&'a str>,
}

impl Tasks {
    /// No batch is known yet.
    pub fn new(
        strategy: Box<dyn TaskSchedulingStrategy>,
        executors: Arc<dyn Executors>,
        leadership: Leadership,
        clock: Arc<dyn Clock>,
        metrics: TaskMetrics,
    ) -> Self {
        Self { strategy, executors, leadership, clock, metrics, batches: Mutex::default() }
    }

    /// Whether a batch has tasks at all.
    pub fn needed(&self, source: &TaskSource<'_>) -> bool {
        self.strategy.needs_tasks(source)
    }

    /// Says that nothing of the batch can have been started yet: its task finalizer was written just now, by
    /// this process and with an answer. Without this the batch is taken for one whose tasks may run
    /// already, and none is given out before every pod that it has was asked.
    pub fn begin(&self, key: &Key, uid: &Arc<str>) {
        let Some(term) = self.leadership.term() else { return };
        let scheduler = Arc::new(Mutex::new(Scheduler::fresh()));
        self.batches.lock().insert(key.clone(), Known { uid: Arc::clone(uid), term, scheduler });
    }

    /// Whether the next pass has to be told if it sees all pods of the batch: none since a restart was.
    pub fn is_recovering(&self, key: &Key, uid: &Arc<str>) -> bool {
        let batches = self.batches.lock();
        let term = self.leadership.term();
        let known = batches.get(key).filter(|known| known.uid == *uid && Some(known.term) == term);
        known.is_none_or(|known| known.scheduler.lock().is_recovering())
    }

    /// Says that a pod of [`Report::missing`] is confirmed to be gone by a live read: there is no pod of its
    /// name and UID, or it is not this batch's any more.
    pub fn pod_gone(&self, key: &Key, pod_uid: &str) {
        if let Some(known) = self.batches.lock().get(key) {
            known.scheduler.lock().gone(pod_uid);
        }
    }

    /// Forgets a batch that is gone, is paused, or has no tasks any more.
    pub fn forget(&self, key: &Key) {
        self.batches.lock().remove(key);
    }

    fn scheduler(&self, key: &Key, uid: &Arc<str>, term: Term) -> Arc<Mutex<Scheduler>> {
        let mut batches = self.batches.lock();
        let known = batches.get(key).filter(|known| known.uid == *uid && known.term == term);
        if let Some(known) = known {
            return Arc::clone(&known.scheduler);
        }
        let scheduler = Arc::new(Mutex::new(Scheduler::recovering()));
        let known = Known { uid: Arc::clone(uid), term, scheduler: Arc::clone(&scheduler) };
        batches.insert(key.clone(), known);
        scheduler
    }
}
