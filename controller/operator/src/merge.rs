//! Merge patches (RFC 7386): what turns one JSON value into another.

use serde_json::{Map, Value};

/// The merge patch from `before` to `after`; none if they are equal. Lists are replaced whole.
pub(crate) fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return Some(after.clone()) };
    let mut patch = Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in after {
        let change = match before.get(name) {
            Some(known) => merge_patch(known, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (name, value) in patch {
            let Some(target) = target.as_object_mut() else { return };
            if value.is_null() {
                target.remove(name);
            } else {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
    }

    #[test]
    fn a_patch_has_what_changed_and_nothing_else() {
        let before = json!({"a": 1, "b": {"x": 1, "y": 2}, "c": [1]});
        let after = json!({"a": 1, "b": {"x": 1, "y": 3}, "c": [1, 2], "d": "new"});
        assert_eq!(merge_patch(&before, &after), Some(json!({"b": {"y": 3}, "c": [1, 2], "d": "new"})));
        assert_eq!(merge_patch(&before, &before), None);
        assert_eq!(merge_patch(&json!({"a": 1, "b": 2}), &json!({"a": 1})), Some(json!({"b": null})));
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3_u8).prop_map(Value::from)];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[abc]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_turns_the_one_into_the_other(before in json_value(), after in json_value()) {
            let mut merged = before.clone();
            if let Some(patch) = merge_patch(&before, &after) {
                merge(&mut merged, &patch);
            }
            prop_assert_eq!(merged, after);
        }
    }
}
