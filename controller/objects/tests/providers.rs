//! What holds for every provider and every object: nothing panics, what is projected is good enough for the
//! table, a secret stays out of errors, and what is not read is not kept. A test of its own: it counts
//! allocations.

#![forbid(unsafe_code)]

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use sandgate_objects::{Provider, ProviderConfig};
use sandgate_routes::{Limits, Outcome, RouteTable};
use serde_json::{Value, json};

const TOKEN: &str = "S3CRET-TOKEN";

fn providers() -> Vec<Box<dyn Provider>> {
    let generic = json!({
        "kind": "generic",
        "name": "boxes",
        "resource": { "group": "example.com", "version": "v1", "kind": "Box", "plural": "boxes" },
        "id": r#"metadata.labels["agents.kruise.io/sandbox-id"]"#,
        "ip": ["status.podIPs[0]", "status.podInfo.podIP"],
        "token": r#"metadata.annotations["agents.kruise.io/runtime-access-token"]"#,
        "traffic-token": r#"metadata.annotations["sandgate.dev/traffic-access-token"]"#,
        "owner": r#"metadata.annotations["agents.kruise.io/owner"]"#,
        "dead-at": "spec.shutdownTime",
        "traffic-auth": { "path": "spec.paused", "equals": true },
        "states": [
            { "when": [{ "path": "metadata.ownerReferences[?@.controller==true].kind", "exists": true }], "state": "available" },
            { "when": [{ "path": "status.ready", "at-least": 1 }], "state": "running" },
            { "when": [{ "path": "status.conditions[?@.type=='Ready' && @.status=='True'].reason", "in": ["a"] }], "state": "paused" },
        ],
        "default-state": "creating",
    });
    let built_in =
        ["openkruise", "agent-sandbox", "opensandbox", "sandbox-env"].map(|kind| json!({ "kind": kind }));
    let build = |config| serde_json::from_value::<ProviderConfig>(config).unwrap().build().unwrap();
    built_in.into_iter().chain([generic]).map(build).collect()
}

/// An object in which every provider finds something.
fn object() -> Value {
    json!({
        "metadata": {
            "name": "demo", "namespace": "team-a", "uid": "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b",
            "resourceVersion": "41", "deletionTimestamp": null,
            "labels": {
                "agents.kruise.io/sandbox-id": "id-1", "agents.x-k8s.io/warm-pool-sandbox": "5f3a",
                "agentbox.navix.sh/sandbox-id": "id-1", "agentbox.navix.sh/sandbox-phase": "running",
                "agentbox.navix.sh/sandbox-pool": "pool",
            },
            "annotations": {
                "agents.kruise.io/runtime-access-token": TOKEN, "e2b.agents.kruise.io/envd-access-token": TOKEN,
                "opensandbox.io/secure-access-token": TOKEN, "agents.kruise.io/owner": "alice",
                "security.agents.kruise.io/enable-jwt-auth": "true",
                "sandbox.opensandbox.io/endpoints": "[\"\", \"10.0.0.1\"]",
                "agentbox.navix.sh/sandbox-id": "id-1", "agentbox.navix.sh/sandbox-armed": "id-1",
                "sandgate.dev/access-token": TOKEN, "sandgate.dev/owner": "alice",
                "sandgate.dev/traffic-access-token": TOKEN,
            },
            "ownerReferences": [{ "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxSet", "controller": true }],
        },
        "spec": {
            "paused": false, "operatingMode": "Running", "shutdownTime": "2027-01-01T00:00:00Z",
            "expireTime": "2027-01-01T00:00:00Z", "template": {}
        },
        "status": {
            "phase": "Running", "ready": 1, "podInfo": { "podIP": "10.0.0.1" }, "podIPs": ["10.0.0.1"],
            "podIP": "10.0.0.1",
            "conditions": [{ "type": "Ready", "status": "True", "reason": "a" }, { "type": "Finished", "status": "False" }],
        },
    })
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_808_800)
}

/// Shows an object to every provider. What one makes of it, the table must take.
fn show(bytes: &[u8]) -> Vec<Result<(), String>> {
    let (writer, _reader) = RouteTable::new(Limits::default());
    let seen = providers().into_iter().map(|provider| {
        let projection = provider.project(bytes, now()).map_err(|error| error.to_string())?;
        assert_eq!(projection.observation.key.provider(), provider.name());
        assert!(projection.dead_at.is_none_or(|at| at >= now()));
        let outcome = writer.apply(projection.observation);
        assert!(
            !matches!(outcome, Outcome::Invalid(_)),
            "{outcome:?} from {}",
            String::from_utf8_lossy(bytes)
        );
        Ok(())
    });
    seen.collect()
}

#[test]
fn every_provider_reads_the_object_the_others_are_made_of() {
    for seen in show(object().to_string().as_bytes()) {
        seen.unwrap();
    }
}

/// About 64 KiB of a pod template.
fn template() -> Value {
    let container = json!({
        "name": "c", "image": "registry.example.com/team/image:1", "command": ["sh", "-c", "echo \"é\"\n"],
        "env": (0..64).map(|n| json!({ "name": format!("NAME_{n}"), "value": "value".repeat(8) })).collect::<Vec<_>>(),
        "resources": { "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": 0.5 } },
    });
    json!({ "metadata": { "labels": { "app": "x" } }, "spec": { "containers": vec![container; 14] } })
}

#[test]
fn a_pod_template_never_becomes_memory() {
    let without = object().to_string();
    let mut with = object();
    for key in ["template", "podTemplate"] {
        with["spec"][key] = template();
    }
    let with = with.to_string();
    // The generic provider decodes whole objects.
    let built_in = providers().into_iter().filter(|provider| provider.name() != "boxes");
    assert!(with.len() > without.len() + 2 * 60 * 1024, "{}", with.len());
    for provider in built_in {
        let cost = |json: &str| {
            let mut seen = None;
            let counted =
                allocation_counter::measure(|| seen = Some(provider.project(json.as_bytes(), now())));
            seen.unwrap().unwrap();
            counted.bytes_total
        };
        let (with, without) = (cost(&with), cost(&without));
        assert!(without > 0, "the counter counts");
        // The parser remembers one byte for each open bracket it skips.
        assert!(
            with <= without + 256,
            "{}: {with} bytes with a template, {without} without",
            provider.name()
        );
        assert!(with < 8192, "{}: {with} bytes", provider.name());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::collection::vec(any::<char>(), 0..8).prop_map(|text| Value::from(String::from_iter(text))),
        prop::sample::select(vec![
            "10.0.0",
            "0.0.0.0",
            "::",
            "fd00::1",
            "0",
            "a b",
            "9999-12-31T23:59:59Z",
            "[\"\"]"
        ])
        .prop_map(Value::from),
        (0_usize..70_000).prop_map(|length| json!("x".repeat(length))),
    ];
    let key = prop::sample::select(vec!["type", "status", "controller", "name", "podIP", "é"]);
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every place in a value, as a pointer.
fn places(value: &Value, at: &str, into: &mut Vec<String>) {
    into.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                places(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), into);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                places(value, &format!("{at}/{index}"), into);
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        show(&bytes);
    }

    #[test]
    fn an_object_with_bytes_changed_is_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = object().to_string().into_bytes();
        for (place, byte, what) in changes {
            let place = place.index(bytes.len());
            match what {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                _ => drop(bytes.remove(place)),
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        show(&bytes);
    }

    #[test]
    fn an_object_with_values_changed_is_read_or_refused_without_showing_a_secret(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4),
    ) {
        let mut object = object();
        for (place, value) in changes {
            let mut all = Vec::new();
            places(&object, "", &mut all);
            *object.pointer_mut(&all[place.index(all.len())]).unwrap() = value;
        }
        for error in show(object.to_string().as_bytes()).into_iter().filter_map(Result::err) {
            prop_assert!(!error.contains(TOKEN), "{}", error);
            prop_assert!(error.len() < 1000, "{}", error);
        }
    }
}
