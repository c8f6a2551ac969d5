//! Runs a reconciler over its queue, while this process leads.
//!
//! # Protocol
//! - Without leadership no work is begun. When leadership is lost, or the process stops, what runs may go on
//!   for [`Limits::grace`] and is then cancelled. Its writes fail from the moment of the loss: each of them
//!   asks [`Leadership::check`].
//! - A run that takes longer than [`Limits::timeout`] is cancelled. So is every await of it: see
//!   [`Reconciler`].
//! - A panic ends the run, not the worker.
//! - Each of these is a failure of the key, which is tried again after its back-off, or at its
//!   [deadline](Reconciler::deadline) if that is earlier. Failures are logged, and
//!   those that somebody has to do something about become events, both at the first failure in a row, the
//!   second, the fourth and so on.

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use sandgate_follow::BoundedLog;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::metrics::ControllerMetrics;
use crate::{Again, Category, EventKind, Events, Failed, Job, Key, Leadership, Queue, Reconciler};

/// The bounds of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many objects are looked at at a time.
    pub workers: usize,
    /// How long one look may take.
    pub timeout: Duration,
    /// How long a look may go on after the leadership has ended.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { workers: 8, timeout: Duration::from_secs(60), grace: Duration::from_secs(5) }
    }
}

/// The workers of one controller.
pub struct Workers<R> {
    reconciler: R,
    queue: Queue,
    leadership: Leadership,
    events: Arc<dyn Events>,
    metrics: ControllerMetrics,
    limits: Limits,
    log: Mutex<BoundedLog>,
}

/// How a run ended.
enum Ended {
    Returned(Result<Again, Failed>),
    Panicked,
    TimedOut,
}

impl<R: Reconciler> Workers<R> {
    /// Nothing runs before [`run`](Self::run).
    pub fn new(
        reconciler: R,
        queue: Queue,
        leadership: Leadership,
        events: Arc<dyn Events>,
        metrics: ControllerMetrics,
        limits: Limits,
    ) -> Self {
        let log = Mutex::new(BoundedLog::new(R::NAME.to_owned()));
        Self { reconciler, queue, leadership, events, metrics, limits, log }
    }

    /// Works until `stop`, or until the queue is stopped. Returns when nothing runs any more.
    pub async fn run(self, stop: CancellationToken) {
        let (workers, stop) = (Arc::new(self), &stop);
        let mut tasks = JoinSet::new();
        for _ in 0..workers.limits.workers.max(1) {
            let (workers, stop) = (Arc::clone(&workers), stop.clone());
            tasks.spawn(async move { workers.work(&stop).await });
        }
        // Reconcilers that panic are caught below, so that a panic here is one of the machinery.
        tasks.join_all().await;
    }

    async fn work(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = self.leadership.gained() => {}
            }
            let job = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.leadership.lost() => continue,
                job = self.queue.next() => job,
            };
            let Some(job) = job else { return };
            self.perform(job, stop).await;
        }
    }

    /// Runs one job to its end.
    pub async fn perform(&self, job: Job, stop: &CancellationToken) {
        if self.leadership.term().is_none() {
            return job.put_back();
        }
        // It counts as cancelled unless it ends below.
        let measured = self.metrics.begin(job.waited(), job.failures() > 0);
        let run = AssertUnwindSafe(self.reconciler.reconcile(job.key())).catch_unwind();
        let ended = tokio::select! {
            biased;
            ended = timeout(self.limits.timeout, run) => match ended {
                Ok(Ok(result)) => Ended::Returned(result),
                Ok(Err(_)) => Ended::Panicked,
                Err(_) => Ended::TimedOut,
            },
            () = self.overdue(stop) => {
                tracing::warn!("{}: {} is cancelled: its time is over", R::NAME, job.key());
                return;
            }
        };
        measured.ended(match &ended {
            Ended::Returned(Ok(_)) => "ok",
            Ended::Returned(Err(failed)) => failed.category.as_str(),
            Ended::Panicked => "Panicked",
            Ended::TimedOut => "TimedOut",
        });
        self.finish(job, ended);
    }

    /// Completes when a run that goes on is to be cancelled.
    async fn overdue(&self, stop: &CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.leadership.lost() => {}
        }
        sleep(self.limits.grace).await;
    }

    fn finish(&self, job: Job, ended: Ended) {
        let (key, has_failed) = (job.key().clone(), !matches!(ended, Ended::Returned(Ok(_))));
        match ended {
            Ended::Returned(Ok(again)) => job.done(again),
            Ended::Returned(Err(failed)) => self.failed(job, &failed),
            Ended::Panicked => {
                self.complain(&job, "the reconciler panicked; the panic is in the log");
                job.failed();
            }
            Ended::TimedOut => {
                self.complain(&job, &format!("no end after {} s", self.limits.timeout.as_secs()));
                job.failed();
            }
        }
        if let Some(wait) = has_failed.then(|| self.reconciler.deadline(&key)).flatten() {
            self.queue.add_after(key, wait);
        }
    }

    fn failed(&self, job: Job, failed: &Failed) {
        match failed.category {
            Category::Conflict => {
                tracing::debug!("{}: {}: {}", R::NAME, job.key(), with_causes(failed));
                job.conflicted();
            }
            Category::NotLeading if self.leadership.term().is_none() => job.put_back(),
            category => {
                let text = with_causes(failed);
                self.complain(&job, &text);
                if matches!(category, Category::Refused | Category::Invalid) && is_worth_a_word(&job) {
                    self.publish(job.key(), category, text);
                }
                job.failed();
            }
        }
    }

    fn complain(&self, job: &Job, text: &str) {
        let (key, attempt) = (job.key(), job.failures().saturating_add(1));
        if is_worth_a_word(job) {
            self.log.lock().warn(&format!("{key}: {text} (attempt {attempt})"));
        } else {
            tracing::debug!("{}: {key}: {text} (attempt {attempt})", R::NAME);
        }
    }

    fn publish(&self, key: &Key, category: Category, note: String) {
        // An object that is gone by now has nobody to tell.
        if let Some(object) = self.reconciler.object(key) {
            self.events.publish(&object, EventKind::Warning, category.as_str(), "Reconcile", note);
        }
    }
}

/// Whether this failure is the first in a row, the second, the fourth and so on.
fn is_worth_a_word(job: &Job) -> bool {
    job.failures().saturating_add(1).is_power_of_two()
}

/// The message of a failure and those of its causes, each once.
fn with_causes(failed: &Failed) -> String {
    let mut text = failed.message.clone();
    let mut cause = std::error::Error::source(failed);
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
