//! The route message of `POST /refresh`, as both sides of it see it.

use std::fmt;

use sandgate_routes::{ObjectKey, Version};
use serde::{Deserialize, Deserializer, Serialize};

/// One route as it is pushed. Other keys are ignored, and a key that is missing or null is an empty text, as
/// the senders that exist mean it.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteMessage {
    /// Whose object it is, as providers are named; nothing is that of the receiver. A receiver of another
    /// provider ignores the message.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// The pod's address, or nothing.
    #[serde(default, deserialize_with = "text")]
    pub ip: String,
    /// What requests call it.
    #[serde(default, deserialize_with = "text")]
    pub id: String,
    /// The object's namespace.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Which object of that name it is.
    #[serde(default, deserialize_with = "text")]
    pub uid: String,
    /// Whose it is.
    #[serde(default, deserialize_with = "text")]
    pub owner: String,
    /// Its state. A receiver takes any word; one that it does not know is not served.
    #[serde(default, deserialize_with = "text")]
    pub state: String,
    /// When it was so.
    #[serde(default, deserialize_with = "text")]
    pub resource_version: String,
    /// What a client must present; never shown.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub access_token: String,
    /// What a client must present in `e2b-traffic-access-token`; never shown. Without one the sandbox keeps
    /// the one that the receiver knows of.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub traffic_access_token: String,
    /// Whether a client must present a traffic JWT.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub require_traffic_auth: bool,
}

pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl fmt::Debug for RouteMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteMessage")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("id", &self.id)
            .field("state", &self.state)
            .field("resource_version", &self.resource_version)
            .finish_non_exhaustive()
    }
}

/// Why a message is refused. Sending it again does not help. Never repeats what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// No JSON, or not the right kind of it.
    #[error("expected a route message in JSON")]
    NotJson,
    /// Namespace or name is missing or cannot be one.
    #[error("expected namespace and name of the object")]
    Object,
    /// Not one of the five states: a sender says so. A receiver takes it for one that it does not know.
    #[error("expected state to be creating, available, running, paused or dead")]
    State,
    /// Missing, or not a positive canonical decimal number.
    #[error("expected resourceVersion to be a positive decimal number without leading zeros")]
    Version,
    /// Not an address: the object is known and not routed to.
    #[error("expected ip to be an IPv4 or IPv6 address")]
    Address,
}

impl RouteMessage {
    /// Reads one.
    ///
    /// # Errors
    /// When it is not a JSON object of the right types.
    pub fn parse(json: &[u8]) -> Result<Self, MessageError> {
        // A derived struct would also take an array of its fields in order, which nobody means.
        if json.trim_ascii_start().first() != Some(&b'{') {
            return Err(MessageError::NotJson);
        }
        serde_json::from_slice(json).map_err(|_| MessageError::NotJson)
    }

    /// The object and its version.
    ///
    /// # Errors
    /// When one of them is missing or wrong.
    pub fn identity(&self, provider: &str) -> Result<(ObjectKey, Version), MessageError> {
        if self.namespace.is_empty() {
            return Err(MessageError::Object);
        }
        let key = ObjectKey::new(provider, &self.namespace, &self.name).map_err(|_| MessageError::Object)?;
        let version = self.resource_version.parse().map_err(|_| MessageError::Version)?;
        Ok((key, version))
    }
}
