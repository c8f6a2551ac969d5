//! What whole objects of every provider are made of: see
//! [`openkruise::resources`](crate::openkruise::resources) and
//! [`opensandbox::resources`](crate::opensandbox::resources).

mod decode;
pub(crate) mod definition;
pub(crate) mod json;

pub use decode::decode;
pub use definition::Definition;
pub use json::PodTemplate;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use crate::fields::since_1970;
use crate::metadata::{Identity, Named, str_of};
use crate::provider::Unreadable;

/// Decodes a field; null is the same as missing.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The identity of an object of a kind that has a namespace.
pub(crate) fn identity<'a>(metadata: &'a ObjectMeta, provider: &str) -> Result<Identity<'a>, Unreadable> {
    let named = Named {
        namespace: str_of(&metadata.namespace),
        name: str_of(&metadata.name),
        resource_version: str_of(&metadata.resource_version),
        uid: str_of(&metadata.uid),
        is_deleting: metadata.deletion_timestamp.is_some(),
    };
    let created = metadata.creation_timestamp.as_ref().and_then(|time| since_1970(time.0.into()));
    named.identity_in_namespace(provider, || Ok(created))
}
