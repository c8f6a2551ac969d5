//! From the raw config to the checked one.

use sandgate_config::{ConfigError, shortened};
use serde_json::Value;

use super::raw::{RawConfig, RawDialects};
use super::{
    AgentSandbox, FilterConfig, Kruise, MAX_COUNT, MAX_DOMAIN, MAX_LIST, MAX_NAME, MAX_NAMESPACE,
    OpenSandbox, SandboxEnv,
};
use crate::address::is_valid_namespace;
use crate::recognise::parse_port;

/// Headers that carry secrets or steer the gateway. None of them may hold an ID: IDs are shown in replies.
pub(super) const RESERVED: [&str; 8] = [
    "authorization",
    "cookie",
    "e2b-traffic-access-token",
    "opensandbox-secure-access",
    "proxy-authorization",
    "x-access-token",
    "x-envoy-original-dst-host",
    "x-sandgate-route",
];

const HOST_HEADER: &str = "host-header-name";
const ID_HEADER: &str = "dialects.kruise.sandbox-header-name";
const PORT_HEADER: &str = "dialects.kruise.sandbox-port-header";

impl FilterConfig {
    pub(super) fn check(raw: RawConfig) -> Result<Self, ConfigError> {
        let RawDialects { kruise, agent_sandbox, opensandbox, sandbox_env } = raw.dialects;
        let names = [
            (HOST_HEADER, host_header(&raw.host_header_name)?),
            (ID_HEADER, header(ID_HEADER, &kruise.sandbox_header_name)?),
            (PORT_HEADER, header(PORT_HEADER, &kruise.sandbox_port_header)?),
        ];
        check_header_names(&names)?;
        let [(_, host_header), (_, id_header), (_, port_header)] = names;
        let (kruise_host, opensandbox_host) =
            (kruise.enabled && kruise.host, opensandbox.enabled && opensandbox.host);
        let domains = check_domains(&raw.domains)?;
        // With a host form and domains every sandbox has an origin of its own. A path form would share one.
        let path = domains.is_empty() || !(kruise_host || opensandbox_host);
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
                default_namespace: namespace(agent_sandbox.default_namespace)?,
                default_port: port("dialects.agent-sandbox.default-port", &agent_sandbox.default_port)?,
            },
            opensandbox: OpenSandbox {
                headers: opensandbox.enabled && opensandbox.headers,
                host: opensandbox_host,
                path: opensandbox.enabled && opensandbox.path.unwrap_or(path),
            },
            sandbox_env: SandboxEnv {
                headers: sandbox_env.enabled && sandbox_env.headers,
                path: sandbox_env.enabled && sandbox_env.path.unwrap_or(path),
            },
            host_header,
            domains,
            unaddressed: raw.unaddressed,
            enable_auth: raw.enable_auth,
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
            clear_route_cache: raw.clear_route_cache,
        })
    }
}

fn expected(key: &str, what: &str, found: &Value) -> ConfigError {
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

fn namespace(text: String) -> Result<String, ConfigError> {
    if text.len() <= MAX_NAMESPACE && is_valid_namespace(text.as_bytes()) {
        return Ok(text);
    }
    let what = "a namespace: 1 to 63 characters out of a-z, 0-9 and '-', neither first nor last '-'";
    Err(expected("dialects.agent-sandbox.default-namespace", what, &text.into()))
}

/// The domains in lower case, longest first. One leading dot is tolerated: cookies and proxies write a base
/// domain so.
fn check_domains(raw: &[String]) -> Result<Vec<String>, ConfigError> {
    check_length("domains", raw.len())?;
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
fn whole(value: &Value, max: u32) -> Option<u32> {
    let number = value.as_f64()?;
    let is_whole = number.fract() == 0.0 && (1.0..=f64::from(max)).contains(&number);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked on the line above")]
    is_whole.then_some(number as u32)
}

fn count(key: &str, value: &Value, max: u32) -> Result<u32, ConfigError> {
    let what = || expected(&format!("limits.{key}"), &format!("a whole number from 1 to {max}"), value);
    whole(value, max).ok_or_else(what)
}

fn port_number(value: &Value) -> Option<u16> {
    match value {
        Value::String(text) => parse_port(text.as_bytes()).ok(),
        _ => whole(value, u16::MAX.into()).and_then(|port| u16::try_from(port).ok()),
    }
}

fn port(key: &str, value: &Value) -> Result<u16, ConfigError> {
    let what = "a port from 1 to 65535, as a number or a decimal string";
    port_number(value).ok_or_else(|| expected(key, what, value))
}

/// The first and the last port of each range.
fn port_ranges(key: &str, values: &[Value]) -> Result<Vec<(u16, u16)>, ConfigError> {
    check_length(key, values.len())?;
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

fn check_length(key: &str, found: usize) -> Result<(), ConfigError> {
    if found <= MAX_LIST {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("expected at most {MAX_LIST} entries, found {found}")))
}
