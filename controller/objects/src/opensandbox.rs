//! OpenSandbox: `BatchSandbox` of `sandbox.opensandbox.io/v1alpha1`.
//!
//! The ID is the object's name, in all namespaces at once. The states, first match wins:
//! 1. being deleted → dead
//! 2. `spec.expireTime` is past → dead
//! 3. phase Failed → dead
//! 4. phase Paused or Pausing → paused
//! 5. a phase that is not known (Pending, Succeed, Resuming and none at all are) → unknown
//! 6. `status.ready` is at least 1, with an endpoint → running
//! 7. else creating
//!
//! The address is the first of the annotation `endpoints`. Everyone who may write the object may write this
//! annotation, and no other field is better evidence: `status` has counts only, and `alloc-status`, which
//! names the pods of a pool, is an annotation too. To learn the pod's own address the gateway would have to
//! read pods, a right over every tenant's pods that it does not ask for. So the address counts as claimed: it
//! must be in the pod ranges, and the table refuses it if another live sandbox has it.
//!
//! [`BatchSandbox`] has the fields that decide these states, and no others. It is a projection: never send it
//! as a whole object (`replace`), which would clear every field that it does not have. The whole objects are
//! in `resources`.

use std::time::SystemTime;

use sandgate_routes::{Clash, Secret, State, TokenKind};
use serde::{Deserialize, Serialize};

use crate::decode::{decode, object, texts};
use crate::fields::{Address, Place, SECURE_ACCESS_TOKEN, annotated_traffic_token, id, secure_access, time};
use crate::kind::{BuiltIn, Id, Kind};
use crate::metadata::{Identity, Ignored, Metadata, str_of};
use crate::provider::{Provider, Resource, Unreadable};
use crate::text::Text;

mod allocation;
pub mod names;
#[cfg(feature = "resources")]
pub mod resources;
#[cfg(test)]
pub(crate) mod tests;

pub use allocation::{Allocation, Malformed};

/// The provider's name.
pub const NAME: &str = "opensandbox";
/// The annotation with the pods' addresses: a JSON list of texts. An empty text is a pod without an address.
pub const ENDPOINTS: &str = "sandbox.opensandbox.io/endpoints";

pub(crate) fn provider(clash: Clash) -> Box<dyn Provider> {
    Box::new(BuiltIn {
        name: NAME,
        resource: Resource::new("sandbox.opensandbox.io", "v1alpha1", "BatchSandbox", "batchsandboxes"),
        clash,
        token_kind: TokenKind::SecureAccess,
        address_is_claimed: true,
        id_is_name: true,
        selector: "",
        read: |provider, object, now| provider.projection(&decode::<BatchSandbox<Text<'_>>>(object)?, now),
    })
}

/// A batch of sandboxes. `S` is its text: [`Text`] on the gateway's wire path, `String` elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>"))]
pub struct BatchSandbox<S = String> {
    /// Which object it is, and its annotations.
    #[serde(deserialize_with = "object")]
    pub metadata: Metadata<S, Ignored, Annotations<S>>,
    /// What is asked for.
    #[serde(deserialize_with = "object")]
    pub spec: Spec<S>,
    /// What the controller has seen.
    #[serde(deserialize_with = "object")]
    pub status: Status<S>,
}

/// The annotations of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations<S> {
    /// [`ENDPOINTS`].
    #[serde(rename = "sandbox.opensandbox.io/endpoints", skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<S>,
    /// [`SECURE_ACCESS_TOKEN`].
    #[serde(rename = "opensandbox.io/secure-access-token", skip_serializing_if = "Option::is_none")]
    pub secure_access_token: Option<S>,
    /// [`TRAFFIC_ACCESS_TOKEN`](crate::TRAFFIC_ACCESS_TOKEN).
    #[serde(rename = "sandgate.dev/traffic-access-token", skip_serializing_if = "Option::is_none")]
    pub traffic_access_token: Option<S>,
}

/// The spec of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec<S> {
    /// The pool that the pods are taken from; `*` leaves the choice to the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<S>,
    /// When the batch ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<S>,
}

/// The status of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status<S> {
    /// The phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<S>,
    /// How many pods are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
}

impl<S: AsRef<str>> Kind for BatchSandbox<S> {
    fn identity(&self) -> Result<Identity<'_>, Unreadable> {
        self.metadata.identity_in_namespace(NAME)
    }

    fn id_of(&self, identity: &Identity<'_>) -> Result<Id, Unreadable> {
        id_of(identity.key.name())
    }

    /// `spec.poolRef`.
    fn pool(&self) -> Option<&str> {
        Some(str_of(&self.spec.pool_ref)).filter(|pool| !pool.is_empty())
    }

    fn address(&self) -> Result<Address, Unreadable> {
        address_of(str_of(&self.metadata.annotations.endpoints))
    }

    fn token(&self) -> Result<Option<Secret>, Unreadable> {
        let text = str_of(&self.metadata.annotations.secure_access_token);
        secure_access(Place::Annotation(SECURE_ACCESS_TOKEN), text)
    }

    fn traffic_token(&self) -> Result<Option<Secret>, Unreadable> {
        annotated_traffic_token(str_of(&self.metadata.annotations.traffic_access_token))
    }

    fn ends(&self) -> Result<Option<SystemTime>, Unreadable> {
        time(Place::Path("spec.expireTime"), str_of(&self.spec.expire_time))
    }

    fn live_state(&self, address: Address) -> State {
        state_of(str_of(&self.status.phase), self.status.ready.unwrap_or_default(), address)
    }
}

/// The ID of a batch of this name.
fn id_of(name: &str) -> Result<Id, Unreadable> {
    id(Place::Path("metadata.name"), name)?;
    Ok(Id { text: name.to_owned(), is_own: true })
}

/// The first of the [`ENDPOINTS`].
fn address_of(endpoints: &str) -> Result<Address, Unreadable> {
    if endpoints.is_empty() {
        return Ok(Address::Missing);
    }
    let mut json = serde_json::Deserializer::from_str(endpoints);
    let endpoints: Result<Vec<Text<'_>>, _> = texts(&mut json).and_then(|list| json.end().map(|()| list));
    let wrong = |_| Place::Annotation(ENDPOINTS).wrong("expected a JSON list of texts");
    Ok(endpoints.map_err(wrong)?.first().map_or(Address::Missing, |first| Address::read(first)))
}

/// The state of a batch that is not being deleted and has not ended.
fn state_of(phase: &str, ready: i64, address: Address) -> State {
    match phase {
        "Failed" => State::Dead,
        "Paused" | "Pausing" => State::Paused,
        "Pending" | "Succeed" | "Resuming" | "" => {
            let is_ready = address != Address::Missing && ready >= 1;
            if is_ready { State::Running } else { State::Creating }
        }
        _ => State::Unknown,
    }
}
