//! Telling the gateways what has become of a sandbox.
//!
//! A gateway learns of every change by its own watch. A push tells it sooner: whoever creates, pauses,
//! resumes or kills a sandbox is answered when the gateways know it, or after a bound. A push that is not
//! delivered by then is counted and still sent.

#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use sandgate_cache::Seen;
use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::resources::SandboxFacts;
use sandgate_objects::openkruise::{ENABLE_JWT_AUTH, ENVD_ACCESS_TOKEN, RUNTIME_ACCESS_TOKEN};
use sandgate_objects::sandbox_env;
use sandgate_objects::sandbox_env::names::{
    ANNOTATION_ACCESS_TOKEN, ANNOTATION_OWNER, ANNOTATION_TRAFFIC_ACCESS_TOKEN,
};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPhase};
use sandgate_peering::{Delivery, Pusher, RouteMessage};
use sandgate_routes::{State, Version};
use tokio::time::Instant;

use crate::describe::{annotation, traffic_token};

/// The way to the gateways. [`Pusher`] is one; tests have others.
pub trait Push: Send + Sync + 'static {
    /// Sends a message to every gateway. Returns what became of it at each by the deadline.
    fn push(&self, message: &RouteMessage, deadline: Instant) -> BoxFuture<'static, Vec<Delivery>>;
}

impl Push for Pusher {
    fn push(&self, message: &RouteMessage, deadline: Instant) -> BoxFuture<'static, Vec<Delivery>> {
        match self.push(message) {
            Ok(ticket) => async move {
                let outcomes = ticket.outcomes(deadline).await;
                outcomes.into_iter().map(|(_, delivery)| delivery).collect()
            }
            .boxed(),
            Err(error) => {
                tracing::warn!(?message, "the route cannot be pushed: {error}");
                std::future::ready(Vec::new()).boxed()
            }
        }
    }
}

/// The gateways that are told. Clones count together.
#[derive(Clone)]
pub struct Gateways {
    push: Option<Arc<dyn Push>>,
    wait: Duration,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    told: AtomicU64,
    missed: AtomicU64,
}

/// What has become of the pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// How many were delivered to a gateway in time.
    pub told: u64,
    /// How many were not. The gateway learns of it later.
    pub missed: u64,
}

impl Gateways {
    /// Gateways that are told by these pushes and waited for this long; none are told by their own watch
    /// only.
    pub fn new(push: Option<Arc<dyn Push>>, wait: Duration) -> Self {
        Self { push, wait, counts: Arc::default() }
    }

    /// Tells them of a sandbox as it is. Returns when all know it, or when the time is over.
    pub async fn announce(&self, sandbox: &Seen<SandboxFacts>, now: Timestamp) {
        if self.push.is_some() {
            self.send(message(sandbox, &sandbox.version, state(sandbox, now))).await;
        }
    }

    /// Tells them that a sandbox is gone. `last` is the last that is known of it.
    pub async fn withdraw(&self, last: &Seen<SandboxFacts>) {
        if self.push.is_some() {
            let version = version_of_the_end(last);
            self.send(message(last, &version, State::Dead)).await;
        }
    }

    /// Tells them of the sandbox of this ID that a pod of a pool runs.
    pub(crate) async fn announce_pod(&self, pod: &Seen<EnvPod>, id: &str) {
        if self.push.is_some() {
            self.send(Some(message_of_pod(pod, id, &pod.version, State::Running))).await;
        }
    }

    /// Tells them that the sandbox of this ID has lost its pod. The pod is as it is since, or as it was last.
    pub(crate) async fn withdraw_pod(&self, pod: &Seen<EnvPod>, id: &str) {
        if self.push.is_some() {
            let has_lost = pod.is_deleting() || pod.sandbox_phase() != SandboxPhase::Running;
            let version = if has_lost { pod.version.clone() } else { next(&pod.version) };
            self.send(Some(message_of_pod(pod, id, &version, State::Dead))).await;
        }
    }

    /// What has become of the pushes so far, one for each gateway and message.
    pub fn pushed(&self) -> Pushed {
        let Counts { told, missed } = &*self.counts;
        Pushed { told: told.load(Ordering::Relaxed), missed: missed.load(Ordering::Relaxed) }
    }

    async fn send(&self, message: Option<RouteMessage>) {
        let (Some(push), Some(message)) = (&self.push, message) else { return };
        for delivery in push.push(&message, Instant::now() + self.wait).await {
            let counter = match delivery {
                // Something at least as new was delivered.
                Delivery::Delivered | Delivery::Coalesced => &self.counts.told,
                Delivery::Refused { .. }
                | Delivery::Failed { .. }
                | Delivery::Dropped
                | Delivery::Pending => &self.counts.missed,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn state(sandbox: &SandboxFacts, now: Timestamp) -> State {
    sandbox.state(SystemTime::from(now)).unwrap_or(State::Unknown)
}

/// A version of the end. An object that is being deleted has one. An object that is gone ended at a version
/// that nobody told; it is above the last one.
fn version_of_the_end(last: &Seen<SandboxFacts>) -> Version {
    if last.is_deleting {
        return last.version.clone();
    }
    next(&last.version)
}

/// The version after this one.
fn next(version: &Version) -> Version {
    NonZeroU64::new(version.get().saturating_add(1)).map_or_else(|| version.clone(), Version::from)
}

/// The route of a sandbox that has a pod of a pool, as the gateway's own watch reads it. A pod is one sandbox
/// after the other, so the identity is of both.
fn message_of_pod(pod: &Seen<EnvPod>, id: &str, version: &Version, state: State) -> RouteMessage {
    RouteMessage {
        provider: sandbox_env::NAME.to_owned(),
        ip: pod.ip.clone().unwrap_or_default(),
        id: id.to_owned(),
        namespace: pod.key.namespace.as_ref().to_owned(),
        name: pod.key.name.as_ref().to_owned(),
        uid: sandbox_env::identity_uid(&pod.uid, id),
        owner: pod.annotation(ANNOTATION_OWNER).to_owned(),
        state: state.as_str().to_owned(),
        resource_version: version.to_string(),
        access_token: pod.annotation(ANNOTATION_ACCESS_TOKEN).to_owned(),
        traffic_access_token: pod.annotation(ANNOTATION_TRAFFIC_ACCESS_TOKEN).trim().to_owned(),
        require_traffic_auth: false,
    }
}

/// The route of a sandbox; none if its ID cannot be read.
fn message(sandbox: &Seen<SandboxFacts>, version: &Version, state: State) -> Option<RouteMessage> {
    let token = [RUNTIME_ACCESS_TOKEN, ENVD_ACCESS_TOKEN].into_iter().map(|name| annotation(sandbox, name));
    Some(RouteMessage {
        provider: String::new(),
        ip: sandbox.address().ok()?.ip().map(|ip| ip.to_string()).unwrap_or_default(),
        id: sandbox.id().ok()?.text,
        namespace: sandbox.key.namespace.as_ref().to_owned(),
        name: sandbox.key.name.as_ref().to_owned(),
        uid: sandbox.uid.as_ref().to_owned(),
        owner: sandbox.owner().ok()?.to_owned(),
        state: state.as_str().to_owned(),
        resource_version: version.to_string(),
        access_token: token.into_iter().find(|token| !token.is_empty()).unwrap_or_default().to_owned(),
        traffic_access_token: traffic_token(sandbox).to_owned(),
        require_traffic_auth: annotation(sandbox, ENABLE_JWT_AUTH) == "true",
    })
}
