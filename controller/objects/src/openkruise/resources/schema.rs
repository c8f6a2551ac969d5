//! Schemas of fields that a type alone does not describe, and the rules between fields.
//!
//! A rule refuses only what can never work. Its message says what to do. A cluster checks a rule on create,
//! and on update where the part that the rule is about has changed; so an object from before these
//! definitions can always be deleted, and its finalizers removed.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::whole::definition::MAX_LABEL;

/// More volume claims than a pod can have volumes on any cloud.
const MAX_CLAIMS: u32 = 32;

/// Exactly one of `template` and `templateRef`. An object that broke the rule before it was made may go on
/// doing so, and be paused and resumed.
pub(super) fn one_template() -> Value {
    json!([{
        "rule": "has(self.template) != has(self.templateRef) || \
                 oldSelf.optMap(old, has(old.template) == has(old.templateRef)).orValue(false)",
        "message": "set exactly one of template (a pod template) and templateRef (the name of a SandboxTemplate)",
        "optionalOldSelf": true,
    }])
}

/// A sandbox or a pod to make a checkpoint of.
pub(super) fn some_source() -> Value {
    json!([{
        "rule": "has(self.sandboxName) || has(self.podName)",
        "message": "set sandboxName, or podName for a pod without a sandbox",
    }])
}

/// A reference to a SandboxTemplate, by whatever version.
pub(super) fn known_template_kind() -> Value {
    json!([
        {
            "rule": "!has(self.kind) || self.kind in ['', 'SandboxTemplate']",
            "message": "leave kind out, or set it to SandboxTemplate: no other kind can be referred to",
            "fieldPath": ".kind",
        },
        {
            "rule": "!has(self.apiVersion) || self.apiVersion == '' || \
                     self.apiVersion.startsWith('agents.kruise.io/')",
            "message": "leave apiVersion out, or set it to agents.kruise.io/v1alpha1",
            "fieldPath": ".apiVersion",
        },
    ])
}

/// A date-time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// An object of which every field is kept.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of objects of which every field is kept.
pub(super) fn objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 64, "items": object(generator) })
}

/// A pod template. The API server checks the pod that is made of it; what is checked here is that there can
/// be one.
pub(crate) fn template(generator: &mut SchemaGenerator) -> Schema {
    let any = object(generator);
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "description": "Labels and annotations of the pod.",
                "x-kubernetes-preserve-unknown-fields": true,
            },
            "spec": {
                "type": "object",
                "description": "The spec of the pod, as in core/v1.",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["containers"],
                "properties": {
                    "containers": {
                        "type": "array",
                        "description": "The containers of the pod, at least one.",
                        "minItems": 1,
                        "items": any,
                    },
                },
            },
        },
    })
}

/// Volume claim templates. The name is that of a volume in the pod; the claim is called
/// `<name>-<sandbox>`.
pub(super) fn claims(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MAX_CLAIMS,
        "items": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "required": ["metadata"],
            "properties": {
                "metadata": {
                    "type": "object",
                    "description": "Name, labels and annotations of the claim.",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "required": ["name"],
                    "properties": {
                        "name": {
                            "type": "string",
                            "description": "The name of the volume in the pod. The claim's name is this and the \
                                            sandbox's.",
                            "minLength": 1,
                            "maxLength": MAX_LABEL,
                            "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                        },
                    },
                },
                "spec": {
                    "type": "object",
                    "description": "The spec of the claim, as in core/v1.",
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(a, self.exists_one(b, a.metadata.name == b.metadata.name))",
            "message": "give each volume claim template a name of its own",
        }],
    })
}

/// What is kept over a pause.
pub(super) fn contents(_: &mut SchemaGenerator) -> Schema {
    one_of(&["ip", "memory", "filesystem"])
}

/// What a checkpoint keeps.
pub(super) fn kept_contents(_: &mut SchemaGenerator) -> Schema {
    one_of(&["podInfo", "memory", "filesystem"])
}

fn one_of(values: &[&str]) -> Schema {
    json_schema!({ "type": "array", "maxItems": 16, "items": { "type": "string", "enum": values } })
}

/// When a sandbox pauses and resumes by itself.
pub(super) fn policy(_: &mut SchemaGenerator) -> Schema {
    let part = |description: &str| json!({ "type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true });
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "pause": part("When the sandbox pauses by itself."),
            "resume": part("When the sandbox resumes by itself."),
        },
    })
}

/// A number, or a percentage of 0 to 100.
pub(super) fn share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": "^[0-9]+%$",
        "maxLength": 16,
        "minimum": 0,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int || string(self).matches('^0*(100|[0-9]?[0-9])%$')",
            "message": "set a number of sandboxes, or a share of 0% to 100%",
        }],
    })
}

/// The conditions of a status, one of each type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "Something that is true of the object, or not, or not known.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": { "type": "string", "description": "The name of the condition.", "maxLength": 316 },
                "status": {
                    "type": "string",
                    "description": "True, False or Unknown.",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": { "type": "string", "description": "Why, in one word for programs.", "maxLength": 1024 },
                "message": { "type": "string", "description": "Why, for people.", "maxLength": 32768 },
                "lastTransitionTime": {
                    "type": "string",
                    "description": "When the status of the condition changed.",
                    "format": "date-time",
                },
                "observedGeneration": {
                    "type": "integer",
                    "description": "The generation of the spec that the condition is about.",
                    "format": "int64",
                    "minimum": 0,
                },
            },
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
