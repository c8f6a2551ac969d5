use sandgate_cache::Viewed as _;
use serde_json::{Value, json};

use super::*;

fn read(set: &str, change: impl Fn(&mut Value)) -> Seen<SandboxFacts> {
    let mut object = json!({
        "metadata": {
            "namespace": "ns", "name": "x", "uid": "u", "resourceVersion": "1",
            "labels": { "agents.kruise.io/sandbox-claimed": "false" },
            "ownerReferences": [{
                "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxSet", "name": set, "uid": "s",
                "controller": true,
            }],
        },
        "spec": {},
    });
    change(&mut object);
    SandboxFacts::read(object.to_string().as_bytes()).unwrap()
}

#[test]
fn only_what_the_set_has_and_nobody_holds_is_in_its_pool() {
    let set = json!({
        "metadata": { "namespace": "ns", "name": "base", "uid": "s", "resourceVersion": "1" },
        "spec": { "replicas": 1 },
    });
    let set = SandboxSet::read(set.to_string().as_bytes()).unwrap();
    let pool = Pool { set: &set };
    assert!(pool.has(&read("base", |_| {})));
    assert!(!pool.has(&read("other", |_| {})), "another set's");
    type Changing = fn(&mut Value);
    let changes: [(&str, Changing); 4] = [
        ("another namespace's", |it| it["metadata"]["namespace"] = "other".into()),
        ("locked by a scale-down", |it| {
            it["metadata"]["annotations"] = json!({ "agents.kruise.io/lock": "l" });
        }),
        ("claimed", |it| it["metadata"]["labels"]["agents.kruise.io/sandbox-claimed"] = "true".into()),
        ("released", |it| it["metadata"]["ownerReferences"] = Value::Null),
    ];
    for (why, change) in changes {
        assert!(!pool.has(&read("base", change)), "{why}");
    }
}
