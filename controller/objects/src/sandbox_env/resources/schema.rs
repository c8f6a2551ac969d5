//! Schemas of fields that a type alone does not describe, and the rules between fields.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

pub(super) use crate::openkruise::resources::schema::{conditions, object, template, time};

/// A group in the mode Aggressive doubles its demand, so it needs an end.
pub(super) fn aggressive_has_a_ceiling() -> Value {
    json!([{
        "rule": "!has(self.scaleUpPolicy) || !has(self.scaleUpPolicy.mode) || \
                 self.scaleUpPolicy.mode != 'Aggressive' || has(self.maxReplicas) || \
                 oldSelf.optMap(old, !has(old.maxReplicas)).orValue(false)",
        "message": "set maxReplicas: a group in the mode Aggressive has no other end",
        "fieldPath": ".maxReplicas",
        "optionalOldSelf": true,
    }])
}

/// A duration as Go writes it.
pub(super) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^(0|([0-9]+(\\.[0-9]+)?(h|m|s|ms|us|µs|ns))+)$", "maxLength": 64 })
}

/// A number, or a percentage of 0 to 100. It is a pattern and no rule in CEL: it stands in lists of lists,
/// where an API server takes a rule with a regular expression for too expensive and refuses the definition.
pub(super) fn share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "pattern": "^0*(100|[0-9]?[0-9])%$",
        "maxLength": 16,
        "minimum": 0,
    })
}
