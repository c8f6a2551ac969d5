//! The controller of the pools of environments: pods that wait for a claim, and those that were claimed.
//!
//! Each look at a pool is
//! 1. the autoscaler's decision, which changes the environment alone ([`scale`]);
//! 2. the chores of the pods that changed or whose time has come ([`chore`]): one write each, such as the end
//!    of a change of images;
//! 3. [`observe`](observe::observe), [`plan`](plan::plan) and apply for the number of pods and their
//!    revision;
//! 4. the status, whatever else failed.
//!
//! # Who decides about a pod
//! Whose a pod is, and how far it is, stands in the pod alone. The manager claims it, anybody releases a
//! sandbox, and this controller does the rest; each of them writes with the version that it has seen. So
//! two controllers that act at a time do no harm, and there is nothing to recover after a start.
//!
//! # Cost
//! The view counts the pods and knows which of them changed. A look reads these, and those that go.

mod admission;
mod apply;
mod chore;
mod gateways;
mod idle;
mod metrics;
mod observe;
mod pending;
mod plan;
mod pod;
mod record;
mod revision;
mod scale;
mod state;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPool, SandboxPoolSpec};
use serde_json::{Value, json};

use crate::admission::Admissions;
use crate::events::{EventKind, Events};
use crate::merge::merge_patch;
use crate::reference::reference;
use crate::view::{Seen, View};
use crate::writes::{Merge, WriteError, Writes};
use crate::{Again, Category, Clock, Failed, Key, Random, Reconciler, deadline};
use admission::Admitted;
use apply::Applied;
pub use gateways::Gateways;
pub use idle::{Activity, GatewayActivity, IdleRelease, Unreachable};
pub use metrics::EnvPoolMetrics;
pub(crate) use revision::revision as revision_of;
use state::State;
use status::Facts;

/// How often a pool is looked at if nothing happens, give or take a fifth: an event that was missed is
/// repaired soon, and not for all pools at a time.
const PERIOD: Duration = Duration::from_secs(10);

/// How long a pool that is deleted waits for pods that only a node keeps: their records are written.
const FAREWELL: SignedDuration = SignedDuration::from_secs(120);

/// The reconciler of the pools of environments.
pub struct EnvPoolReconciler {
    view: View,
    writes: Writes,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    random: Mutex<Random>,
    cluster: Arc<str>,
    metrics: EnvPoolMetrics,
    admissions: Admissions,
    /// What is remembered of each pool.
    states: Mutex<BTreeMap<Key, State>>,
}

/// Whether a pod is this pool's: its UID controls it. One that another object controls, or none, is not,
/// whatever its label says: it may be left from an older pool of this name, or be somebody else's. Managers
/// and the counts of the view go by the same rule.
fn is_ours(pod: &EnvPod, pool: &Seen<SandboxPool>) -> bool {
    pod.controller().is_some_and(|owner| *owner.uid == *pool.uid)
}

impl EnvPoolReconciler {
    /// A reconciler of the pools of this cluster. `random` makes the names of pods.
    pub fn new(
        view: View,
        writes: Writes,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
        random: Random,
        cluster: &str,
        metrics: EnvPoolMetrics,
    ) -> Self {
        let (random, states, admissions) = (Mutex::new(random), Mutex::default(), Admissions::default());
        Self { view, writes, events, clock, random, cluster: cluster.into(), metrics, admissions, states }
    }

    /// The same, which asks these plugins how many pods a pool may have.
    #[must_use]
    pub fn with_admissions(self, admissions: Admissions) -> Self {
        Self { admissions, ..self }
    }

    /// What is remembered of a pool. A pool that has another UID is another one.
    fn with_state<R>(&self, pool: &Seen<SandboxPool>, read: impl FnOnce(&mut State) -> R) -> R {
        let mut states = self.states.lock();
        let state = states.entry(pool.key.clone()).or_default();
        if state.be_of(&pool.uid, pool.metadata.generation) {
            state.todo.extend(self.view.env_pod_keys(&pool.key));
        }
        read(state)
    }

    fn tell(
        &self,
        pool: &Seen<SandboxPool>,
        kind: EventKind,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let on = reference(names::API_VERSION, names::KIND_POOL, &pool.key, &pool.uid);
        self.events.publish(&on, kind, reason, action, note);
    }

    /// Brings the pods of a pool to what it asks for. When to look again, and what failed.
    async fn bring(&self, pool: &Seen<SandboxPool>) -> (Applied, Option<Timestamp>, Admitted) {
        let admitted = Admitted::from(self.ask(pool, pool.spec.replicas).await);
        let (mut free, mut resolved) = (Vec::new(), Ok(()));
        let reserved = self.view.env_pods_reserved(&pool.uid);
        if !reserved.is_empty() {
            // Only a look that was cut off leaves names behind: looks at one pool never overlap.
            (free, resolved) = self.writes.resolve::<EnvPod>(&reserved).await;
        }
        let mut done = self.chores(pool).await;
        let revision = revision_of(&pool.spec);
        let now = self.clock.now();
        let left_alone = self.with_state(pool, |state| state.left_alone(now));
        let mut observed = observe::observe(&self.view, pool, &revision, &self.cluster, &left_alone, now);
        observed.admitted = admitted.cap();
        observed.wait = self.with_state(pool, |state| state.failures.wait(&revision, now));
        let mut plan = plan::plan(&observed);
        if resolved.is_err() || pod::invalid(&pool.spec).is_some() {
            plan.create = 0;
        }
        done.add(self.apply(pool, &plan, &revision, free).await);
        done.failure = resolved.err().or(done.failure);
        let retry = admitted.retry_after().and_then(|wait| chore::after(now, wait));
        let next = self.with_state(pool, |state| state.next());
        let again = [plan.again, next, retry, done.again].into_iter().flatten().min();
        (done, again, admitted)
    }

    /// Writes what the pool has now, if that is not what its status says. When the status has to be looked at
    /// again.
    async fn write_status(
        &self,
        key: &Key,
        admitted: Option<&Admitted>,
    ) -> Result<Option<Timestamp>, WriteError> {
        let Some(pool) = self.view.get::<SandboxPool>(key) else { return Ok(None) };
        let (revision, now) = (revision_of(&pool.spec), self.clock.now());
        let pending = pending::pending(&pool, now);
        let facts = Facts {
            name: &key.name,
            generation: pool.metadata.generation,
            desired: usize::try_from(pool.spec.replicas).unwrap_or_default(),
            counts: self.view.env_pod_counts(key, &revision),
            revision: &revision,
            pending: pending.claims,
            admitted,
            is_leaving: pool.metadata.deletion_timestamp.is_some(),
            now,
        };
        let status = status::status(pool.status.as_ref(), &facts);
        let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
        let known = pool.status.as_ref().map_or(Value::Null, json);
        let mut latest = Arc::clone(&pool);
        if pool.status.as_ref() != Some(&status)
            && let Some(patch) = merge_patch(&known, &json(&status))
        {
            latest = self.patch_pool(&latest, json!({"status": patch}), Some("status")).await?;
        }
        if !pending.gone.is_empty() {
            let nothing: BTreeMap<_, _> = pending.gone.iter().map(|name| (name, Value::Null)).collect();
            self.patch_pool(&latest, json!({"metadata": {"annotations": nothing}}), None).await?;
        }
        Ok(pending.until)
    }

    /// Changes a pool, if it is as it was seen. After a conflict the view is newer than that.
    async fn patch_pool(
        &self,
        pool: &Seen<SandboxPool>,
        patch: Value,
        part: Option<&str>,
    ) -> Result<Arc<Seen<SandboxPool>>, WriteError> {
        match self.writes.patch(pool, patch, Merge::Plain, part).await {
            Err(error @ WriteError::Conflict(_)) => {
                let known = self.view.get::<SandboxPool>(&pool.key);
                if known.is_some_and(|now| now.uid == pool.uid && now.version == pool.version) {
                    self.writes.read::<SandboxPool>(&pool.key).await?;
                }
                Err(error)
            }
            done => done,
        }
    }

    async fn set_finalizer(&self, pool: &Seen<SandboxPool>, is_there: bool) -> Result<(), WriteError> {
        let mut all = pool.metadata.finalizers.clone().unwrap_or_default();
        all.retain(|name| name != names::FINALIZER_POOL);
        if is_there {
            all.push(names::FINALIZER_POOL.to_owned());
        }
        self.patch_pool(pool, json!({"metadata": {"finalizers": all}}), None).await.map(drop)
    }

    /// A pool is deleted: its pods go, each with a record, and it goes when none is left.
    async fn end(&self, pool: &Seen<SandboxPool>) -> Result<Again, Failed> {
        if !has_finalizer(pool) {
            // A pod that was asked for before may still come, and a pool that is deleted in the foreground
            // goes after it.
            return self.let_go(&pool.key).await.map(|_| Again::Rarely);
        }
        let reserved = self.view.env_pods_reserved(&pool.uid);
        let (_, resolved) = self.writes.resolve::<EnvPod>(&reserved).await;
        let mut done = self.delete_all(pool).await;
        done.add(self.chores(pool).await);
        let status = self.write_status(&pool.key, None).await;
        if let Some(error) = resolved.err().or(done.failure) {
            return Err(error.into());
        }
        status?;
        if done.has_conflict {
            return Err(changed());
        }
        if done.has_more {
            return Ok(Again::After(Duration::ZERO));
        }
        let left = self.view.env_pod_keys(&pool.key).into_iter();
        let left = left.filter_map(|key| self.view.get::<EnvPod>(&key)).filter(|pod| is_ours(pod, pool));
        let left: Vec<_> = left.collect();
        let since = pool.metadata.deletion_timestamp.as_ref().map_or(self.clock.now(), |time| time.0);
        let waits = self.clock.now().duration_since(since) < FAREWELL;
        if !left.is_empty() && (waits || left.iter().any(|pod| pod.has_finalizer())) {
            return Ok(self.soon());
        }
        let Some(latest) = self.view.get::<SandboxPool>(&pool.key) else { return Ok(Again::Forget) };
        self.set_finalizer(&latest, false).await?;
        self.states.lock().remove(&pool.key);
        Ok(Again::Rarely)
    }

    /// There is no pool of this name, or one that goes by itself. Pods that are left of one, and are being
    /// deleted, are let go.
    async fn let_go(&self, key: &Key) -> Result<Again, Failed> {
        self.states.lock().remove(key);
        let now = self.clock.now();
        let mut failure = Ok(Again::Forget);
        for pod in self.view.env_pod_keys(key).into_iter().filter_map(|key| self.view.get::<EnvPod>(&key)) {
            let need = chore::need(&pod, &SandboxPoolSpec::default(), false, now);
            let Some(chore::Chore::Patch(patch, merge, _)) = need.chore else { continue };
            match self.writes.patch(&*pod, patch, merge, None).await {
                Ok(_) => {
                    if let Some(record) = record::Record::of(&pod) {
                        record.log(&pod);
                        self.metrics.ended(record.ending);
                    }
                }
                Err(WriteError::NotFound(_)) => self.view.deleted_by_us::<EnvPod>(&pod.key, &pod.uid),
                Err(error) => failure = Err(error.into()),
            }
        }
        failure
    }

    /// The period, with its jitter.
    fn soon(&self) -> Again {
        let tenth = PERIOD / 10;
        let drawn = u32::try_from(self.random.lock().number() % 401).unwrap_or_default();
        Again::After(PERIOD - tenth * 2 + tenth * drawn / 100)
    }
}

fn has_finalizer(pool: &SandboxPool) -> bool {
    pool.metadata.finalizers.iter().flatten().any(|name| name == names::FINALIZER_POOL)
}

/// Something was not as it had been seen. It is looked at again.
fn changed() -> Failed {
    let message = "a pod has changed meanwhile".to_owned();
    Failed { category: Category::Conflict, message, source: None }
}

impl Reconciler for EnvPoolReconciler {
    const NAME: &'static str = "sandboxpool";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let Some(pool) = self.view.get::<SandboxPool>(key) else { return self.let_go(key).await };
        if pool.metadata.deletion_timestamp.is_some() {
            return self.end(&pool).await;
        }
        if !has_finalizer(&pool) {
            self.set_finalizer(&pool, true).await?;
        }
        let Some(pool) = self.view.get::<SandboxPool>(key) else { return Ok(Again::Forget) };
        // What cannot be decided about the number of pods does not keep the others from being brought to it.
        let scaled = self.autoscale(&pool).await;
        let (Applied { failure, has_conflict, has_more, .. }, again, admitted) = self.bring(&pool).await;
        let status = self.write_status(key, Some(&admitted)).await;
        let wake = scaled?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        let until = status?;
        if has_conflict {
            return Err(changed());
        }
        if let Admitted::Unknown(message) = admitted {
            return Err(Failed { category: Category::Unanswered, message, source: None });
        }
        if let Some(why) = pod::invalid(&pool.spec) {
            return Err(Failed { category: Category::Invalid, message: why.to_owned(), source: None });
        }
        if has_more {
            return Ok(Again::After(Duration::ZERO));
        }
        let now = self.clock.now();
        let Again::After(period) = self.soon() else { return Ok(Again::Rarely) };
        let wait = [again, until, wake].into_iter().flatten().min().map(|at| deadline::until(at, now));
        Ok(match wait {
            Some(Again::After(wait)) => Again::After(wait.min(period)),
            _ => Again::After(period),
        })
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let pool = self.view.get::<SandboxPool>(key)?;
        Some(reference(names::API_VERSION, names::KIND_POOL, key, &pool.uid))
    }
}
