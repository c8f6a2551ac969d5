//! OpenKruise Agents: `Sandbox` of `agents.kruise.io/v1alpha1`.
//!
//! The ID is the label `agents.kruise.io/sandbox-id`, else `namespace--name`. The states, first match wins:
//! 1. being deleted → dead
//! 2. `spec.shutdownTime` is past → dead
//! 3. phase Pending → creating
//! 4. phase Succeeded, Failed or Terminating → dead
//! 5. no `status.podInfo.podIP` → creating
//! 6. the controller is a SandboxSet: Ready → available, else creating
//! 7. phase Running: `spec.paused` → paused; Ready → running; else creating
//! 8. phase Paused, Resuming, Upgrading, Recycling or none yet → paused
//! 9. a phase that is not known → unknown
//!
//! Not ready is not dead. A claimed sandbox whose readiness probe fails for a moment is not served, but it
//! keeps its identity and its open streams, as a paused one does. (OpenKruise's own gateway takes it for
//! dead.)
//!
//! [`Sandbox`] has the fields that decide these states, and no others. It is a projection: never send it as a
//! whole object (`replace`), which would clear every field that it does not have.

use std::time::SystemTime;

use sandgate_routes::{Clash, Secret, State, TokenKind};
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, READY, is_true};
use crate::decode::{decode, kept, object};
use crate::fields::{Address, Place, annotated_traffic_token, owner, time};
use crate::kind::{BuiltIn, Id, Kind};
use crate::metadata::{Identity, Metadata, Owner, str_of};
use crate::provider::{Provider, Resource, Unreadable};
use crate::text::Text;

pub mod names;
#[cfg(feature = "resources")]
pub mod resources;
mod rules;
#[cfg(test)]
pub(crate) mod tests;

/// The provider's name.
pub const NAME: &str = "openkruise";
/// Group and version of the kinds.
pub const API_VERSION: &str = "agents.kruise.io/v1alpha1";
/// The kind of a pool, which controls a sandbox until it is claimed.
pub const SANDBOX_SET: &str = "SandboxSet";

/// The label with the lookup ID.
pub const SANDBOX_ID: &str = "agents.kruise.io/sandbox-id";
/// The annotation with the access token of the sandbox's runtime.
pub const RUNTIME_ACCESS_TOKEN: &str = "agents.kruise.io/runtime-access-token";
/// The older annotation with the access token, asked if [`RUNTIME_ACCESS_TOKEN`] is missing or empty.
pub const ENVD_ACCESS_TOKEN: &str = "e2b.agents.kruise.io/envd-access-token";
/// The annotation with the owner.
pub const OWNER: &str = "agents.kruise.io/owner";
/// The annotation that is `true` if a client must present a traffic JWT.
pub const ENABLE_JWT_AUTH: &str = "security.agents.kruise.io/enable-jwt-auth";

pub(crate) fn provider(clash: Clash) -> Box<dyn Provider> {
    Box::new(BuiltIn {
        name: NAME,
        resource: Resource::new("agents.kruise.io", "v1alpha1", "Sandbox", "sandboxes"),
        clash,
        token_kind: TokenKind::Runtime,
        address_is_claimed: false,
        id_is_name: false,
        selector: "",
        read: |provider, object, now| provider.projection(&decode::<Sandbox<Text<'_>>>(object)?, now),
    })
}

/// A sandbox. `S` is its text: [`Text`] on the gateway's wire path, `String` elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "S: AsRef<str> + Default + Deserialize<'de>"))]
pub struct Sandbox<S = String> {
    /// Which object it is, and its labels and annotations.
    #[serde(deserialize_with = "object")]
    pub metadata: Metadata<S, Labels<S>, Annotations<S>, Controllers<S>>,
    /// What is asked for.
    #[serde(deserialize_with = "object")]
    pub spec: Spec<S>,
    /// What the controller has seen.
    #[serde(deserialize_with = "object")]
    pub status: Status<S>,
}

/// The labels of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Labels<S> {
    /// [`SANDBOX_ID`].
    #[serde(rename = "agents.kruise.io/sandbox-id", skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<S>,
}

/// The annotations of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations<S> {
    /// [`RUNTIME_ACCESS_TOKEN`].
    #[serde(rename = "agents.kruise.io/runtime-access-token", skip_serializing_if = "Option::is_none")]
    pub runtime_access_token: Option<S>,
    /// [`ENVD_ACCESS_TOKEN`].
    #[serde(rename = "e2b.agents.kruise.io/envd-access-token", skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<S>,
    /// [`OWNER`].
    #[serde(rename = "agents.kruise.io/owner", skip_serializing_if = "Option::is_none")]
    pub owner: Option<S>,
    /// [`ENABLE_JWT_AUTH`].
    #[serde(rename = "security.agents.kruise.io/enable-jwt-auth", skip_serializing_if = "Option::is_none")]
    pub enable_jwt_auth: Option<S>,
    /// [`TRAFFIC_ACCESS_TOKEN`](crate::TRAFFIC_ACCESS_TOKEN).
    #[serde(rename = "sandgate.dev/traffic-access-token", skip_serializing_if = "Option::is_none")]
    pub traffic_access_token: Option<S>,
}

/// The owner that controls the sandbox; the others are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent, bound(deserialize = "S: Default + Deserialize<'de>"))]
pub struct Controllers<S>(#[serde(deserialize_with = "kept")] pub Vec<Owner<S>>);

/// The spec of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec<S> {
    /// Whether the sandbox shall pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// When the sandbox ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_time: Option<S>,
}

/// The status of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[serde(bound(deserialize = "S: AsRef<str> + Default + Deserialize<'de>"))]
pub struct Status<S> {
    /// The phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<S>,
    /// The conditions.
    #[serde(deserialize_with = "kept", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition<S>>,
    /// The pod.
    #[serde(deserialize_with = "object")]
    pub pod_info: PodInfo<S>,
}

/// The pod of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodInfo<S> {
    /// The pod's address.
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<S>,
}

impl<S: AsRef<str>> Kind for Sandbox<S> {
    fn identity(&self) -> Result<Identity<'_>, Unreadable> {
        self.metadata.identity_in_namespace(NAME)
    }

    fn id_of(&self, identity: &Identity<'_>) -> Result<Id, Unreadable> {
        rules::id_of(identity, str_of(&self.metadata.labels.sandbox_id))
    }

    /// The SandboxSet that still controls the sandbox. A claim removes this owner reference.
    fn pool(&self) -> Option<&str> {
        let controller = self.metadata.owner_references.0.first()?;
        let is_pool = rules::is_pool(str_of(&controller.api_version), str_of(&controller.kind));
        is_pool.then(|| str_of(&controller.name))
    }

    fn owner(&self) -> Result<&str, Unreadable> {
        owner(Place::Annotation(OWNER), str_of(&self.metadata.annotations.owner))
    }

    fn address(&self) -> Result<Address, Unreadable> {
        Ok(Address::read(str_of(&self.status.pod_info.pod_ip)))
    }

    fn token(&self) -> Result<Option<Secret>, Unreadable> {
        let Annotations { runtime_access_token, envd_access_token, .. } = &self.metadata.annotations;
        rules::token_of(str_of(runtime_access_token), str_of(envd_access_token))
    }

    fn traffic_token(&self) -> Result<Option<Secret>, Unreadable> {
        annotated_traffic_token(str_of(&self.metadata.annotations.traffic_access_token))
    }

    fn requires_traffic_auth(&self) -> bool {
        str_of(&self.metadata.annotations.enable_jwt_auth) == "true"
    }

    fn ends(&self) -> Result<Option<SystemTime>, Unreadable> {
        time(Place::Path("spec.shutdownTime"), str_of(&self.spec.shutdown_time))
    }

    fn live_state(&self, address: Address) -> State {
        rules::Facts {
            phase: str_of(&self.status.phase),
            address,
            is_in_pool: self.pool().is_some(),
            is_paused: self.spec.paused == Some(true),
            is_ready: is_true(&self.status.conditions, READY),
        }
        .state()
    }
}
