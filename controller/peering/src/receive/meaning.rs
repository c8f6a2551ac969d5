//! What a message asks of a table.

use std::net::IpAddr;

use sandgate_routes::{Capability, Fate, ObjectKey, Observation, Secret, State, TokenKind, Version, verdict};
use serde::Deserialize;

use super::settings::Pushed;
use crate::message::{MessageError, RouteMessage, text};

/// What a message asks for.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// An observation for the table, which makes a delete of a dead one.
    Apply(Observation),
    /// A message of an old sender, without the object's name: to be ignored.
    Legacy,
}

impl RouteMessage {
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
