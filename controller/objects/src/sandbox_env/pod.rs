//! A pod of a SandboxPool, as the gateway sees it: the core group's `v1` Pod.
//!
//! The ID is the label `agentbox.navix.sh/sandbox-id`, else the annotation of that name: a label has room
//! for 63 characters. The states, first match wins:
//! 1. being deleted → dead
//! 2. no sandbox ID → dead: an idle pod is nobody's
//! 3. label `agentbox.navix.sh/sandbox-phase` is starting → creating
//! 4. the label is stopping or failed → unknown
//! 5. the label is idle, missing or not known → dead
//! 6. the label is running, and `status.phase` of the pod: Pending or none yet → creating; neither Pending
//!    nor Running → unknown
//! 7. the annotation `agentbox.navix.sh/sandbox-armed` is there and is not the sandbox ID → creating
//! 8. with `status.podIP` → running, else creating
//!
//! Unknown means here: the sandbox is known and not served. The project's own gateway serves a sandbox that
//! is stopping. Here it is not served, since its containers are being changed back to the idle image: what
//! listens on its ports by then may not be the sandbox any more.
//!
//! # Identity
//! A released pod is reused for the next sandbox, in place and with the same pod UID. Nothing of a sandbox
//! may carry over to the next one, so the identity's UID is pod UID and sandbox ID together
//! ([`identity_uid`]). That is what `X-Sandbox-UID` is compared with and what is sent on to the sandbox. A
//! pushed route needs the same UID.
//!
//! # Selector
//! A pool may have thousands of idle pods. [`SELECTOR`] leaves them with the API server. A pod that leaves
//! the selector arrives as a delete at the version of that change, and a pod that is claimed again as a new
//! object at a newer one.
//!
//! [`Pod`] has the fields that decide these states, and no others. It is a projection: never send it as a
//! whole object (`replace`), which would clear every field that it does not have.

use std::time::SystemTime;

use sandgate_routes::{Clash, MAX_ID, MAX_UID, Secret, State, TokenKind};
use serde::{Deserialize, Serialize};

use crate::decode::{decode, object};
use crate::fields::{Address, Place, annotated_traffic_token, id, owner, token};
use crate::kind::{BuiltIn, Id, Kind};
use crate::metadata::{Identity, Metadata, str_of};
use crate::provider::{Provider, Resource, Unreadable};
use crate::sandbox_env::names::{ANNOTATION_ACCESS_TOKEN, ANNOTATION_OWNER, SANDBOX_ID};
use crate::text::Text;

#[cfg(test)]
mod tests;

/// The provider's name.
pub const NAME: &str = "sandbox-env";
/// Selects the pods that may be a sandbox. Idle pods are not among them.
pub const SELECTOR: &str = "agentbox.navix.sh/sandbox-phase in (failed,running,starting,stopping)";

/// The longest UID of a pod: with a sandbox ID behind it, it is still a UID. Kubernetes makes them of 36.
const MAX_POD_UID: usize = MAX_UID - MAX_ID - 1;

pub(crate) fn provider(clash: Clash) -> Box<dyn Provider> {
    Box::new(BuiltIn {
        name: NAME,
        resource: Resource::new("", "v1", "Pod", "pods"),
        clash,
        token_kind: TokenKind::Runtime,
        address_is_claimed: false,
        id_is_name: false,
        selector: SELECTOR,
        read: |provider, object, now| provider.projection(&decode::<Pod<Text<'_>>>(object)?, now),
    })
}

/// The UID of the identity that a pod is while a sandbox has it.
pub fn identity_uid(pod_uid: &str, sandbox_id: &str) -> String {
    format!("{pod_uid}/{sandbox_id}")
}

/// A pod of a pool. `S` is its text: [`Text`] on the gateway's wire path, `String` elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>"))]
pub struct Pod<S = String> {
    /// Which object it is, and its labels and annotations.
    #[serde(deserialize_with = "object")]
    pub metadata: Metadata<S, Labels<S>, Annotations<S>>,
    /// What the kubelet has seen.
    #[serde(deserialize_with = "object")]
    pub status: Status<S>,
}

/// The labels of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Labels<S> {
    /// [`SANDBOX_ID`].
    #[serde(rename = "agentbox.navix.sh/sandbox-id", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<S>,
    /// [`LABEL_POOL`](super::names::LABEL_POOL).
    #[serde(rename = "agentbox.navix.sh/sandbox-pool", skip_serializing_if = "Option::is_none")]
    pub sandbox_pool: Option<S>,
    /// [`LABEL_PHASE`](super::names::LABEL_PHASE).
    #[serde(rename = "agentbox.navix.sh/sandbox-phase", skip_serializing_if = "Option::is_none")]
    pub sandbox_phase: Option<S>,
}

/// The annotations of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations<S> {
    /// [`SANDBOX_ID`], asked if the label is missing or empty.
    #[serde(rename = "agentbox.navix.sh/sandbox-id", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<S>,
    /// [`ANNOTATION_ARMED`](super::names::ANNOTATION_ARMED).
    #[serde(rename = "agentbox.navix.sh/sandbox-armed", skip_serializing_if = "Option::is_none")]
    pub sandbox_armed: Option<S>,
    /// [`ANNOTATION_ACCESS_TOKEN`].
    #[serde(rename = "sandgate.dev/access-token", skip_serializing_if = "Option::is_none")]
    pub access_token: Option<S>,
    /// [`ANNOTATION_OWNER`].
    #[serde(rename = "sandgate.dev/owner", skip_serializing_if = "Option::is_none")]
    pub owner: Option<S>,
    /// [`TRAFFIC_ACCESS_TOKEN`](crate::TRAFFIC_ACCESS_TOKEN).
    #[serde(rename = "sandgate.dev/traffic-access-token", skip_serializing_if = "Option::is_none")]
    pub traffic_access_token: Option<S>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status<S> {
    /// The phase that Kubernetes gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<S>,
    /// The pod's address.
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<S>,
}

impl<S: AsRef<str>> Pod<S> {
    /// The sandbox that has the pod, and where it says so.
    fn sandbox(&self) -> Option<(Place<'static>, &str)> {
        let label = str_of(&self.metadata.labels.sandbox_id);
        let annotation = str_of(&self.metadata.annotations.sandbox_id);
        [(Place::Label(SANDBOX_ID), label), (Place::Annotation(SANDBOX_ID), annotation)]
            .into_iter()
            .find(|(_, text)| !text.is_empty())
    }
}

impl<S: AsRef<str>> Kind for Pod<S> {
    fn identity(&self) -> Result<Identity<'_>, Unreadable> {
        let identity = self.metadata.identity_in_namespace(NAME)?;
        if identity.uid.len() > MAX_POD_UID {
            let reason = format!("expected at most {MAX_POD_UID} bytes");
            return Err(Unreadable::new("metadata.uid", reason));
        }
        Ok(identity)
    }

    fn identity_uid(&self, identity: &Identity<'_>) -> String {
        match self.sandbox() {
            Some((_, id)) => identity_uid(identity.uid, id),
            None => identity.uid.to_owned(),
        }
    }

    fn id_of(&self, identity: &Identity<'_>) -> Result<Id, Unreadable> {
        let claimed = self.sandbox().map(|(place, text)| id(place, text)).transpose()?;
        Id::claimed_or_own(identity, claimed.flatten())
    }

    /// The value of [`LABEL_POOL`](super::names::LABEL_POOL).
    fn pool(&self) -> Option<&str> {
        Some(str_of(&self.metadata.labels.sandbox_pool)).filter(|pool| !pool.is_empty())
    }

    fn owner(&self) -> Result<&str, Unreadable> {
        owner(Place::Annotation(ANNOTATION_OWNER), str_of(&self.metadata.annotations.owner))
    }

    fn address(&self) -> Result<Address, Unreadable> {
        Ok(Address::read(str_of(&self.status.pod_ip)))
    }

    fn token(&self) -> Result<Option<Secret>, Unreadable> {
        let text = str_of(&self.metadata.annotations.access_token);
        token(Place::Annotation(ANNOTATION_ACCESS_TOKEN), text)
    }

    fn traffic_token(&self) -> Result<Option<Secret>, Unreadable> {
        annotated_traffic_token(str_of(&self.metadata.annotations.traffic_access_token))
    }

    /// A sandbox ends by a change of its pod.
    fn ends(&self) -> Result<Option<SystemTime>, Unreadable> {
        Ok(None)
    }

    fn live_state(&self, address: Address) -> State {
        let Some((_, id)) = self.sandbox() else { return State::Dead };
        let armed = self.metadata.annotations.sandbox_armed.as_ref().map(AsRef::as_ref);
        match (str_of(&self.metadata.labels.sandbox_phase), str_of(&self.status.phase)) {
            ("starting", _) => State::Creating,
            ("stopping" | "failed", _) => State::Unknown,
            ("running", "Pending" | "") => State::Creating,
            ("running", "Running") if armed.is_some_and(|armed| armed != id) => State::Creating,
            ("running", "Running") if address == Address::Missing => State::Creating,
            ("running", "Running") => State::Running,
            ("running", _) => State::Unknown,
            _ => State::Dead,
        }
    }
}
