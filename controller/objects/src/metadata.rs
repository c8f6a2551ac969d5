//! The metadata of an object, and which object it is.

use sandgate_routes::{KeyError, MAX_ID, MAX_UID, ObjectKey, Version, is_valid_id};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::decode::{Keep, object};
use crate::fields::{created, has_control};
use crate::provider::Unreadable;

/// An object's metadata: what every kind needs, and of labels (`L`), annotations (`A`) and owner references
/// (`O`) what the kind asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[serde(bound(deserialize = "S: Default + Deserialize<'de>, L: Default + Deserialize<'de>, \
                             A: Default + Deserialize<'de>, O: Default + Deserialize<'de>"))]
pub struct Metadata<S, L = Ignored, A = Ignored, O = Ignored> {
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<S>,
    /// The namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<S>,
    /// Which object of that name it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<S>,
    /// The version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<S>,
    /// When the object was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<S>,
    /// When deletion was requested. An object that has one is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<S>,
    /// The labels of the kind.
    #[serde(deserialize_with = "object", skip_serializing_if = "is_empty")]
    pub labels: L,
    /// The annotations of the kind.
    #[serde(deserialize_with = "object", skip_serializing_if = "is_empty")]
    pub annotations: A,
    /// The owners.
    #[serde(skip_serializing_if = "is_empty")]
    pub owner_references: O,
}

/// A field that a kind does not ask for: it is skipped in the input and left out of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// Whether a type has no fields at all, as [`Ignored`].
fn is_empty<T>(_: &T) -> bool {
    size_of::<T>() == 0
}

/// An owner reference. Only those that control the object are kept: Kubernetes admits one at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Owner<S> {
    /// Group and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<S>,
    /// The kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<S>,
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<S>,
    /// Whether this owner controls the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
}

impl<S> Keep for Owner<S> {
    fn keep(&self) -> bool {
        self.controller == Some(true)
    }
}

/// Which object it is, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Provider, namespace and name.
    pub key: ObjectKey,
    /// The version of the object.
    pub version: Version,
    /// Which object of that name it is.
    pub uid: &'a str,
    /// When it was created, in seconds since 1970.
    pub created: Option<u64>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

impl<S: AsRef<str>, L, A, O> Metadata<S, L, A, O> {
    /// The identity of an object of a namespaced kind.
    ///
    /// # Errors
    /// The first field of the metadata that is missing or wrong.
    pub fn identity_in_namespace(&self, provider: &str) -> Result<Identity<'_>, Unreadable> {
        self.named().identity_in_namespace(provider, || self.created())
    }

    /// The identity of an object, which may have no namespace.
    ///
    /// # Errors
    /// The first field of the metadata that is missing or wrong.
    pub fn identity(&self, provider: &str) -> Result<Identity<'_>, Unreadable> {
        self.named().identity(provider, || self.created())
    }

    fn named(&self) -> Named<'_> {
        Named {
            namespace: str_of(&self.namespace),
            name: str_of(&self.name),
            resource_version: str_of(&self.resource_version),
            uid: str_of(&self.uid),
            is_deleting: self.deletion_timestamp.is_some(),
        }
    }

    fn created(&self) -> Result<Option<u64>, Unreadable> {
        created(self.creation_timestamp.as_ref().map(AsRef::as_ref))
    }
}

/// What an identity is made of, in whatever form the metadata is.
pub(crate) struct Named<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) resource_version: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) is_deleting: bool,
}

/// When an object was created, in seconds since 1970. It is asked last, so that an error names the first
/// field that is wrong.
type Created = Result<Option<u64>, Unreadable>;

impl<'a> Named<'a> {
    pub(crate) fn identity_in_namespace(
        self,
        provider: &str,
        created: impl FnOnce() -> Created,
    ) -> Result<Identity<'a>, Unreadable> {
        match self.namespace {
            "" => Err(Unreadable::new("metadata.namespace", "missing")),
            _ => self.identity(provider, created),
        }
    }

    fn identity(self, provider: &str, created: impl FnOnce() -> Created) -> Result<Identity<'a>, Unreadable> {
        let Self { namespace, name, resource_version, uid, is_deleting } = self;
        let key = ObjectKey::new(provider, namespace, name).map_err(|error| {
            let path = match error {
                KeyError::Namespace => "metadata.namespace",
                KeyError::Name | KeyError::Provider => "metadata.name",
            };
            Unreadable::new(path, error.to_string())
        })?;
        let version = resource_version.parse().map_err(|error| {
            let reason = format!("expected a positive decimal number: {error}");
            Unreadable::new("metadata.resourceVersion", reason)
        })?;
        if uid.is_empty() || uid.len() > MAX_UID || has_control(uid) {
            let reason = format!("expected 1 to {MAX_UID} bytes without control characters");
            return Err(Unreadable::new("metadata.uid", reason));
        }
        Ok(Identity { key, version, uid, created: created()?, is_deleting })
    }
}

/// An optional text; missing is empty.
pub(crate) fn str_of<S: AsRef<str>>(field: &Option<S>) -> &str {
    field.as_ref().map_or("", AsRef::as_ref)
}

impl Identity<'_> {
    /// `namespace--name`; the name alone for an object without a namespace.
    ///
    /// # Errors
    /// Namespace and name together are no valid ID.
    pub fn canonical_id(&self) -> Result<String, Unreadable> {
        let id = match self.key.namespace() {
            "" => self.key.name().to_owned(),
            namespace => format!("{namespace}--{}", self.key.name()),
        };
        if is_valid_id(id.as_bytes()) {
            return Ok(id);
        }
        let reason =
            format!("with its namespace it is no ID: 1 to {MAX_ID} of A-Z, a-z, 0-9, '.', '_' and '-'");
        Err(Unreadable::new("metadata.name", reason))
    }
}
