//! Lists as long as the API server lets them be. A search of one list for each element of the other would
//! take these tests many minutes.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::super::pod;

const MANY: usize = 100_000;
/// Far more than it takes, and far less than a search would.
const ENOUGH: Duration = Duration::from_secs(20);

/// The names, and the same backwards.
fn names() -> (Vec<String>, Vec<String>) {
    let names: Vec<String> = (0..MANY).map(|number| format!("V{number}")).collect();
    let backwards = names.iter().rev().cloned().collect();
    (names, backwards)
}

fn with_variables(names: &[String], value: &str) -> Value {
    let env: Vec<Value> = names.iter().map(|name| json!({ "name": name, "value": value })).collect();
    json!({ "spec": { "containers": [{ "name": "main", "env": env }] } })
}

fn merged(before: &Value, patch: &Value) -> Value {
    let begun = Instant::now();
    let merged = pod(before, patch).unwrap();
    assert!(begun.elapsed() < ENOUGH, "it took {:?}", begun.elapsed());
    merged
}

#[test]
fn long_lists_of_variables_are_merged_at_once() {
    let (names, backwards) = names();
    let merged = merged(&with_variables(&names, "1"), &with_variables(&backwards, "2"));
    // The order is that of the patch, as kubectl has it.
    assert_eq!(merged, with_variables(&backwards, "2"));
}

#[test]
fn long_lists_of_deletions_are_done_at_once() {
    let (names, backwards) = names();
    let gone: Vec<Value> =
        backwards[1..].iter().map(|name| json!({ "name": name, "$patch": "delete" })).collect();
    let patch = json!({ "spec": { "containers": [{ "name": "main", "env": gone }] } });
    assert_eq!(merged(&with_variables(&names, "1"), &patch), with_variables(&backwards[..1], "1"));
}

#[test]
fn long_orders_and_sets_are_done_at_once() {
    let (names, backwards) = names();
    let finalizers = |names: &[String]| json!({ "metadata": { "finalizers": names } });
    let mut patch = finalizers(&backwards);
    patch["metadata"]["$setElementOrder/finalizers"] = json!(backwards);
    assert_eq!(merged(&finalizers(&names), &patch), finalizers(&backwards));
    let patch = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": backwards } });
    assert_eq!(merged(&finalizers(&names), &patch), finalizers(&[]));
}

#[test]
fn long_lists_of_fields_to_retain_are_read_at_once() {
    let (names, backwards) = names();
    let labels: Map<String, Value> = names.iter().map(|name| (name.clone(), json!("1"))).collect();
    let before = json!({ "metadata": { "labels": labels } });
    let patch = json!({ "metadata": { "labels": { "$retainKeys": backwards } } });
    assert_eq!(merged(&before, &patch), before);
}
