//! From the raw config to the checked one.

use std::fmt::Display;

use sandgate_config::{ConfigError, shortened};
use serde_json::Value;

use super::guards::Guards;
use super::raw::{RawCallers, RawConfig, RawDialects, RawSecret};
use super::{
    AgentSandbox, CallerMode, Callers, FilterConfig, Forward, Kruise, MAX_COUNT, MAX_DOMAIN,
    MAX_HEADER_BYTES, MAX_HEALTH_PATH, MAX_HEALTH_PATHS, MAX_LIST, MAX_NAME, MAX_NAMESPACE, MAX_NAMESPACES,
    MAX_REQUEST_BYTES, OpenSandbox, SandboxEnv, SecretSource, Secrets, Subject,
};
use crate::address::is_valid_namespace;
use crate::recognise::parse_port;

/// Headers that carry secrets or steer the gateway. None of them may hold an ID: IDs are shown in replies.
pub(super) const RESERVED: [&str; 9] = [
    "authorization",
    "cookie",
    "e2b-traffic-access-token",
    "open-sandbox-api-key",
    "opensandbox-secure-access",
    "proxy-authorization",
    "x-access-token",
    "x-envoy-original-dst-host",
    "x-sandgate-route",
];

/// Headers that the traffic token cannot have: the gateway reads them for something else, or Envoy does.
const NOT_FOR_TRAFFIC: [&str; 7] = [
    "authorization",
    "cookie",
    "host",
    "opensandbox-secure-access",
    "x-access-token",
    "x-envoy-original-dst-host",
    "x-sandgate-route",
];

const HOST_HEADER: &str = "host-header-name";
const ID_HEADER: &str = "dialects.kruise.sandbox-header-name";
const PORT_HEADER: &str = "dialects.kruise.sandbox-port-header";
const DEFAULT_NAMESPACE: &str = "dialects.agent-sandbox.default-namespace";
const NAMESPACES: &str = "dialects.opensandbox.agent-sandbox-namespaces";
const HEALTH_PATHS: &str = "health-paths";

impl FilterConfig {
    pub(super) fn check(raw: RawConfig) -> Result<Self, ConfigError> {
        let guards = Guards::check(&raw)?;
        let RawDialects { kruise, agent_sandbox, opensandbox, sandbox_env } = raw.dialects;
        let names = [
            (HOST_HEADER, host_header(&raw.host_header_name)?),
            (ID_HEADER, header(ID_HEADER, &kruise.sandbox_header_name)?),
            (PORT_HEADER, header(PORT_HEADER, &kruise.sandbox_port_header)?),
        ];
        check_header_names(&names)?;
        let traffic_header = traffic_header(&raw.traffic_access_token_header, &names)?;
        if raw.enable_jwt_auth && !raw.enable_auth {
            return Err(ConfigError::new("enable-jwt-auth", "expected enable-auth beside it"));
        }
        let [(_, host_header), (_, id_header), (_, port_header)] = names;
        let (kruise_host, opensandbox_host) =
            (kruise.enabled && kruise.host, opensandbox.enabled && opensandbox.host);
        let domains = check_domains(&raw.domains)?;
        // With a host form and domains every sandbox has an origin of its own. A path form would share one.
        let path = domains.is_empty() || !(kruise_host || opensandbox_host);
        let opensandbox_path = opensandbox.path.unwrap_or(path);
        Ok(Self {
            kruise: Kruise {
                path: kruise.enabled && kruise.path.unwrap_or(path),
                headers: kruise.enabled && kruise.headers,
                host: kruise_host,
                id_header,
                port_header,
                default_port: port("dialects.kruise.default-port", &kruise.default_port)?,
            },
            agent_sandbox: AgentSandbox {
                enabled: agent_sandbox.enabled,
                default_namespace: namespace(DEFAULT_NAMESPACE, agent_sandbox.default_namespace)?,
                default_port: port("dialects.agent-sandbox.default-port", &agent_sandbox.default_port)?,
            },
            opensandbox: OpenSandbox {
                headers: opensandbox.enabled && opensandbox.headers,
                host: opensandbox_host,
                path: opensandbox.enabled && opensandbox_path,
                proxy_path: opensandbox.enabled && opensandbox.proxy_path.unwrap_or(opensandbox_path),
                agent_sandbox_namespaces: namespaces(opensandbox.agent_sandbox_namespaces)?,
            },
            sandbox_env: SandboxEnv {
                headers: sandbox_env.enabled && sandbox_env.headers,
                path: sandbox_env.enabled && sandbox_env.path.unwrap_or(path),
            },
            host_header,
            domains,
            unaddressed: raw.unaddressed,
            health_paths: health_paths(raw.health_paths)?,
            enable_auth: raw.enable_auth,
            enable_jwt_auth: raw.enable_jwt_auth,
            traffic_header,
            require_token: raw.require_token,
            callers: raw.callers.map(callers).transpose()?,
            forward: Forward {
                host: raw.forward.host,
                origin: raw.forward.origin,
                forwarded_host: raw.forward.forwarded_host,
            },
            allowed_ports: port_ranges("allowed-ports", &raw.allowed_ports)?,
            denied_ports: port_ranges("denied-ports", &raw.denied_ports)?,
            upstream: raw.upstream,
            requests_per_sandbox: count("requests-per-sandbox", &raw.limits.requests_per_sandbox, MAX_COUNT)?,
            connections_per_sandbox: count(
                "connections-per-sandbox",
                &raw.limits.connections_per_sandbox,
                MAX_COUNT,
            )?,
            percent_per_client: count("percent-per-client", &raw.limits.percent_per_client, 100)?,
            guards,
            request_bytes: size("request-bytes", raw.limits.request_bytes.as_ref(), MAX_REQUEST_BYTES)?,
            request_header_bytes: size(
                "request-header-bytes",
                raw.limits.request_header_bytes.as_ref(),
                MAX_HEADER_BYTES,
            )?,
            clear_route_cache: raw.clear_route_cache,
            secrets: Secrets {
                secure_access_keys: secret("secure-access-keys", raw.secrets.secure_access_keys)?,
                scoped_token: secret("scoped-token", raw.secrets.scoped_token)?,
                bearer: secret("bearer", raw.secrets.bearer)?,
            },
        })
    }
}

pub(super) fn expected(key: &str, what: &str, found: &Value) -> ConfigError {
    ConfigError::new(key, format!("expected {what}, found {}", shortened(&found.to_string())))
}

fn host_header(text: &str) -> Result<String, ConfigError> {
    if text == ":authority" {
        return Ok(text.to_owned());
    }
    let what = "an HTTP header name of at most 128 characters, or \":authority\"";
    header_name(text).ok_or_else(|| expected(HOST_HEADER, what, &text.into()))
}

fn header(key: &str, text: &str) -> Result<String, ConfigError> {
    header_name(text)
        .ok_or_else(|| expected(key, "an HTTP header name of at most 128 characters", &text.into()))
}

fn header_name(text: &str) -> Option<String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&byte);
    ((1..=MAX_NAME).contains(&text.len()) && text.bytes().all(token)).then(|| text.to_ascii_lowercase())
}

fn check_header_names(names: &[(&str, String)]) -> Result<(), ConfigError> {
    for (index, (key, name)) in names.iter().enumerate() {
        if RESERVED.contains(&name.as_str()) {
            let what = "a header that carries no secret and is not Sandgate's own";
            return Err(expected(key, what, &name.as_str().into()));
        }
        if let Some((other, _)) = names[..index].iter().find(|(_, earlier)| earlier == name) {
            let reason = format!("expected a header other than that of {other}, found {name:?} in both");
            return Err(ConfigError::new(*key, reason));
        }
    }
    Ok(())
}

fn traffic_header(text: &str, names: &[(&str, String)]) -> Result<String, ConfigError> {
    const KEY: &str = "traffic-access-token-header";
    let name = header(KEY, text)?;
    if NOT_FOR_TRAFFIC.contains(&name.as_str()) || names.iter().any(|(_, other)| *other == name) {
        return Err(expected(KEY, "a header that is not read for anything else", &text.into()));
    }
    Ok(name)
}

fn callers(raw: RawCallers) -> Result<Callers, ConfigError> {
    let at = |key: &str| format!("callers.{key}");
    check_length(&at("providers"), raw.providers.len(), MAX_LIST)?;
    if raw.providers.is_empty() {
        return Err(ConfigError::new(at("providers"), "expected at least one provider"));
    }
    let is_provider = |name: &String| name.len() <= MAX_NAMESPACE && is_valid_namespace(name.as_bytes());
    if let Some(index) = raw.providers.iter().position(|name| !is_provider(name)) {
        let found = raw.providers[index].as_str().into();
        return Err(expected(&at(&format!("providers[{index}]")), "the name of a provider", &found));
    }
    let reviews = raw.mode == CallerMode::TokenReview;
    for (key, names) in [("subjects", &raw.subjects), ("groups", &raw.groups)] {
        check_length(&at(key), names.len(), MAX_LIST)?;
        if !reviews && !names.is_empty() {
            return Err(ConfigError::new(at(key), "expected nothing, because mode is not token-review"));
        }
        if let Some(index) = names.iter().position(|name| !(1..=MAX_DOMAIN).contains(&name.len())) {
            let what = "a name of 1 to 253 characters";
            return Err(expected(&at(&format!("{key}[{index}]")), what, &names[index].as_str().into()));
        }
    }
    if !reviews && raw.bind_namespace {
        return Err(ConfigError::new(
            at("bind-namespace"),
            "expected false, because mode is not token-review",
        ));
    }
    let subject = |name: String| match name.strip_suffix('*') {
        Some(beginning) => Subject::Beginning(beginning.to_owned()),
        None => Subject::Named(name),
    };
    Ok(Callers {
        mode: raw.mode,
        providers: raw.providers,
        allow_anonymous: raw.allow_anonymous,
        subjects: raw.subjects.into_iter().map(subject).collect(),
        groups: raw.groups,
        bind_namespace: raw.bind_namespace,
    })
}

fn namespace(key: &str, text: String) -> Result<String, ConfigError> {
    if text.len() <= MAX_NAMESPACE && is_valid_namespace(text.as_bytes()) {
        return Ok(text);
    }
    let what = "a namespace: 1 to 63 characters out of a-z, 0-9 and '-', neither first nor last '-'";
    Err(expected(key, what, &text.into()))
}

/// Each namespace once: a name is ambiguous where two of them have it.
fn namespaces(raw: Vec<String>) -> Result<Vec<String>, ConfigError> {
    check_length(NAMESPACES, raw.len(), MAX_NAMESPACES)?;
    let check = |(index, text)| namespace(&format!("{NAMESPACES}[{index}]"), text);
    let mut namespaces = raw.into_iter().enumerate().map(check).collect::<Result<Vec<String>, _>>()?;
    namespaces.sort_unstable();
    namespaces.dedup();
    Ok(namespaces)
}

fn health_paths(raw: Vec<String>) -> Result<Vec<String>, ConfigError> {
    check_length(HEALTH_PATHS, raw.len(), MAX_HEALTH_PATHS)?;
    for (index, text) in raw.iter().enumerate() {
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'?' && byte != b'#';
        if !text.starts_with('/') || text.len() > MAX_HEALTH_PATH || !text.bytes().all(plain) {
            let what = "a path of at most 128 characters that begins with '/' and has no query";
            return Err(expected(&format!("{HEALTH_PATHS}[{index}]"), what, &text.as_str().into()));
        }
    }
    Ok(raw)
}

/// The domains in lower case, longest first. One leading dot is tolerated: cookies and proxies write a base
/// domain so.
fn check_domains(raw: &[String]) -> Result<Vec<String>, ConfigError> {
    check_length("domains", raw.len(), MAX_LIST)?;
    let check = |(index, text): (usize, &String)| {
        let name = text.strip_prefix('.').unwrap_or(text).to_ascii_lowercase();
        let is_name = |name: &str| name.split('.').all(|label| is_valid_namespace(label.as_bytes()));
        if text.len() <= MAX_DOMAIN && is_name(&name) {
            return Ok(name);
        }
        let what = "a DNS name such as sandboxes.example.com, with no wildcard and no trailing dot";
        Err(expected(&format!("domains[{index}]"), what, &text.as_str().into()))
    };
    let mut domains = raw.iter().enumerate().map(check).collect::<Result<Vec<String>, _>>()?;
    domains.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    domains.dedup();
    Ok(domains)
}

/// A whole number from 1 to `max`. Numbers in a protobuf struct are doubles, and JSON schema takes 80.0 for
/// an integer.
pub(super) fn whole<N: TryFrom<u64> + Into<u64>>(value: &Value, max: N) -> Option<N> {
    let number = value.as_f64()?;
    // No double below 2^53 is rounded, and no maximum is above it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = number as u64;
    #[expect(clippy::cast_precision_loss, reason = "only whole numbers come out equal")]
    let is_whole = whole as f64 == number && (1..=max.into()).contains(&whole);
    N::try_from(whole).ok().filter(|_| is_whole)
}

fn count<N>(key: &str, value: &Value, max: N) -> Result<N, ConfigError>
where
    N: TryFrom<u64> + Into<u64> + Display + Copy,
{
    let what = || expected(&format!("limits.{key}"), &format!("a whole number from 1 to {max}"), value);
    whole(value, max).ok_or_else(what)
}

fn size<N>(key: &str, value: Option<&Value>, max: N) -> Result<Option<N>, ConfigError>
where
    N: TryFrom<u64> + Into<u64> + Display + Copy,
{
    value.map(|value| count(key, value, max)).transpose()
}

fn secret(key: &str, raw: Option<RawSecret>) -> Result<Option<SecretSource>, ConfigError> {
    let Some(RawSecret { name, sds_config }) = raw else { return Ok(None) };
    if name.is_empty() || name.chars().count() > MAX_DOMAIN {
        let what = format!("a name of 1 to {MAX_DOMAIN} characters");
        return Err(expected(&format!("secrets.{key}.name"), &what, &name.into()));
    }
    let sds_config = sds_config.map(|config| Value::Object(config).to_string());
    Ok(Some(SecretSource { name, sds_config }))
}

fn port_number(value: &Value) -> Option<u16> {
    match value {
        Value::String(text) => parse_port(text.as_bytes()).ok(),
        _ => whole(value, u16::MAX),
    }
}

fn port(key: &str, value: &Value) -> Result<u16, ConfigError> {
    let what = "a port from 1 to 65535, as a number or a decimal string";
    port_number(value).ok_or_else(|| expected(key, what, value))
}

/// The first and the last port of each range.
fn port_ranges(key: &str, values: &[Value]) -> Result<Vec<(u16, u16)>, ConfigError> {
    check_length(key, values.len(), MAX_LIST)?;
    let range = |value: &Value| match value.as_str().and_then(|text| text.split_once('-')) {
        Some((first, last)) => {
            let port = |text: &str| parse_port(text.as_bytes()).ok();
            Some((port(first)?, port(last)?)).filter(|(first, last)| first <= last)
        }
        None => port_number(value).map(|port| (port, port)),
    };
    let check = |(index, value)| {
        let what = "a port from 1 to 65535, or a range of ports such as \"3000-3999\"";
        range(value).ok_or_else(|| expected(&format!("{key}[{index}]"), what, value))
    };
    values.iter().enumerate().map(check).collect()
}

fn check_length(key: &str, found: usize, max: usize) -> Result<(), ConfigError> {
    if found <= max {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("expected at most {max} entries, found {found}")))
}
