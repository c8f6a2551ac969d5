//! What the watch asks of a provider: one kind of custom resource, and what an object of it means.
//!
//! A provider is pure. It is given an object's JSON and the time, and says what a route needs of it, so that
//! it can be tested and fuzzed without a cluster, and so that equal objects make equal routes in every
//! process.

use std::time::SystemTime;

use sandgate_routes::{Clash, Observation, TokenKind};

/// Which custom resource a provider reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group, as in `agents.kruise.io`.
    pub group: String,
    /// The version of the group, as in `v1alpha1`.
    pub version: String,
    /// The kind, as in `Sandbox`.
    pub kind: String,
    /// The name in URLs and in RBAC rules, as in `sandboxes`.
    pub plural: String,
}

impl Resource {
    pub(crate) fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let [group, version, kind, plural] = [group, version, kind, plural].map(str::to_owned);
        Self { group, version, kind, plural }
    }
}

/// One kind of object and what it means. Pure: no I/O, no clock of its own.
pub trait Provider: Send + Sync {
    /// The provider's name: in object keys, scopes, logs and metrics.
    fn name(&self) -> &str;

    /// The resource to watch.
    fn resource(&self) -> &Resource;

    /// What becomes of an ID that two of its objects claim, or one of its and one pushed in its name.
    fn clash(&self) -> Clash {
        Clash::default()
    }

    /// Whether the address stands in a part of the object that its owner may write, and not in what a
    /// controller has seen. Such an address proves nothing.
    fn address_is_claimed(&self) -> bool {
        false
    }

    /// Whether an object's ID is its plain name, whatever its namespace. It holds for what is pushed of them
    /// too.
    fn id_is_name(&self) -> bool {
        false
    }

    /// What an object's token is for. It holds for what is pushed of them too.
    fn token_kind(&self) -> TokenKind {
        TokenKind::Runtime
    }

    /// What an object, given as its JSON, says at `now`. An object that is being deleted is given too, and is
    /// dead. Only the fields needed are decoded; everything else is skipped where it stands.
    ///
    /// # Errors
    /// Reading the same bytes again does not help: the next version of the object may.
    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable>;
}

/// What an object says.
#[derive(Clone, Debug)]
pub struct Projection {
    /// For the table.
    pub observation: Observation,
    /// Whether the object has an address that is none of one machine; the observation has none then.
    pub is_nowhere: bool,
    /// When the object turns dead by itself, if that is still to come.
    pub dead_at: Option<SystemTime>,
}

/// Why an object cannot be read: the path of the field and what is wrong with it. Says nothing of the field's
/// value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Unreadable {
    /// The path of the field, as in `metadata.labels["x/y"]`; `object` for the whole.
    pub path: String,
    /// What was expected.
    pub reason: String,
}

impl Unreadable {
    /// Names a field and what is wrong with it. Neither text may quote the field's value.
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}
