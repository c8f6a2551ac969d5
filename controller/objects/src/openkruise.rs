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
//! Not ready is not dead. A claimed sandbox whose readiness probe fails for a moment is not served, but it keeps its
//! identity and its open streams, as a paused one does. (OpenKruise's own gateway takes it for dead.)

use std::time::SystemTime;

use sandgate_routes::{Clash, State};
use serde::Deserialize;

use crate::decode::{Keep, Text, decode, kept, object};
use crate::observe::{Condition, Findings, Metadata, address, id, is_past, is_true, owner, time, token};
use crate::provider::{Projection, Provider, Resource, Unreadable};

#[cfg(test)]
pub(crate) mod tests;

/// The provider's name.
pub(crate) const NAME: &str = "openkruise";

const SANDBOX_ID: &str = r#"metadata.labels["agents.kruise.io/sandbox-id"]"#;
const TOKEN: &str = r#"metadata.annotations["agents.kruise.io/runtime-access-token"]"#;
const ENVD_TOKEN: &str = r#"metadata.annotations["e2b.agents.kruise.io/envd-access-token"]"#;
const OWNER: &str = r#"metadata.annotations["agents.kruise.io/owner"]"#;

struct OpenKruise {
    resource: Resource,
    clash: Clash,
}

pub(crate) fn provider(clash: Clash) -> Box<dyn Provider> {
    Box::new(OpenKruise {
        clash,
        resource: Resource {
            group: "agents.kruise.io".to_owned(),
            version: "v1alpha1".to_owned(),
            kind: "Sandbox".to_owned(),
            plural: "sandboxes".to_owned(),
        },
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sandbox<'a> {
    #[serde(borrow, deserialize_with = "object")]
    metadata: Metadata<'a, Labels<'a>, Annotations<'a>, Owners<'a>>,
    #[serde(borrow, deserialize_with = "object")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "object")]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Labels<'a> {
    #[serde(borrow, rename = "agents.kruise.io/sandbox-id")]
    sandbox_id: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations<'a> {
    #[serde(borrow, rename = "agents.kruise.io/runtime-access-token")]
    token: Option<Text<'a>>,
    #[serde(borrow, rename = "e2b.agents.kruise.io/envd-access-token")]
    envd_token: Option<Text<'a>>,
    #[serde(borrow, rename = "agents.kruise.io/owner")]
    owner: Option<Text<'a>>,
    #[serde(borrow, rename = "security.agents.kruise.io/enable-jwt-auth")]
    enable_jwt_auth: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Owners<'a> {
    #[serde(borrow, deserialize_with = "kept")]
    controllers: Vec<Owner<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Owner<'a> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    controller: Option<bool>,
}

impl Keep for Owner<'_> {
    fn keep(&self) -> bool {
        self.controller == Some(true)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    paused: Option<bool>,
    #[serde(borrow)]
    shutdown_time: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "kept")]
    conditions: Vec<Condition<'a>>,
    #[serde(borrow, deserialize_with = "object")]
    pod_info: PodInfo<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodInfo<'a> {
    #[serde(borrow, rename = "podIP")]
    pod_ip: Option<Text<'a>>,
}

impl Provider for OpenKruise {
    fn name(&self) -> &str {
        NAME
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn clash(&self) -> Clash {
        self.clash
    }

    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable> {
        let sandbox: Sandbox<'_> = decode(object)?;
        let head = sandbox.metadata.head()?;
        let annotations = &sandbox.metadata.annotations;
        let id = id(SANDBOX_ID, sandbox.metadata.labels.sandbox_id.as_deref())?;
        let ends = time("spec.shutdownTime", sandbox.spec.shutdown_time.as_deref())?;
        let ip = address("status.podInfo.podIP", sandbox.status.pod_info.pod_ip.as_deref())?;
        let token = match token(TOKEN, annotations.token.as_deref())? {
            None => token(ENVD_TOKEN, annotations.envd_token.as_deref())?,
            found => found,
        };
        let findings = Findings {
            own_id: id.as_ref().is_none_or(|id| head.has_own_id(id)),
            id: id.map_or_else(|| head.default_id(), Ok)?,
            owner: owner(OWNER, annotations.owner.as_deref())?,
            state: sandbox.state(head.deleting || is_past(ends, now), ip.is_some()),
            ip,
            ip_is_claimed: false,
            token,
            require_traffic_auth: annotations.enable_jwt_auth.as_deref() == Some("true"),
            clash: self.clash,
            ends,
        };
        head.projection(NAME, findings, now)
    }
}

impl Sandbox<'_> {
    fn state(&self, ended: bool, has_ip: bool) -> State {
        let ready = is_true(&self.status.conditions, "Ready");
        match self.status.phase.as_deref().unwrap_or_default() {
            _ if ended => State::Dead,
            "Pending" => State::Creating,
            "Succeeded" | "Failed" | "Terminating" => State::Dead,
            // A missing address makes a sandbox creating whatever the rest says, but what has come to its end above
            // does not come back. Running, not ready and without an address is one that is on its way.
            _ if !has_ip => State::Creating,
            _ if self.is_pooled() => {
                if ready {
                    State::Available
                } else {
                    State::Creating
                }
            }
            "Running" if self.spec.paused == Some(true) => State::Paused,
            "Running" if ready => State::Running,
            "Running" => State::Creating,
            "Paused" | "Resuming" | "Upgrading" | "Recycling" | "" => State::Paused,
            _ => State::Unknown,
        }
    }

    /// Still in the hands of the set that made it: a claim takes the sandbox out of them.
    fn is_pooled(&self) -> bool {
        self.metadata.owner_references.controllers.first().is_some_and(|owner| {
            owner.api_version.as_deref() == Some("agents.kruise.io/v1alpha1")
                && owner.kind.as_deref() == Some("SandboxSet")
        })
    }
}
