//! The route message of `POST /refresh`, as both sides of it see it.

use std::fmt;
use std::net::IpAddr;

use sandgate_routes::{Capability, Fate, ObjectKey, Observation, Secret, State, TokenKind, Version, verdict};
use serde::{Deserialize, Deserializer, Serialize};

use crate::settings::Pushed;

/// One route as it is pushed. Other keys are ignored, and a key that is missing or null is an empty text, as the
/// senders that exist mean it.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteMessage {
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
    /// Whether a client must present a traffic JWT.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub require_traffic_auth: bool,
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
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

/// What a message asks for.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// An observation for the table, which makes a delete of a dead one.
    Apply(Observation),
    /// A message of an old sender, without the object's name: to be ignored.
    Legacy,
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

    /// The object and its version in a message that is refused for something else, if they are good.
    pub(crate) fn identity_of(json: &[u8], provider: &str) -> Option<(ObjectKey, Version)> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Identity {
            #[serde(default, deserialize_with = "text")]
            namespace: String,
            #[serde(default, deserialize_with = "text")]
            name: String,
            #[serde(default, deserialize_with = "text")]
            resource_version: String,
        }
        if json.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        let Identity { namespace, name, resource_version } = serde_json::from_slice(json).ok()?;
        Self { namespace, name, resource_version, ..Self::default() }.identity(provider).ok()
    }

    /// A state of a later sender, or none: that the old one is over is certain, and that is what counts.
    fn known_state(&self) -> State {
        self.state.parse().unwrap_or(State::Unknown)
    }

    /// The pod's address. Nothing is routed to what is deleted, so there it does not matter what is said.
    ///
    /// # Errors
    /// When what is said is none.
    pub(crate) fn address(&self) -> Result<Option<IpAddr>, MessageError> {
        let deletes = verdict(self.known_state(), Capability::default()).fate == Fate::Delete;
        if deletes || self.ip.is_empty() {
            return Ok(None);
        }
        self.ip.parse().map(Some).map_err(|_| MessageError::Address)
    }

    /// What it means to a table. The rest of the checks are the table's own; the address is the policy's to judge.
    pub(crate) fn meaning(self, pushed: &Pushed) -> Result<Meaning, MessageError> {
        if self.namespace.is_empty() && self.name.is_empty() && !self.id.is_empty() {
            return Ok(Meaning::Legacy);
        }
        let (key, version) = self.identity(&pushed.provider)?;
        let state = self.known_state();
        let ip = self.address().unwrap_or_default();
        let own_id = key.has_own_id(&self.id) || pushed.id_is_name && self.id == key.name();
        Ok(Meaning::Apply(Observation {
            key,
            own_id,
            id: self.id,
            uid: self.uid,
            owner: self.owner,
            state,
            version,
            ip,
            token: (!self.access_token.is_empty()).then(|| match pushed.token_kind {
                TokenKind::Runtime => Secret::new(self.access_token),
                TokenKind::SecureAccess => Secret::secure_access(self.access_token),
            }),
            require_traffic_auth: self.require_traffic_auth,
            clash: pushed.clash,
            created: None,
            ip_is_claimed: pushed.ip_is_claimed,
        }))
    }
}
