//! What is to be done for a batch: a function of what was observed, and of nothing else.
//!
//! | phase | what leads on |
//! |---|---|
//! | none, Pending, Succeed, Failed | a pod is ready → Succeed; one cannot start → Failed; else Pending |
//! | the same, and `spec.pause` is true | → Pausing |
//! | Pausing | tasks are stopped, the snapshot is made, the pods go → Paused; it fails → Succeed or Failed |
//! | Paused, and `spec.pause` is false | → Resuming |
//! | Resuming | the template gets the snapshot's images, a pod is made; it is ready → Succeed |
//!
//! `spec.pause` is a wish that is heard once a generation: `status.pauseObservedGeneration` says of which.
//! A wish that comes while another is carried out waits until that is done.
//!
//! # Views that lag
//! A write to the batch carries its version, so a view of it that is old ends in a conflict. What is done to
//! other objects because of the batch is done after the API server has confirmed that the batch is still this
//! version, if it cannot be undone: see [`Settle::needs_confirmation`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, SandboxSnapshot};
use serde_json::{Value, json};

use super::observe::{Observed, SnapshotOf};
use super::pause;
use crate::deadline::until;
use crate::view::{BatchPod, Seen, has_finalizer, is_leaving};
use crate::{Again, Key};

/// When to look again at a snapshot that is in the way.
pub(super) const IN_THE_WAY: Duration = Duration::from_secs(1);

/// When to look again at a pod that is there and was not seen.
pub(super) const UNSEEN: Duration = Duration::from_secs(10);

/// How long a batch may be without a ready pod of its pool before a first status says so. As a rule it gets
/// one at once, and a status that says nothing would be one more write for each batch.
pub(super) const GIVEN_WITHIN: SignedDuration = SignedDuration::from_secs(5);

/// The same for pods of its own, which have to be started. Many that start at once are kept from being ready
/// by the writes that say they are not. The time of the creation is in whole seconds, so this is one second
/// at least.
pub(super) const STARTED_WITHIN: SignedDuration = SignedDuration::from_secs(2);

/// How many pods one look at a batch makes at most: the batches from 16 to 256.
pub(super) const MAX_CREATES: usize = 16 + 32 + 64 + 128 + 256;

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Delete the batch, if it is still as it was observed: its time is over.
    Delete,
    /// Choose a pool by this profile.
    Assign(&'static str),
    /// Add the finalizer of tasks, before any of them is started: a merge patch.
    Begin(Value),
    /// Change metadata or spec of the batch: a merge patch.
    Patch(Value),
    /// Nothing of a pool is held any more, as far as is known: once the API server has confirmed that these
    /// pods are gone, forget them.
    Detach {
        /// Pods that are held and were not seen.
        unseen: Vec<Key>,
        /// The merge patch.
        patch: Value,
    },
    /// The snapshot of a batch that had a pool's pod is made: the batch gets a template, and gives the pod
    /// back. This is one patch.
    Unpool(Arc<Seen<SandboxSnapshot>>),
    /// Do something about pods, tasks and the snapshot, and write annotations and status.
    Settle(Box<Settle>),
}

/// The usual plan.
#[derive(Clone, Debug)]
pub(super) struct Settle {
    /// What the status will say.
    pub(super) turn: Turn,
    /// What becomes of the tasks.
    pub(super) tasks: TaskStep,
    /// The replicas without a pod.
    pub(super) create: Vec<u32>,
    /// Pods to delete, in this order.
    pub(super) delete: Vec<BatchPod>,
    /// Pods to delete because their nodes cannot start them.
    pub(super) replace: Vec<BatchPod>,
    /// Pods of a pool that are not needed any more.
    pub(super) wish: Vec<BatchPod>,
    /// What becomes of the snapshot.
    pub(super) snapshot: SnapshotStep,
    /// When to look again.
    pub(super) again: Again,
}

/// What the status will say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// What it says now.
    Hold,
    /// What is the case with the pods.
    Steady,
    /// The same, and the wish about a pause is still to be heard.
    Waiting,
    /// A pause begins.
    Pausing,
    /// The batch cannot be paused.
    PauseRefused {
        /// In one word.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// The pause has failed, and the batch goes on.
    PauseFailed(String),
    /// The batch is paused.
    Paused,
    /// A resume begins.
    Resuming,
    /// The batch cannot be resumed, and stays paused.
    ResumeFailed {
        /// In one word.
        reason: &'static str,
        /// For people.
        message: String,
    },
}

impl Turn {
    /// Whether the status says what is the case with the pods.
    pub(super) fn is_of_pods(&self) -> bool {
        matches!(self, Self::Steady | Self::Waiting)
    }
}

/// What becomes of the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskStep {
    /// There are none, or it does not matter now.
    None,
    /// They run.
    Run,
    /// They are stopped, and nothing else happens before.
    Stop,
    /// They are stopped for good, and the finalizer is dropped.
    End,
    /// They are forgotten: no pod has any.
    Forget,
}

/// What becomes of the snapshot of a pause.
#[derive(Clone, Debug)]
pub(super) enum SnapshotStep {
    /// Nothing.
    Keep,
    /// It is created.
    Create,
    /// It is deleted, if it is still as it was observed.
    Delete(Arc<Seen<SandboxSnapshot>>),
}

impl Settle {
    pub(super) fn new(turn: Turn) -> Self {
        Self {
            turn,
            tasks: TaskStep::None,
            create: Vec::new(),
            delete: Vec::new(),
            replace: Vec::new(),
            wish: Vec::new(),
            snapshot: SnapshotStep::Keep,
            again: Again::Rarely,
        }
    }

    pub(super) fn plan(self) -> Plan {
        Plan::Settle(Box::new(self))
    }

    /// Whether something is done that cannot be undone, because of what the batch says: a pod or a snapshot
    /// is deleted, or a snapshot is begun.
    pub(super) fn needs_confirmation(&self) -> bool {
        let deletes = !self.delete.is_empty() || !self.replace.is_empty();
        deletes || !matches!(self.snapshot, SnapshotStep::Keep)
    }
}

/// Makes the plan. `pull_secret` is what a batch that is resumed pulls its images with.
pub(super) fn plan(observed: &Observed, pull_secret: Option<&str>) -> Plan {
    let batch = &observed.batch;
    if is_leaving(batch) {
        return leave(observed);
    }
    let expires = expires(batch);
    if expires.is_some_and(|at| at <= observed.now) {
        return Plan::Delete;
    }
    let mut plan = live(observed, pull_secret);
    if let (Plan::Settle(settle), Some(at)) = (&mut plan, expires) {
        settle.again = sooner(settle.again, until(at, observed.now));
    }
    plan
}

/// When the time of a batch is over.
pub(super) fn expires(batch: &BatchSandbox) -> Option<Timestamp> {
    batch.spec.expire_time.as_ref().map(|time| time.0)
}

fn live(observed: &Observed, pull_secret: Option<&str>) -> Plan {
    let batch = &observed.batch;
    let phase = phase(batch);
    if let Some(profile) = observed.profile.filter(|_| !pause::is_under_way(phase)) {
        return Plan::Assign(profile);
    }
    let has_tasks = batch.spec.task_template.is_some();
    if has_tasks && !has_finalizer(batch, names::FINALIZER_TASK_CLEANUP) {
        let mut finalizers = batch.metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(names::FINALIZER_TASK_CLEANUP.to_owned());
        return Plan::Begin(json!({"metadata": {"finalizers": finalizers}}));
    }
    if let Some(patch) = without_tasks(observed).filter(|_| observed.is_pooled) {
        return Plan::Patch(patch);
    }
    if let Some(plan) = pause::plan(observed, phase, pull_secret) {
        return plan;
    }
    if let Some(plan) = detach(observed) {
        return plan;
    }
    steady(observed).plan()
}

/// The batch has the pods that its spec asks for, or is about to.
pub(super) fn steady(observed: &Observed) -> Settle {
    let batch = &observed.batch;
    let mut settle = Settle::new(Turn::Steady);
    settle.tasks = if batch.spec.task_template.is_some() { TaskStep::Run } else { TaskStep::Forget };
    let is_told_later = |at: &Timestamp| *at > observed.now && phase(batch).is_empty();
    if let Some(at) = told_at(batch, observed.is_pooled).filter(is_told_later) {
        settle.again = until(at, observed.now);
    }
    if observed.is_pooled {
        settle.wish = beyond(observed).cloned().collect();
    } else {
        settle.create = missing(observed);
        let surplus = beyond(observed).filter(|pod| pod.pod.as_ref().is_some_and(|it| !it.is_deleting));
        settle.delete = surplus.rev().cloned().collect();
        let wanted = batch.spec.replicas();
        settle.replace = observed.stuck.pods.iter().filter(|pod| !is_beyond(pod, wanted)).cloned().collect();
        if let Some(at) = observed.stuck.next {
            settle.again = sooner(settle.again, until(at, observed.now));
        }
    }
    // What a batch was resumed from is not needed once a pod is ready.
    if let SnapshotOf::Own(snapshot) = &observed.snapshot
        && phase(batch) == names::PHASE_SUCCEED
        && pause::snapshot_phase(snapshot) == names::PHASE_SUCCEED
        && snapshot.metadata.deletion_timestamp.is_none()
    {
        settle.snapshot = SnapshotStep::Delete(Arc::clone(snapshot));
    }
    settle
}

/// When a first status says that no pod is ready, if that is so by then.
pub(super) fn told_at(batch: &BatchSandbox, is_pooled: bool) -> Option<Timestamp> {
    let within = if is_pooled { GIVEN_WITHIN } else { STARTED_WITHIN };
    batch.metadata.creation_timestamp.as_ref()?.0.checked_add(within).ok()
}

/// The replicas without a pod. A pod that is ending has its name still: the new one is made when it is gone.
fn missing(observed: &Observed) -> Vec<u32> {
    let batch = &observed.batch;
    if batch.spec.template.is_none() {
        return Vec::new();
    }
    let present: BTreeSet<_> = observed.pods.iter().filter_map(|pod| pod.index).collect();
    let wanted = u32::try_from(batch.spec.replicas()).unwrap_or(u32::MAX);
    (0..wanted).filter(|index| !present.contains(index)).take(MAX_CREATES).collect()
}

/// The pods beyond the replicas, in the order of their index.
fn beyond(observed: &Observed) -> impl DoubleEndedIterator<Item = &BatchPod> {
    let wanted = observed.batch.spec.replicas();
    observed.pods.iter().filter(move |pod| is_beyond(pod, wanted))
}

/// Whether a batch of so many replicas does not need the pod.
pub(super) fn is_beyond(pod: &BatchPod, wanted: usize) -> bool {
    pod.index.is_some_and(|index| usize::try_from(index).is_ok_and(|index| index >= wanted))
}

/// The batch is being deleted. Its tasks end first, then its pool takes the pods back; pods of its own are
/// deleted with it.
fn leave(observed: &Observed) -> Plan {
    let batch = &observed.batch;
    if let Some(patch) = without_tasks(observed) {
        return Plan::Patch(patch);
    }
    if has_finalizer(batch, names::FINALIZER_TASK_CLEANUP) {
        let mut settle = Settle::new(Turn::Hold);
        settle.tasks = TaskStep::End;
        return settle.plan();
    }
    detach(observed).unwrap_or_else(|| {
        let mut settle = Settle::new(Turn::Hold);
        settle.tasks = TaskStep::Forget;
        settle.plan()
    })
}

/// The patch for a batch whose `taskTemplate` was taken out after its tasks had been started; none if that is
/// not so. Nobody knows the tasks any more, and one may run in each pod: a pool must not give it to another
/// batch.
fn without_tasks(observed: &Observed) -> Option<Value> {
    let batch = &observed.batch;
    if batch.spec.task_template.is_some() || !has_finalizer(batch, names::FINALIZER_TASK_CLEANUP) {
        return None;
    }
    let mut metadata = json!({"finalizers": without_task_finalizer(batch)});
    if observed.is_pooled {
        metadata["annotations"] = json!({names::ANNOTATION_RECYCLE: names::RECYCLE_DELETE});
    }
    Some(json!({"metadata": metadata}))
}

/// The finalizers of a batch without the one of tasks.
pub(super) fn without_task_finalizer(batch: &BatchSandbox) -> Value {
    without(batch, names::FINALIZER_TASK_CLEANUP)
}

/// The finalizers of a batch without this one.
pub(super) fn without(batch: &BatchSandbox, finalizer: &str) -> Value {
    let finalizers = batch.metadata.finalizers.iter().flatten();
    finalizers.filter(|name| *name != finalizer).cloned().collect()
}

/// A batch that has no pool (any more) forgets the pods that it held, once none of them is left. Until then
/// their pool takes them back.
pub(super) fn detach(observed: &Observed) -> Option<Plan> {
    let batch = &observed.batch;
    if observed.is_pooled || !observed.held.is_empty() {
        return None;
    }
    let annotation =
        |name: &str| batch.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(name));
    let has_any = has_finalizer(batch, names::FINALIZER_POOL_ALLOCATION)
        || annotation(names::ANNOTATION_ALLOC_STATUS)
        || annotation(names::ANNOTATION_ALLOC_RELEASE);
    if !has_any {
        return None;
    }
    let namespace = &batch.key.namespace;
    let key = |name: &Arc<str>| Key { namespace: Arc::clone(namespace), name: Arc::clone(name) };
    Some(Plan::Detach {
        unseen: observed.slots.held().map(key).collect(),
        patch: json!({"metadata": pause::detached(observed)}),
    })
}

/// The phase of a batch; empty if it has none.
pub(super) fn phase(batch: &BatchSandbox) -> &str {
    batch.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The earlier of two times to look again.
pub(super) fn sooner(one: Again, other: Again) -> Again {
    match (one, other) {
        (Again::After(one), Again::After(other)) => Again::After(one.min(other)),
        (after @ Again::After(_), _) | (_, after) => after,
    }
}
