//! kubernetes-sigs/agent-sandbox: `Sandbox` of `agents.x-k8s.io/v1beta1`.
//!
//! The ID is `namespace--name`. The states, first match wins:
//! 1. being deleted → dead
//! 2. `spec.shutdownTime` is past → dead. Under the policy Delete the object goes, under Retain only its pod
//!    does: nothing is left to serve either way
//! 3. Ready with a pod's address → running, or available while it is in a warm pool
//! 4. `spec.operatingMode` is Suspended → paused; the condition Suspended may linger and is not asked
//! 5. Finished, or not ready because of PodFailed, PodSucceeded or SandboxExpired → dead
//! 6. `spec.operatingMode` is not known → unknown
//! 7. else creating
//!
//! A warm pool marks its sandboxes with a label, on the Sandbox itself and through its template on the pod;
//! the claim that adopts one takes the label off the Sandbox first. So the Sandbox's own label is what
//! counts, and its presence is enough.
//!
//! OpenSandbox can work with these objects too. Where it has closed one with a token for its secure access,
//! the token is asked for here as on its own objects.
//!
//! [`Sandbox`] has the fields that decide these states, and no others. It is a projection: never send it as a
//! whole object (`replace`), which would clear every field that it does not have.

use std::time::SystemTime;

use sandgate_routes::{Clash, Secret, State, TokenKind};
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, FINISHED, READY, is_true, reason_of};
use crate::decode::{decode, kept, object, texts};
use crate::fields::{Address, Place, SECURE_ACCESS_TOKEN, annotated_traffic_token, secure_access, time};
use crate::kind::{BuiltIn, Id, Kind};
use crate::metadata::{Identity, Metadata, str_of};
use crate::provider::{Provider, Resource, Unreadable};
use crate::text::Text;

#[cfg(test)]
pub(crate) mod tests;

/// The provider's name.
pub const NAME: &str = "agent-sandbox";
/// The label of a sandbox in a warm pool. Its value is a hash of the pool's name.
pub const WARM_POOL_SANDBOX: &str = "agents.x-k8s.io/warm-pool-sandbox";

pub(crate) fn provider(clash: Clash) -> Box<dyn Provider> {
    Box::new(BuiltIn {
        name: NAME,
        resource: Resource::new("agents.x-k8s.io", "v1beta1", "Sandbox", "sandboxes"),
        clash,
        token_kind: TokenKind::SecureAccess,
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
    pub metadata: Metadata<S, Labels<S>, Annotations<S>>,
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
    /// [`WARM_POOL_SANDBOX`].
    #[serde(rename = "agents.x-k8s.io/warm-pool-sandbox", skip_serializing_if = "Option::is_none")]
    pub warm_pool_sandbox: Option<S>,
}

/// The annotations of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations<S> {
    /// [`SECURE_ACCESS_TOKEN`].
    #[serde(rename = "opensandbox.io/secure-access-token", skip_serializing_if = "Option::is_none")]
    pub secure_access_token: Option<S>,
    /// [`TRAFFIC_ACCESS_TOKEN`](crate::TRAFFIC_ACCESS_TOKEN).
    #[serde(rename = "sandgate.dev/traffic-access-token", skip_serializing_if = "Option::is_none")]
    pub traffic_access_token: Option<S>,
}

/// The spec of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec<S> {
    /// `Running` or `Suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_mode: Option<S>,
    /// When the sandbox ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_time: Option<S>,
}

/// The status of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "S: AsRef<str> + Default + Deserialize<'de>"))]
pub struct Status<S> {
    /// The pod's addresses that are not empty. The cluster's preferred address family comes first.
    #[serde(rename = "podIPs", deserialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub pod_ips: Vec<S>,
    /// The conditions.
    #[serde(deserialize_with = "kept", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition<S>>,
}

impl<S: AsRef<str>> Kind for Sandbox<S> {
    fn identity(&self) -> Result<Identity<'_>, Unreadable> {
        self.metadata.identity_in_namespace(NAME)
    }

    fn id_of(&self, identity: &Identity<'_>) -> Result<Id, Unreadable> {
        Id::claimed_or_own(identity, None)
    }

    /// The value of [`WARM_POOL_SANDBOX`]. A claim removes this label.
    fn pool(&self) -> Option<&str> {
        self.metadata.labels.warm_pool_sandbox.as_ref().map(AsRef::as_ref)
    }

    fn address(&self) -> Result<Address, Unreadable> {
        Ok(self.status.pod_ips.first().map_or(Address::Missing, |ip| Address::read(ip.as_ref())))
    }

    fn token(&self) -> Result<Option<Secret>, Unreadable> {
        let text = str_of(&self.metadata.annotations.secure_access_token);
        secure_access(Place::Annotation(SECURE_ACCESS_TOKEN), text)
    }

    fn traffic_token(&self) -> Result<Option<Secret>, Unreadable> {
        annotated_traffic_token(str_of(&self.metadata.annotations.traffic_access_token))
    }

    fn ends(&self) -> Result<Option<SystemTime>, Unreadable> {
        time(Place::Path("spec.shutdownTime"), str_of(&self.spec.shutdown_time))
    }

    fn live_state(&self, address: Address) -> State {
        let conditions = &self.status.conditions;
        let finished = is_true(conditions, FINISHED)
            || matches!(reason_of(conditions, READY), "PodFailed" | "PodSucceeded" | "SandboxExpired");
        if is_true(conditions, READY) && address != Address::Missing {
            return if self.pool().is_some() { State::Available } else { State::Running };
        }
        match str_of(&self.spec.operating_mode) {
            "Suspended" => State::Paused,
            _ if finished => State::Dead,
            "Running" | "" => State::Creating,
            _ => State::Unknown,
        }
    }
}
