//! The config as it is written, with its defaults. The doc comments are the descriptions of the JSON schema.
//!
//! A number that may also be written as 80.0 or as a text is kept as a JSON value until it is checked.

use sandgate_config::{given, given_object, object};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::guards::{RawDialectTimeouts, RawTimeouts, burst, rate, window};
use super::{
    CallerMode, ForwardedName, MAX_COUNT, MAX_DOMAIN, MAX_HEADER_BYTES, MAX_HEALTH_PATH, MAX_HEALTH_PATHS,
    MAX_LIST, MAX_NAME, MAX_NAMESPACE, MAX_NAMESPACES, MAX_REQUEST_BYTES, Unaddressed, Upstream,
};

/// Sandgate's HTTP filter: how requests address sandboxes, and what happens to those that do not.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Sandgate filter config")]
pub(super) struct RawConfig {
    /// The ways of addressing a sandbox, each of which can be switched off.
    #[serde(deserialize_with = "object")]
    pub(super) dialects: RawDialects,
    /// The header the host forms are read from. A request that does not send it is read from :authority,
    /// which is its Host. Where a request has both, this header alone counts.
    #[schemars(length(max = MAX_NAME), regex(pattern = r"^(:authority|[A-Za-z0-9!#$%&'*+.^_`|~-]+)$"))]
    pub(super) host_header_name: String,
    /// Base domains of the host forms. With none, any domain will do and the label ends at the first dot; the
    /// host form of OpenSandbox then takes a host without a domain too, such as my-app-8080.
    #[schemars(length(max = MAX_LIST), inner(length(max = MAX_DOMAIN), regex(pattern = r"^\.?[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$")))]
    pub(super) domains: Vec<String>,
    /// What happens to a request that is not addressed to a sandbox.
    pub(super) unaddressed: Unaddressed,
    /// Paths of health checks, such as /status.ok, /healthz and /readyz: a GET or HEAD that addresses no
    /// sandbox and has one of these paths is answered by the gateway, with 200. /readyz gets 503 until the
    /// first lists of sandboxes are complete.
    #[schemars(length(max = MAX_HEALTH_PATHS), inner(length(max = MAX_HEALTH_PATH), regex(pattern = r"^/[!\x22$->@-~]*$")))]
    pub(super) health_paths: Vec<String>,
    /// Check the access token of sandboxes that have one: in x-access-token, or in OpenSandbox-Secure-Access
    /// for requests in the OpenSandbox dialect. Where the owner has closed the sandbox with a token
    /// (OpenSandbox's secure access), OpenSandbox-Secure-Access is checked with or without this.
    pub(super) enable_auth: bool,
    /// Compare no access token with x-access-token: OpenKruise's mode in which traffic JWTs take its place. A
    /// sandbox that asks for a JWT gets none that is not verified, with or without this. Needs enable-auth,
    /// and `auth.traffic-jwt` in the gateway's config.
    pub(super) enable_jwt_auth: bool,
    /// The header with the traffic token: a JWT, or E2B's token. No sandbox gets it.
    #[schemars(length(max = MAX_NAME), regex(pattern = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"))]
    pub(super) traffic_access_token_header: String,
    /// Refuse requests to sandboxes that ask for no credential which is checked here.
    pub(super) require_token: bool,
    /// Who may ask at all, by a bearer token. Without it nobody is asked who they are.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawCallers")]
    pub(super) callers: Option<RawCallers>,
    /// What the sandbox is told of the host that was asked for.
    #[serde(deserialize_with = "object")]
    pub(super) forward: RawForward,
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
    /// What one sandbox may have at one time, on this whole gateway, and how large a request may be.
    #[serde(deserialize_with = "object")]
    pub(super) limits: RawLimits,
    /// How long a request may take.
    #[serde(deserialize_with = "object")]
    pub(super) timeouts: RawTimeouts,
    /// For how many seconds a request is tried again, to the same sandbox, while nothing listens on its port.
    /// 0 is once more, at once. Without this key it is 0, and 1.4 in the dialect agent-sandbox, as its own
    /// router does.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "window")]
    pub(super) connect_window: Option<Value>,
    /// Set the header x-sandgate-route: sandbox on requests to sandboxes and choose the route anew, so that
    /// routes can match on it.
    pub(super) clear_route_cache: bool,
    /// Keys that Envoy has as generic secrets: its own static ones, or fetched by SDS and followed. Their
    /// contents are those of the key files.
    #[serde(deserialize_with = "object")]
    pub(super) secrets: RawSecrets,
}

#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawSecrets {
    /// The keys of signed routes.
    #[serde(deserialize_with = "given_object", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawSecret")]
    pub(super) secure_access_keys: Option<RawSecret>,
    /// The key of scoped tokens.
    #[serde(deserialize_with = "given_object", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawSecret")]
    pub(super) scoped_token: Option<RawSecret>,
    /// The bearer token.
    #[serde(deserialize_with = "given_object", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawSecret")]
    pub(super) bearer: Option<RawSecret>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawSecret {
    /// The secret's name: in Envoy's static secrets, or at the source.
    #[schemars(length(min = 1, max = MAX_DOMAIN))]
    pub(super) name: String,
    /// Where Envoy fetches it: a ConfigSource of Envoy's API (envoy.config.core.v3). Without it the secret is
    /// one of Envoy's static secrets.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub(super) sds_config: Option<Map<String, Value>>,
}

/// Who may ask, as SIG agent-sandbox knows callers. The token is in `Authorization: Bearer`, which no sandbox
/// gets then. Requests that name their sandbox as agent-sandbox does are checked before anything is said of a
/// sandbox, all others when they turn out to be for an object of one of `providers`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawCallers {
    /// How a token is judged. The keys are in `auth` of the gateway's config.
    pub(super) mode: CallerMode,
    /// The providers whose objects only known callers reach.
    #[serde(default = "agent_sandbox_alone")]
    #[schemars(length(min = 1, max = MAX_LIST), inner(regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")))]
    pub(super) providers: Vec<String>,
    /// Let requests without `Authorization` pass, as agent-sandbox's router does unless it is told otherwise.
    #[serde(default)]
    pub(super) allow_anonymous: bool,
    /// token-review: the user names that may ask. One that ends with `*` stands for all that begin so. With
    /// neither users nor groups, everybody whom the API server knows may.
    #[serde(default)]
    #[schemars(length(max = MAX_LIST), inner(length(min = 1, max = MAX_DOMAIN)))]
    pub(super) subjects: Vec<String>,
    /// token-review: the groups that may ask.
    #[serde(default)]
    #[schemars(length(max = MAX_LIST), inner(length(min = 1, max = MAX_DOMAIN)))]
    pub(super) groups: Vec<String>,
    /// token-review: a service account may reach the sandboxes of its own namespace only, and no other user
    /// may reach any.
    #[serde(default)]
    pub(super) bind_namespace: bool,
}

fn agent_sandbox_alone() -> Vec<String> {
    vec!["agent-sandbox".to_owned()]
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawForward {
    /// The Host that the sandbox gets: the client's, or the sandbox's own address and port.
    pub(super) host: ForwardedName,
    /// The Origin that the sandbox gets, where the client sends one: the client's, or the one that fits the
    /// sandbox's own address. Many servers of WebSockets compare Origin with Host.
    pub(super) origin: ForwardedName,
    /// Tell the sandbox the client's Host in X-Forwarded-Host. What a client sends there is replaced.
    pub(super) forwarded_host: bool,
}

impl Default for RawForward {
    fn default() -> Self {
        Self { host: ForwardedName::Client, origin: ForwardedName::Client, forwarded_host: false }
    }
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
    /// The timeouts of this dialect, where they are not those of all.
    #[serde(deserialize_with = "object")]
    pub(super) timeouts: RawDialectTimeouts,
    /// As the key of that name for all dialects.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "window")]
    pub(super) connect_window: Option<Value>,
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
    /// The timeouts of this dialect, where they are not those of all.
    #[serde(deserialize_with = "object")]
    pub(super) timeouts: RawDialectTimeouts,
    /// As the key of that name for all dialects.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "window")]
    pub(super) connect_window: Option<Value>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawOpenSandbox {
    /// Recognise this dialect at all.
    pub(super) enabled: bool,
    /// The header OpenSandbox-Ingress-To or OPEN-SANDBOX-INGRESS: {id}-{port}, and signed
    /// {id}-{port}-{expires}-{signature}.
    pub(super) headers: bool,
    /// The host {id}-{port}.{domain}, and signed {id}-{port}-{expires}-{signature}.{domain}.
    pub(super) host: bool,
    /// The path /{id}/{port}/{rest}, and signed /{id}/{port}/{expires}/{signature}/{rest}. Without this key
    /// it is on or off as the path of the dialect kruise is.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(super) path: Option<bool>,
    /// The path /sandboxes/{id}/proxy/{port}/{rest}, also below /v1, which OpenSandbox's server gives out for
    /// use_server_proxy. Without this key it is on or off as the path above is.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(super) proxy_path: Option<bool>,
    /// Namespaces in which an ID of this dialect also names an object of agent-sandbox, where no sandbox has
    /// the ID itself. The object's name is the ID as a DNS label, the ID, or the ID behind "sandbox-", the
    /// first that is there. A name that two of the namespaces have is refused.
    #[schemars(length(max = MAX_NAMESPACES), inner(length(max = MAX_NAMESPACE), regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")))]
    pub(super) agent_sandbox_namespaces: Vec<String>,
    /// The timeouts of this dialect, where they are not those of all.
    #[serde(deserialize_with = "object")]
    pub(super) timeouts: RawDialectTimeouts,
    /// As the key of that name for all dialects.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "window")]
    pub(super) connect_window: Option<Value>,
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
    /// The timeouts of this dialect, where they are not those of all.
    #[serde(deserialize_with = "object")]
    pub(super) timeouts: RawDialectTimeouts,
    /// As the key of that name for all dialects.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "window")]
    pub(super) connect_window: Option<Value>,
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
    /// Requests in a second to one sandbox, over all its ports, in the long run; one more is answered with
    /// 429. Without this key there is no such limit.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rate")]
    pub(super) requests_per_second: Option<Value>,
    /// How many of them may come at once after a time without any. Without this key as many as in a second,
    /// and at least 1.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "burst")]
    pub(super) burst: Option<Value>,
    /// Bytes of a request's body; a larger one is answered with 413, and its sandbox may have the beginning
    /// of it by then. What is sent after an upgrade (WebSockets) is not counted. Without this key there is no
    /// limit.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", extend("type" = "integer", "minimum" = 1, "maximum" = MAX_REQUEST_BYTES))]
    pub(super) request_bytes: Option<Value>,
    /// Bytes of all names and values of a request's headers together, those that Envoy adds included; more
    /// are answered with 431. Without this key only Envoy's own limit counts.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", extend("type" = "integer", "minimum" = 1, "maximum" = MAX_HEADER_BYTES))]
    pub(super) request_header_bytes: Option<Value>,
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            dialects: RawDialects::default(),
            host_header_name: ":authority".to_owned(),
            domains: Vec::new(),
            unaddressed: Unaddressed::Pass,
            health_paths: Vec::new(),
            enable_auth: false,
            enable_jwt_auth: false,
            traffic_access_token_header: "e2b-traffic-access-token".to_owned(),
            require_token: false,
            callers: None,
            forward: RawForward::default(),
            allowed_ports: Vec::new(),
            denied_ports: Vec::new(),
            upstream: Upstream::Cluster,
            limits: RawLimits::default(),
            timeouts: RawTimeouts::default(),
            connect_window: None,
            clear_route_cache: false,
            secrets: RawSecrets::default(),
        }
    }
}

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            requests_per_sandbox: json!(10_000),
            connections_per_sandbox: json!(1_000),
            percent_per_client: json!(50),
            requests_per_second: None,
            burst: None,
            request_bytes: None,
            request_header_bytes: None,
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
            timeouts: RawDialectTimeouts::default(),
            connect_window: None,
        }
    }
}

impl Default for RawAgentSandbox {
    fn default() -> Self {
        Self {
            enabled: true,
            default_namespace: "default".to_owned(),
            default_port: json!(8888),
            timeouts: RawDialectTimeouts::default(),
            connect_window: None,
        }
    }
}

impl Default for RawOpenSandbox {
    fn default() -> Self {
        Self {
            enabled: true,
            headers: true,
            host: true,
            path: None,
            proxy_path: None,
            agent_sandbox_namespaces: Vec::new(),
            timeouts: RawDialectTimeouts::default(),
            connect_window: None,
        }
    }
}

impl Default for RawSandboxEnv {
    fn default() -> Self {
        Self {
            enabled: true,
            headers: true,
            path: None,
            timeouts: RawDialectTimeouts::default(),
            connect_window: None,
        }
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
