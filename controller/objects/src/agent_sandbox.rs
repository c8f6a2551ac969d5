//! kubernetes-sigs/agent-sandbox: `Sandbox` of `agents.x-k8s.io/v1beta1`.
//!
//! The ID is `namespace--name`. The states, first match wins:
//! 1. being deleted → dead
//! 2. `spec.shutdownTime` is past → dead. Under the policy Delete the object goes, under Retain only its pod does:
//!    nothing is left to serve either way
//! 3. Ready with a pod's address → running, or available while it is in a warm pool
//! 4. `spec.operatingMode` is Suspended → paused; the condition Suspended may linger and is not asked
//! 5. Finished, or not ready because of PodFailed, PodSucceeded or SandboxExpired → dead
//! 6. `spec.operatingMode` is not known → unknown
//! 7. else creating
//!
//! A warm pool marks its sandboxes with a label, on the Sandbox itself and through its template on the pod; the claim
//! that adopts one takes the label off the Sandbox first. So the Sandbox's own label is what counts, and its presence
//! is enough.
//!
//! OpenSandbox can work with these objects too. Where it has closed one with a token for its secure access, the token is
//! asked for here as on its own objects.

use std::time::SystemTime;

use sandgate_routes::{Clash, State, TokenKind};
use serde::Deserialize;

use crate::decode::{Keep, Text, decode, kept, object};
use crate::observe::{
    Condition, Findings, Metadata, SECURE_ACCESS, address, is_past, is_true, reason_of, secure_access, time,
};
use crate::provider::{Projection, Provider, Resource, Unreadable};

#[cfg(test)]
pub(crate) mod tests;

/// The provider's name.
pub(crate) const NAME: &str = "agent-sandbox";

struct AgentSandbox {
    resource: Resource,
    clash: Clash,
}

pub(crate) fn provider(clash: Clash) -> Box<dyn Provider> {
    Box::new(AgentSandbox {
        clash,
        resource: Resource {
            group: "agents.x-k8s.io".to_owned(),
            version: "v1beta1".to_owned(),
            kind: "Sandbox".to_owned(),
            plural: "sandboxes".to_owned(),
        },
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sandbox<'a> {
    #[serde(borrow, deserialize_with = "object")]
    metadata: Metadata<'a, Labels<'a>, Annotations<'a>>,
    #[serde(borrow, deserialize_with = "object")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "object")]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Labels<'a> {
    #[serde(borrow, rename = "agents.x-k8s.io/warm-pool-sandbox")]
    warm_pool: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations<'a> {
    #[serde(borrow, rename = "opensandbox.io/secure-access-token")]
    token: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    operating_mode: Option<Text<'a>>,
    #[serde(borrow)]
    shutdown_time: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow, rename = "podIPs", deserialize_with = "kept")]
    pod_ips: Vec<Option<Text<'a>>>,
    #[serde(borrow, deserialize_with = "kept")]
    conditions: Vec<Condition<'a>>,
}

impl Keep for Option<Text<'_>> {
    fn keep(&self) -> bool {
        self.as_deref().is_some_and(|text| !text.is_empty())
    }
}

impl Provider for AgentSandbox {
    fn name(&self) -> &str {
        NAME
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn clash(&self) -> Clash {
        self.clash
    }

    fn token_kind(&self) -> TokenKind {
        TokenKind::SecureAccess
    }

    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable> {
        let sandbox: Sandbox<'_> = decode(object)?;
        let head = sandbox.metadata.head()?;
        let ends = time("spec.shutdownTime", sandbox.spec.shutdown_time.as_deref())?;
        // The cluster's first choice of address family comes first.
        let first = sandbox.status.pod_ips.first().and_then(Option::as_deref);
        let ip = address("status.podIPs", first)?;
        let findings = Findings {
            id: head.default_id()?,
            own_id: true,
            owner: String::new(),
            state: sandbox.state(head.deleting || is_past(ends, now), ip.is_some()),
            ip,
            ip_is_claimed: false,
            token: secure_access(SECURE_ACCESS, sandbox.metadata.annotations.token.as_deref())?,
            require_traffic_auth: false,
            clash: self.clash,
            ends,
        };
        head.projection(NAME, findings, now)
    }
}

impl Sandbox<'_> {
    fn state(&self, ended: bool, has_ip: bool) -> State {
        let conditions = &self.status.conditions;
        let ready = is_true(conditions, "Ready");
        if ended {
            State::Dead
        } else if ready && has_ip {
            if self.metadata.labels.warm_pool.is_some() { State::Available } else { State::Running }
        } else if self.spec.operating_mode.as_deref() == Some("Suspended") {
            State::Paused
        } else if is_true(conditions, "Finished")
            || matches!(reason_of(conditions, "Ready"), "PodFailed" | "PodSucceeded" | "SandboxExpired")
        {
            State::Dead
        } else if !matches!(self.spec.operating_mode.as_deref(), None | Some("" | "Running")) {
            State::Unknown
        } else {
            State::Creating
        }
    }
}
