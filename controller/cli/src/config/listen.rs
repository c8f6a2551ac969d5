//! The sections `listen` and `timeouts`: what the gateway takes from its clients, and how long it waits.

use sandgate_config::{ConfigError, in_range};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

const MAX_HOPS: u32 = 32;
/// What Envoy takes at most.
const MAX_HEADERS_KB: u32 = 8192;
const MAX_HEADERS: u32 = 10_000;
/// A week.
const MAX_SECONDS: u32 = 604_800;
const MAX_CONNECT: u32 = 300;

/// What the listener takes from clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "Listen")]
pub(crate) struct Listen {
    /// How many proxies stand before the gateway that add to X-Forwarded-For. Whose a request is, for shares
    /// of limits and for the sandbox, is then what the first of them has added. 0 is none: the address of the
    /// connection counts, and no client can choose another.
    #[schemars(range(max = MAX_HOPS))]
    pub(crate) trusted_hops: u32,
    /// How large the headers of a request may be together, in KiB; larger ones are answered with 431.
    #[schemars(range(min = 1, max = MAX_HEADERS_KB))]
    pub(crate) max_request_headers_kb: u32,
    /// How many headers a request may have; more are answered with 431.
    #[schemars(range(min = 1, max = MAX_HEADERS))]
    pub(crate) max_request_headers: u32,
}

impl Default for Listen {
    fn default() -> Self {
        Self { trusted_hops: 0, max_request_headers_kb: 60, max_request_headers: 100 }
    }
}

/// How long the gateway waits, whatever the sandbox. What is waited for on behalf of one request is in
/// filter.timeouts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "Timeouts")]
pub(crate) struct Timeouts {
    /// After how many seconds in which nothing passes, in neither direction, a request ends; 0 is never. Not
    /// of WebSockets and other upgrades.
    #[schemars(range(max = MAX_SECONDS))]
    pub(crate) stream_idle_seconds: u32,
    /// The same of WebSockets and other upgrades.
    #[schemars(range(max = MAX_SECONDS))]
    pub(crate) websocket_idle_seconds: u32,
    /// After how many seconds a WebSocket, or another upgrade, ends in any case; 0 is never.
    #[schemars(range(max = MAX_SECONDS))]
    pub(crate) websocket_lifetime_seconds: u32,
    /// How many seconds a connection to a sandbox may take, its TLS handshake included. It is then tried once
    /// more.
    #[schemars(extend("type" = "number", "exclusiveMinimum" = 0, "maximum" = MAX_CONNECT))]
    pub(crate) connect_seconds: Value,
    /// After how many seconds without a request a connection to a sandbox closes. It closes before that when
    /// its port was unused for cluster.idle-seconds.
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    pub(crate) upstream_idle_seconds: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            stream_idle_seconds: 0,
            websocket_idle_seconds: 0,
            websocket_lifetime_seconds: 0,
            connect_seconds: json!(5),
            upstream_idle_seconds: 3600,
        }
    }
}

fn at_most(key: &str, found: u32, max: u32) -> Result<(), ConfigError> {
    if found <= max {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("expected a number from 0 to {max}, found {found}")))
}

impl Listen {
    /// Reads the section.
    pub(crate) fn parse(section: &Value) -> Result<Self, ConfigError> {
        let listen: Self = sandgate_config::parse(section.to_string().as_bytes())?;
        at_most("trusted-hops", listen.trusted_hops, MAX_HOPS)?;
        let (kb, count) = (listen.max_request_headers_kb, listen.max_request_headers);
        in_range("max-request-headers-kb", kb.into(), MAX_HEADERS_KB.into())?;
        in_range("max-request-headers", count.into(), MAX_HEADERS.into())?;
        Ok(listen)
    }
}

impl Timeouts {
    /// Reads the section.
    pub(crate) fn parse(section: &Value) -> Result<Self, ConfigError> {
        let timeouts: Self = sandgate_config::parse(section.to_string().as_bytes())?;
        at_most("stream-idle-seconds", timeouts.stream_idle_seconds, MAX_SECONDS)?;
        at_most("websocket-idle-seconds", timeouts.websocket_idle_seconds, MAX_SECONDS)?;
        at_most("websocket-lifetime-seconds", timeouts.websocket_lifetime_seconds, MAX_SECONDS)?;
        in_range("upstream-idle-seconds", timeouts.upstream_idle_seconds.into(), MAX_SECONDS.into())?;
        let connect = timeouts.connect_seconds.as_f64();
        if connect.is_none_or(|seconds| seconds <= 0.0 || seconds > f64::from(MAX_CONNECT)) {
            let reason = format!(
                "expected seconds above 0 and up to {MAX_CONNECT}, found {}",
                timeouts.connect_seconds
            );
            return Err(ConfigError::new("connect-seconds", reason));
        }
        Ok(timeouts)
    }

    /// How long a connection may take, in milliseconds and at least one.
    pub(crate) fn connect_milliseconds(&self) -> u32 {
        let seconds = self.connect_seconds.as_f64().unwrap_or_default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked: at most MAX_CONNECT"
        )]
        let milliseconds = (seconds * 1000.0).ceil() as u32;
        milliseconds.max(1)
    }
}
