//! Which pod and which containers are kept, and under which names.

use sandgate_objects::opensandbox::resources::{BatchSandbox, SandboxSnapshot};
use serde_json::{Value, json};

use crate::snapshot::source::{candidates, images, is_source, kept_containers};
use crate::view::{Seen, Slots, Viewed as _};

fn batch(pool: Option<&str>, alloc: &Value) -> Seen<BatchSandbox> {
    let object = json!({
        "metadata": {
            "name": "b", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 4,
            "annotations": alloc,
        },
        "spec": {"poolRef": pool},
    });
    BatchSandbox::read(object.to_string().as_bytes()).unwrap()
}

fn snapshot(name: &str, owner: &Value) -> Seen<SandboxSnapshot> {
    let object = json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": "s", "resourceVersion": "7", "ownerReferences": owner,
        },
        "spec": {"sandboxName": "b"},
    });
    SandboxSnapshot::read(object.to_string().as_bytes()).unwrap()
}

#[test]
fn the_pods_of_a_pool_come_first_without_those_that_go_back() {
    let alloc = json!({
        "sandbox.opensandbox.io/alloc-status": "{\"pods\":[\"p-1\",\"p-2\",\"p-3\"]}",
        "sandbox.opensandbox.io/alloc-release": "{\"pods\":[\"p-1\"]}",
        "sandbox.opensandbox.io/alloc-released": "{\"pods\":[\"p-3\"]}",
    });
    let pooled = batch(Some("p"), &alloc);
    assert_eq!(candidates(&pooled, &Slots::of(&pooled).unwrap(), &[]), ["p-2", "b-0"]);
    let own = batch(None, &alloc);
    assert_eq!(candidates(&own, &Slots::of(&own).unwrap(), &[]), ["b-0"]);
}

#[test]
fn a_source_is_the_batchs_runs_and_has_a_node() {
    let alloc = json!({"sandbox.opensandbox.io/alloc-status": "{\"pods\":[\"p-1\"]}"});
    let batch = batch(Some("p"), &alloc);
    let slots = Slots::of(&batch).unwrap();
    let pod = |name: &str, change: Value| {
        let mut pod = json!({
            "metadata": {"name": name}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"},
        });
        json_merge(&mut pod, &change);
        is_source(&batch, &slots, &pod)
    };
    let marked = |mark: &str| json!({"metadata": {"annotations": {"sandgate.dev/allocated-to": mark}}});
    let owned = |uid: &str| json!({"metadata": {"ownerReferences": [{"controller": true, "uid": uid}]}});
    for (name, change, expected) in [
        ("p-1", json!({}), true),
        ("p-1", marked("u/b"), true),
        ("p-1", marked("v/b"), false),
        ("p-2", marked("u/b"), false),
        ("b-0", owned("u"), true),
        ("b-0", owned("v"), false),
        ("p-1", json!({"metadata": {"deletionTimestamp": "x"}}), false),
        ("p-1", json!({"status": {"phase": "Pending"}}), false),
        ("p-1", json!({"spec": {"nodeName": ""}}), false),
    ] {
        assert_eq!(pod(name, change.clone()), expected, "{name}: {change}");
    }
}

fn json_merge(target: &mut Value, change: &Value) {
    for (name, value) in change.as_object().unwrap() {
        match value {
            Value::Object(_) if target[name].is_object() => json_merge(&mut target[name], value),
            other => target[name] = other.clone(),
        }
    }
}

#[test]
fn containers_of_the_template_are_kept_and_all_if_it_has_none_of_them() {
    let named = |names: &[&str]| {
        let containers: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": containers}})
    };
    for (template, pod, kept) in [
        (Some(named(&["a", "b"])), named(&["sidecar", "b", "a"]), vec!["b", "a"]),
        (Some(named(&["old"])), named(&["a", "b"]), vec!["a", "b"]),
        (None, named(&["a"]), vec!["a"]),
        (Some(json!({})), named(&["a"]), vec!["a"]),
    ] {
        assert_eq!(kept_containers(template.as_ref(), &pod), kept);
    }
}

#[test]
fn images_have_the_name_of_the_batch_and_a_tag_by_who_asked() {
    let owner = json!([{
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox", "name": "b", "uid": "u",
        "controller": true,
    }]);
    let hex = "0123456789abcdef0123456789abcdef";
    for (name, owner, tag) in [
        ("b-pause", owner, "snap-gen4".to_owned()),
        (&*format!("osb-snap-{hex}"), json!([]), format!("snap-{hex}")),
        // The beginning of sha256("nightly").
        ("nightly", json!([]), "snap-2a3b62b53ddb9f167b63d22202a36081".to_owned()),
    ] {
        let batch = batch(None, &json!({}));
        let images = images("r/", &batch, &snapshot(name, &owner), vec!["main".to_owned()]);
        assert_eq!(images[0].image_uri, format!("r/b-main:{tag}"));
    }
    let upper = format!("osb-snap-{}", hex.to_uppercase());
    let images =
        images("r", &batch(None, &json!({})), &snapshot(&upper, &json!([])), vec!["main".to_owned()]);
    assert!(!images[0].image_uri.contains("ABCDEF"));
}
