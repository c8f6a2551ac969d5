//! The controller of pools: pods of one template that wait for a batch, are given to it, and come back.
//!
//! Each look at a pool is [`observe`](observe::observe), [`plan`](plan::plan), apply, status. What to do is
//! decided by the plan alone, which is a function of values. If something had changed when it was to be
//! written, all of it is decided again from what is known then, a few times. The status is written whatever
//! else failed.
//!
//! # What says whose a pod is
//! The annotations of the batches, and a mark on the pod itself; see `apply/turn.rs`. Nothing in the memory
//! of this process does: what it remembers of a pool is how its pods fail, since when batches wait, and what
//! people were told. So there is nothing to recover after a start, and two controllers that act at a time do
//! no harm.
//!
//! # Cost
//! A look copies as much as it acts on, and at most [`LOOK`](observe::LOOK) of each sort. What it cuts off is
//! due again at once. A batch that waits is not polled for: the view wakes the pool when a pod is ready.

mod allocate;
mod apply;
mod capacity;
mod disown;
mod evict;
mod exec;
mod ledger;
mod metrics;
mod observe;
mod plan;
mod pod;
mod recycle;
mod restart;
mod settings;
mod state;
mod status;
mod strategies;
mod terms;
#[cfg(test)]
mod tests;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::events::Events;
use crate::merge::merge_patch;
use crate::reference::reference;
use crate::view::{PoolPod, Seen, View};
use crate::writes::{Merge, WriteError, Writes};
use crate::{Again, Clock, Failed, Key, Random, Reconciler};
use apply::{Applied, Commands, Pass};
pub use exec::{ClusterExec, Exec, ExecError};
pub use metrics::PoolMetrics;
use observe::Observed;
pub(crate) use pod::revision as revision_of;
pub use settings::PoolSettings;
use state::State;

/// How often a look is planned anew because something had changed.
const TRIES: usize = 3;

/// The reconciler of pools.
pub struct PoolReconciler {
    view: View,
    writes: Writes,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    random: Mutex<Random>,
    exec: Arc<dyn Exec>,
    settings: PoolSettings,
    metrics: PoolMetrics,
    /// What is remembered of each pool.
    states: Mutex<BTreeMap<Key, State>>,
    /// One permit for each pod that may be recycled at a time.
    recycling: Semaphore,
    /// The same for the commands that restart containers: nobody waits for these.
    restarting: Arc<Semaphore>,
    /// The commands that run in containers.
    restarts: Mutex<JoinSet<()>>,
    /// In which pods they do.
    commands: Commands,
    /// One permit for each request that is sent because of a batch alone: a batch may have ten thousand pods.
    reading: Semaphore,
}

impl PoolReconciler {
    /// A reconciler that reads the view and writes by `writes`. `random` makes the names of pods, `exec`
    /// restarts containers.
    #[expect(clippy::too_many_arguments, reason = "each is one part of the process, given once")]
    pub fn new(
        view: View,
        writes: Writes,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
        random: Random,
        exec: Arc<dyn Exec>,
        settings: PoolSettings,
        metrics: PoolMetrics,
    ) -> Self {
        Self {
            view,
            writes,
            events,
            clock,
            random: Mutex::new(random),
            exec,
            metrics,
            states: Mutex::default(),
            recycling: Semaphore::new(settings.recycles.max(1)),
            restarting: Arc::new(Semaphore::new(settings.recycles.max(1))),
            restarts: Mutex::default(),
            commands: Commands::default(),
            reading: Semaphore::new(settings.allocations.max(1)),
            settings,
        }
    }

    fn observe(&self, key: &Key) -> Option<Observed> {
        let pool = self.view.get::<Pool>(key).filter(|pool| pool.metadata.deletion_timestamp.is_none())?;
        let failures = self.with_state(&pool, |state| state.failures.clone());
        Some(observe::observe(&self.view, pool, failures, self.clock.now()))
    }

    /// What is remembered of a pool. A pool that has another UID is another one.
    fn with_state<R>(&self, pool: &Seen<Pool>, read: impl FnOnce(&mut State) -> R) -> R {
        let mut states = self.states.lock();
        let state = states.entry(pool.key.clone()).or_default();
        state.be_of(&pool.uid);
        read(state)
    }

    /// The UIDs of the pool's batches.
    fn living(&self, pool: &Key) -> BTreeSet<Arc<str>> {
        let batches = self.view.batches_of(pool).into_iter();
        let batches = batches.filter_map(|key| self.view.get::<BatchSandbox>(&key));
        batches.map(|batch| Arc::clone(&batch.uid)).collect()
    }

    fn forget(&self, key: &Key) {
        self.states.lock().remove(key);
    }

    /// Plans and applies, until nothing had changed in between.
    async fn act(&self, mut observed: Observed, mut free_names: Vec<Key>, may_create: bool) -> Applied {
        let pass = Pass::default();
        let mut done = Applied::default();
        let key = observed.pool.key.clone();
        for attempt in 1..=TRIES {
            let mut plan = plan::plan(&observed, &pass.claimed());
            if !may_create {
                plan.create = 0;
            }
            self.with_state(&observed.pool, |state| state.planned(&observed, || self.living(&key)));
            self.tell_exhausted(&observed, &plan);
            let free_names = std::mem::take(&mut free_names);
            let mut applied = self.apply(&observed, &mut plan, &pass, free_names).await;
            applied.again = [applied.again, plan.again].into_iter().flatten().min();
            if observed.look.more && applied.has_acted {
                applied.again = Some(observed.now);
            }
            self.with_state(&observed.pool, |state| state.failures = plan.failures);
            let had_conflict = applied.conflict.is_some();
            done.conflict = None;
            done.again = None;
            done.add(applied);
            if !had_conflict || done.failure.is_some() || attempt == TRIES {
                break;
            }
            let Some(again) = self.observe(&key) else { break };
            observed = again;
        }
        done.add(self.put_back(&key, &pass).await);
        done
    }

    /// Frees pods that were claimed and surely not given.
    async fn put_back(&self, pool: &Key, pass: &Pass) -> Applied {
        let all = pass.claimed().into_iter().filter_map(|(key, mark)| {
            debug_assert_eq!(key.namespace, pool.namespace);
            let pod = self.view.get::<PoolPod>(&key)?;
            (pod.allocated_to.as_ref() == Some(&mark)).then_some(pod)
        });
        let all: Vec<_> = all.collect();
        join_all(all.iter().map(|pod| self.unclaim(pod))).await.into_iter().collect()
    }

    /// Pods were given to a batch that lacked so many.
    fn served(&self, observed: &Observed, batch: &Seen<BatchSandbox>, given: usize, lacked: usize) {
        self.metrics.allocated(given);
        if given >= lacked
            && let Some(since) = self.with_state(&observed.pool, |state| state.waiting.remove(&batch.uid))
        {
            self.metrics.served(since.elapsed());
        }
    }

    /// What follows from a failure. A pool that waits after failures is looked at again when the wait is
    /// over, not by the queue's. A create that was refused is therefore no failure of the look: the event
    /// `FailedCreate` tells of it, and the write is counted as refused.
    fn failed(&self, key: &Key, error: WriteError) -> Result<Again, Failed> {
        let now = self.clock.now();
        let wait = self.observe(key).and_then(|observed| {
            let until = observed.failures.wait(&observed.revision, now);
            (observed.failures.count() > 0).then_some(until)
        });
        match (error, wait) {
            (WriteError::Refused { .. }, Some(Some(until))) => Ok(crate::deadline::until(until, now)),
            (WriteError::Refused { .. }, Some(None)) => Ok(Again::After(Duration::from_secs(1))),
            (error, _) => Err(error.into()),
        }
    }

    /// Writes what the pool has now, if that is not what its status says. When it may, if that is not now.
    async fn write_status(&self, key: &Key) -> Result<Option<Duration>, WriteError> {
        let Some(pool) = self.view.get::<Pool>(key) else { return Ok(None) };
        let revision = pod::revision(&pool.spec);
        let look = self.view.pool_look(&pool, &revision, 0, self.clock.now());
        let status = status::status(&pool, &revision, &look.counts);
        if pool.status.as_ref() == Some(&status) {
            return Ok(None);
        }
        let now = Instant::now();
        let rest = self.with_state(&pool, |state| {
            let since = state.status_written.map(|at| now.duration_since(at));
            let rest = since.and_then(|since| self.settings.status_interval.checked_sub(since));
            let rest = rest.filter(|rest| !rest.is_zero());
            if rest.is_none() {
                state.status_written = Some(now);
            }
            rest
        });
        if rest.is_some() {
            return Ok(rest);
        }
        let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
        let known = pool.status.as_ref().map_or(Value::Null, json);
        let Some(patch) = merge_patch(&known, &json(&status)) else { return Ok(None) };
        match self.writes.patch(&pool, json!({"status": patch}), Merge::Plain, Some("status")).await {
            Ok(_) => Ok(None),
            Err(error @ WriteError::Conflict(_)) => {
                let is_same = |now: &Seen<Pool>| now.uid == pool.uid && now.version == pool.version;
                if self.view.get::<Pool>(key).is_some_and(|now| is_same(&now)) {
                    self.writes.read::<Pool>(key).await?;
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }
}

impl Reconciler for PoolReconciler {
    const NAME: &'static str = "pool";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let Some(mut observed) = self.observe(key) else {
            self.forget(key);
            self.disown(key).await?;
            let again = if self.view.get::<Pool>(key).is_some() { Again::Rarely } else { Again::Forget };
            return Ok(again);
        };
        self.tell_invalid(&observed);
        let (mut free, mut resolved) = (Vec::new(), Ok(()));
        if !observed.look.reserved.is_empty() {
            // Only a look that was cut off leaves names behind: looks at one pool never overlap.
            (free, resolved) = self.writes.resolve::<PoolPod>(&observed.look.reserved).await;
            let Some(again) = self.observe(key) else { return Ok(Again::After(Duration::ZERO)) };
            observed = again;
        }
        let Applied { failure, conflict, again, .. } = self.act(observed, free, resolved.is_ok()).await;
        let rest = self.write_status(key).await;
        if let Some(error) = resolved.err().or(failure) {
            return self.failed(key, error);
        }
        let rest = match (rest, conflict) {
            (_, Some(conflict)) => return Err(conflict.into()),
            (rest, None) => rest?,
        };
        Ok(soonest(again, rest, self.clock.now()))
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let pool = self.view.get::<Pool>(key)?;
        Some(reference(names::API_VERSION, pod::POOL, key, &pool.uid))
    }
}

/// When to look again if nothing happens.
fn soonest(at: Option<Timestamp>, rest: Option<Duration>, now: Timestamp) -> Again {
    let wait = at.map(|at| match crate::deadline::until(at, now) {
        Again::After(wait) => wait,
        Again::Rarely | Again::Forget => Duration::ZERO,
    });
    [wait, rest].into_iter().flatten().min().map_or(Again::Rarely, Again::After)
}
