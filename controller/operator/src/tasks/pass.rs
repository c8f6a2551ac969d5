//! One pass over a batch's tasks: plan, ask, take in the answers, and again until nothing is due.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use sandgate_executor_wire::Task;
use tokio::time::{Instant, timeout};

use super::done::Done;
use super::executors::ExecutorError;
use super::scheduler::{Ask, Look, Report, Request, Scheduler};
use super::{BatchTasks, Tasks};
use crate::Failed;

/// How many executors of a batch are asked at a time.
const AT_A_TIME: usize = 10;
/// How long an executor may take for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// After this time nothing more is begun: the rest is done in the next pass.
const BUDGET: Duration = Duration::from_secs(10);
/// A pod that is met, given a task and asked for it takes three; more of them only find other pods' news.
const ROUNDS: usize = 4;

impl Tasks {
    /// Brings a batch's tasks nearer to what is wanted. An executor that does not answer is no error: it is
    /// asked again later, and the report says when.
    ///
    /// It may be cut off at any await. What was decided by then is remembered.
    ///
    /// # Errors
    /// This process does not lead. Nothing is sent any more then.
    pub async fn pass(&self, batch: &BatchTasks<'_>) -> Result<Report, Failed> {
        let term = self.leadership.check()?;
        let scheduler = self.scheduler(batch.key, batch.uid, term);
        let done = Done::read(batch.done);
        let specs = self.strategy.specs(&batch.source);
        let began = Instant::now();
        let look = || Look {
            now: self.clock.now(),
            batch: batch.source.batch,
            replicas: batch.source.replicas,
            specs: specs.as_deref().ok(),
            pods: batch.pods,
            is_whole: batch.is_whole,
            intent: batch.intent,
            when_completed: batch.when_completed,
            done: &done,
        };
        for _ in 0..ROUNDS {
            let requests = scheduler.lock().plan(&look());
            if requests.is_empty() {
                break;
            }
            let ask = |request| {
                let (look, scheduler) = (&look, &*scheduler);
                let is_open = move || began.elapsed() < BUDGET && self.leadership.term() == Some(term);
                async move { self.ask(&request, look, scheduler, is_open()).await }
            };
            stream::iter(requests).for_each_concurrent(AT_A_TIME, ask).await;
        }
        self.leadership.check()?;
        let mut report = scheduler.lock().report(&look());
        self.metrics.retried(report.retried);
        if let Err(invalid) = specs {
            report.trouble = Some(invalid.to_string());
            report.invalid = Some(invalid);
        }
        Ok(report)
    }

    async fn ask<'a>(
        &self,
        request: &Request,
        look: &impl Fn() -> Look<'a>,
        scheduler: &Mutex<Scheduler>,
        is_open: bool,
    ) {
        if !is_open {
            return scheduler.lock().put_off(request, &look());
        }
        let (verb, answer) = match &request.ask {
            Ask::List => ("get", self.in_time(self.executors.tasks(&request.ip)).await),
            Ask::Hold(task) => {
                let tasks = std::slice::from_ref(&**task);
                ("set", self.in_time(self.executors.set(&request.ip, tasks)).await)
            }
            Ask::Clear => ("clear", self.in_time(self.executors.set(&request.ip, &[])).await),
        };
        self.metrics.asked(verb, answer.as_ref().map_or_else(ExecutorError::as_str, |_| "ok"));
        scheduler.lock().answered(&look(), request, answer);
    }

    async fn in_time(
        &self,
        answer: impl Future<Output = Result<Vec<Task>, ExecutorError>>,
    ) -> Result<Vec<Task>, ExecutorError> {
        let seconds = PATIENCE.as_secs();
        let late = |_| ExecutorError::Unreachable(format!("no answer within {seconds} s"));
        timeout(PATIENCE, answer).await.map_err(late).flatten()
    }
}
