//! What the API server refuses, of the writes that a controller may try.

use serde_json::Value;

use super::object::{deleting, list, text};
use super::{Part, Place, Refusal};

/// Fields of the metadata that only the server writes.
const IMMUTABLE: [&str; 5] = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"];

pub(super) fn create(place: &Place, object: &Value) -> Result<(), Refusal> {
    name(place)?;
    owners(place, object)?;
    if place.kind.plural == "pods" && list(object, "/spec/containers").is_empty() {
        return Err(Refusal::invalid(place, "spec.containers: Required value"));
    }
    Ok(())
}

pub(super) fn update(place: &Place, part: Part, old: &Value, new: &Value) -> Result<(), Refusal> {
    for field in IMMUTABLE {
        let pointer = format!("/metadata/{field}");
        if text(old, &pointer) != text(new, &pointer) {
            return Err(Refusal::invalid(
                place,
                &format!("metadata.{field}: Invalid value: field is immutable"),
            ));
        }
    }
    owners(place, new)?;
    let kept = list(old, "/metadata/finalizers");
    if deleting(old) && list(new, "/metadata/finalizers").iter().any(|finalizer| !kept.contains(finalizer)) {
        let why =
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted";
        return Err(Refusal::invalid(place, why));
    }
    if place.kind.plural == "pods" && old.get("spec") != new.get("spec") {
        pod(place, part, old, new)?;
    }
    Ok(())
}

/// A DNS subdomain.
fn name(place: &Place) -> Result<(), Refusal> {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    if place.name.len() > 253 || !place.name.split('.').all(label) {
        let why = "metadata.name: Invalid value: a lowercase RFC 1123 subdomain must consist of lower case \
                   alphanumeric characters, '-' or '.'";
        return Err(Refusal::invalid(place, why));
    }
    Ok(())
}

fn owners(place: &Place, object: &Value) -> Result<(), Refusal> {
    let owners = list(object, "/metadata/ownerReferences");
    for owner in owners {
        for field in ["/apiVersion", "/kind", "/name", "/uid"] {
            if text(owner, field).is_empty() {
                let why = format!("metadata.ownerReferences{field}: Invalid value: must not be empty");
                return Err(Refusal::invalid(place, &why));
            }
        }
    }
    if owners.iter().filter(|owner| owner.get("controller") == Some(&Value::Bool(true))).count() > 1 {
        let why =
            "metadata.ownerReferences: Invalid value: Only one reference can have Controller set to true";
        return Err(Refusal::invalid(place, why));
    }
    Ok(())
}

/// Of a pod's spec the images may change, and the resources on `resize`. (The server allows four more fields,
/// which no controller here writes.)
fn pod(place: &Place, part: Part, old: &Value, new: &Value) -> Result<(), Refusal> {
    let field = if part == Part::Resize { "resources" } else { "image" };
    let rest = |pod: &Value| {
        let mut spec = pod.get("spec").cloned().unwrap_or_default();
        for containers in ["containers", "initContainers"] {
            for container in spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
                container.as_object_mut().and_then(|container| container.remove(field));
            }
        }
        spec
    };
    if rest(old) != rest(new) {
        let why = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
                   `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                   to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                   previously negative)";
        return Err(Refusal::invalid(place, why));
    }
    Ok(())
}
