//! The config as it is written, with its defaults. The doc comments are the descriptions of the JSON schema.
//!
//! A number that may also be written as 80.0 or as a text is kept as a JSON value until it is checked.

use sandgate_config::{given, object};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{MAX_COUNT, MAX_DOMAIN, MAX_LIST, MAX_NAME, MAX_NAMESPACE, Unaddressed, Upstream};

/// Sandgate's HTTP filter: how requests address sandboxes, and what happens to those that do not.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Sandgate filter config")]
pub(super) struct RawConfig {
    /// The ways of addressing a sandbox, each of which can be switched off.
    #[serde(deserialize_with = "object")]
    pub(super) dialects: RawDialects,
    /// The header the host forms are read from.
    #[schemars(length(max = MAX_NAME), regex(pattern = r"^(:authority|[A-Za-z0-9!#$%&'*+.^_`|~-]+)$"))]
    pub(super) host_header_name: String,
    /// Base domains of the host forms. With none, any domain will do and the label ends at the first dot.
    #[schemars(length(max = MAX_LIST), inner(length(max = MAX_DOMAIN), regex(pattern = r"^\.?[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$")))]
    pub(super) domains: Vec<String>,
    /// What happens to a request that is not addressed to a sandbox.
    pub(super) unaddressed: Unaddressed,
    /// Check the access token of sandboxes that have one: in x-access-token, or in OpenSandbox-Secure-Access
    /// for requests in the OpenSandbox dialect. Where the owner has closed the sandbox with a token
    /// (OpenSandbox's secure access), OpenSandbox-Secure-Access is checked with or without this.
    pub(super) enable_auth: bool,
    /// Ports of sandboxes that requests may reach: numbers, and ranges such as "3000-3999". With none, all of
    /// them.
    #[schemars(schema_with = "ports")]
    pub(super) allowed_ports: Vec<Value>,
    /// Ports that requests never reach, also where they are allowed above. List the gateway's own ports here
    /// where sandboxes share its network.
    #[schemars(schema_with = "ports")]
    pub(super) denied_ports: Vec<Value>,
    /// How the sandbox's address is connected to.
    pub(super) upstream: Upstream,
    /// What one sandbox may have at one time, on this whole gateway.
    #[serde(deserialize_with = "object")]
    pub(super) limits: RawLimits,
    /// Set the header x-sandgate-route: sandbox on requests to sandboxes and choose the route anew, so that
    /// routes can match on it.
    pub(super) clear_route_cache: bool,
}

#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawDialects {
    /// OpenKruise Agents and E2B.
    #[serde(deserialize_with = "object")]
    pub(super) kruise: RawKruise,
    /// kubernetes-sigs/agent-sandbox.
    #[serde(deserialize_with = "object")]
    pub(super) agent_sandbox: RawAgentSandbox,
    /// OpenSandbox.
    #[serde(deserialize_with = "object")]
    pub(super) opensandbox: RawOpenSandbox,
    /// scitix Agent-Sandbox, whose kind is SandboxEnv.
    #[serde(deserialize_with = "object")]
    pub(super) sandbox_env: RawSandboxEnv,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawKruise {
    /// Recognise this dialect at all.
    pub(super) enabled: bool,
    /// The path /kruise/{id}/{port}/{rest}. Without this key it is on, but off where a host form is on and
    /// domains are given: there every sandbox has an origin of its own, and a path would give it a second one
    /// that it shares.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(super) path: Option<bool>,
    /// The headers named below.
    pub(super) headers: bool,
    /// The host {port}-{id}.{domain}.
    pub(super) host: bool,
    /// The header with the ID. Header names must differ from each other and must not be ones that carry
    /// secrets.
    #[schemars(length(max = MAX_NAME), regex(pattern = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"))]
    pub(super) sandbox_header_name: String,
    /// The header with the port.
    #[schemars(length(max = MAX_NAME), regex(pattern = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"))]
    pub(super) sandbox_port_header: String,
    /// The port where the header with the ID comes without a port.
    #[schemars(schema_with = "port")]
    pub(super) default_port: Value,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawAgentSandbox {
    /// Recognise this dialect at all: the headers X-Sandbox-ID, X-Sandbox-Namespace and X-Sandbox-Port.
    pub(super) enabled: bool,
    /// The namespace where none is sent.
    #[schemars(length(max = MAX_NAMESPACE), regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub(super) default_namespace: String,
    /// The port where none is sent.
    #[schemars(schema_with = "port")]
    pub(super) default_port: Value,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawOpenSandbox {
    /// Recognise this dialect at all.
    pub(super) enabled: bool,
    /// The header OpenSandbox-Ingress-To or OPEN-SANDBOX-INGRESS: {id}-{port}.
    pub(super) headers: bool,
    /// The host {id}-{port}.{domain}.
    pub(super) host: bool,
    /// The path /{id}/{port}/{rest}. Without this key it is on or off as the path of the dialect kruise is.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(super) path: Option<bool>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawSandboxEnv {
    /// Recognise this dialect at all.
    pub(super) enabled: bool,
    /// The headers X-Sandbox-ID and X-Sandbox-Port, both needed. The dialect agent-sandbox reads X-Sandbox-ID
    /// in its own way. Where both are on, the table decides which is meant; with X-Sandbox-Namespace, or
    /// without a port, it is the other one.
    pub(super) headers: bool,
    /// The path /sandboxes/{id}/{port}/{rest}. Without this key it is on or off as the path of the dialect
    /// kruise is.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(super) path: Option<bool>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawLimits {
    /// Requests in flight, WebSockets and event streams included; one more is answered with 429.
    #[schemars(extend("type" = "integer", "minimum" = 1, "maximum" = MAX_COUNT))]
    pub(super) requests_per_sandbox: Value,
    /// Connections in use; one more is answered with 429. A request over HTTP/1.1 uses one, requests over
    /// HTTP/2 share.
    #[schemars(extend("type" = "integer", "minimum" = 1, "maximum" = MAX_COUNT))]
    pub(super) connections_per_sandbox: Value,
    /// How much of the two above and of the cluster's max-ports-per-sandbox one client address may have, in
    /// percent; more is answered with 429. 100 switches it off, which is right behind a proxy that hides
    /// addresses. 16 of each may be had always.
    #[schemars(extend("type" = "integer", "minimum" = 1, "maximum" = 100))]
    pub(super) percent_per_client: Value,
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            dialects: RawDialects::default(),
            host_header_name: ":authority".to_owned(),
            domains: Vec::new(),
            unaddressed: Unaddressed::Pass,
            enable_auth: false,
            allowed_ports: Vec::new(),
            denied_ports: Vec::new(),
            upstream: Upstream::Cluster,
            limits: RawLimits::default(),
            clear_route_cache: false,
        }
    }
}

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            requests_per_sandbox: json!(10_000),
            connections_per_sandbox: json!(1_000),
            percent_per_client: json!(50),
        }
    }
}

impl Default for RawKruise {
    fn default() -> Self {
        Self {
            enabled: true,
            path: None,
            headers: true,
            host: true,
            sandbox_header_name: "e2b-sandbox-id".to_owned(),
            sandbox_port_header: "e2b-sandbox-port".to_owned(),
            default_port: json!(49983),
        }
    }
}

impl Default for RawAgentSandbox {
    fn default() -> Self {
        Self { enabled: true, default_namespace: "default".to_owned(), default_port: json!(8888) }
    }
}

impl Default for RawOpenSandbox {
    fn default() -> Self {
        Self { enabled: true, headers: true, host: true, path: None }
    }
}

impl Default for RawSandboxEnv {
    fn default() -> Self {
        Self { enabled: true, headers: true, path: None }
    }
}

/// A decimal from 1 to 65535 with no leading zero.
const DECIMAL: &str =
    "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";

/// A port is a number or, as OpenKruise writes it, a text.
fn port(_: &mut SchemaGenerator) -> Schema {
    port_or(&format!("^{DECIMAL}$"))
}

/// A list of ports and of ranges of ports, each written as `first-last`.
fn ports(_: &mut SchemaGenerator) -> Schema {
    let item = port_or(&format!("^{DECIMAL}(-{DECIMAL})?$"));
    json_schema!({ "type": "array", "items": item, "maxItems": MAX_LIST })
}

fn port_or(pattern: &str) -> Schema {
    json_schema!({ "anyOf": [
        { "type": "integer", "minimum": 1, "maximum": 65535 },
        { "type": "string", "pattern": pattern },
    ] })
}
