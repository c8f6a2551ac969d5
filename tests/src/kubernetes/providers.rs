//! What the controllers of the three projects write: the same lives in three shapes.
//!
//! A state is what has to be merged into the object (its annotations and its spec) and into its status.

use std::net::IpAddr;

use kube::api::ApiResource;
use serde_json::{Value, json};

use super::object::Draft;
use super::server::ApiServer;

/// A kind of sandbox, in one of its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `agents.kruise.io/v1alpha1`, `Sandbox`.
    OpenKruise,
    /// `agents.x-k8s.io/v1beta1`, `Sandbox`.
    AgentSandbox,
    /// The same objects, asked for as `agents.x-k8s.io/v1alpha1`.
    AgentSandboxV1Alpha1,
    /// `sandbox.opensandbox.io/v1alpha1`, `BatchSandbox`.
    OpenSandbox,
}

/// What a state looks like.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) object: Value,
    pub(super) status: Value,
}

impl Kind {
    /// The resource, for the client.
    pub fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = match self {
            Self::OpenKruise => ("agents.kruise.io", "v1alpha1", "Sandbox", "sandboxes"),
            Self::AgentSandbox => ("agents.x-k8s.io", "v1beta1", "Sandbox", "sandboxes"),
            Self::AgentSandboxV1Alpha1 => ("agents.x-k8s.io", "v1alpha1", "Sandbox", "sandboxes"),
            Self::OpenSandbox => ("sandbox.opensandbox.io", "v1alpha1", "BatchSandbox", "batchsandboxes"),
        };
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }

    /// The path of the resource's objects, in one namespace or in all.
    pub fn path(self, namespace: Option<&str>) -> String {
        let ApiResource { api_version, plural, .. } = self.resource();
        match namespace {
            Some(namespace) => format!("/apis/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("/apis/{api_version}/{plural}"),
        }
    }

    /// The provider of these objects, as the config calls it.
    pub fn provider(self) -> &'static str {
        match self {
            Self::OpenKruise => "openkruise",
            Self::AgentSandbox | Self::AgentSandboxV1Alpha1 => "agent-sandbox",
            Self::OpenSandbox => "opensandbox",
        }
    }

    /// The ID of an object that has no label for it.
    pub fn id(self, namespace: &str, name: &str) -> String {
        match self {
            Self::OpenSandbox => name.to_owned(),
            _ => format!("{namespace}--{name}"),
        }
    }

    /// A sandbox of this kind to be made. Without a state it is being created: no status at all.
    pub fn draft(self, api: &ApiServer, namespace: &str, name: &str) -> Draft {
        Draft::new(api, self, namespace, name)
    }

    pub(super) fn of_definition(definition: &str) -> &'static [Self] {
        match definition {
            "openkruise" => &[Self::OpenKruise],
            "agent-sandbox" => &[Self::AgentSandbox, Self::AgentSandboxV1Alpha1],
            "opensandbox" => &[Self::OpenSandbox],
            other => panic!("tests/crds has no {other}.yaml"),
        }
    }

    /// Where the pod template sits in the spec.
    pub(super) fn template_key(self) -> &'static str {
        match self {
            Self::OpenKruise | Self::OpenSandbox => "template",
            Self::AgentSandbox | Self::AgentSandboxV1Alpha1 => "podTemplate",
        }
    }

    /// The field of the spec that says when the sandbox ends.
    pub(super) fn end_key(self) -> &'static str {
        match self {
            Self::OpenSandbox => "expireTime",
            _ => "shutdownTime",
        }
    }

    /// The annotation with the access token; OpenSandbox puts its own on the objects of agent-sandbox too.
    pub(super) fn token_annotation(self) -> &'static str {
        match self {
            Self::OpenKruise => "agents.kruise.io/runtime-access-token",
            Self::OpenSandbox | Self::AgentSandbox | Self::AgentSandboxV1Alpha1 => {
                "opensandbox.io/secure-access-token"
            }
        }
    }

    pub(super) fn running(self, ip: IpAddr) -> Shape {
        match self {
            Self::OpenKruise => Shape {
                object: json!({ "spec": { "paused": false } }),
                status: json!({
                    "phase": "Running",
                    "sandboxIp": ip,
                    "podInfo": { "podIP": ip },
                    "conditions": [{ "type": "Ready", "status": "True" }],
                }),
            },
            Self::AgentSandbox | Self::AgentSandboxV1Alpha1 => Shape {
                object: json!({ "spec": { "operatingMode": "Running" } }),
                status: json!({ "podIPs": [ip], "conditions": [ready("True", "DependenciesReady")] }),
            },
            Self::OpenSandbox => Shape {
                object: json!({
                    "metadata": { "annotations": { ENDPOINTS: json!([ip]).to_string() } },
                    "spec": { "pause": false },
                }),
                status: json!({ "phase": "Succeed", "replicas": 1, "allocated": 1, "ready": 1 }),
            },
        }
    }

    pub(super) fn paused(self) -> Shape {
        match self {
            Self::OpenKruise => Shape {
                object: json!({ "spec": { "paused": true } }),
                status: json!({
                    "phase": "Paused",
                    "conditions": [
                        { "type": "Ready", "status": "False" },
                        { "type": "SandboxPaused", "status": "True" },
                    ],
                }),
            },
            Self::AgentSandbox | Self::AgentSandboxV1Alpha1 => Shape {
                object: json!({ "spec": { "operatingMode": "Suspended" } }),
                status: json!({
                    "podIPs": [],
                    "conditions": [
                        ready("False", "SandboxSuspended"),
                        { "type": "Suspended", "status": "True" },
                    ],
                }),
            },
            Self::OpenSandbox => Shape {
                object: json!({ "spec": { "pause": true } }),
                status: json!({
                    "phase": "Paused",
                    "ready": 0,
                    "conditions": [{ "type": "Paused", "status": "True" }],
                }),
            },
        }
    }

    /// What a controller writes while a readiness probe fails: everything else stays as it is.
    pub(super) fn unready(self) -> Shape {
        let status = match self {
            Self::OpenKruise => json!({ "conditions": [{ "type": "Ready", "status": "False" }] }),
            Self::AgentSandbox | Self::AgentSandboxV1Alpha1 => {
                json!({ "conditions": [ready("False", "DependenciesNotReady")] })
            }
            Self::OpenSandbox => json!({ "ready": 0 }),
        };
        Shape { object: json!({}), status }
    }

    pub(super) fn failed(self) -> Shape {
        let status = match self {
            Self::OpenKruise | Self::OpenSandbox => json!({ "phase": "Failed", "conditions": [] }),
            Self::AgentSandbox | Self::AgentSandboxV1Alpha1 => {
                json!({ "podIPs": [], "conditions": [ready("False", "PodFailed")] })
            }
        };
        Shape { object: json!({}), status }
    }
}

const ENDPOINTS: &str = "sandbox.opensandbox.io/endpoints";

fn ready(status: &str, reason: &str) -> Value {
    json!({ "type": "Ready", "status": status, "reason": reason })
}

/// An OpenKruise sandbox to be made. Without a state it is being created: no status at all.
pub fn kruise(api: &ApiServer, namespace: &str, name: &str) -> Draft {
    Draft::new(api, Kind::OpenKruise, namespace, name)
}

/// An agent-sandbox sandbox to be made.
pub fn agent_sandbox(api: &ApiServer, namespace: &str, name: &str) -> Draft {
    Draft::new(api, Kind::AgentSandbox, namespace, name)
}

/// An OpenSandbox sandbox to be made.
pub fn opensandbox(api: &ApiServer, namespace: &str, name: &str) -> Draft {
    Draft::new(api, Kind::OpenSandbox, namespace, name)
}
