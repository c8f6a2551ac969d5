//! What is done to a sandbox of an environment while it lives, and its end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use sandgate_cache::{Seen, WriteError};
use sandgate_envs::change::{Stop, written};
use sandgate_objects::sandbox_env::names::{ANNOTATION_IDLE_TIMEOUT, ANNOTATION_LAST_ACTIVE, STOP_RELEASED};
use sandgate_objects::sandbox_env::resources::EnvPod;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Environments;
use super::describe::{describe, describe_env, e2b_at, ends, fits, idle_timeout, started, token};
use super::pods::{GivenBack, One};
use crate::core::TRIES;
use crate::list::Place;
use crate::timeouts::{Policy, after};
use crate::{Caller, Described, Error, Filter, Metric, Template};

/// How long an end that is not answered is tried.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// A sandbox of an environment, as its owner has asked for it.
pub(crate) struct Found {
    envs: Arc<Environments>,
    caller: Caller,
    id: String,
    pod: One,
}

impl Found {
    /// What its owner is told of it.
    pub(crate) fn described(&self) -> Described {
        self.envs.describe(&self.pod)
    }

    /// Ends it.
    pub(crate) async fn kill(self) -> Result<(), Error> {
        self.envs.kill(&self.caller, &self.id, &self.pod).await
    }

    /// Lets it live so long from now if nobody uses it.
    pub(crate) async fn set_timeout(self, timeout: Duration, policy: Policy) -> Result<Described, Error> {
        let pod = self.envs.set_timeout(&self.caller, &self.id, &self.pod, timeout, policy).await?;
        Ok(self.envs.describe(&pod))
    }

    /// What it uses now.
    pub(crate) async fn metric(&self) -> Option<Metric> {
        self.envs.metric(&self.pod).await
    }
}

impl Environments {
    /// The caller's sandbox of this ID; none if no environment has it. See [`Self::find`].
    pub(crate) async fn found(self: &Arc<Self>, caller: &Caller, id: &str) -> Result<Option<Found>, Error> {
        let found = self.find(caller, id).await?;
        let (envs, caller, id) = (Arc::clone(self), caller.clone(), id.to_owned());
        Ok(found.map(|pod| Found { envs, caller, id, pod }))
    }

    /// What its owner is told of a sandbox.
    pub(crate) fn describe(&self, pod: &One) -> Described {
        describe(&self.core.cache, pod)
    }

    /// The caller's sandboxes that this filter selects, each with its place in a list.
    pub(crate) fn listed(&self, caller: &Caller, filter: &Filter) -> Vec<(Place, One)> {
        let cache = &self.core.cache;
        let owned = cache.pods_of_owner(self.core.namespace_of(caller), &caller.owner);
        let wanted = owned.into_iter().filter(|pod| fits(cache, pod, filter));
        wanted.map(|pod| (Place { at: started(&pod), id: pod.sandbox_id().to_owned() }, pod)).collect()
    }

    /// The environments that the caller can use.
    pub(crate) fn templates(&self, caller: &Caller) -> Vec<Template> {
        let envs = self.core.cache.envs(self.core.namespace_of(caller));
        envs.iter().map(|env| describe_env(&self.core.cache, self.feed.cluster(), env)).collect()
    }

    /// The environment of this name.
    pub(crate) fn template(&self, caller: &Caller, name: &str) -> Option<Template> {
        let env = self.core.cache.env(self.core.namespace_of(caller), name)?;
        Some(describe_env(&self.core.cache, self.feed.cluster(), &env))
    }

    /// Lets a sandbox live so long from now if nobody uses it. Zero is for ever.
    async fn set_timeout(
        &self,
        caller: &Caller,
        id: &str,
        pod: &One,
        timeout: Duration,
        policy: Policy,
    ) -> Result<One, Error> {
        self.change(caller, id, pod, |pod| {
            let now = self.core.now();
            if policy == Policy::ExtendOnly && ends(pod).is_none_or(|ends| ends >= after(now, timeout)) {
                return None;
            }
            // What is left over is of no use: the sandbox is used now.
            let timeout = match policy {
                Policy::Always => timeout,
                Policy::ExtendOnly => idle_timeout(pod).unwrap_or_default().max(timeout),
            };
            let seconds = timeout.as_secs().to_string();
            let annotations = json!({
                (ANNOTATION_IDLE_TIMEOUT): seconds, (ANNOTATION_LAST_ACTIVE): written(now),
            });
            Some(json!({"metadata": {"annotations": annotations}}))
        })
        .await
    }

    /// Changes a sandbox by what `decide` says of it, which is a merge patch, or none if nothing is to be
    /// done.
    async fn change(
        &self,
        caller: &Caller,
        id: &str,
        pod: &One,
        decide: impl Fn(&Seen<EnvPod>) -> Option<Value>,
    ) -> Result<One, Error> {
        let mut pod = Arc::clone(pod);
        let mut last = None;
        for _ in 0..TRIES {
            let Some(patch) = decide(&pod) else { return Ok(pod) };
            match self.core.writes.patch(&pod, patch).await {
                Ok(written) => return Ok(written),
                Err(WriteError::NotFound(_)) => return Err(Error::no_sandbox(id)),
                Err(error @ (WriteError::Conflict(_) | WriteError::Unanswered(_))) => last = Some(error),
                Err(error) => return Err(error.into()),
            }
            pod = self.again(caller, id, &pod).await?;
        }
        Err(last.map_or_else(|| Error::no_sandbox(id), Error::from))
    }

    /// Ends a sandbox, and tells the gateways.
    async fn kill(&self, caller: &Caller, id: &str, pod: &One) -> Result<(), Error> {
        let message = "its owner has ended it".to_owned();
        let stop = Stop { reason: STOP_RELEASED, message, ..Stop::default() };
        let until = Instant::now() + PATIENCE;
        let mut is_unsure = false;
        let last = loop {
            match self.core.try_give_back(pod, &stop).await {
                Ok(GivenBack::Now(last)) => break last,
                // An earlier try, which was not answered, may have done it.
                Ok(GivenBack::Before) if is_unsure => break Arc::clone(pod),
                Ok(GivenBack::Before) => return Err(Error::no_sandbox(id)),
                Err(WriteError::Conflict(_) | WriteError::PutOff(_)) if Instant::now() < until => {}
                Err(WriteError::Unanswered(_)) if Instant::now() < until => is_unsure = true,
                Err(error) => return Err(error.into()),
            }
            sleep(PAUSE).await;
        };
        self.ended(caller, id, &last).await;
        Ok(())
    }

    /// Tells the gateways and the quota that a sandbox has ended.
    pub(super) async fn ended(&self, caller: &Caller, id: &str, last: &One) {
        let last = self.newest(last);
        join(self.core.gateways.withdraw_pod(&last, id), self.core.quota.release(caller, id)).await;
    }

    /// What a sandbox uses now; none if it has no runtime that says it.
    pub(crate) async fn metric(&self, pod: &One) -> Option<Metric> {
        let at = e2b_at(&self.core.cache, pod)?;
        self.core.runtime.metrics_at(at, token(pod), self.core.now()).await
    }
}
