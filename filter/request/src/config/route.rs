//! The config of a route: what differs there from the filter's config.

use sandgate_config::{ConfigError, parse, parse_extension_or_default};
use serde_json::{Map, Value};

use super::FilterConfig;

/// Keys that belong to the filter as a whole: a route cannot have its own.
const OF_THE_FILTER: [&str; 3] = ["callers", "enable-jwt-auth", "secrets"];
/// Switches that a route can turn on and not off.
const ONLY_ON: [&str; 2] = ["enable-auth", "require-token"];

/// Some keys of a filter config, for the requests of one route.
///
/// They are merged over the filter's: an object key by key, and any other value takes the place of the
/// filter's, lists as a whole. What a route does not give stays as the filter has it. A route may demand more
/// of a request than the filter does and never less, so it cannot turn the checks of tokens off.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    keys: Map<String, Value>,
}

impl RouteConfig {
    /// Reads a route's config. It has to be one that a filter could have by itself.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        let keys: Map<String, Value> = parse_extension_or_default(json)?;
        if let Some(key) = OF_THE_FILTER.into_iter().find(|key| keys.contains_key(*key)) {
            return Err(ConfigError::new(key, "expected in the filter's config, found in that of a route"));
        }
        FilterConfig::parse(json)?;
        if let Some(key) = ONLY_ON.into_iter().find(|key| keys.get(*key) == Some(&Value::Bool(false))) {
            let reason = "expected true, found false: a route can turn it on and not off";
            return Err(ConfigError::new(key, reason));
        }
        Ok(Self { keys })
    }

    /// This config merged over a filter's, which is what [`FilterConfig::parse`] took.
    ///
    /// # Errors
    /// If the two do not go together, such as a header name that is new in one and taken in the other.
    pub fn over(&self, filter: &[u8]) -> Result<FilterConfig, ConfigError> {
        let mut merged: Map<String, Value> = parse_extension_or_default(filter)?;
        merge(&mut merged, &self.keys);
        FilterConfig::check(parse(Value::Object(merged).to_string().as_bytes())?)
    }
}

fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}
