//! Schemas of fields that a type alone does not describe, and the rules between fields.
//!
//! OpenSandbox's own definitions have no rule between fields, so there may be objects that break one. Each
//! rule here is about what is new: an object that broke it before it was made may go on doing so, and be
//! changed, labelled and deleted. An API server has no way to warn about such an object; the operator does so
//! with an event, of what [`warnings`](super::BatchSandbox::warnings) says.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A pod template or a pool, and not both but where the operator chooses the pool by the template. Its choice
/// is written beside the template.
pub(super) fn pods() -> Value {
    json!([
        {
            "rule": "has(self.template) || has(self.poolRef) && self.poolRef != '' || \
                     oldSelf.optMap(old, !has(old.template) && (!has(old.poolRef) || old.poolRef == '')).orValue(false)",
            "message": "set template (a pod template) or poolRef (the name of a Pool, or * for any)",
            "optionalOldSelf": true,
        },
        {
            "rule": "!has(self.template) || !has(self.poolRef) || self.poolRef in ['', '*'] || \
                     oldSelf.optMap(old, has(old.template) && has(old.poolRef) && old.poolRef != '').orValue(false)",
            "message": "leave out template or poolRef: only poolRef * (any pool) goes with a template, by which the pool is chosen",
            "optionalOldSelf": true,
        },
    ])
}

/// No least number above its greatest.
pub(super) fn capacity() -> Value {
    let ordered = |least: &str, most: &str| {
        json!({
            "rule": format!(
                "self.{least} <= self.{most} || oldSelf.optMap(old, old.{least} > old.{most}).orValue(false)"
            ),
            "message": format!("set {least} to at most {most}"),
            "fieldPath": format!(".{least}"),
            "optionalOldSelf": true,
        })
    };
    json!([ordered("bufferMin", "bufferMax"), ordered("poolMin", "poolMax")])
}

/// A date-time.
pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// An object of which every field is kept.
pub(super) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A pod template. A batch that leaves the choice of its pool to the operator may say as little in it as it
/// likes, so nothing is required.
pub(super) fn template(_: &mut SchemaGenerator) -> Schema {
    let part = |description: &str| json!({ "type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true });
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "metadata": part("Labels and annotations of the pod."),
            "spec": part("The spec of the pod, as in core/v1."),
        },
    })
}

/// Patches. Each is an object in practice; OpenSandbox's own definition takes anything, so this one does.
pub(super) fn patches(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "x-kubernetes-preserve-unknown-fields": true } })
}

/// What happens to a pod whose task is done. Another word counts as Retain for OpenSandbox too, so it is not
/// refused.
pub(super) fn resource_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "default": "Retain" })
}

/// How a pod is recycled.
pub(super) fn recycle_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["Delete", "Restart", "Noop"], "default": "Delete" })
}

/// A number, or a percentage. An API server does not look at a value that stays what it was, so this rule
/// needs no exception for what is old.
pub(super) fn share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? int(self) >= 0 : string(self).matches('^[0-9]{1,9}%$')",
            "message": "set a number of pods, or a share as in 25%",
        }],
    })
}

/// The conditions of a status, one of each type.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "Something that is true of the object.",
            "required": ["status", "type"],
            "properties": {
                "type": { "type": "string", "description": "The name of the condition." },
                "status": {
                    "type": "string",
                    "description": "True; a condition that would be False is left out.",
                    "enum": ["True", "False"],
                },
                "reason": { "type": "string", "description": "Why, in one word for programs." },
                "message": { "type": "string", "description": "Why, for people." },
                "lastTransitionTime": {
                    "type": "string",
                    "description": "When the condition changed last: its status, its reason or its message.",
                    "format": "date-time",
                },
            },
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
