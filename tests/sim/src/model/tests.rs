//! What the model must do as the API server does it. `tests/tests/scenarios/sim.rs` compares the two.

mod deletes;
mod watches;
mod writes;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Model, PODS, Place, SANDBOXES};

const NAMESPACE: &str = "default";

fn model() -> Model {
    Model::new(1, "2026-11-18T10:00:00Z".parse().expect("a time"), 1000)
}

fn sandbox(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "paused": false } })
}

fn pod(name: &str) -> Value {
    let containers = json!([{ "name": "main", "image": "a", "resources": { "limits": { "cpu": "1" } } }]);
    json!({ "metadata": { "name": name }, "spec": { "containers": containers } })
}

/// Makes the object and says where it is.
fn made(model: &mut Model, object: Value) -> (Place, Arc<Value>) {
    let kind = if object.pointer("/spec/containers").is_some() { &PODS } else { &SANDBOXES };
    let object = model.create(kind, NAMESPACE, object).expect("a new object");
    (Place::of(kind, &object), object)
}

/// As a scheduler does it: the pod runs on a node.
fn bind(model: &mut Model, place: &Place) {
    let mut pod = Value::clone(model.get(place).expect("a pod"));
    pod["spec"]["nodeName"] = json!("node");
    model.put(place, pod);
}
