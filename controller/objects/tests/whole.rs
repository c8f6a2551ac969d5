//! The whole objects: they survive being read and written, they cost no managed fields, and they mean what
//! their projections mean.

#![forbid(unsafe_code)]

mod shared;

use proptest::prelude::*;
use sandgate_objects::openkruise::{
    self, API_VERSION, ENABLE_JWT_AUTH, ENVD_ACCESS_TOKEN, OWNER, RUNTIME_ACCESS_TOKEN, SANDBOX_ID,
    SANDBOX_SET, resources,
};
use sandgate_objects::{TRAFFIC_ACCESS_TOKEN, decode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shared::{answers, object, some};

fn list(element: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop::collection::vec(element, 0..4).prop_map(Value::from).boxed()
}

const TIMES: [&str; 4] = [
    "2026-11-16T05:59:59.999Z",
    "2026-11-16T07:00:00+01:00",
    "2027-01-01T00:00:00Z",
    "1969-12-31T23:59:59.5Z",
];

fn metadata() -> BoxedStrategy<Value> {
    let owner = object(vec![
        ("apiVersion", some(&[API_VERSION, "v1"])),
        ("kind", some(&[SANDBOX_SET, "Node"])),
        ("name", some(&["pool"])),
        ("controller", any::<bool>().prop_map(Value::from).boxed()),
    ]);
    let annotations = object(vec![
        (RUNTIME_ACCESS_TOKEN, some(&["s3cret", "other", ""])),
        (TRAFFIC_ACCESS_TOKEN, some(&["s3cret", " s3cret ", "other", ""])),
        (ENVD_ACCESS_TOKEN, some(&["s3cret", "other", ""])),
        (OWNER, some(&["alice", "a\u{7}", ""])),
        (ENABLE_JWT_AUTH, some(&["true", "false"])),
    ]);
    object(vec![
        ("name", some(&["demo", "demo", "demo", "a/b"])),
        ("namespace", some(&["team-a"])),
        ("uid", some(&["8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b"])),
        ("resourceVersion", some(&["41", "41", "41", "x"])),
        ("creationTimestamp", some(&TIMES)),
        ("deletionTimestamp", prop::option::weighted(0.1, some(&TIMES)).prop_map(Value::from).boxed()),
        ("labels", object(vec![(SANDBOX_ID, some(&["box-1", "team-a--demo", "", "a b"]))])),
        ("annotations", annotations),
        ("ownerReferences", list(owner)),
    ])
}

/// A sandbox that an API server may have.
fn sandbox() -> impl Strategy<Value = Value> {
    let condition = object(vec![
        ("type", some(&["Ready", "Finished", "SandboxPaused"])),
        ("status", some(&["True", "False", "Unknown"])),
        ("reason", some(&["PodReady"])),
    ]);
    let condition = condition.prop_map(|mut condition| {
        condition["lastTransitionTime"] = json!(TIMES[0]);
        condition
    });
    let condition = condition.boxed();
    let phases =
        ["Pending", "Running", "Running", "Paused", "Resuming", "Failed", "Terminating", "", "Other"];
    let addresses = ["10.0.0.1", "fd00::1", "0.0.0.0", "nowhere", ""];
    let spec = object(vec![
        ("paused", any::<bool>().prop_map(Value::from).boxed()),
        ("shutdownTime", some(&TIMES)),
        ("template", Just(json!({ "spec": { "containers": [{}], "new": 1 } })).boxed()),
    ]);
    let status = object(vec![
        ("phase", some(&phases)),
        ("conditions", list(condition)),
        ("podInfo", object(vec![("podIP", some(&addresses))])),
    ]);
    (metadata(), spec, prop::option::weighted(0.9, status))
        .prop_map(|(metadata, spec, status)| json!({ "metadata": metadata, "spec": spec, "status": status }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_whole_sandbox_gives_the_answers_of_its_projection(object in sandbox()) {
        let json = object.to_string();
        let whole: resources::Sandbox = resources::decode(json.as_bytes()).unwrap();
        let projection: openkruise::Sandbox = decode(json.as_bytes()).unwrap();
        prop_assert_eq!(answers(&whole), answers(&projection));
        let facts = resources::SandboxFacts::from(whole.clone());
        prop_assert_eq!(answers(&facts), answers(&whole));
        // Written and read it is the same but for parts of seconds, which Kubernetes does not keep.
        let again: resources::Sandbox = resources::decode(&serde_json::to_vec(&whole).unwrap()).unwrap();
        let twice: resources::Sandbox = resources::decode(&serde_json::to_vec(&again).unwrap()).unwrap();
        prop_assert_eq!(again, twice);
    }
}

fn pod_template() -> Value {
    json!({
        "metadata": { "labels": { "app": "x" }, "creationTimestamp": null },
        "spec": { "containers": [{ "name": "c", "image": "i", "future": { "b": [1, 2.50], "a": "\u{e9}" } }] },
    })
}

/// Reads JSON as an object of a kind and writes it again.
fn written<K: Default + DeserializeOwned + Serialize>(object: &Value) -> Value {
    let decoded: K = resources::decode(object.to_string().as_bytes()).unwrap();
    serde_json::to_value(decoded).unwrap()
}

fn whole(kind: &str, spec: &Value, status: &Value) -> Value {
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-11-16T07:00:00Z", "finalizers": ["x/y"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o", "controller": true }],
        },
        "spec": spec,
    });
    if !status.is_null() {
        object["status"] = status.clone();
    }
    object
}

fn conditions() -> Value {
    json!([{
        "type": "Ready", "status": "True", "reason": "PodReady", "message": "",
        "lastTransitionTime": "2026-11-16T07:00:00Z", "observedGeneration": 3,
    }])
}

#[test]
fn every_field_survives_being_read_and_written() {
    let common = json!({
        "persistentContents": ["ip"], "runtimes": [{ "name": "csi" }], "template": pod_template(),
        "pauseStrategy": { "type": "Hibernate", "hibernateStrategy": { "type": "Snapshot" } },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "future": true } }],
        "autoPausePolicy": { "resume": { "onIngressTraffic": { "pauseTimeout": "5m" } } },
        "probes": [{ "name": "idle", "exec": {} }],
    });
    let with = |more: Value| -> Value {
        let mut spec = common.clone();
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    };
    let sandbox = whole(
        "Sandbox",
        &with(json!({
            "paused": false, "shutdownTime": "2027-01-01T00:00:00Z", "pauseTime": "2026-12-01T00:00:00Z",
            "lifecycle": { "preUpgrade": { "exec": { "command": ["a"] }, "timeoutSeconds": 5 }, "postUpgrade": {} },
            "upgradePolicy": { "type": "" },
            "templateRef": { "name": "t", "kind": "SandboxTemplate", "apiVersion": API_VERSION },
        })),
        &json!({
            "observedGeneration": 3, "phase": "Running", "message": "m", "conditions": conditions(),
            "podInfo": {
                "annotations": { "a": "b" }, "labels": { "c": "d" }, "nodeName": "n", "podIP": "10.0.0.1",
                "podUID": "p",
            },
            "nodeName": "n", "sandboxIp": "10.0.0.1", "updateRevision": "r", "recycledCount": 0,
            "schedules": [{ "reason": "x" }],
        }),
    );
    assert_eq!(written::<resources::Sandbox>(&sandbox), sandbox);
    let set = whole(
        "SandboxSet",
        &with(json!({
            "replicas": 0, "scaleStrategy": { "maxUnavailable": 3 }, "updateStrategy": { "maxUnavailable": "20%" },
            "templateRef": { "name": "t" },
        })),
        &json!({
            "observedGeneration": 1, "replicas": 1, "availableReplicas": 0, "updateRevision": "u",
            "currentRevision": "c", "updatedReplicas": 1, "updatedAvailableReplicas": 0,
            "conditions": conditions(), "selector": "a=b",
        }),
    );
    assert_eq!(written::<resources::SandboxSet>(&set), set);
    let template = whole("SandboxTemplate", &with(json!({})), &Value::Null);
    assert_eq!(written::<resources::SandboxTemplate>(&template), template);
    let checkpoint = whole(
        "Checkpoint",
        &json!({
            "sandboxName": "s", "podName": "p", "keepRunning": true, "persistentContents": ["memory"],
            "ttlAfterFinished": "30d",
        }),
        &json!({
            "observedGeneration": 1, "phase": "Succeeded", "message": "m", "checkpointId": "c",
            "completionTime": "2026-12-01T00:00:00Z", "podTemplateDelta": { "spec": {} },
        }),
    );
    assert_eq!(written::<resources::Checkpoint>(&checkpoint), checkpoint);
}

#[test]
fn a_template_is_kept_to_the_letter() {
    let text = "{\"spec\": {\"containers\" :[ ], \"big\": 12345678901234567890123, \"e\": \"\\u00e9\"}}";
    let object = format!("{{\"metadata\":{{}},\"spec\":{{\"template\":{text}}}}}");
    let whole: resources::Sandbox = resources::decode(object.as_bytes()).unwrap();
    assert_eq!(whole.spec.template.as_ref().unwrap().get(), text);
    assert!(serde_json::to_string(&whole).unwrap().contains(text));
    assert!(!format!("{whole:?}").contains("containers"), "a template may contain secrets");
    assert_eq!(serde_json::from_str::<resources::Sandbox>(&object).unwrap(), whole);
    // A value, as tools make it, has lost the letters and has the fields.
    let value = json!({ "metadata": {}, "spec": { "template": pod_template() } });
    let value: resources::Sandbox = serde_json::from_value(value).unwrap();
    assert_eq!(value.spec.template, Some(resources::PodTemplate::new(&pod_template())));
    assert!(resources::PodTemplate::new(&pod_template()).parse().unwrap() == pod_template());
}

/// What a claim writes into a template differs between any two sandboxes, and each claim writes it anew.
#[test]
fn the_facts_of_a_sandbox_lack_the_labels_that_a_claim_gives_to_its_pod() {
    let facts = |template: &Value| {
        let object = json!({ "metadata": { "name": "a" }, "spec": { "template": template } });
        let whole: resources::Sandbox = resources::decode(object.to_string().as_bytes()).unwrap();
        let facts = resources::SandboxFacts::from(whole);
        facts.template.unwrap().parse().unwrap()
    };
    let plain = json!({
        "metadata": { "labels": { "app": "x" }, "annotations": { "a": "b" } },
        "spec": { "containers": [{ "name": "c" }] }, "later": [1],
    });
    let mut claimed = plain.clone();
    claimed["metadata"]["labels"] = json!({
        "app": "x", OWNER: "ada", "agents.kruise.io/sandbox-name": "a",
        "agents.kruise.io/allow-internet-access": "false",
    });
    assert_eq!(facts(&claimed), plain);
    assert_eq!(facts(&plain), plain);
    // Elsewhere the same words are the user's.
    let mut said = plain.clone();
    said["spec"]["containers"][0]["env"] = json!([{ "name": "WHO", "value": OWNER }]);
    said["metadata"]["annotations"][OWNER] = json!("ada");
    assert_eq!(facts(&said), said);
    let odd = json!({ "metadata": { "labels": [OWNER] } });
    assert_eq!(facts(&odd), odd);
}

/// All that another sandbox is made from is in the facts.
#[test]
fn the_facts_of_a_sandbox_have_what_another_is_made_from() {
    let contents = json!({
        "template": pod_template(), "volumeClaimTemplates": [{ "metadata": { "name": "v" } }],
        "persistentContents": ["memory"], "runtimes": [{ "name": "csi" }],
        "pauseStrategy": { "type": "Stop" }, "autoPausePolicy": { "resume": {} }, "probes": [{ "name": "p" }],
    });
    let object = json!({ "metadata": { "name": "a" }, "spec": contents });
    let whole: resources::Sandbox = resources::decode(object.to_string().as_bytes()).unwrap();
    assert_eq!(json!(resources::SandboxFacts::from(whole).contents()), contents);
}

#[test]
fn missing_and_null_and_empty_are_the_same() {
    let empty: resources::Sandbox = resources::decode(br#"{"metadata":{},"spec":{}}"#).unwrap();
    let object = json!({
        "metadata": { "labels": null },
        "spec": {
            "paused": null, "template": null, "runtimes": null, "volumeClaimTemplates": [], "shutdownTime": null,
            "persistentContents": [],
        },
        "status": null,
    });
    assert_eq!(resources::decode::<resources::Sandbox>(object.to_string().as_bytes()).unwrap(), empty);
    let written = serde_json::to_value(&empty).unwrap();
    assert_eq!(written["spec"], json!({}));
    assert_eq!(written.get("status"), None);
}

#[test]
fn what_is_wrong_is_named_and_not_quoted() {
    for (object, path) in [
        (json!({ "spec": { "shutdownTime": "s3cret" } }), "spec.shutdownTime"),
        (json!({ "spec": { "template": "s3cret" } }), "spec.template"),
        (json!({ "spec": { "pauseStrategy": { "type": 7 } } }), "spec.pauseStrategy.type"),
        (json!({ "metadata": { "name": ["s3cret"] }, "spec": {} }), "metadata.name"),
        (json!({ "metadata": [], "spec": {} }), "metadata"),
        (json!({ "spec": {}, "status": { "conditions": [{ "type": 7 }] } }), "status.conditions[0].type"),
        (json!([]), "object"),
    ] {
        let mut object = object;
        if object.is_object() && object.get("metadata").is_none() {
            object["metadata"] = json!({});
        }
        let error = resources::decode::<resources::Sandbox>(object.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.path, path, "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let set = resources::decode::<resources::SandboxSet>(br#"{"metadata":{},"spec":{}}"#).unwrap_err();
    assert!(set.to_string().contains("replicas"), "a set without a number is not a set of none: {set}");
}

#[test]
fn managed_fields_are_not_kept_and_cost_nothing() {
    let mut object = whole("Sandbox", &json!({ "template": pod_template() }), &Value::Null);
    let without = object.to_string();
    let fields = json!({ "f:metadata": { "f:labels": { ".": {}, "f:a": {} } } });
    let managed =
        json!({ "manager": "m", "operation": "Update", "fieldsV1": fields, "time": "2026-11-16T07:00:00Z" });
    object["metadata"]["managedFields"] = json!(vec![managed; 200]);
    let with = object.to_string();
    let cost = |text: &str| {
        let mut decoded = None;
        let counted = allocation_counter::measure(|| {
            decoded = Some(resources::decode::<resources::Sandbox>(text.as_bytes()));
        });
        (decoded.unwrap().unwrap(), counted.bytes_total)
    };
    let ((slim, small), (full, large)) = (cost(&without), cost(&with));
    assert_eq!(slim, full);
    assert_eq!(full.metadata.managed_fields, None);
    assert!(small > 0 && large <= small + 256, "{large} bytes with managed fields, {small} without");
    assert!(with.len() > without.len() + 20_000, "{}", with.len());
}
