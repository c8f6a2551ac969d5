//! The config of the network filter: JSON as Envoy hands it over, checked once.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::MAX_CONFIG;

const MAX_CONNECTIONS: u32 = 1_000_000;

/// Why a config was refused: the key, what was expected, what was found. Trying again does not help.
#[derive(Debug, thiserror::Error)]
#[error("connections config: {key}: {reason}")]
pub struct ConnectionsError {
    /// The path of the key.
    pub key: String,
    /// What was expected and what was found.
    pub reason: String,
}

/// Sandgate's network filter: what one client may have of a listener.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Sandgate connections config")]
struct RawConnections {
    /// How many connections one client address, or one IPv6 network of 64 bits, may have open; one more is closed at
    /// once.
    #[schemars(range(min = 1, max = MAX_CONNECTIONS))]
    connections_per_address: u32,
}

/// The checked config of one network filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsConfig {
    /// How many connections one client address may have.
    pub per_address: u32,
}

impl ConnectionsConfig {
    /// Reads a config.
    pub fn parse(json: &[u8]) -> Result<Self, ConnectionsError> {
        let top_level = |reason: String| ConnectionsError { key: "top level".to_owned(), reason };
        if json.len() > MAX_CONFIG {
            return Err(top_level(format!("expected at most {MAX_CONFIG} bytes, found {}", json.len())));
        }
        // A derived struct would also take an array of its fields in order, which nobody means.
        if json.trim_ascii_start().first() != Some(&b'{') {
            return Err(top_level("expected an object".to_owned()));
        }
        let mut input = serde_json::Deserializer::from_slice(json);
        let raw: RawConnections = serde_path_to_error::deserialize(&mut input).map_err(|error| {
            let path = error.path().to_string();
            let reason = error.into_inner().to_string();
            if path == "." { top_level(reason) } else { ConnectionsError { key: path, reason } }
        })?;
        input.end().map_err(|error| top_level(error.to_string()))?;
        let per_address = raw.connections_per_address;
        if !(1..=MAX_CONNECTIONS).contains(&per_address) {
            return Err(ConnectionsError {
                key: "connections-per-address".to_owned(),
                reason: format!("expected a number from 1 to {MAX_CONNECTIONS}, found {per_address}"),
            });
        }
        Ok(Self { per_address })
    }

    /// The JSON schema of what [`ConnectionsConfig::parse`] accepts.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(RawConnections).into()
    }
}
