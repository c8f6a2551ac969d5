//! The config of the network filter: one client's share of a listener's connections.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{ConfigError, in_range, parse_extension};

const MAX_CONNECTIONS: u32 = 1_000_000;

/// Sandgate's network filter: what one client may have of a listener.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Sandgate connections config")]
struct RawConnections {
    /// How many connections one client address, or one IPv6 network of 64 bits, may have open; one more is
    /// closed at once.
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
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        let raw: RawConnections = parse_extension(json)?;
        let per_address = raw.connections_per_address;
        in_range("connections-per-address", per_address.into(), MAX_CONNECTIONS.into())?;
        Ok(Self { per_address })
    }

    /// The JSON schema of what [`ConnectionsConfig::parse`] accepts.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(RawConnections).into()
    }
}
