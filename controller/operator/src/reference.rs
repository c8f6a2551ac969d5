//! Which object an event is about.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::Key;

pub(crate) fn reference(api_version: &str, kind: &str, key: &Key, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
