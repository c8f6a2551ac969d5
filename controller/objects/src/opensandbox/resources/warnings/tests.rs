use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::opensandbox::resources::{BatchSandbox, Pool};

fn object<K: DeserializeOwned>(name: &str, spec: &Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "K", "metadata": { "name": name }, "spec": spec,
    }))
    .unwrap()
}

fn batch(spec: &Value) -> Vec<String> {
    object::<BatchSandbox>("a", spec).warnings()
}

fn pool(changes: Value) -> Vec<String> {
    let capacity = json!({ "bufferMin": 1, "bufferMax": 2, "poolMin": 1, "poolMax": 2 });
    let mut spec = json!({ "template": {}, "capacitySpec": capacity });
    let Value::Object(changes) = changes else { panic!("{changes}") };
    for (key, value) in changes {
        match value {
            Value::Null => drop(spec.as_object_mut().unwrap().remove(&key)),
            value if key == "capacitySpec" => {
                for (key, value) in value.as_object().unwrap() {
                    spec["capacitySpec"][key] = value.clone();
                }
            }
            value => spec[key] = value,
        }
    }
    object::<Pool>("a", &spec).warnings()
}

#[track_caller]
fn says(warnings: &[String], text: &str) {
    assert!(warnings.len() == 1 && warnings[0].contains(text), "{warnings:?} is not one about {text:?}");
}

#[test]
fn what_works_is_not_warned_about() {
    for good in [
        json!({ "poolRef": "p" }),
        json!({ "poolRef": "*", "template": {} }),
        json!({ "poolRef": "chosen", "template": {} }),
        json!({ "poolRef": "", "template": {}, "shardPatches": [{}] }),
        json!({
            "poolRef": "p", "taskTemplate": { "spec": { "process": { "command": ["a"] } } }, "shardTaskPatches": [{}],
            "taskResourcePolicyWhenCompleted": "Release",
        }),
        json!({ "poolRef": "p", "taskTemplate": {}, "shardTaskPatches": [{ "spec": { "process": {} } }] }),
    ] {
        assert_eq!(batch(&good), [""; 0], "{good}");
    }
    for good in [
        json!({}),
        json!({ "scaleStrategy": {}, "updateStrategy": { "maxUnavailable": "0%" }, "recycleStrategy": {} }),
        json!({ "scaleStrategy": { "maxUnavailable": 0 }, "recycleStrategy": { "type": "Noop" } }),
        json!({ "capacitySpec": { "bufferMin": 2, "poolMin": 2 } }),
    ] {
        assert_eq!(pool(good.clone()), [""; 0], "{good}");
    }
}

#[test]
fn a_batch_that_does_not_do_what_it_says_is_warned_about() {
    says(&batch(&json!({})), "gets no pods");
    says(&batch(&json!({ "poolRef": "" })), "gets no pods");
    says(&batch(&json!({ "poolRef": "p", "shardPatches": [{}] })), "shardPatches is not used");
    says(&batch(&json!({ "poolRef": "p", "shardTaskPatches": [{}] })), "shardTaskPatches is not used");
    says(&batch(&json!({ "poolRef": "p", "taskTemplate": { "spec": {} } })), "nothing to run");
    says(
        &batch(&json!({ "poolRef": "p", "taskResourcePolicyWhenCompleted": "release" })),
        "counts as Retain",
    );
    says(&batch(&json!({ "poolRef": "p", "replicas": -1 })), "counts as 0");
}

#[test]
fn a_pool_that_cannot_be_as_it_says_is_warned_about() {
    says(&pool(json!({ "template": null })), "makes no pods");
    says(&pool(json!({ "capacitySpec": { "bufferMin": 3 } })), "bufferMin is above bufferMax");
    says(&pool(json!({ "capacitySpec": { "poolMin": 3 } })), "poolMin is above poolMax");
    for wrong in [json!(-1), json!("5"), json!("%"), json!("a%"), json!("-1%"), json!("9999999999%")] {
        let strategy = json!({ "maxUnavailable": wrong });
        says(&pool(json!({ "scaleStrategy": strategy })), "scaleStrategy.maxUnavailable counts as 25%");
        says(&pool(json!({ "updateStrategy": strategy })), "updateStrategy.maxUnavailable counts as 25%");
    }
    says(&pool(json!({ "recycleStrategy": { "type": "Reuse" } })), "counts as Delete");
    let capacity = json!({ "bufferMin": 1, "bufferMax": 2, "poolMin": 1, "poolMax": 2 });
    let long: Pool = object(&"x".repeat(64), &json!({ "template": {}, "capacitySpec": capacity }));
    says(&long.warnings(), "longer than 63 characters");
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let all = pool(json!({ "template": null, "capacitySpec": { "bufferMin": 3, "poolMin": 3 } }));
    assert_eq!(all.len(), 3, "{all:?}");
}
