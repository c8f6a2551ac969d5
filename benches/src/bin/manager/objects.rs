//! Sandboxes as the API server sends them, for a cache that is fed in this process: nine of ten claimed, one
//! in the pool, each with a pod template of 6 KiB.

use sandgate_cache::{Cache, Key};
use sandgate_follow::Sink as _;
use sandgate_objects::openkruise::resources::SandboxFacts;
use sandgate_tests::kubernetes::pod_template;
use serde_json::{Value, json};

/// The namespace of all.
pub(crate) const NAMESPACE: &str = "default";

/// The name of one of many.
pub(crate) fn key(number: usize) -> Key {
    Key::new(NAMESPACE, &format!("base-{number:06}"))
}

/// The ID of one that is claimed.
pub(crate) fn id(number: usize) -> String {
    format!("id{number:018}")
}

/// The UID of one of many.
pub(crate) fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// One of many, at this version, ready or not.
pub(crate) fn sandbox(number: usize, version: usize, ready: bool) -> Value {
    let claimed = !number.is_multiple_of(10);
    let owners = json!([{
        "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxSet", "name": "base",
        "uid": "set", "controller": true,
    }]);
    let mut sandbox = json!({
        "apiVersion": "agents.kruise.io/v1alpha1", "kind": "Sandbox",
        "metadata": {
            "namespace": NAMESPACE, "name": format!("base-{number:06}"), "uid": uid(number), "generation": 1,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "agents.kruise.io/sandbox-pool": "base", "agents.kruise.io/sandbox-template": "base",
                "agents.kruise.io/sandbox-claimed": claimed.to_string(), "agents.kruise.io/template-hash": "r1",
            },
        },
        "spec": { "paused": false, "template": pod_template() },
        "status": {
            "phase": "Running", "observedGeneration": 1, "podInfo": { "podIP": "127.0.0.2", "podUID": "p" },
            "conditions": [{
                "type": "Ready", "status": if ready { "True" } else { "False" }, "reason": "PodReady",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    if claimed {
        sandbox["spec"]["template"] = claimed_template(number);
        sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-id"] = json!(id(number));
        sandbox["metadata"]["annotations"] = json!({
            "agents.kruise.io/lock": format!("{number:032}"),
            "agents.kruise.io/owner": format!("00000000-0000-4000-9000-{:012}", number % 100),
            "agents.kruise.io/claim-timestamp": "2026-01-01T00:00:00Z",
            "agents.kruise.io/runtime-access-token": format!("{number:032}"),
            "agents.kruise.io/init-runtime-request":
                format!("{{\"envVars\":{{}},\"accessToken\":\"{number:032}\"}}"),
        });
        sandbox["spec"]["shutdownTime"] = json!("2036-01-01T00:00:00Z");
    } else {
        sandbox["metadata"]["ownerReferences"] = owners;
    }
    sandbox
}

/// The pod template of a sandbox that is claimed: a claim gives labels to the pod, and no two are equal.
pub(crate) fn claimed_template(number: usize) -> Value {
    let mut template = pod_template();
    let labels = &mut template["metadata"]["labels"];
    labels["agents.kruise.io/owner"] = json!(format!("00000000-0000-4000-9000-{:012}", number % 100));
    labels["agents.kruise.io/sandbox-name"] = json!(format!("base-{number:06}"));
    labels["agents.kruise.io/allow-internet-access"] = json!("true");
    template
}

/// A cache that has read a list of so many.
pub(crate) fn cache(count: usize, ready: bool) -> Cache {
    let cache = Cache::builder().build().expect("a cache");
    let mut feed = cache.feed::<SandboxFacts>();
    feed.begin();
    for number in 0..count {
        let bytes = sandbox(number, number + 1, ready).to_string();
        let (_, object) = feed.decode(bytes.as_bytes()).expect("a sandbox");
        feed.apply(object).expect("a sandbox");
    }
    feed.commit(&(count + 1).to_string().parse().expect("a version"));
    cache
}
