//! Timeouts, the rate of requests and the time that a closed port is given: as they are written, and checked.

use sandgate_config::ConfigError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::check::{expected, whole};
use super::raw::{RawConfig, RawLimits};
use super::{MAX_COUNT, Upstream};
use crate::Dialect;

/// A week.
const MAX_TIMEOUT: u32 = 604_800;
const MAX_WINDOW: u32 = 60;
/// One request in 1,000 seconds.
const MIN_RATE: f64 = 0.001;
/// How long agent-sandbox's own router tries, in milliseconds: 200, 400 and 800 between four tries.
const AGENT_SANDBOX_WINDOW: u32 = 1400;

/// Timeouts of requests, but for upgrades such as WebSockets, which have none here.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawTimeouts {
    /// Seconds from when the request is there whole to the end of its answer; 0 is no limit. A client in the
    /// dialect agent-sandbox says its own in X-Sandbox-Timeout, which takes the place of this.
    #[schemars(extend("type" = "number", "minimum" = 0, "maximum" = MAX_TIMEOUT))]
    pub(super) request: Value,
    /// Seconds from when the sandbox has got the request whole to the beginning of its answer; 0 is no limit.
    #[schemars(extend("type" = "number", "minimum" = 0, "maximum" = MAX_TIMEOUT))]
    pub(super) response_headers: Value,
    /// The most seconds that X-Sandbox-Timeout can ask for; more is taken for this.
    #[schemars(extend("type" = "number", "exclusiveMinimum" = 0, "maximum" = MAX_TIMEOUT))]
    pub(super) max: Value,
}

impl Default for RawTimeouts {
    fn default() -> Self {
        Self { request: json!(0), response_headers: json!(0), max: json!(3600) }
    }
}

/// The timeouts of requests in one dialect.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) struct RawDialectTimeouts {
    /// As the key of that name in timeouts, for this dialect.
    #[serde(deserialize_with = "sandgate_config::given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timeout")]
    request: Option<Value>,
    /// As the key of that name in timeouts, for this dialect.
    #[serde(deserialize_with = "sandgate_config::given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timeout")]
    response_headers: Option<Value>,
}

fn timeout(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "number", "minimum": 0, "maximum": MAX_TIMEOUT })
}

pub(super) fn window(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "number", "minimum": 0, "maximum": MAX_WINDOW })
}

pub(super) fn rate(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "number", "minimum": MIN_RATE, "maximum": MAX_COUNT })
}

pub(super) fn burst(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": MAX_COUNT })
}

/// How many requests one sandbox gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// In a second, in the long run.
    pub per_second: f64,
    /// At once, after a time without any.
    pub burst: u32,
}

/// What is waited for on behalf of one request, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// From the end of the request to the end of its answer.
    pub request: Option<u32>,
    /// From the end of the request to the beginning of its answer.
    pub response_headers: Option<u32>,
}

/// The checked keys of this module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guards {
    /// By [`index`].
    patience: [Patience; Dialect::ALL.len()],
    windows: [u32; Dialect::ALL.len()],
    longest: u32,
    rate: Option<Rate>,
}

fn index(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Kruise => 0,
        Dialect::AgentSandbox => 1,
        Dialect::OpenSandbox => 2,
        Dialect::SandboxEnv => 3,
    }
}

impl Guards {
    pub(super) fn check(raw: &RawConfig) -> Result<Self, ConfigError> {
        let all = Patience {
            request: limit("timeouts.request", &raw.timeouts.request)?,
            response_headers: limit("timeouts.response-headers", &raw.timeouts.response_headers)?,
        };
        let longest = seconds("timeouts.max", &raw.timeouts.max, MAX_TIMEOUT)?;
        if longest == 0 {
            return Err(expected("timeouts.max", "a number of seconds above 0", &raw.timeouts.max));
        }
        let of_all = raw.connect_window.as_ref().map(|value| given_window("connect-window", value, raw));
        let of_all = of_all.transpose()?;
        let dialects = &raw.dialects;
        let mut guards =
            Self { patience: [all; 4], windows: [of_all.unwrap_or(0); 4], longest, rate: rate_of(raw)? };
        for (dialect, timeouts, window) in [
            (Dialect::Kruise, &dialects.kruise.timeouts, &dialects.kruise.connect_window),
            (Dialect::AgentSandbox, &dialects.agent_sandbox.timeouts, &dialects.agent_sandbox.connect_window),
            (Dialect::OpenSandbox, &dialects.opensandbox.timeouts, &dialects.opensandbox.connect_window),
            (Dialect::SandboxEnv, &dialects.sandbox_env.timeouts, &dialects.sandbox_env.connect_window),
        ] {
            let key = |name: &str| format!("dialects.{}.{name}", dialect.as_str());
            let patience = &mut guards.patience[index(dialect)];
            if let Some(value) = &timeouts.request {
                patience.request = limit(&key("timeouts.request"), value)?;
            }
            if let Some(value) = &timeouts.response_headers {
                patience.response_headers = limit(&key("timeouts.response-headers"), value)?;
            }
            guards.windows[index(dialect)] = match (window, of_all) {
                (Some(value), _) => given_window(&key("connect-window"), value, raw)?,
                (None, Some(of_all)) => of_all,
                (None, None) if dialect == Dialect::AgentSandbox && raw.upstream == Upstream::Cluster => {
                    AGENT_SANDBOX_WINDOW
                }
                (None, None) => 0,
            };
        }
        Ok(guards)
    }

    pub(super) fn patience(&self, dialect: Dialect) -> Patience {
        self.patience[index(dialect)]
    }

    pub(super) fn window(&self, dialect: Dialect) -> u32 {
        self.windows[index(dialect)]
    }

    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The milliseconds that a client asks for in its header, bounded; `None` if that is no number above 0.
    pub(super) fn asked(&self, header: &[u8]) -> Option<u32> {
        let seconds: f64 = std::str::from_utf8(header.trim_ascii()).ok()?.parse().ok()?;
        if !seconds.is_finite() || seconds <= 0.0 {
            return None;
        }
        Some(milliseconds(seconds.min(f64::from(MAX_TIMEOUT))).min(self.longest))
    }
}

fn rate_of(raw: &RawConfig) -> Result<Option<Rate>, ConfigError> {
    let RawLimits { requests_per_second, burst, .. } = &raw.limits;
    let Some(value) = requests_per_second else {
        return match burst {
            None => Ok(None),
            Some(_) => Err(ConfigError::new("limits.burst", "expected limits.requests-per-second beside it")),
        };
    };
    let key = "limits.requests-per-second";
    let most = f64::from(MAX_COUNT);
    let per_second = value.as_f64().filter(|rate| (MIN_RATE..=most).contains(rate));
    let per_second = per_second
        .ok_or_else(|| expected(key, &format!("a number from {MIN_RATE} to {MAX_COUNT}"), value))?;
    of_cluster(key, raw)?;
    let burst = match burst {
        Some(value) => whole(value, MAX_COUNT).ok_or_else(|| {
            expected("limits.burst", &format!("a whole number from 1 to {MAX_COUNT}"), value)
        })?,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most MAX_COUNT")]
        None => per_second.ceil() as u32,
    };
    Ok(Some(Rate { per_second, burst }))
}

fn given_window(key: &str, value: &Value, raw: &RawConfig) -> Result<u32, ConfigError> {
    let window = seconds(key, value, MAX_WINDOW)?;
    if window > 0 {
        of_cluster(key, raw)?;
    }
    Ok(window)
}

/// Only Sandgate's own cluster knows whose requests they are, and asks the table again before a retry.
fn of_cluster(key: &str, raw: &RawConfig) -> Result<(), ConfigError> {
    match raw.upstream {
        Upstream::Cluster => Ok(()),
        Upstream::OriginalDst => Err(ConfigError::new(key, "expected upstream: cluster beside it")),
    }
}

/// A time in seconds, in milliseconds; `None` if it is 0.
fn limit(key: &str, value: &Value) -> Result<Option<u32>, ConfigError> {
    Ok(Some(seconds(key, value, MAX_TIMEOUT)?).filter(|time| *time > 0))
}

fn seconds(key: &str, value: &Value, max: u32) -> Result<u32, ConfigError> {
    let found = value.as_f64().filter(|seconds| (0.0..=f64::from(max)).contains(seconds));
    let found = found.ok_or_else(|| expected(key, &format!("seconds from 0 to {max}"), value))?;
    Ok(if found == 0.0 { 0 } else { milliseconds(found) })
}

/// Rounded up, so that no time is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most MAX_TIMEOUT seconds")]
fn milliseconds(seconds: f64) -> u32 {
    ((seconds * 1000.0).ceil() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Guards, Patience, Rate};
    use crate::Dialect::{AgentSandbox, Kruise, OpenSandbox, SandboxEnv};
    use crate::FilterConfig;

    fn guards(json: &str) -> Guards {
        FilterConfig::parse(json.as_bytes()).expect(json).guards
    }

    #[test]
    fn without_keys_nothing_is_limited_and_agent_sandbox_waits_for_ports_as_its_own_router_does() {
        let guards = guards("{}");
        for dialect in crate::Dialect::ALL {
            assert_eq!(guards.patience(dialect), Patience::default());
        }
        assert_eq!(guards.rate(), None);
        assert_eq!(
            [Kruise, AgentSandbox, OpenSandbox, SandboxEnv].map(|dialect| guards.window(dialect)),
            [0, 1400, 0, 0]
        );
        let other = guards_of_original_dst();
        assert_eq!(other.window(AgentSandbox), 0, "nothing is retried there");
    }

    fn guards_of_original_dst() -> Guards {
        guards(r#"{"upstream":"original-dst"}"#)
    }

    #[test]
    fn a_key_of_a_dialect_goes_before_the_one_for_all_and_that_before_a_dialects_default() {
        let guards = guards(
            r#"{"timeouts":{"request":60,"response-headers":1.5},"connect-window":0.25,
              "dialects":{"opensandbox":{"timeouts":{"request":0},"connect-window":2},
                "sandbox-env":{"timeouts":{"response-headers":0.0001}}}}"#,
        );
        let all = Patience { request: Some(60_000), response_headers: Some(1500) };
        assert_eq!((guards.patience(Kruise), guards.patience(AgentSandbox)), (all, all));
        assert_eq!(guards.patience(OpenSandbox), Patience { request: None, ..all });
        assert_eq!(guards.patience(SandboxEnv), Patience { response_headers: Some(1), ..all });
        assert_eq!(
            [Kruise, AgentSandbox, OpenSandbox, SandboxEnv].map(|dialect| guards.window(dialect)),
            [250, 250, 2000, 250]
        );
    }

    #[test]
    fn a_burst_is_the_rate_rounded_up_unless_it_is_given() {
        let rate = |json| guards(json).rate();
        assert_eq!(
            rate(r#"{"limits":{"requests-per-second":2.5}}"#),
            Some(Rate { per_second: 2.5, burst: 3 })
        );
        assert_eq!(
            rate(r#"{"limits":{"requests-per-second":0.1}}"#),
            Some(Rate { per_second: 0.1, burst: 1 })
        );
        assert_eq!(
            rate(r#"{"limits":{"requests-per-second":5,"burst":50}}"#),
            Some(Rate { per_second: 5.0, burst: 50 })
        );
    }

    #[test]
    fn a_clients_timeout_is_a_number_of_seconds_bounded_by_the_most_and_anything_else_is_none() {
        let guards = guards(r#"{"timeouts":{"max":100}}"#);
        for (header, expected) in [
            ("60", Some(60_000)),
            (" 123.0 ", Some(100_000)),
            ("0.0001", Some(1)),
            ("1e300", Some(100_000)),
            ("99.5", Some(99_500)),
            ("0", None),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("1s", None),
            ("", None),
        ] {
            assert_eq!(guards.asked(header.as_bytes()), expected, "{header:?}");
        }
        assert_eq!(guards.asked(b"\xff"), None);
    }
}
