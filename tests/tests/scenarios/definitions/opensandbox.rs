//! OpenSandbox's kinds: what is refused, what is accepted, and what is said of them.

use std::collections::BTreeSet;
use std::fs;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use sandgate_tests::kubernetes::{ApiServer, documents, pod_template};
use sandgate_tests::locations;
use serde_json::{Value, json};

use super::refused::{Case, case, named};
use super::{assert_columns, create, files, get, install, object, path, start};

pub(super) const API_VERSION: &str = "sandbox.opensandbox.io/v1alpha1";
const PODS: &str = "set template (a pod template) or poolRef (the name of a Pool, or * for any)";
const ONE_SOURCE: &str = "leave out template or poolRef: only poolRef * (any pool) goes with a template";
const SHARE: &str = "set a number of pods, or a share as in 25%";

/// Whether it is one of these kinds.
pub(super) fn is_of(kind: &str) -> bool {
    matches!(kind, "BatchSandbox" | "Pool" | "SandboxSnapshot")
}

/// The capacity of a pool: what waits, and all, at least and at most.
pub(super) fn capacity(buffer_min: i32, buffer_max: i32, pool_min: i32, pool_max: i32) -> Value {
    json!({ "bufferMin": buffer_min, "bufferMax": buffer_max, "poolMin": pool_min, "poolMax": pool_max })
}

/// What can never work.
pub(super) fn refused() -> Vec<Case> {
    let template = || json!({ "spec": { "containers": [{ "name": "main", "image": "demo" }] } });
    let sized = |capacity: Value| json!({ "capacitySpec": capacity, "template": template() });
    let mut cases = vec![
        case("BatchSandbox", json!({}), PODS, json!({ "poolRef": "p" })),
        case("BatchSandbox", json!({ "poolRef": "" }), PODS, json!({ "template": template() })),
        case(
            "BatchSandbox",
            json!({ "poolRef": "p", "template": template() }),
            ONE_SOURCE,
            json!({ "poolRef": "*", "template": { "spec": { "nodeSelector": { "a": "b" } } } }),
        ),
        case(
            "BatchSandbox",
            json!({ "template": "a text" }),
            "must be of type object",
            json!({ "poolRef": "", "template": template() }),
        ),
        batch_with("replicas", json!(-1), "should be greater than or equal to 0", json!(0)),
        batch_with("expireTime", json!("soon"), "must be of type date-time", json!("2027-01-01T00:00:00Z")),
        batch_with("shardPatches", json!({}), "must be of type array", json!([{ "spec": {} }, null])),
        batch_with(
            "taskTemplate",
            json!({ "spec": { "process": { "env": [{}] } } }),
            "env[0].name: Required value",
            json!({ "spec": { "process": { "env": [{ "name": "A" }] } } }),
        ),
        case(
            "Pool",
            json!({ "template": template() }),
            "capacitySpec: Required",
            sized(capacity(0, 0, 0, 0)),
        ),
        case(
            "Pool",
            sized(json!({ "bufferMin": 0, "bufferMax": 0, "poolMin": 0 })),
            "poolMax: Required",
            sized(capacity(0, 0, 0, 0)),
        ),
        case(
            "Pool",
            sized(capacity(3, 2, 0, 9)),
            "spec.capacitySpec.bufferMin: Invalid value: set bufferMin to at most bufferMax",
            sized(capacity(2, 2, 0, 9)),
        ),
        case(
            "Pool",
            sized(capacity(0, 1, 3, 2)),
            "spec.capacitySpec.poolMin: Invalid value: set poolMin to at most poolMax",
            sized(capacity(0, 1, 2, 2)),
        ),
        case(
            "Pool",
            sized(capacity(-1, 1, 0, 2)),
            "should be greater than or equal to 0",
            sized(capacity(0, 1, 0, 2)),
        ),
        named("Pool", sized(capacity(0, 0, 0, 0)), "its pods have it as a label"),
        case("SandboxSnapshot", json!({}), "sandboxName: Required value", json!({ "sandboxName": "a" })),
    ];
    let with = |field: &str, value: Value| {
        let mut spec = sized(capacity(0, 0, 0, 0));
        spec[field] = value;
        spec
    };
    let recycled = |how: &str| with("recycleStrategy", json!({ "type": how }));
    cases.push(case("Pool", recycled("Reuse"), "Unsupported value: \"Reuse\"", recycled("Noop")));
    for strategy in ["scaleStrategy", "updateStrategy"] {
        let share = |value: Value| with(strategy, json!({ "maxUnavailable": value }));
        for (bad, good) in [(json!(-1), json!(0)), (json!("5"), json!("5%")), (json!("half"), json!("200%"))]
        {
            cases.push(case("Pool", share(bad), SHARE, share(good)));
        }
    }
    cases
}

/// A batch with one field more.
fn batch_with(field: &str, bad: Value, says: &'static str, good: Value) -> Case {
    let spec = |value: Value| json!({ "poolRef": "p", field: value });
    case("BatchSandbox", spec(bad), says, spec(good))
}

/// Objects as OpenSandbox's own programs, its examples and its users make them.
pub(super) fn accepted(namespace: &str) -> Vec<Value> {
    let made = |kind: &str, name: &str, spec: Value, status: Value| {
        let mut object = object(kind, namespace, name, &spec);
        if !status.is_null() {
            object["status"] = status;
        }
        object
    };
    let counts = json!({
        "replicas": 2, "allocated": 2, "ready": 1, "taskRunning": 0, "taskSucceed": 0, "taskFailed": 0,
        "taskPending": 0, "taskUnknown": 0,
    });
    let with = |more: Value| {
        let mut status = counts.clone();
        for (key, value) in more.as_object().expect("fields") {
            status[key] = value.clone();
        }
        status
    };
    let process =
        json!({ "command": ["sh", "-c"], "args": ["true"], "env": [{ "name": "A", "value": "b" }] });
    vec![
        made(
            "BatchSandbox",
            "templated",
            json!({
                "replicas": 2, "template": pod_template(), "expireTime": "2126-11-16T07:00:00Z",
                "shardPatches": [{ "spec": { "nodeSelector": null, "$setElementOrder/containers": [{ "name": "a" }] } }, {}],
            }),
            with(json!({
                "observedGeneration": 1, "phase": "Succeed",
                "conditions": [
                    { "type": "Ready", "status": "True", "reason": "PodsReady", "lastTransitionTime": "2026-11-16T07:00:00Z" },
                    { "type": "PodFailed", "status": "True" },
                ],
            })),
        ),
        made(
            "BatchSandbox",
            "pooled-with-tasks",
            json!({
                "replicas": 2, "poolRef": "task-example-pool", "taskResourcePolicyWhenCompleted": "release",
                "taskTemplate": { "spec": { "process": process, "timeoutSeconds": 5, "later": { "a": 1 } }, "metadata": {} },
                "shardTaskPatches": [{ "spec": { "process": { "command": ["echo"] } } }],
            }),
            counts.clone(),
        ),
        // Whatever it says is asked of the pool.
        made("BatchSandbox", "any-pool", json!({ "poolRef": "*", "template": {} }), Value::Null),
        made(
            "BatchSandbox",
            "paused",
            json!({ "template": pod_template(), "poolRef": "", "pause": true, "taskResourcePolicyWhenCompleted": "Retain" }),
            with(json!({ "phase": "Paused", "pauseObservedGeneration": 3, "conditions": [] })),
        ),
        made(
            "Pool",
            "pool-sample",
            json!({
                "template": pod_template(), "capacitySpec": capacity(1, 3, 1, 5), "recycleStrategy": {},
                "scaleStrategy": { "maxUnavailable": "25%" }, "updateStrategy": { "maxUnavailable": 1 },
            }),
            json!({ "observedGeneration": 1, "revision": "8a5a1b2c3d4e5f60", "total": 3, "allocated": 1, "available": 2, "updated": 3 }),
        ),
        // Without what only newer versions have.
        made(
            "Pool",
            "older",
            json!({ "template": pod_template(), "capacitySpec": capacity(0, 0, 0, 0) }),
            json!({ "revision": "8a5a1b2c3d4e5f60", "total": 0, "allocated": 0, "available": 0 }),
        ),
        made(
            "SandboxSnapshot",
            "paused-pause",
            json!({ "sandboxName": "paused" }),
            json!({
                "observedGeneration": 1, "phase": "Succeed", "sourcePodName": "paused-0", "sourceNodeName": "node-1",
                "containers": [{ "containerName": "main", "imageUri": "r/paused-main:snap-gen2", "imageDigest": "sha256:0" }],
                "conditions": [{ "type": "Ready", "status": "True" }],
            }),
        ),
    ]
}

/// Every field of OpenSandbox's own definitions, so that no object of theirs loses one.
#[test]
fn the_definitions_have_every_field_of_opensandboxs_own() {
    let ours: BTreeSet<String> = files().iter().flat_map(|file| fields_of(file)).collect();
    let file = locations::repository().join("tests/crds/opensandbox.yaml");
    let theirs = fields_of(&fs::read_to_string(file).expect("their definitions"));
    let theirs = theirs.into_iter().chain(
        [
            "Pool.spec.template",
            "Pool.spec.capacitySpec.bufferMax",
            "Pool.spec.capacitySpec.bufferMin",
            "Pool.spec.capacitySpec.poolMax",
            "Pool.spec.capacitySpec.poolMin",
            "Pool.spec.scaleStrategy.maxUnavailable",
            "Pool.spec.updateStrategy.maxUnavailable",
            "Pool.spec.recycleStrategy.type",
            "Pool.status.observedGeneration",
            "Pool.status.revision",
            "Pool.status.total",
            "Pool.status.allocated",
            "Pool.status.available",
            "Pool.status.updated",
            "SandboxSnapshot.spec.sandboxName",
            "SandboxSnapshot.status.phase",
            "SandboxSnapshot.status.containers[].containerName",
            "SandboxSnapshot.status.containers[].imageUri",
            "SandboxSnapshot.status.containers[].imageDigest",
            "SandboxSnapshot.status.conditions[].lastTransitionTime",
            "SandboxSnapshot.status.sourcePodName",
            "SandboxSnapshot.status.sourceNodeName",
            "SandboxSnapshot.status.observedGeneration",
        ]
        .map(str::to_owned),
    );
    let missing: Vec<_> = theirs.filter(|field| !ours.contains(field)).collect();
    assert_eq!(missing, [""; 0]);
}

/// The paths of the fields of the definitions in a YAML text.
fn fields_of(yaml: &str) -> Vec<String> {
    let mut found = Vec::new();
    for definition in documents(yaml) {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        add_fields(schema, definition["spec"]["names"]["kind"].as_str().expect("a kind"), &mut found);
    }
    found
}

fn add_fields(schema: &Value, at: &str, found: &mut Vec<String>) {
    for (list, below) in [("", schema), ("[]", &schema["items"])] {
        for (key, field) in below["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}{list}.{key}");
            add_fields(field, &at, found);
            found.push(at);
        }
    }
}

/// A server with definitions that have no rules, as OpenSandbox's own have none, and a namespace.
async fn start_without_rules() -> (ApiServer, String) {
    let server = ApiServer::builder().without_definitions().start().await;
    let namespace = server.namespace("before").await;
    for file in files().iter().filter(|file| file.contains("group: sandbox.opensandbox.io")) {
        for mut definition in documents(file) {
            without_rules(&mut definition);
            server.apply(&definition.to_string()).await;
        }
    }
    (server, namespace)
}

fn without_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(list) => list.iter_mut().for_each(without_rules),
        _ => {}
    }
}

/// An object, with what its user and its controllers do to it.
struct Changed {
    api: Api<DynamicObject>,
    name: String,
}

impl Changed {
    fn new(server: &ApiServer, object: &Value) -> Self {
        let kind = object["kind"].as_str().expect("a kind");
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("sandbox.opensandbox.io", "v1alpha1", kind));
        let namespace = object["metadata"]["namespace"].as_str().expect("a namespace");
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        Self { api: Api::namespaced_with(server.client(), namespace, &resource), name }
    }

    async fn patch(&self, body: Value) -> Result<(), String> {
        let patched = self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(&body)).await;
        patched.map(drop).map_err(|error| error.to_string())
    }

    /// What has to work for an object whatever is wrong with its spec.
    async fn assert_usable(&self, status: &Value) {
        self.patch(json!({ "metadata": { "labels": { "a": "b" } } })).await.expect("it can be labelled");
        let finalizers = json!({ "metadata": { "finalizers": ["x.io/y"] } });
        self.patch(finalizers).await.expect("it can get a finalizer");
        let status = json!({ "status": status });
        let patched =
            self.api.patch_status(&self.name, &PatchParams::default(), &Patch::Merge(&status)).await;
        patched.expect("it has a status");
    }

    async fn assert_deletable(&self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.expect("it can be deleted");
        self.patch(json!({ "metadata": { "finalizers": null } })).await.expect("its finalizer can go");
        assert!(self.api.get_opt(&self.name).await.expect("an answer").is_none(), "it is gone");
    }
}

#[tokio::test]
async fn a_batch_from_before_the_rules_can_be_changed_and_deleted() {
    let (server, namespace) = start_without_rules().await;
    let both =
        object("BatchSandbox", &namespace, "both", &json!({ "poolRef": "p", "template": pod_template() }));
    let neither = object("BatchSandbox", &namespace, "neither", &json!({ "replicas": 1 }));
    for old in [&both, &neither] {
        server.apply_when_served(old).await;
    }
    install(&server, &namespace).await;
    let status = json!({ "replicas": 1, "phase": "Pending" });

    let batch = Changed::new(&server, &both);
    batch.assert_usable(&status).await;
    batch.patch(json!({ "spec": { "replicas": 3 } })).await.expect("another field of its spec can change");
    batch.patch(json!({ "spec": { "poolRef": "other" } })).await.expect("it can move");
    batch.patch(json!({ "spec": { "poolRef": "" } })).await.expect("it can be put right");
    let again = batch.patch(json!({ "spec": { "poolRef": "p" } })).await.unwrap_err();
    assert!(again.contains(ONE_SOURCE), "{again}");
    batch.assert_deletable().await;

    let batch = Changed::new(&server, &neither);
    batch.assert_usable(&status).await;
    batch.patch(json!({ "spec": { "replicas": 3, "pause": true } })).await.expect("its spec can change");
    batch.patch(json!({ "spec": { "poolRef": "p" } })).await.expect("it can be put right");
    let again = batch.patch(json!({ "spec": { "poolRef": null } })).await.unwrap_err();
    assert!(again.contains(PODS), "{again}");
    batch.assert_deletable().await;

    // The operator's answer to `*`, and what a pause makes of a pooled batch.
    let any =
        object("BatchSandbox", &namespace, "any", &json!({ "poolRef": "*", "template": pod_template() }));
    create(&server, &any, "").await.expect("a batch for any pool");
    let batch = Changed::new(&server, &any);
    batch.patch(json!({ "spec": { "poolRef": "chosen" } })).await.expect("a pool is chosen");
    batch.patch(json!({ "spec": { "replicas": 2 } })).await.expect("it can be changed after that");
    batch.patch(json!({ "spec": { "poolRef": "" } })).await.expect("it leaves the pool");
}

#[tokio::test]
async fn a_pool_from_before_the_rules_can_be_changed_and_deleted() {
    let (server, namespace) = start_without_rules().await;
    let mut spec = json!({ "capacitySpec": capacity(5, 2, 9, 4), "template": pod_template() });
    spec["scaleStrategy"] = json!({ "maxUnavailable": "half" });
    let old = object("Pool", &namespace, &"x".repeat(64), &spec);
    server.apply_when_served(&old).await;
    install(&server, &namespace).await;

    let pool = Changed::new(&server, &old);
    pool.assert_usable(&json!({ "revision": "r", "total": 4, "allocated": 0, "available": 4 })).await;
    pool.patch(json!({ "spec": { "updateStrategy": { "maxUnavailable": 2 } } })).await.expect("its spec");
    pool.patch(json!({ "spec": { "capacitySpec": { "poolMax": 6 } } })).await.expect("its capacity");
    let worse = pool.patch(json!({ "spec": { "scaleStrategy": { "maxUnavailable": "most" } } })).await;
    assert!(worse.as_ref().unwrap_err().contains(SHARE), "{worse:?}");
    let right = json!({ "spec": { "capacitySpec": { "bufferMax": 5 }, "scaleStrategy": null } });
    pool.patch(right).await.expect("it can be put right");
    let again = pool.patch(json!({ "spec": { "capacitySpec": { "bufferMax": 4 } } })).await.unwrap_err();
    assert!(again.contains("set bufferMin to at most bufferMax"), "{again}");
    pool.assert_deletable().await;
    let new = object("Pool", &namespace, "new", &json!({ "capacitySpec": capacity(5, 2, 9, 4) }));
    let refused = create(&server, &new, "").await.unwrap_err().to_string();
    for least in ["set bufferMin to at most bufferMax", "set poolMin to at most poolMax"] {
        assert!(refused.contains(least), "{refused}");
    }
}

#[tokio::test]
async fn kubectl_shows_them_as_it_shows_opensandboxs_own() {
    let (server, namespace) = start().await;
    for (plural, shown, wide) in [
        (
            "batchsandboxes",
            "Name DESIRED TOTAL ALLOCATED Ready EXPIRE AGE",
            "TASK_RUNNING TASK_SUCCEED TASK_FAILED TASK_UNKNOWN",
        ),
        ("pools", "Name TOTAL ALLOCATED AVAILABLE UPDATED AGE", ""),
        ("sandboxsnapshots", "Name PHASE SANDBOX AGE", ""),
    ] {
        assert_columns(&server, API_VERSION, &namespace, (plural, shown, wide)).await;
    }
    let names = get(&server, &format!("/apis/{API_VERSION}"), "application/json").await;
    let resources = names["resources"].as_array().expect("resources");
    let short = |plural: &str| {
        let found = resources.iter().find(|resource| resource["name"] == plural).expect("a resource");
        found["shortNames"].clone()
    };
    assert_eq!(short("batchsandboxes"), json!(["bsbx"]));
    assert_eq!(short("pools"), Value::Null);
    assert_eq!(short("sandboxsnapshots"), json!(["sbxsnap"]));

    // The defaults of OpenSandbox.
    let batch = object("BatchSandbox", &namespace, "one", &json!({ "poolRef": "p" }));
    create(&server, &batch, "").await.expect("a batch");
    let stored = get(&server, &path(&batch), "application/json").await;
    let expected = json!({ "poolRef": "p", "replicas": 1, "taskResourcePolicyWhenCompleted": "Retain" });
    assert_eq!(stored["spec"], expected);
    let spec = json!({ "capacitySpec": capacity(0, 0, 0, 0), "recycleStrategy": {} });
    let pool = object("Pool", &namespace, "one", &spec);
    create(&server, &pool, "").await.expect("a pool");
    let stored = get(&server, &path(&pool), "application/json").await;
    assert_eq!(stored["spec"]["recycleStrategy"], json!({ "type": "Delete" }));
}
