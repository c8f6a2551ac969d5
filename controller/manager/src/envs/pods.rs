//! Where the scheduler finds pods, and how it claims them.
//!
//! A pod is claimed by a strategic merge patch with the version that was seen. A pod counts only if the pool
//! controls it: a label alone gives nobody a claim.

use std::sync::Arc;
use std::time::Duration;

use sandgate_cache::request::Only;
use sandgate_cache::{Key, Seen, WriteError};
use sandgate_envs::change::{Claim, Released, Stop, Unclaimable, claim, release};
use sandgate_envs::scheduler::{Candidate, Pods, Settled, SwapError};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPool};
use sandgate_routes::Version;
use tokio::time::sleep;

use super::notes::Notes;
use crate::core::Core;
use crate::{Error, ErrorKind};

/// A pod of a pool.
pub(super) type One = Arc<Seen<EnvPod>>;

/// The first pause between two tries of a release, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The pods of all pools.
pub(super) struct EnvPods {
    core: Arc<Core>,
    notes: Arc<Notes>,
}

impl EnvPods {
    pub(super) fn new(core: &Arc<Core>, notes: &Arc<Notes>) -> Self {
        Self { core: Arc::clone(core), notes: Arc::clone(notes) }
    }
}

/// The key of the pool that a pod says it is of.
pub(super) fn pool_of(pod: &Seen<EnvPod>) -> Key {
    Key { namespace: Arc::clone(&pod.key.namespace), name: pod.pool().into() }
}

impl Pods for EnvPods {
    type Request = Claim;
    type Pod = One;
    type Claimed = One;
    type Refusal = Error;

    /// A pod of the newest template goes before all others: so those of an older one rest, and a rollout can
    /// replace them while claims go on.
    fn idle(&self, pool: &Key, fits: &mut dyn FnMut(&Key, &Version) -> bool) -> Option<Candidate<One>> {
        let known = self.core.cache.get::<SandboxPool>(pool)?;
        if known.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let is_its = |pod: &Seen<EnvPod>| pod.controller().is_some_and(|owner| owner.uid == *known.uid);
        let newest = known.status.as_ref().map_or("", |status| &status.update_revision);
        let is_newest = |pod: &Seen<EnvPod>| pod.label(names::LABEL_TEMPLATE_HASH) == newest;
        let mut pick = |is_wanted: &dyn Fn(&Seen<EnvPod>) -> bool| {
            let cache = &self.core.cache;
            cache.pick_pod(pool, |pod| is_wanted(pod) && is_its(pod) && fits(&pod.key, &pod.version))
        };
        let pod = pick(&is_newest).or_else(|| pick(&|_| true))?;
        Some(Candidate { key: pod.key.clone(), version: pod.version.clone(), pod })
    }

    async fn swap(&self, candidate: &Candidate<One>, request: &Claim) -> Result<One, SwapError<Error>> {
        let pod = &candidate.pod;
        let Some(pool) = self.core.cache.get::<SandboxPool>(&pool_of(pod)) else {
            return Err(SwapError::Gone);
        };
        let request = Claim { at: self.core.now(), ..request.clone() };
        let patch = match claim(pod, &pool.spec, &request) {
            Ok(patch) => patch,
            // Another pod may do.
            Err(Unclaimable::NotIdle(_) | Unclaimable::OtherTemplate) => return Err(SwapError::Gone),
            Err(Unclaimable::Reserved(key)) => {
                return Err(SwapError::Refused(Error::invalid(
                    "metadata",
                    &format!("{key} is the cluster's own"),
                )));
            }
            Err(error @ Unclaimable::NoTemplate) => {
                let message = format!("the pool {} cannot be used: {error}", pool.key.name);
                return Err(SwapError::Refused(Error::new(ErrorKind::Conflict, message)));
            }
        };
        let observer = self.core.writes.observer();
        match self.core.writes.patch_strategic(pod, patch).await {
            Ok(claimed) => {
                self.notes.claimed(&pool.key);
                Ok(claimed)
            }
            Err(WriteError::Conflict(_)) => {
                observer.missed("changed");
                Err(SwapError::Conflict)
            }
            Err(WriteError::NotFound(_)) => {
                observer.missed("gone");
                self.core.cache.deleted_by_us::<EnvPod>(&pod.key, &pod.uid);
                Err(SwapError::Gone)
            }
            Err(WriteError::Unanswered(_)) => Err(SwapError::Unanswered),
            Err(WriteError::PutOff(_)) => Err(SwapError::PutOff),
            Err(error) => Err(SwapError::Refused(error.into())),
        }
    }

    async fn settle(&self, candidate: &Candidate<One>, request: &Claim) -> Settled<One> {
        match self.core.writes.read::<EnvPod>(&candidate.key).await {
            Ok(Some(pod)) if pod.uid != candidate.pod.uid => Settled::NotOurs,
            Ok(Some(pod)) if is_of(&pod, &request.sandbox, &request.owner) => {
                self.notes.claimed(&pool_of(&pod));
                Settled::Ours(pod)
            }
            Ok(Some(pod)) if pod.version == candidate.version => Settled::Unchanged,
            Ok(Some(_) | None) => Settled::NotOurs,
            Err(_) => Settled::Unknown,
        }
    }

    async fn give_back(&self, claimed: One) {
        let stop = Stop {
            reason: names::STOP_CANCELED,
            message: "nobody waited for the sandbox any more".to_owned(),
            ..Stop::default()
        };
        self.core.give_back(&claimed, &stop).await;
    }

    fn demand(&self, pool: &Key, claims: usize) {
        self.notes.waiting(pool, claims);
    }
}

/// Whether a pod is the sandbox of this ID and owner.
pub(super) fn is_of(pod: &EnvPod, id: &str, owner: &str) -> bool {
    pod.sandbox_id() == id && pod.annotation(names::ANNOTATION_OWNER) == owner
}

/// What became of a release.
#[derive(Clone, Debug)]
pub(super) enum GivenBack {
    /// This process has given the pod back, or deleted it: how it was then.
    Now(One),
    /// It was not the sandbox's any more.
    Before,
}

impl Core {
    /// Ends the sandbox that a pod is, if it still is that sandbox: one try for each version of the pod.
    pub(super) async fn try_give_back(&self, pod: &One, stop: &Stop) -> Result<GivenBack, WriteError> {
        let (id, owner) = (pod.sandbox_id().to_owned(), pod.annotation(names::ANNOTATION_OWNER).to_owned());
        let mut pod = Arc::clone(pod);
        for _ in 0..crate::core::TRIES {
            if pod.is_deleting() || !is_of(&pod, &id, &owner) {
                return Ok(GivenBack::Before);
            }
            // Without its pool nobody knows what the pod has to be like to be given back.
            let released = match self.cache.get::<SandboxPool>(&pool_of(&pod)) {
                Some(pool) => release(&pod, &pool.spec, stop, self.now()),
                None => Released::Delete("its pool is gone".to_owned()),
            };
            let written = match released {
                Released::Nothing => return Ok(GivenBack::Before),
                Released::Patch(patch) => self.writes.patch_strategic(&pod, patch).await,
                Released::Delete(_) => {
                    self.writes.delete(&pod, Only::ThisVersion).await.map(|()| Arc::clone(&pod))
                }
            };
            match written {
                Ok(written) => return Ok(GivenBack::Now(written)),
                Err(WriteError::NotFound(_)) => return Ok(GivenBack::Now(pod)),
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
            match self.writes.read::<EnvPod>(&pod.key).await? {
                Some(read) if read.uid == pod.uid => pod = read,
                _ => return Ok(GivenBack::Before),
            }
        }
        Err(WriteError::Conflict("the pod changes all the time".to_owned()))
    }

    /// The same, tried until it is done.
    pub(super) async fn give_back(&self, pod: &One, stop: &Stop) {
        let mut pause = PAUSES.0;
        loop {
            match self.try_give_back(pod, stop).await {
                Ok(_) => {
                    self.writes.observer().undone("released");
                    return;
                }
                Err(error) => tracing::warn!(pod = %pod.key, "the pod was not given back yet: {error}"),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}
