//! The interface between the watch and a kind of custom resource.
//!
//! A provider is pure: it gets an object's JSON and the time, and returns a [`Projection`]. So it can be
//! tested and fuzzed without a cluster, and equal objects make equal routes in every process.

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

/// Reads the objects of one custom resource. An implementation does no I/O and has no clock.
pub trait Provider: Send + Sync {
    /// The provider's name in object keys, scopes, logs and metrics.
    fn name(&self) -> &str;

    /// The resource to watch.
    fn resource(&self) -> &Resource;

    /// A label selector that every object with a route matches, as `kubectl -l` takes it; empty is every
    /// object. The watch asks for no others.
    fn selector(&self) -> &str {
        ""
    }

    /// What happens to an ID that two objects of this provider claim. A pushed route counts as an object of
    /// the provider that it names.
    fn clash(&self) -> Clash {
        Clash::default()
    }

    /// Whether the address comes from a part of the object that its owner may write. Such an address is a
    /// claim: no controller has observed it.
    fn address_is_claimed(&self) -> bool {
        false
    }

    /// Whether an object's ID is its name without the namespace. Pushed routes follow the same rule.
    fn id_is_name(&self) -> bool {
        false
    }

    /// What an object's token is for. Pushed routes follow the same rule.
    fn token_kind(&self) -> TokenKind {
        TokenKind::Runtime
    }

    /// Decodes an object's JSON and projects it to what the table needs at `now`. An object that is being
    /// deleted has the state dead. A built-in provider decodes only the fields that it needs.
    ///
    /// # Errors
    /// The object is malformed. A retry with the same bytes does not help; the next version of the object
    /// may.
    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable>;
}

/// What an object means for the table.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The route, for the table.
    pub observation: Observation,
    /// Whether the object has an address that is not the address of one machine, such as `0.0.0.0`. The
    /// observation then has no address.
    pub is_nowhere: bool,
    /// When the object ends by itself, if that time is not past.
    pub dead_at: Option<SystemTime>,
}

/// Why an object cannot be read: the path of the field and what is wrong with it. The message never contains
/// the field's value, which may be a secret. A retry with the same bytes does not help.
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
