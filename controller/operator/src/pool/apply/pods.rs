//! Pods that are made, and idle pods that go.
//!
//! Requests go out in batches of 16, 32, 64, 128 and 256. A batch in which one fails is the last: what fails
//! once fails for the rest too. A conflict is about one pod and ends nothing.

use std::sync::Arc;

use futures_util::future::join_all;
use sandgate_objects::opensandbox::names;

use super::super::PoolReconciler;
use super::super::observe::Observed;
use super::super::pod::{POOL, manifest};
use super::Applied;
use crate::child_name::child_key;
use crate::events::EventKind;
use crate::failures::Failures;
use crate::reference::reference;
use crate::view::{PoolPod, Seen};
use crate::writes::{Only, WriteError};
use crate::{Key, conditions};

/// The size of the first batch.
const FIRST_BATCH: usize = 16;
/// The size of the last.
const LAST_BATCH: usize = 256;
/// How often a name is drawn. There are fourteen million for each pool.
const DRAWS: usize = 16;
/// How many names an event tells.
const TOLD: usize = 5;

impl PoolReconciler {
    /// Makes pods.
    pub(super) async fn create(
        &self,
        observed: &Observed,
        count: usize,
        free: Vec<Key>,
        failures: &mut Failures,
    ) -> Applied {
        let mut free = free.into_iter();
        let (mut missing, mut size) = (count, FIRST_BATCH);
        let (mut made, mut failure) = (Vec::new(), None);
        while missing > 0 && failure.is_none() {
            let asked = missing.min(size);
            let keys: Vec<_> = (0..asked).filter_map(|_| self.reserve(observed, &mut free)).collect();
            let all = join_all(keys.iter().map(|key| self.create_one(observed, key))).await;
            for (key, one) in keys.into_iter().zip(all) {
                match one {
                    Ok(true) => made.push(key),
                    Ok(false) => {}
                    Err(error) => drop(failure.get_or_insert(error)),
                }
            }
            missing -= asked;
            size = (2 * size).min(LAST_BATCH);
        }
        let has_acted = !made.is_empty();
        self.tell_created(observed, &made);
        if let Some(error) = &failure {
            let mut message = error.to_string();
            if let WriteError::Refused { .. } = error {
                // A quota that is used by another number is the same refusal.
                if let Some(last) =
                    failures.refusal().filter(|last| conditions::says_the_same(last, &message))
                {
                    message = last.to_owned();
                }
                let known = failures.refusal() == Some(&message);
                *failures = failures.clone().and_refused(&observed.revision, &message, observed.now);
                if !known {
                    let note = format!("Error creating: {message}");
                    self.tell(observed, EventKind::Warning, "FailedCreate", "Create", note);
                }
            }
        }
        Applied { failure, has_acted, ..Applied::default() }
    }

    fn tell_created(&self, observed: &Observed, made: &[Key]) {
        if made.is_empty() {
            return;
        }
        let mut names: Vec<_> = made.iter().take(TOLD).map(|key| &*key.name).collect();
        if made.len() > TOLD {
            names.push("…");
        }
        let note = match made.len() {
            1 => format!("Created pod: {}", names[0]),
            count => format!("Created {count} pods: {}", names.join(", ")),
        };
        self.tell(observed, EventKind::Normal, "SuccessfulCreate", "Create", note);
    }

    /// Registers a name. A drawn one that is in use is drawn again.
    fn reserve(&self, observed: &Observed, free: &mut impl Iterator<Item = Key>) -> Option<Key> {
        let pool = &observed.pool;
        (0..DRAWS).find_map(|_| {
            let draw = || child_key(&pool.key, &mut self.random.lock());
            let key = free.next().unwrap_or_else(draw);
            self.view.reserve_pod(&pool.uid, &key, &observed.revision).then_some(key)
        })
    }

    /// Makes one pod. Whether this request made it.
    async fn create_one(&self, observed: &Observed, key: &Key) -> Result<bool, WriteError> {
        let pod = manifest(&observed.pool, &observed.revision, key);
        match self.writes.create::<PoolPod>(&key.namespace, &pod).await {
            Ok(_) => {
                self.view.release(key);
                Ok(true)
            }
            // Whether it was made is found out by the next look.
            Err(error @ WriteError::Unanswered(_)) => Err(error),
            // An earlier request with this name was done after all; or the name is somebody else's.
            Err(WriteError::AlreadyExists(_)) => {
                self.writes.read::<PoolPod>(key).await?;
                self.view.release(key);
                Ok(false)
            }
            Err(error) => {
                self.view.release(key);
                Err(match error {
                    // The name was drawn for this try alone: a message with it would be a new one each time.
                    WriteError::Refused { code, message } => {
                        let message = message.replace(&*key.name, &format!("{}-…", observed.pool.key.name));
                        WriteError::Refused { code, message }
                    }
                    other => other,
                })
            }
        }
    }

    /// Deletes pods that somebody wants to have gone.
    pub(super) async fn evict(&self, observed: &Observed, pods: &[Arc<Seen<PoolPod>>]) -> Applied {
        let done = self.delete(pods).await;
        for pod in pods {
            let is_going = self.view.get::<PoolPod>(&pod.key).is_none_or(|now| now.is_deleting);
            if is_going {
                let note = format!("Evicted idle pod {} (label {})", pod.key.name, names::LABEL_EVICT);
                self.tell(observed, EventKind::Normal, "PodEvicted", "Evict", note);
            }
        }
        done
    }

    /// Deletes pods that are not ready in time.
    pub(super) async fn give_up(&self, observed: &Observed, pods: &[Arc<Seen<PoolPod>>]) -> Applied {
        let done = self.delete(pods).await;
        if let Some(pod) = pods.first() {
            let waits = pod.containers.iter().find_map(|container| container.waiting.as_deref());
            let others = match pods.len() {
                1 => String::new(),
                count => format!(" and {} others", count - 1),
            };
            let why = waits.map(|reason| format!(": {reason}")).unwrap_or_default();
            let note = format!("Gave up idle pod {}{others}, not ready in time{why}", pod.key.name);
            self.tell(observed, EventKind::Warning, "PodNotReady", "GiveUp", note);
        }
        done
    }

    /// Deletes idle pods, if they are still as they were seen.
    pub(super) async fn delete(&self, pods: &[Arc<Seen<PoolPod>>]) -> Applied {
        let (mut rest, mut size) = (pods, FIRST_BATCH);
        let mut done = Applied::default();
        while !rest.is_empty() && done.failure.is_none() {
            let (batch, after) = rest.split_at(rest.len().min(size));
            let one = |pod: Arc<Seen<PoolPod>>| async move {
                let seen = (&pod.key, &pod.uid, &pod.version);
                match self.writes.delete::<PoolPod>(seen, Only::ThisVersion, None).await {
                    Ok(()) => Applied::acted(),
                    // It was claimed, or changed otherwise: it is looked at again.
                    Err(error) => self.after(&pod, error).await,
                }
            };
            join_all(batch.iter().cloned().map(one)).await.into_iter().for_each(|one| done.add(one));
            rest = after;
            size = (2 * size).min(LAST_BATCH);
        }
        done
    }

    /// An event on the pool.
    pub(in super::super) fn tell(
        &self,
        observed: &Observed,
        kind: EventKind,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let on = reference(names::API_VERSION, POOL, &observed.pool.key, &observed.pool.uid);
        self.events.publish(&on, kind, reason, action, note);
    }
}
