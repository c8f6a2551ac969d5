//! OpenSandbox's whole objects: they survive being read and written, they mean what their projection means,
//! and no text of theirs that may be a secret is printed.

#![forbid(unsafe_code)]

mod shared;

use proptest::prelude::*;
use sandgate_objects::opensandbox::resources::{
    BatchSandbox, Pool, RecycleType, ResourcePolicy, SandboxSnapshot, decode,
};
use sandgate_objects::opensandbox::{self, ENDPOINTS, names};
use sandgate_objects::{SECURE_ACCESS_TOKEN, TRAFFIC_ACCESS_TOKEN};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shared::{answers, object, some};

/// Reads JSON as an object of a kind and writes it again.
fn written<K: Default + DeserializeOwned + Serialize>(object: &Value) -> Value {
    let decoded: K = decode(object.to_string().as_bytes()).unwrap();
    serde_json::to_value(decoded).unwrap()
}

fn whole(kind: &str, spec: &Value, status: &Value) -> Value {
    let mut object = json!({
        "apiVersion": names::API_VERSION, "kind": kind,
        "metadata": {
            "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-11-16T07:00:00Z", "finalizers": [names::FINALIZER_TASK_CLEANUP, "x/y"],
            "annotations": { (names::ANNOTATION_ALLOC_STATUS): "{\"pods\":[\"p-1\"]}" },
        },
        "spec": spec,
    });
    if !status.is_null() {
        object["status"] = status.clone();
    }
    object
}

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "x" }, "creationTimestamp": null },
        "spec": { "containers": [{ "name": "c", "image": "i", "future": { "b": [1, 2.50], "a": "\u{e9}" } }] },
        "later": true,
    })
}

fn condition() -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "PodsReady", "message": "m",
        "lastTransitionTime": "2026-11-16T07:00:00Z",
    })
}

#[test]
fn every_field_survives_being_read_and_written() {
    let batch = whole(
        "BatchSandbox",
        &json!({
            "replicas": 2, "poolRef": "*", "template": template(), "pause": false,
            "shardPatches": [{ "spec": { "$patch": "replace", "nodeName": null } }, {}, null],
            "shardTaskPatches": [{ "spec": { "process": { "args": ["x"] } } }],
            "expireTime": "2027-01-01T00:00:00Z", "taskResourcePolicyWhenCompleted": "Release",
            "taskTemplate": { "spec": {
                "process": {
                    "command": ["sh", "-c"], "args": ["true"], "workingDir": "/tmp",
                    "env": [
                        { "name": "A", "value": "" },
                        { "name": "B", "valueFrom": { "fileKeyRef": { "key": "k", "later": [1] } } },
                    ],
                },
                "timeoutSeconds": 9_007_199_254_740_993_i64,
            } },
        }),
        &json!({
            "observedGeneration": 3, "replicas": 2, "allocated": 2, "ready": 1, "taskRunning": 1, "taskSucceed": 0,
            "taskFailed": 0, "taskPending": 1, "taskUnknown": 0, "phase": "Succeed", "pauseObservedGeneration": 2,
            "taskLastErrorMessage": "exit code 1", "failedPodUIDs": ["u-1", "u-2"],
            "conditions": [condition(), { "type": "Paused", "status": "True" }],
        }),
    );
    assert_eq!(written::<BatchSandbox>(&batch), batch);
    let pool = whole(
        "Pool",
        &json!({
            "template": template(),
            "capacitySpec": { "bufferMax": 3, "bufferMin": 1, "poolMax": 9, "poolMin": 0 },
            "scaleStrategy": { "maxUnavailable": "25%" }, "updateStrategy": { "maxUnavailable": 1 },
            "recycleStrategy": { "type": "Restart" },
        }),
        &json!({
            "observedGeneration": 3, "revision": "0123456789abcdef", "total": 3, "allocated": 1, "available": 2,
            "updated": 3,
        }),
    );
    assert_eq!(written::<Pool>(&pool), pool);
    let snapshot = whole(
        "SandboxSnapshot",
        &json!({ "sandboxName": "a" }),
        &json!({
            "observedGeneration": 1, "phase": "Succeed", "sourcePodName": "a-0", "sourceNodeName": "n",
            "containers": [
                { "containerName": "c", "imageUri": "r/a-c:snap-gen1", "imageDigest": "sha256:0" },
                { "containerName": "d", "imageUri": "r/a-d:snap-gen1" },
            ],
            "conditions": [condition()],
        }),
    );
    assert_eq!(written::<SandboxSnapshot>(&snapshot), snapshot);
}

#[test]
fn missing_and_null_and_empty_are_the_same_and_counts_are_always_written() {
    let empty: BatchSandbox = decode(br#"{"metadata":{},"spec":{}}"#).unwrap();
    let nulls = json!({
        "metadata": { "labels": null },
        "spec": {
            "replicas": null, "poolRef": null, "template": null, "shardPatches": null, "shardTaskPatches": [],
            "expireTime": null, "pause": null, "taskTemplate": null, "taskResourcePolicyWhenCompleted": null,
        },
        "status": null,
    });
    assert_eq!(decode::<BatchSandbox>(nulls.to_string().as_bytes()).unwrap(), empty);
    assert_eq!(serde_json::to_value(&empty).unwrap()["spec"], json!({}));
    assert_eq!((empty.spec.replicas(), empty.spec.pool()), (1, None));
    let counts = json!({
        "replicas": 0, "allocated": 0, "ready": 0, "taskRunning": 0, "taskSucceed": 0, "taskFailed": 0,
        "taskPending": 0, "taskUnknown": 0,
    });
    let status = json!({ "metadata": {}, "spec": {}, "status": { "ready": null, "conditions": null } });
    assert_eq!(written::<BatchSandbox>(&status)["status"], counts);
    let capacity = json!({ "bufferMax": 0, "bufferMin": 0, "poolMax": 0, "poolMin": 0 });
    let pool = json!({ "metadata": {}, "spec": { "capacitySpec": capacity }, "status": {} });
    let counts = json!({ "revision": "", "total": 0, "allocated": 0, "available": 0, "updated": 0 });
    assert_eq!(written::<Pool>(&pool)["status"], counts);
}

/// OpenSandbox's definitions take any word here, or did, and read it as the default.
#[test]
fn a_word_that_is_not_known_is_kept_and_counts_as_the_default() {
    let policy = |word: Value| {
        let object = json!({ "metadata": {}, "spec": { "taskResourcePolicyWhenCompleted": word } });
        let read: BatchSandbox = decode(object.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap()["spec"], object["spec"]);
        (read.spec.releases_completed(), read.spec.task_resource_policy_when_completed)
    };
    assert_eq!(policy(json!("Release")), (true, Some(ResourcePolicy::Release)));
    assert_eq!(policy(json!("Retain")), (false, Some(ResourcePolicy::Retain)));
    assert_eq!(policy(json!("release")), (false, Some(ResourcePolicy::Other("release".to_owned()))));
    let recycle = |strategy: Value| {
        let capacity = json!({ "bufferMax": 0, "bufferMin": 0, "poolMax": 0, "poolMin": 0 });
        let object =
            json!({ "metadata": {}, "spec": { "capacitySpec": capacity, "recycleStrategy": strategy } });
        let read: Pool = decode(object.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap()["spec"], object["spec"]);
        read.spec.recycle()
    };
    for (word, means) in [
        ("Delete", RecycleType::Delete),
        ("Restart", RecycleType::Restart),
        ("Noop", RecycleType::Noop),
        ("Reuse", RecycleType::Delete),
        ("", RecycleType::Delete),
    ] {
        assert_eq!(recycle(json!({ "type": word })), means, "{word}");
    }
    assert_eq!(recycle(json!({})), RecycleType::Delete);
}

#[test]
fn what_is_wrong_is_named_and_not_quoted() {
    for (object, path) in [
        (json!({ "spec": { "expireTime": "s3cret" } }), "spec.expireTime"),
        (json!({ "spec": { "template": "s3cret" } }), "spec.template"),
        (json!({ "spec": { "replicas": "s3cret" } }), "spec.replicas"),
        (json!({ "spec": { "shardPatches": "s3cret" } }), "spec.shardPatches"),
        (
            json!({ "spec": { "taskTemplate": { "spec": { "process": 7 } } } }),
            "spec.taskTemplate.spec.process",
        ),
        (json!({ "spec": {}, "status": { "ready": "s3cret" } }), "status.ready"),
        (json!({ "spec": {}, "status": { "conditions": [{ "type": 7 }] } }), "status.conditions[0].type"),
    ] {
        let mut object = object;
        object["metadata"] = json!({});
        let error = decode::<BatchSandbox>(object.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.path, path, "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let none = decode::<Pool>(br#"{"metadata":{},"spec":{"capacitySpec":{"bufferMax":1}}}"#).unwrap_err();
    assert!(none.to_string().contains("bufferMin"), "a pool without a number is not a pool of none: {none}");
}

#[test]
fn nothing_that_may_be_a_secret_is_printed() {
    let secret = json!({ "spec": { "containers": [{ "env": [{ "value": "s3cret" }] }] } });
    let process =
        json!({ "command": ["s3cret"], "args": ["s3cret"], "env": [{ "name": "A", "value": "s3cret" }] });
    let object = json!({ "metadata": {}, "spec": {
        "template": secret, "shardPatches": [secret], "shardTaskPatches": [secret],
        "taskTemplate": { "spec": { "process": process } },
    } });
    let batch: BatchSandbox = decode(object.to_string().as_bytes()).unwrap();
    let text = format!("{batch:?}");
    assert!(text.contains("A=") && !text.contains("s3cret"), "{text}");
}

/// A batch that an API server may have.
fn batch() -> impl Strategy<Value = Value> {
    let times = ["2026-11-16T05:59:59.999Z", "2027-01-01T00:00:00Z", "1969-12-31T23:59:59.5Z"];
    let endpoints =
        ["", "[]", "[\"10.0.0.1\"]", "[\"\",\"10.0.0.2\"]", "[\"0.0.0.0\"]", "[7]", "null", "not JSON"];
    let annotations = object(vec![
        (ENDPOINTS, some(&endpoints)),
        (SECURE_ACCESS_TOKEN, some(&["s3cret", "other", ""])),
        (TRAFFIC_ACCESS_TOKEN, some(&["s3cret", " s3cret ", "other", ""])),
    ]);
    let metadata = object(vec![
        ("name", some(&["demo", "demo", "demo", "a/b"])),
        ("namespace", some(&["team-a"])),
        ("uid", some(&["8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b"])),
        ("resourceVersion", some(&["41", "41", "41", "x"])),
        ("creationTimestamp", some(&times)),
        ("deletionTimestamp", prop::option::weighted(0.1, some(&times)).prop_map(Value::from).boxed()),
        ("annotations", annotations),
    ]);
    let spec = object(vec![("poolRef", some(&["", "*", "pool"])), ("expireTime", some(&times))]);
    let phases = ["Pending", "Succeed", "Pausing", "Paused", "Resuming", "Failed", "", "Other"];
    let status = object(vec![("phase", some(&phases)), ("ready", (0..3_i32).prop_map(Value::from).boxed())]);
    (metadata, spec, prop::option::weighted(0.9, status))
        .prop_map(|(metadata, spec, status)| json!({ "metadata": metadata, "spec": spec, "status": status }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_whole_batch_gives_the_answers_of_its_projection(object in batch()) {
        let json = object.to_string();
        let whole: BatchSandbox = decode(json.as_bytes()).unwrap();
        let projection: opensandbox::BatchSandbox = sandgate_objects::decode(json.as_bytes()).unwrap();
        prop_assert_eq!(answers(&whole), answers(&projection));
        // Written and read it is the same but for parts of seconds, which Kubernetes does not keep.
        let again: BatchSandbox = decode(&serde_json::to_vec(&whole).unwrap()).unwrap();
        let twice: BatchSandbox = decode(&serde_json::to_vec(&again).unwrap()).unwrap();
        prop_assert_eq!(again, twice);
    }
}
