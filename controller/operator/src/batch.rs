//! The controller of batches: some pods of one template or of one pool, with a task in each of them.
//!
//! Each look at a batch is [`observe`](observe::observe), [`plan`](plan::plan), apply, status. What to do is
//! decided by the plan alone, which is a function of values.
//!
//! - Pods of its own have the names `{batch}-{index}`, so a create that is done twice makes one pod. A pod
//!   that is deleted is made again; one that ends by itself stays, and the status says so.
//! - Pods of a pool are given and taken back by the pool's controller. This one says which are not needed any
//!   more, and what the status is.
//! - Pause and resume: see [`plan`] and [`pause`].
//! - Tasks: see [`work`] and [`crate::tasks`].
//!
//! The view marks a batch when one of its pods, its snapshot or, as long as it waits for a pool to be chosen,
//! a pool changes. Nothing is polled but the executors of tasks.

mod apply;
mod observe;
mod pause;
mod plan;
mod pod;
mod pods;
mod pool;
mod pulls;
mod status;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod warnings;
mod work;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::BatchSandbox;

use crate::assign::{DefaultPools, PoolStrategy};
use crate::deadline::until;
use crate::events::{EventKind, Events};
use crate::reference::reference;
use crate::tasks::{Executors, FromTemplate, TaskMetrics, Tasks};
use crate::view::{Seen, View, is_leaving};
use crate::writes::Writes;
use crate::{Again, Clock, Failed, Key, Reconciler};
pub(crate) use pod::patched_template;

/// What batches need to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSettings {
    /// The operator's namespace, where the ConfigMap with the profiles of pools is.
    pub own_namespace: String,
    /// The Secret that a batch which is resumed pulls its images with.
    pub resume_pull_secret: Option<String>,
}

/// The reconciler of batches.
pub struct BatchSandboxReconciler {
    view: View,
    writes: Writes,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    pools: Box<dyn PoolStrategy>,
    settings: BatchSettings,
    pulls: pulls::Pulls,
    told: warnings::Told,
}

impl BatchSandboxReconciler {
    /// A reconciler that reads the view and writes by `writes`. `executors` is the way to the task executors.
    pub fn new(
        view: View,
        writes: Writes,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
        executors: Arc<dyn Executors>,
        metrics: TaskMetrics,
        settings: BatchSettings,
    ) -> Self {
        let (strategy, leadership) = (Box::new(FromTemplate), writes.leadership().clone());
        let tasks = Tasks::new(strategy, executors, leadership, Arc::clone(&clock), metrics);
        Self {
            view,
            writes,
            events,
            clock,
            tasks,
            pools: Box::new(DefaultPools),
            settings,
            pulls: pulls::Pulls::default(),
            told: warnings::Told::default(),
        }
    }

    fn publish(
        &self,
        batch: &Seen<BatchSandbox>,
        kind: EventKind,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let on = reference(names::API_VERSION, "BatchSandbox", &batch.key, &batch.uid);
        self.events.publish(&on, kind, reason, action, note);
    }
}

impl Reconciler for BatchSandboxReconciler {
    const NAME: &'static str = "batchsandbox";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let observed = observe::observe(&self.view, key, &*self.pools, self.clock.now());
        match observed {
            Ok(Some(mut observed)) => {
                self.warn(&observed.batch);
                observed.stuck = self.pulls.look(&observed);
                let plan = plan::plan(&observed, self.settings.resume_pull_secret.as_deref());
                self.apply(&observed, plan).await
            }
            Ok(None) => {
                self.tasks.forget(key);
                self.pulls.forget(key);
                self.told.forget(key);
                Ok(Again::Forget)
            }
            // Nothing is done for it, or to it, before somebody has mended it or its time is over.
            Err(observe::Unreadable { batch, malformed }) => {
                let note = format!("the batch is left alone: {malformed}");
                tracing::warn!("{}: {key}: {note}", Self::NAME);
                self.publish(&batch, EventKind::Warning, "MalformedAnnotation", "Reconcile", note);
                let now = self.clock.now();
                match plan::expires(&batch).filter(|_| !is_leaving(&batch)) {
                    Some(at) if at <= now => self.expire(&batch).await,
                    Some(at) => Ok(until(at, now)),
                    None => Ok(Again::Rarely),
                }
            }
        }
    }

    /// The end of its time.
    fn deadline(&self, key: &Key) -> Option<Duration> {
        let batch = self.view.get::<BatchSandbox>(key)?;
        let wait = plan::expires(&batch)?.duration_since(self.clock.now());
        Duration::try_from(wait).ok().filter(|wait| !is_leaving(&batch) && !wait.is_zero())
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let batch = self.view.get::<BatchSandbox>(key)?;
        Some(reference(names::API_VERSION, "BatchSandbox", key, &batch.uid))
    }
}
