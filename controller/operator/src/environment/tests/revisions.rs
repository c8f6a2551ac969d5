use serde_json::{Value, json};

use super::super::content::hash;
use super::world::*;

fn spec() -> Value {
    json!({"replicas": 2, "templateName": "t", "idleImage": "idle:1", "template": pods("main:1")})
}

fn with(pointer: &str, value: Value) -> String {
    let mut spec = spec();
    let (at, field) = pointer.rsplit_once('/').unwrap();
    let at = spec.pointer_mut(at).unwrap();
    match field.parse::<usize>() {
        Ok(index) => {
            let list = at.as_array_mut().unwrap();
            list.resize(index + 1, Value::Null);
            list[index] = value;
        }
        Err(_) => at[field] = value,
    }
    hash(&read(&spec))
}

#[test]
fn one_content_has_one_revision_of_eight_digits_in_every_process() {
    // A change of this text would roll every pool.
    assert_eq!(hash(&read(&spec())), "66c3ff74");
}

#[test]
fn a_revision_is_that_of_what_pods_are_made_of() {
    let known = hash(&read(&spec()));
    for (pointer, value) in [
        ("/idleImage", json!("idle:2")),
        ("/template/spec/affinity", json!({"nodeAffinity": {}})),
        ("/template/spec/containers/1", json!({"name": "sidecar", "image": "s"})),
        ("/gateway", json!({"enabled": true})),
        ("/template/metadata/labels/of", json!("another")),
        ("/podCreationImagePolicy", json!("PoolDefaultImage")),
        ("/template/spec/volumes", json!([{"name": "v", "emptyDir": {}}])),
    ] {
        assert_ne!(with(pointer, value), known, "{pointer}");
    }
    for (pointer, value) in [
        ("/replicas", json!(9)),
        ("/defaultStartupTimeout", json!("2m")),
        ("/defaultIdleTimeout", json!("2m")),
        ("/maxUnavailable", json!(3)),
        ("/templateName", json!("another")),
        ("/podCreationImagePolicy", json!("IdleImage")),
        // While a pod waits, it does not have it.
        ("/template/spec/containers/0/image", json!("main:2")),
        ("/template/spec/containers/0/env", json!([])),
        ("/template/spec/containers/0/resources/limits", json!({"memory": "4096Mi", "cpu": "2000m"})),
    ] {
        assert_eq!(with(pointer, value), known, "{pointer}");
    }
    let mut stamped = spec();
    stamped["template"]["metadata"]["labels"]["agentbox.navix.sh/template-hash"] = json!("x");
    assert_eq!(hash(&read(&stamped)), known, "its own label is none of it");
}

#[test]
fn the_image_that_runs_matters_where_pods_wait_with_it() {
    let of = |image: &str| {
        let mut spec = spec();
        spec["podCreationImagePolicy"] = json!("PoolDefaultImage");
        spec["template"] = pods(image);
        hash(&read(&spec))
    };
    assert_ne!(of("main:1"), of("main:2"));
}
