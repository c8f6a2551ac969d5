//! The config as it is written. The doc comments become the descriptions of the JSON schema.

use std::{fmt, marker::PhantomData};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{
    ConfigError,
    value::{Count, Domains, HeaderName, HostHeaderName, Namespace, Percent, Port, Ports, shortened},
};

/// Sandgate's HTTP filter: how requests address sandboxes, and what happens to those that do not.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Sandgate filter config")]
pub(super) struct RawConfig {
    /// The ways of addressing a sandbox, each of which can be switched off.
    #[serde(deserialize_with = "object")]
    pub(super) dialects: RawDialects,
    /// The header the host forms are read from.
    pub(super) host_header_name: HostHeaderName,
    /// Base domains of the host forms. With none, any domain will do and the label ends at the first dot.
    pub(super) domains: Domains,
    /// What happens to a request that is not addressed to a sandbox.
    pub(super) unaddressed: Unaddressed,
    /// Check the access token of sandboxes that have one: in x-access-token, or in OpenSandbox-Secure-Access for
    /// requests in the OpenSandbox dialect. Where the owner has closed the sandbox with a token (OpenSandbox's secure
    /// access), OpenSandbox-Secure-Access is checked with or without this.
    pub(super) enable_auth: bool,
    /// Ports of sandboxes that requests may reach: numbers, and ranges such as "3000-3999". With none, all of them.
    pub(super) allowed_ports: Ports,
    /// Ports that requests never reach, also where they are allowed above. List the gateway's own ports here where
    /// sandboxes share its network.
    pub(super) denied_ports: Ports,
    /// How the sandbox's address is connected to.
    pub(super) upstream: Upstream,
    /// What one sandbox may have at one time, on this whole gateway.
    #[serde(deserialize_with = "object")]
    pub(super) limits: RawLimits,
    /// Set the header x-sandgate-route: sandbox on requests to sandboxes and choose the route anew, so that routes can
    /// match on it.
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
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawKruise {
    /// Recognise this dialect at all.
    pub(super) enabled: bool,
    /// The path /kruise/{id}/{port}/{rest}. Without this key it is on, but off where a host form is on and domains are
    /// given: there every sandbox has an origin of its own, and a path would give it a second one that it shares.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(super) path: Option<bool>,
    /// The headers named below.
    pub(super) headers: bool,
    /// The host {port}-{id}.{domain}.
    pub(super) host: bool,
    /// The header with the ID. Header names must differ from each other and must not be ones that carry secrets.
    pub(super) sandbox_header_name: HeaderName,
    /// The header with the port.
    pub(super) sandbox_port_header: HeaderName,
    /// The port where the header with the ID comes without a port.
    pub(super) default_port: Port,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawAgentSandbox {
    /// Recognise this dialect at all: the headers X-Sandbox-ID, X-Sandbox-Namespace and X-Sandbox-Port.
    pub(super) enabled: bool,
    /// The namespace where none is sent.
    pub(super) default_namespace: Namespace,
    /// The port where none is sent.
    pub(super) default_port: Port,
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
pub(super) struct RawLimits {
    /// Requests in flight, WebSockets and event streams included; one more is answered with 429.
    pub(super) requests_per_sandbox: Count,
    /// Connections in use; one more is answered with 429. A request over HTTP/1.1 uses one, requests over HTTP/2 share.
    pub(super) connections_per_sandbox: Count,
    /// How much of the two above and of the cluster's max-ports-per-sandbox one client address may have, in percent; more is
    /// answered with 429. 100 switches it off, which is right behind a proxy that hides addresses. 16 of each may be had always.
    pub(super) percent_per_client: Percent,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) enum Upstream {
    /// Through Sandgate's own cluster, whose connections live and die with the sandbox.
    Cluster,
    /// Through a cluster of Envoy's type ORIGINAL_DST. Only this filter's routes may lead there.
    OriginalDst,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) enum Unaddressed {
    /// It goes on untouched.
    Pass,
    /// It is answered with 404.
    Refuse,
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            dialects: RawDialects::default(),
            host_header_name: HostHeaderName::from_static(":authority"),
            domains: Domains::default(),
            unaddressed: Unaddressed::Pass,
            enable_auth: false,
            allowed_ports: Ports::default(),
            denied_ports: Ports::default(),
            upstream: Upstream::Cluster,
            limits: RawLimits::default(),
            clear_route_cache: false,
        }
    }
}

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            requests_per_sandbox: Count::from_static(10_000),
            connections_per_sandbox: Count::from_static(1_000),
            percent_per_client: Percent::from_static(50),
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
            sandbox_header_name: HeaderName::from_static("e2b-sandbox-id"),
            sandbox_port_header: HeaderName::from_static("e2b-sandbox-port"),
            default_port: Port::from_static(49983),
        }
    }
}

impl Default for RawAgentSandbox {
    fn default() -> Self {
        Self {
            enabled: true,
            default_namespace: Namespace::from_static("default"),
            default_port: Port::from_static(8888),
        }
    }
}

impl Default for RawOpenSandbox {
    fn default() -> Self {
        Self { enabled: true, headers: true, host: true, path: None }
    }
}

impl RawConfig {
    pub(super) fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        let mut input = serde_json::Deserializer::from_slice(json);
        let mut track = serde_path_to_error::Track::new();
        let read = object(serde_path_to_error::Deserializer::new(&mut input, &mut track));
        let path = track.path();
        read.map_err(|error| invalid(&path, &error))
            .and_then(|config| input.end().map(|()| config).map_err(|error| invalid(&path, &error)))
    }
}

fn invalid(path: &serde_path_to_error::Path, error: &serde_json::Error) -> ConfigError {
    let key = match path.to_string().as_str() {
        _ if path.iter().len() == 0 => "top level".into(),
        "" => r#""""#.into(),
        key => shortened(key).escape_debug().to_string(),
    };
    ConfigError::Invalid { key, reason: error.to_string() }
}

/// Reads a struct from a JSON object only. What `derive` makes also takes an array of the fields in order, which the
/// schema does not and nobody means.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(Object(PhantomData))
}

/// A switch whose default depends on other keys. It may be left out, but not be null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    bool::deserialize(deserializer).map(Some)
}

pub(super) fn schema() -> serde_json::Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<RawConfig>().into()
}
