//! What each message does to the table, and its answer.
//!
//! A message may be wrong in all but its object and version. Then its older route is withdrawn, as with a
//! watched object that cannot be read. Where only the address is not allowed, the object is known and not
//! routed to, and that is no error. A process that drains applies a message and answers 503, so that the
//! sender pushes to the next process too (see [`RefreshDrain`](super::RefreshDrain)).

use std::net::IpAddr;

use http::StatusCode;
use sandgate_routes::{
    Capability, Fate, Invalid, ObjectKey, Observation, Outcome, Secret, State, TokenKind, Version, verdict,
};
use serde::Deserialize;

use super::router::MAX_MESSAGE;
use super::router::{App, Peer};
use super::settings::Pushed;
use crate::message::{MessageError, RouteMessage, text};

/// The error of a message that a draining process has applied.
const DRAINING: &str =
    "applied here, but this gateway is about to end: push again to the one that takes its place";

/// The answer to one message, and what was wrong with it.
pub(crate) type Answer = (StatusCode, Option<String>);

impl App {
    /// Applies messages to the table and answers each. The table's subscribers are woken later, once for many
    /// messages.
    pub(super) fn apply(&self, peer: &Peer, messages: &[&[u8]]) -> Vec<Answer> {
        let mut observed = Vec::with_capacity(messages.len());
        let refused: Vec<Option<Answer>> = messages
            .iter()
            .map(|message| match self.observation(peer, message) {
                Ok(observation) => {
                    observed.push(observation);
                    None
                }
                Err(answer) => Some(answer),
            })
            .collect();
        let mut outcomes = self.writer.apply_quietly(observed).into_iter();
        let answers = refused.into_iter().zip(messages).filter_map(|(refused, message)| {
            let answer = refused.or_else(|| outcomes.next().map(|outcome| self.answer(peer, &outcome)))?;
            if answer.0 == StatusCode::BAD_REQUEST {
                self.withdraw(message);
            }
            Some(answer)
        });
        let answers = answers.collect();
        self.changed.notify_one();
        answers
    }

    /// Deletes the object of a refused message at its version. Its older route may lead to the wrong pod or
    /// admit the wrong clients.
    fn withdraw(&self, message: &[u8]) {
        if let Some((key, version)) = RouteMessage::identity_of(message, &self.pushed.provider) {
            self.writer.delete(&key, Some(version));
        }
    }

    /// What a message asks of the table, or its answer if it asks nothing.
    fn observation(&self, peer: &Peer, message: &[u8]) -> Result<Observation, Answer> {
        // In a batch: the body of a single message has this limit already.
        if message.len() > MAX_MESSAGE {
            let error = format!("a message has at most {MAX_MESSAGE} bytes");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, Some(error)));
        }
        let counters = &self.status.counters;
        let parsed = RouteMessage::parse(message);
        if parsed.as_ref().is_ok_and(|message| message.is_of_another(&self.pushed)) {
            return Err((StatusCode::NO_CONTENT, None));
        }
        let read = parsed.and_then(|message| {
            let no_address = message.address().err();
            message.observation(&self.pushed).map(|observation| (observation, no_address))
        });
        match read {
            Ok((Some(mut observation), no_address)) => {
                // As with a watched object: it is known and not routed to.
                let outside = self.policy.screen(&mut observation).map(|refused| refused.to_string());
                if let Some(refused) = outside.or_else(|| no_address.map(|error| error.to_string())) {
                    counters.outside.up();
                    self.unroutable.log(|more| {
                        let (key, from) = (&observation.key, peer.address);
                        tracing::warn!(more, "refresh: {key}, pushed by {from}, is not routed to: {refused}");
                    });
                }
                Ok(observation)
            }
            Ok((None, _)) => {
                counters.legacy.up();
                Err((StatusCode::NO_CONTENT, None))
            }
            Err(error) => {
                counters.invalid.up();
                Err(self.refuse(peer, StatusCode::BAD_REQUEST, error.to_string()))
            }
        }
    }

    /// The answer to a message that was applied.
    fn answer(&self, peer: &Peer, outcome: &Outcome) -> Answer {
        let counters = &self.status.counters;
        match outcome {
            Outcome::Applied
            | Outcome::Takeover { .. }
            | Outcome::Displaced { .. }
            | Outcome::Ambiguous { .. } => counters.applied.up(),
            Outcome::Stale => counters.stale.up(),
            // The only outcome that a retry can change.
            Outcome::Invalid(Invalid::Full) => {
                counters.unavailable.up();
                return self.refuse(peer, StatusCode::SERVICE_UNAVAILABLE, Invalid::Full.to_string());
            }
            Outcome::Invalid(reason) => {
                counters.invalid.up();
                return self.refuse(peer, StatusCode::BAD_REQUEST, reason.to_string());
            }
        }
        if self.status.is_draining() {
            return (StatusCode::SERVICE_UNAVAILABLE, Some(DRAINING.to_owned()));
        }
        (StatusCode::NO_CONTENT, None)
    }

    fn refuse(&self, peer: &Peer, status: StatusCode, reason: String) -> Answer {
        self.refusals.log(|more| {
            tracing::warn!(more, "refresh: a message of {} was refused: {reason}", peer.address);
        });
        (status, Some(reason))
    }
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

    /// The state. One that is missing or of a later version is unknown, which ends the state before it.
    fn known_state(&self) -> State {
        self.state.parse().unwrap_or(State::Unknown)
    }

    /// The pod's address. A message that deletes needs none, so there it is not checked.
    ///
    /// # Errors
    /// When `ip` is no address.
    pub(crate) fn address(&self) -> Result<Option<IpAddr>, MessageError> {
        let deletes = verdict(self.known_state(), Capability::default()).fate == Fate::Delete;
        if deletes || self.ip.is_empty() {
            return Ok(None);
        }
        self.ip.parse().map(Some).map_err(|_| MessageError::Address)
    }

    /// Whether the message is about an object of a provider that is not pushed to this receiver: its watch
    /// shows the object.
    fn is_of_another(&self, pushed: &Pushed) -> bool {
        !self.provider.is_empty() && self.provider != pushed.provider
    }

    /// What the message says of its object. The table checks the rest, and the policy the address. `None` for
    /// a message of an old sender, without the object's name: it is ignored.
    pub(crate) fn observation(self, pushed: &Pushed) -> Result<Option<Observation>, MessageError> {
        if self.namespace.is_empty() && self.name.is_empty() && !self.id.is_empty() {
            return Ok(None);
        }
        let (key, version) = self.identity(&pushed.provider)?;
        let state = self.known_state();
        let ip = self.address().unwrap_or_default();
        let own_id = key.has_own_id(&self.id) || pushed.id_is_name && self.id == key.name();
        Ok(Some(Observation {
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
            traffic_token: (!self.traffic_access_token.is_empty())
                .then(|| Secret::new(self.traffic_access_token)),
            require_traffic_auth: self.require_traffic_auth,
            clash: pushed.clash,
            created: None,
            ip_is_claimed: pushed.ip_is_claimed,
        }))
    }
}
