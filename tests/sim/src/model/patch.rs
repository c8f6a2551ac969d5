//! Patches, applied to the object as it is.

use serde_json::{Map, Value};

use super::{Kind, Refusal};

/// The body of a PATCH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7396.
    Merge(Value),
    /// RFC 6902.
    Json(json_patch::Patch),
    /// The built-in kinds' own: lists of things that have a key are merged by it. Directives (`$patch` and
    /// its like) are not modelled.
    Strategic(Value),
}

/// The lists that a strategic merge patch merges, and the keys of their items. The list of finalizers has no
/// key: it is merged as a set.
const KEYS: [(&str, &str); 9] = [
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("ports", "containerPort"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

impl Patch {
    /// Reads the body of this content type.
    ///
    /// # Errors
    /// 415 for a content type that the kind does not take, 400 for a body that is no such patch.
    pub fn read(kind: &Kind, content_type: &str, body: Value) -> Result<Self, Refusal> {
        match content_type {
            "application/merge-patch+json" if body.is_object() => Ok(Self::Merge(body)),
            "application/strategic-merge-patch+json" if !kind.is_custom() && body.is_object() => {
                if body.to_string().contains("\"$") {
                    return Err(Refusal::bad("directives of a strategic merge patch are not modelled"));
                }
                Ok(Self::Strategic(body))
            }
            "application/merge-patch+json" => Err(Refusal::bad("the patch is no object")),
            "application/json-patch+json" => serde_json::from_value(body)
                .map(Self::Json)
                .map_err(|error| Refusal::bad(format!("error decoding patch: {error}"))),
            _ => Err(Refusal::of_server(415)),
        }
    }

    /// The object, patched.
    pub(super) fn apply(&self, object: &Value) -> Result<Value, Refusal> {
        let mut patched = object.clone();
        match self {
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
            Self::Json(patch) => {
                json_patch::patch(&mut patched, patch).map_err(|error| Refusal::patch(error.to_string()))?;
            }
            Self::Strategic(patch) => strategic("", &mut patched, patch),
        }
        Ok(patched)
    }
}

impl std::fmt::Display for Patch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) => write!(f, "{patch}"),
            Self::Json(patch) => write!(f, "{patch}"),
        }
    }
}

fn strategic(field: &str, object: &mut Value, patch: &Value) {
    let key = KEYS.iter().find(|(list, _)| *list == field).map(|(_, key)| *key);
    match (object, patch, key) {
        (object, Value::Object(patch), _) => {
            if !object.is_object() {
                *object = Value::Object(Map::new());
            }
            let Some(fields) = object.as_object_mut() else { return };
            for (field, value) in patch {
                if value.is_null() {
                    fields.remove(field);
                } else {
                    strategic(field, fields.entry(field).or_insert(Value::Null), value);
                }
            }
        }
        (Value::Array(items), Value::Array(patches), Some(key)) => {
            for patch in patches {
                match items.iter_mut().find(|item| item.get(key) == patch.get(key)) {
                    Some(item) => strategic("", item, patch),
                    None => items.push(patch.clone()),
                }
            }
        }
        (Value::Array(items), Value::Array(patches), None) if field == "finalizers" => {
            for patch in patches {
                if !items.contains(patch) {
                    items.push(patch.clone());
                }
            }
        }
        (object, patch, _) => *object = patch.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{PODS, SANDBOXES};
    use super::Patch;

    #[test]
    fn a_strategic_patch_merges_containers_by_name_and_replaces_other_lists() {
        let pod = json!({
            "metadata": { "labels": { "a": "1", "b": "2" }, "finalizers": ["one"] },
            "spec": { "containers": [{ "name": "x", "image": "1", "args": ["p", "q"] }, { "name": "y" }] },
        });
        let patch = json!({
            "metadata": { "labels": { "a": null, "c": "3" }, "finalizers": ["two"] },
            "spec": { "containers": [{ "name": "x", "image": "2", "args": ["r"] }, { "name": "z" }] },
        });
        let strategic = "application/strategic-merge-patch+json";
        let patch = Patch::read(&PODS, strategic, patch).expect("a patch");
        let patched = json!({
            "metadata": { "labels": { "b": "2", "c": "3" }, "finalizers": ["one", "two"] },
            "spec": { "containers": [
                { "name": "x", "image": "2", "args": ["r"] }, { "name": "y" }, { "name": "z" },
            ] },
        });
        assert_eq!(patch.apply(&pod), Ok(patched));
        let refused = Patch::read(&SANDBOXES, strategic, json!({})).expect_err("custom resources have none");
        assert_eq!(refused.code, 415);
    }
}
