//! The writes to an environment, which has several writers: an API server of people, autoscalers, and the
//! control planes of other clusters.
//!
//! A merge patch replaces lists whole. So each patch carries the version of what was decided on, and its
//! lists are those that the API server has at that version, with our change in them: what another has
//! written is there, and so are fields that our types do not know. A write that comes after another's is
//! refused with a conflict, and is decided anew.

use std::sync::Arc;

use sandgate_objects::sandbox_env::resources::{SandboxEnv, SandboxEnvSpec, SandboxEnvStatus};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::merge::merge_patch;
use crate::view::Seen;
use crate::writes::{Merge, WriteError, Writes};

/// What items of lists are told apart by, in the kinds of environments.
const KEYS: [&str; 2] = ["clusterID", "name"];

/// Writes the spec of an environment, if that is another. Returns the environment as it is then.
///
/// # Errors
/// [`WriteError::Conflict`] if somebody else has written: decide anew. See [`WriteError`].
pub(crate) async fn write_spec(
    writes: &Writes,
    env: &Arc<Seen<SandboxEnv>>,
    spec: &SandboxEnvSpec,
) -> Result<Arc<Seen<SandboxEnv>>, WriteError> {
    let (before, after) = (value(&env.spec), value(spec));
    if before == after {
        return Ok(Arc::clone(env));
    }
    let raw = writes.read_raw(env).await?;
    let raw = raw.get("spec").cloned().unwrap_or_default();
    let Some(patch) = merge_patch(&raw, &carry(&raw, &before, &after)) else { return Ok(Arc::clone(env)) };
    writes.patch(env, json!({"spec": patch}), Merge::Plain, None).await
}

/// Writes the status of an environment, if that is another. Returns the environment as it is then.
///
/// # Errors
/// [`WriteError::Conflict`] if somebody else has written: decide anew. See [`WriteError`].
pub(crate) async fn write_status(
    writes: &Writes,
    env: &Arc<Seen<SandboxEnv>>,
    status: &SandboxEnvStatus,
    cluster: &str,
) -> Result<Arc<Seen<SandboxEnv>>, WriteError> {
    let (before, after) = (env.status.as_ref().map_or(Value::Null, value), value(status));
    if before == after {
        return Ok(Arc::clone(env));
    }
    let has_foreign = |status: &SandboxEnvStatus| status.clusters.iter().any(|of| of.cluster_id != cluster);
    let raw = match env.status.as_ref().is_some_and(has_foreign) {
        true => writes.read_raw(env).await?.get("status").cloned().unwrap_or_default(),
        // All of it is ours.
        false => before.clone(),
    };
    let Some(patch) = merge_patch(&raw, &carry(&raw, &before, &after)) else { return Ok(Arc::clone(env)) };
    writes.patch(env, json!({"status": patch}), Merge::Plain, Some("status")).await
}

pub(super) fn value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// `raw`, with everything that `after` has different from `before`. What is equal in both stays as it is in
/// `raw`, with fields that neither has.
fn carry(raw: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return raw.clone();
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            Value::Object(carry_fields(raw, before, after))
        }
        (Value::Array(raw), Value::Array(before), Value::Array(after)) => {
            let Some(key) =
                KEYS.into_iter().find(|key| [raw, before, after].iter().all(|of| is_map(of, key)))
            else {
                return Value::Array(after.clone());
            };
            let same = |items: &[Value], item: &Value| {
                items.iter().find(|known| known.get(key) == item.get(key)).cloned()
            };
            let items = after.iter().map(|item| match (same(raw, item), same(before, item)) {
                (Some(raw), Some(before)) => carry(&raw, &before, item),
                _ => item.clone(),
            });
            Value::Array(items.collect())
        }
        _ => after.clone(),
    }
}

fn carry_fields(
    raw: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut carried = raw.clone();
    carried.retain(|name, _| !before.contains_key(name) || after.contains_key(name));
    for (name, value) in after {
        match (raw.get(name), before.get(name)) {
            // What the type has put in the place of a field that is missing.
            (None, Some(before)) if before == value => {}
            (Some(raw), Some(before)) => {
                carried.insert(name.clone(), carry(raw, before, value));
            }
            _ => {
                carried.insert(name.clone(), value.clone());
            }
        }
    }
    carried
}

/// Whether each item of a list has a key of its own.
fn is_map(items: &[Value], key: &str) -> bool {
    let mut keys: Vec<_> = items.iter().filter_map(|item| item.get(key)?.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.len() == items.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_changed_stays_as_it_is_with_fields_that_nobody_knows() {
        let raw = json!({"clusters": [
            {"clusterID": "a", "new": 1, "members": [{"name": "x", "n": 1, "newer": [2]}, {"name": "y", "n": 2}]},
            {"clusterID": "b", "newest": {"z": 3}},
        ], "unknown": true});
        let before = json!({"clusters": [
            {"clusterID": "a", "members": [{"name": "x", "n": 1}, {"name": "y", "n": 2}]},
            {"clusterID": "b", "members": []},
        ]});
        let after = json!({"clusters": [
            {"clusterID": "a", "members": [{"name": "x", "n": 5}, {"name": "w", "n": 0}]},
            {"clusterID": "b", "members": []},
        ]});
        let expected = json!({"clusters": [
            {"clusterID": "a", "new": 1, "members": [{"name": "x", "n": 5, "newer": [2]}, {"name": "w", "n": 0}]},
            {"clusterID": "b", "newest": {"z": 3}},
        ], "unknown": true});
        assert_eq!(carry(&raw, &before, &after), expected);
        assert_eq!(carry(&raw, &before, &before), raw);
    }

    #[test]
    fn a_list_without_keys_is_replaced() {
        let list = |items: &[i32]| json!({"args": items});
        assert_eq!(carry(&list(&[1]), &list(&[1]), &list(&[2, 3])), list(&[2, 3]));
        let twice = json!([{"name": "x"}, {"name": "x"}]);
        assert_eq!(carry(&twice, &twice, &json!([{"name": "y"}])), json!([{"name": "y"}]));
    }
}
