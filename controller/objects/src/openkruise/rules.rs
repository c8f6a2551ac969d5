//! What a sandbox means, written once for both of its forms: the projection and the whole object.

use sandgate_routes::{Secret, State};

use super::{API_VERSION, ENVD_ACCESS_TOKEN, RUNTIME_ACCESS_TOKEN, SANDBOX_ID, SANDBOX_SET};
use crate::fields::{Address, Place, id, token};
use crate::kind::Id;
use crate::metadata::Identity;
use crate::provider::Unreadable;

/// What decides the state of a sandbox that is not being deleted and has not ended.
pub(super) struct Facts<'a> {
    pub(super) phase: &'a str,
    pub(super) address: Address,
    pub(super) is_in_pool: bool,
    pub(super) is_paused: bool,
    pub(super) is_ready: bool,
}

impl Facts<'_> {
    /// The table in the docs of [`openkruise`](super), from its third line on.
    pub(super) fn state(&self) -> State {
        match self.phase {
            "Pending" => State::Creating,
            "Succeeded" | "Failed" | "Terminating" => State::Dead,
            // After the dead phases: a sandbox that has ended does not become creating because its pod is
            // gone.
            _ if self.address == Address::Missing => State::Creating,
            _ if self.is_in_pool && self.is_ready => State::Available,
            _ if self.is_in_pool => State::Creating,
            "Running" if self.is_paused => State::Paused,
            "Running" if self.is_ready => State::Running,
            "Running" => State::Creating,
            "Paused" | "Resuming" | "Upgrading" | "Recycling" | "" => State::Paused,
            _ => State::Unknown,
        }
    }
}

/// The ID that the label claims, or else the object's own.
pub(super) fn id_of(identity: &Identity<'_>, label: &str) -> Result<Id, Unreadable> {
    Id::claimed_or_own(identity, id(Place::Label(SANDBOX_ID), label)?)
}

/// Whether a controller of this kind is a pool.
pub(super) fn is_pool(api_version: &str, kind: &str) -> bool {
    api_version == API_VERSION && kind == SANDBOX_SET
}

/// The runtime's token, or else the older one.
pub(super) fn token_of(runtime: &str, envd: &str) -> Result<Option<Secret>, Unreadable> {
    match token(Place::Annotation(RUNTIME_ACCESS_TOKEN), runtime)? {
        None => token(Place::Annotation(ENVD_ACCESS_TOKEN), envd),
        found => Ok(found),
    }
}
