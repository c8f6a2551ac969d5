//! Does what was decided about the pods of a pool.
//!
//! Requests go out in batches of 16, 32, 64, 128 and 256. A batch in which one fails is the last: what fails
//! once fails for the rest too. Two failures are about one pod, and end nothing:
//! - a conflict: the pod was claimed or has changed otherwise, and is looked at again;
//! - a refusal: the pod is left alone for a while. A batch that is refused as a whole is the last of this
//!   look, as the API server may refuse them all.

use std::sync::Arc;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use sandgate_envs::change::written;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPool};
use serde_json::{Value, json};

use super::chore::{Chore, Why, need};
use super::observe::is_among;
use super::plan::Plan;
use super::pod::manifest;
use super::record::Record;
use super::{EnvPoolReconciler, is_ours};
use crate::child_name::child_key;
use crate::events::EventKind;
use crate::view::{EnvPodClass, EnvPods, Seen};
use crate::writes::{Merge, Only, WriteError};
use crate::{Key, conditions};

/// The size of the first batch.
const FIRST_BATCH: usize = 16;
/// The size of the last.
const LAST_BATCH: usize = 256;
/// How often a name is drawn. There are fourteen million for each pool.
const DRAWS: usize = 16;
/// How many pods are looked at in one go. The rest is due at once.
const LOOK: usize = 512;

/// What became of something that was to be done.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// The first failure.
    pub(super) failure: Option<WriteError>,
    /// Whether something was not as it had been seen.
    pub(super) has_conflict: bool,
    /// Whether anything is left that can be done at once.
    pub(super) has_more: bool,
    /// How many writes to pods that there are were refused.
    pub(super) refused: usize,
    /// When pods are made again after one was refused.
    pub(super) again: Option<Timestamp>,
}

impl Applied {
    /// Both.
    pub(super) fn add(&mut self, other: Self) {
        let Self { failure, has_conflict, has_more, refused, again } = other;
        self.failure = self.failure.take().or(failure);
        self.has_conflict |= has_conflict;
        self.has_more |= has_more;
        self.refused += refused;
        self.again = [self.again, again].into_iter().flatten().min();
    }
}

/// The next batch of some things, and the size of the one after.
fn batch<'a, T>(rest: &mut &'a [T], size: &mut usize) -> &'a [T] {
    let (batch, after) = rest.split_at(rest.len().min(*size));
    *rest = after;
    *size = (2 * *size).min(LAST_BATCH);
    batch
}

impl EnvPoolReconciler {
    /// Does the chores of the pods that changed or whose time has come.
    pub(super) async fn chores(&self, pool: &Seen<SandboxPool>) -> Applied {
        let changed = self.view.take_changed_env_pods(&pool.key);
        let now = self.clock.now();
        let (keys, has_more) = self.with_state(pool, |state| {
            state.todo.extend(changed);
            state.due(now, LOOK)
        });
        let mut due = Vec::new();
        for key in keys {
            let pod = self.view.get::<EnvPod>(&key).filter(|pod| pod.pool() == &*pool.key.name);
            pod.iter().for_each(|pod| self.stray(pool, pod));
            let need = pod.as_ref().map(|pod| need(pod, &pool.spec, is_ours(pod, pool), now));
            let need = need.unwrap_or_default();
            match (pod, need.chore) {
                (Some(pod), Some(chore)) => due.push((pod, chore)),
                _ => self.with_state(pool, |state| state.looked(&key, need.again)),
            }
        }
        let mut done = Applied { has_more, ..Applied::default() };
        let (mut rest, mut size) = (due.as_slice(), FIRST_BATCH);
        while !rest.is_empty() && done.failure.is_none() {
            let some = batch(&mut rest, &mut size);
            let all = join_all(some.iter().map(|(pod, chore)| self.chore(pool, pod, chore))).await;
            let before = done.refused;
            all.into_iter().for_each(|one| done.add(one));
            if done.refused - before == some.len() {
                done.has_more = false;
                break;
            }
        }
        done
    }

    /// A pod that names this pool and that nobody controls is not the pool's. It is said once, as somebody
    /// may have made it by hand or taken its owner away.
    fn stray(&self, pool: &Seen<SandboxPool>, pod: &Seen<EnvPod>) {
        let is_first = pod.controller().is_none()
            && !pod.is_deleting()
            && self.with_state(pool, |state| !std::mem::replace(&mut state.has_strays, true));
        if is_first {
            tracing::warn!(pool = %pool.key, pod = %pod.key, "a pod without a controller is not the pool's");
        }
    }

    async fn chore(&self, pool: &Seen<SandboxPool>, pod: &Arc<Seen<EnvPod>>, chore: &Chore) -> Applied {
        let (result, why) = match chore {
            Chore::Patch(patch, merge, why) => {
                (self.writes.patch(&**pod, patch.clone(), *merge, None).await.map(drop), *why)
            }
            Chore::Delete(why) => (self.delete_one(pod, Only::ThisVersion).await, *why),
        };
        if let Err(error) = result {
            return self.after(pool, pod, error).await;
        }
        // The write has changed the pod, so it is looked at again by itself.
        self.with_state(pool, |state| state.looked(&pod.key, None));
        match chore {
            Chore::Delete(why) => self.metrics.deleted(*why),
            Chore::Patch(_, _, Why::Started) => self.metrics.started(),
            Chore::Patch(..) => {}
        }
        if why.ends_a_sandbox() {
            self.tell_over(pool, pod);
        }
        if why == Why::Ended {
            self.ended(pool, pod);
        }
        Applied::default()
    }

    /// Tells of a sandbox that is over.
    fn tell_over(&self, pool: &Seen<SandboxPool>, pod: &Seen<EnvPod>) {
        let Some(record) = Record::of(pod) else { return };
        record.log(pod);
        self.metrics.ended(record.ending);
        self.tell(pool, record.ending.kind(), record.ending.reason(), "Release", record.note);
    }

    /// A pod has ended by itself. One that only waited says something about its template.
    fn ended(&self, pool: &Seen<SandboxPool>, pod: &Seen<EnvPod>) {
        let now = self.clock.now();
        if pod.sandbox_id().is_empty() {
            let revision: Arc<str> = pod.label(names::LABEL_TEMPLATE_HASH).into();
            self.with_state(pool, |state| {
                state.failures = state.failures.clone().and(&revision, pod.created(), now);
            });
        }
        let why = [&pod.reason, &pod.message].map(|text| text.as_deref().unwrap_or_default()).join(" ");
        let note = format!("Pod {} has ended by itself: {} {why}", pod.key.name, pod.phase);
        self.tell(pool, EventKind::Warning, "PodEnded", "Delete", note.trim_end().to_owned());
    }

    /// Does what a plan says about the number of pods.
    pub(super) async fn apply(
        &self,
        pool: &Seen<SandboxPool>,
        plan: &Plan,
        revision: &Arc<str>,
        free: Vec<Key>,
    ) -> Applied {
        let Plan { create, mark, unmark, delete, again: _ } = plan;
        let mut done = self.create(pool, *create, revision, free).await;
        done.add(self.mark(pool, unmark, None).await);
        done.add(self.mark(pool, mark, Some(self.clock.now())).await);
        done.add(self.delete(pool, delete).await);
        done
    }

    /// Makes pods.
    async fn create(
        &self,
        pool: &Seen<SandboxPool>,
        count: usize,
        revision: &Arc<str>,
        free: Vec<Key>,
    ) -> Applied {
        let mut free = free.into_iter();
        let (mut missing, mut size) = (count, FIRST_BATCH);
        let (mut made, mut failure, mut refusal) = (0, None, None);
        while missing > 0 && failure.is_none() && refusal.is_none() {
            let asked = missing.min(size);
            let keys: Vec<_> = (0..asked).filter_map(|_| self.reserve(pool, revision, &mut free)).collect();
            let all = join_all(keys.iter().map(|key| self.create_one(pool, revision, key))).await;
            for one in all {
                match one {
                    Ok(was_made) => made += usize::from(was_made),
                    Err(error @ WriteError::Refused { .. }) => drop(refusal.get_or_insert(error)),
                    Err(error) => drop(failure.get_or_insert(error)),
                }
            }
            missing -= asked;
            size = (2 * size).min(LAST_BATCH);
        }
        if made > 0 {
            self.tell(pool, EventKind::Normal, "SuccessfulCreate", "Create", format!("Created {made} pods"));
        }
        // The wait after refusals is the pool's own, and its event tells of it.
        let again = refusal.map(|error| self.refused(pool, revision, &error.to_string()));
        Applied { failure, again, ..Applied::default() }
    }

    /// The API server refused a pod. A refusal that says what the last one did is told once. When the next
    /// pod may be made.
    fn refused(&self, pool: &Seen<SandboxPool>, revision: &Arc<str>, message: &str) -> Timestamp {
        let now = self.clock.now();
        let (news, until) = self.with_state(pool, |state| {
            let last = state.failures.refusal().map(str::to_owned);
            let known = last.filter(|last| conditions::says_the_same(last, message));
            let text = known.clone().unwrap_or_else(|| message.to_owned());
            state.failures = state.failures.clone().and_refused(revision, &text, now);
            (known.is_none(), state.failures.wait(revision, now))
        });
        if news {
            let note = format!("Error creating: {message}");
            self.tell(pool, EventKind::Warning, "FailedCreate", "Create", note);
        }
        until.unwrap_or(now + SignedDuration::from_secs(1))
    }

    /// Registers a name. A drawn one that is in use is drawn again.
    fn reserve(
        &self,
        pool: &Seen<SandboxPool>,
        revision: &Arc<str>,
        free: &mut impl Iterator<Item = Key>,
    ) -> Option<Key> {
        (0..DRAWS).find_map(|_| {
            let draw = || child_key(&pool.key, &mut self.random.lock());
            let key = free.next().unwrap_or_else(draw);
            self.view.reserve_env_pod(&pool.uid, &key, revision).then_some(key)
        })
    }

    /// Makes one pod. Whether this request made it.
    async fn create_one(
        &self,
        pool: &Seen<SandboxPool>,
        revision: &str,
        key: &Key,
    ) -> Result<bool, WriteError> {
        let pod = manifest(pool, revision, key);
        match self.writes.create::<EnvPod>(&key.namespace, &pod).await {
            Ok(_) => {
                self.view.release(key);
                self.metrics.created();
                Ok(true)
            }
            // Whether it was made is found out by the next look.
            Err(error @ WriteError::Unanswered(_)) => Err(error),
            // An earlier request with this name was done after all; or the name is somebody else's.
            Err(WriteError::AlreadyExists(_)) => {
                self.writes.read::<EnvPod>(key).await?;
                self.view.release(key);
                Ok(false)
            }
            Err(error) => {
                self.view.release(key);
                Err(match error {
                    // The name was drawn for this try alone: a message with it would be a new one each time.
                    WriteError::Refused { code, message } => {
                        let message = message.replace(&*key.name, &format!("{}-…", pool.key.name));
                        WriteError::Refused { code, message }
                    }
                    other => other,
                })
            }
        }
    }

    /// Marks idle pods that are to go, or takes their marks off.
    async fn mark(&self, pool: &Seen<SandboxPool>, pods: &EnvPods, at: Option<Timestamp>) -> Applied {
        let text = at.map_or(Value::Null, |at| json!(written(at)));
        let patch = json!({"metadata": {"annotations": {(names::ANNOTATION_SCALE_DOWN): text}}});
        self.each(pool, pods, |pod| {
            let patch = patch.clone();
            async move { self.writes.patch(&*pod, patch, Merge::Plain, None).await.map(drop) }
        })
        .await
    }

    /// Deletes pods that are not wanted, if they are still as they were seen.
    async fn delete(&self, pool: &Seen<SandboxPool>, pods: &EnvPods) -> Applied {
        self.each(pool, pods, |pod| async move {
            self.delete_one(&pod, Only::ThisVersion).await?;
            self.metrics.not_wanted();
            Ok(())
        })
        .await
    }

    /// Does something with each of some pods.
    async fn each<F>(
        &self,
        pool: &Seen<SandboxPool>,
        pods: &EnvPods,
        what: impl Fn(Arc<Seen<EnvPod>>) -> F,
    ) -> Applied
    where
        F: Future<Output = Result<(), WriteError>>,
    {
        let mut done = Applied::default();
        let (mut rest, mut size) = (pods.as_slice(), FIRST_BATCH);
        while !rest.is_empty() && done.failure.is_none() {
            let some = batch(&mut rest, &mut size);
            let all = join_all(some.iter().map(|pod| what(Arc::clone(pod)))).await;
            let before = done.refused;
            for (pod, one) in some.iter().zip(all) {
                if let Err(error) = one {
                    done.add(self.after(pool, pod, error).await);
                }
            }
            if done.refused - before == some.len() {
                break;
            }
        }
        done
    }

    async fn delete_one(&self, pod: &Seen<EnvPod>, only: Only) -> Result<(), WriteError> {
        self.writes.delete::<EnvPod>((&pod.key, &pod.uid, &pod.version), only, None).await
    }

    /// What becomes of a write to a pod that failed. Sees to it that the view is newer than what was decided
    /// on.
    async fn after(&self, pool: &Seen<SandboxPool>, pod: &Seen<EnvPod>, error: WriteError) -> Applied {
        match error {
            WriteError::Refused { .. } => {
                let now = self.clock.now();
                if self.with_state(pool, |state| state.refused(&pod.key, now)) {
                    let note = format!("Error writing pod {}: {error}", pod.key.name);
                    self.tell(pool, EventKind::Warning, "FailedWrite", "Write", note);
                }
                Applied { refused: 1, ..Applied::default() }
            }
            WriteError::Conflict(_) | WriteError::NotFound(_) => {
                let known = self.view.get::<EnvPod>(&pod.key);
                let is_as_seen =
                    |known: Arc<Seen<EnvPod>>| known.uid == pod.uid && known.version == pod.version;
                let failure = match known.is_some_and(is_as_seen) {
                    true => self.writes.read::<EnvPod>(&pod.key).await.err(),
                    false => None,
                };
                Applied { failure, has_conflict: true, ..Applied::default() }
            }
            failure => Applied { failure: Some(failure), ..Applied::default() },
        }
    }

    /// Deletes the pods of a pool that is deleted, whatever they are. None of them goes without a record: it
    /// goes when its finalizer is taken off.
    pub(super) async fn delete_all(&self, pool: &Seen<SandboxPool>) -> Applied {
        const CLASSES: [EnvPodClass; 8] = [
            EnvPodClass::IdleReady,
            EnvPodClass::IdleUnready,
            EnvPodClass::IdleMarked,
            EnvPodClass::Starting,
            EnvPodClass::Running,
            EnvPodClass::Stopping,
            EnvPodClass::Failed,
            EnvPodClass::Ended,
        ];
        let now = self.clock.now();
        let left_alone = self.with_state(pool, |state| state.left_alone(now));
        let wanted = |pod: &EnvPod| !is_among(pod, &left_alone);
        let of_class = |class| self.view.env_pods_that(&pool.key, class, LOOK, wanted);
        let pods: EnvPods = CLASSES.into_iter().flat_map(of_class).collect();
        let mut done = self
            .each(pool, &pods, |pod| async move {
                self.delete_one(&pod, Only::ThisUid).await?;
                self.metrics.pool_gone();
                Ok(())
            })
            .await;
        done.has_more = pods.len() >= LOOK && done.refused == 0;
        done
    }
}
