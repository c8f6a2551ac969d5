//! The whole objects of scitix's environments: they survive being read and written, and what is missing means
//! what the API server would fill in.

#![forbid(unsafe_code)]

use std::time::Duration;

use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{
    EnvMode, EnvPod, ImagePolicy, MemberConfig, PoolPhase, SandboxEnv, SandboxPhase, SandboxPool,
    SandboxTemplate, ScaleDownPolicy, ScaleMode, ScaleUpPolicy, decode,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<K: Default + DeserializeOwned>(object: &Value) -> K {
    decode(object.to_string().as_bytes()).unwrap()
}

fn written<K: Default + DeserializeOwned + Serialize>(object: &Value) -> Value {
    serde_json::to_value(read::<K>(object)).unwrap()
}

fn whole(kind: &str, spec: &Value, status: Option<&Value>) -> Value {
    let mut object = json!({
        "apiVersion": names::API_VERSION, "kind": kind,
        "metadata": { "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 3 },
        "spec": spec,
    });
    if let Some(status) = status {
        object["status"] = status.clone();
    }
    object
}

fn runtimes() -> Value {
    json!([{
        "name": "e2b", "port": 49983, "protocol": "TCP", "description": "envd", "logDir": "/var/log",
        "readinessProbe": {"httpGet": {"port": 49983, "path": "/health"}}, "config": {"any": [1, {"thing": null}]},
    }])
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": "i", "unknownField": {"kept": true}}]},
    })
}

fn pool_spec() -> Value {
    json!({
        "replicas": 3, "templateName": "t", "defaultStartupTimeout": "2m0s", "defaultIdleTimeout": "0s",
        "podCreationImagePolicy": "PoolDefaultImage", "gateway": {"enabled": true}, "maxUnavailable": "10%",
        "template": template(), "idleImage": "idle", "runtimes": runtimes(),
    })
}

#[test]
fn an_environment_survives_being_read_and_written() {
    let spec = json!({
        "templateRef": {"name": "t", "version": "1"},
        "mode": "OnDemandJob",
        "defaults": {"instanceType": "2c4Gi", "multiplier": 2},
        "clusters": [{
            "clusterID": "local",
            "members": [{
                "name": "env-2c4gi",
                "metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}},
                "spec": pool_spec(),
                "config": {
                    "labels": {"l": "1"}, "annotations": {"a": "2"}, "instanceType": "2c4Gi", "multiplier": 1,
                    "inlineResources": {"limits": {"cpu": "2"}}, "scalingGroup": "g", "minReplicas": 1,
                    "maxReplicas": 9, "priority": 1, "scaleUpPriority": 2, "scaleDownPriority": 3,
                    "updateStrategy": {"autoUpdate": false, "maxUnavailable": 2},
                },
            }],
        }],
        "autoscaling": {"groups": [{
            "name": "g", "enabled": true, "minReplicas": 1, "maxReplicas": 20,
            "scaleUpPolicy": {
                "mode": "Aggressive", "cooldownSeconds": 1, "idleThresholdSeconds": 2,
                "idleZeroQuietWindowSeconds": 3, "saturationCooldownSeconds": 4,
            },
            "scaleDownPolicy": {
                "idleTimeoutSeconds": 5, "stabilizationSeconds": 6, "protectionWindowSeconds": 7,
            },
        }]},
        "overrides": {
            "image": "mine", "podCreationImagePolicy": "IdleImage", "defaultStartupTimeout": "1m",
            "defaultIdleTimeout": "1h", "updateStrategy": {"maxUnavailable": "50%"},
            "volumes": [{"claimName": "c", "mountPath": "/c", "subPath": "s", "readOnly": false}],
            "networkPolicy": {"x": 1}, "gateway": {"enabled": false},
        },
    });
    let status = json!({
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "AllMembersActive", "message": "",
            "lastTransitionTime": "2026-11-16T07:00:00Z", "observedGeneration": 3,
        }],
        "clusters": [{
            "clusterID": "local", "isLocal": true, "lastSnapshotTime": "2026-11-16T07:00:00Z",
            "observedMembers": [{
                "name": "env-2c4gi", "instanceType": "2c4Gi", "multiplier": 1,
                "effectiveResources": {"limits": {"cpu": "2"}}, "state": "Active", "idleCount": 1,
                "runningCount": 2, "desiredReplicas": 3, "currentReplicas": 3, "pendingRequests": 4,
                "saturatedUntil": "2026-11-16T07:00:00Z", "scalingGroup": "g", "autoscalingEnabled": true,
                "scaleUpHeadroom": 0, "updateRevision": "r", "updatedReplicas": 3, "templateVersion": "1",
            }],
        }],
        "scalingGroups": [{"name": "g", "totalIdle": 1, "totalRunning": 2, "totalDesired": 3}],
        "memberCount": 1, "desiredReplicas": 3, "runningReplicas": 2, "idleReplicas": 1,
    });
    let object = whole("SandboxEnv", &spec, Some(&status));
    assert_eq!(written::<SandboxEnv>(&object), object);
}

#[test]
fn a_pool_survives_being_read_and_written() {
    let status = json!({
        "phase": "Degraded", "idleReplicas": 1, "unavailableIdleReplicas": 1, "runningReplicas": 2,
        "startingReplicas": 3, "stoppingReplicas": 4, "failedReplicas": 5, "updateRevision": "r",
        "currentRevision": "q", "updatedReplicas": 6, "pendingRequests": 7, "selector": "s",
        "labelSelector": "l",
        "phaseSelectors": {
            "all": "1", "idle": "2", "running": "3", "starting": "4", "stopping": "5", "failed": "6",
        },
        "autoscaling": {
            "lastScaleUpTime": "2026-11-16T07:00:00Z", "lastScaleDownTime": "2026-11-16T07:00:01Z",
            "idleZeroSince": "2026-11-16T07:00:02Z", "lastScaleUpAttemptTime": "2026-11-16T07:00:03Z",
            "lastScaleUpAttemptResult": "Insufficient", "scaleUpErrorMessage": "no", "observedGeneration": 8,
        },
        "observedGeneration": 3,
    });
    let object = whole("SandboxPool", &pool_spec(), Some(&status));
    assert_eq!(written::<SandboxPool>(&object), object);
    let pool: SandboxPool = read(&object);
    assert_eq!(pool.spec.idle_timeout(), Some(Duration::ZERO), "0s is said, and is never");
    assert_eq!(pool.spec.startup_timeout(), Some(Duration::from_secs(120)));
    assert_eq!(pool.status.unwrap().phase, Some(PoolPhase::Degraded));
}

#[test]
fn a_template_survives_being_read_and_written() {
    let spec = json!({
        "version": "2", "description": "d",
        "visibility": {"rules": [{"team": "a", "users": ["u"]}, {"team": "b"}]},
        "template": template(), "idleImage": "idle", "runtimes": runtimes(),
    });
    let mut object = whole("SandboxTemplate", &spec, None);
    object["metadata"].as_object_mut().unwrap().remove("namespace");
    assert_eq!(written::<SandboxTemplate>(&object), object);
    let template: SandboxTemplate = read(&object);
    let visible = |team, user| template.spec.is_visible_to(team, user);
    assert!(visible("a", "u") && visible("b", "whoever"));
    assert!(!visible("a", "v") && !visible("c", "u"));
    assert!(SandboxTemplate::default().spec.is_visible_to("any", "body"), "no rule is everybody");
}

#[test]
fn what_is_missing_is_what_the_server_would_fill_in() {
    let spec =
        json!({"templateRef": {"name": "t"}, "clusters": [{"clusterID": "c", "members": [{"name": "m"}]}]});
    let env: SandboxEnv = read(&whole("SandboxEnv", &spec, None));
    assert_eq!(env.spec.mode, EnvMode::WarmPool);
    let [member] = env.spec.members_in("c") else { panic!("{env:?}") };
    assert_eq!(member.config, MemberConfig::default());
    assert_eq!((member.config.scaling_group.as_str(), member.spec.replicas), ("default", 0));
    assert_eq!(member.spec.image_policy(), ImagePolicy::IdleImage);
    assert_eq!((member.spec.idle_timeout(), member.config.up_priority()), (None, 0));
    assert!(env.spec.members_in("another").is_empty());
    let (up, down): (ScaleUpPolicy, ScaleDownPolicy) =
        (serde_json::from_value(json!({})).unwrap(), serde_json::from_value(json!({})).unwrap());
    assert_eq!((up, down), (ScaleUpPolicy::default(), ScaleDownPolicy::default()));
    assert_eq!((up.mode, up.cooldown_seconds, down.idle_timeout_seconds), (ScaleMode::Default, 30, 300));
}

/// A group that an empty text names is none: the member does not scale by itself.
#[test]
fn an_empty_scaling_group_is_not_the_default_one() {
    let config: MemberConfig = serde_json::from_value(json!({"scalingGroup": ""})).unwrap();
    assert_eq!(config.scaling_group, "");
}

#[test]
fn a_word_of_another_version_in_a_status_does_not_take_the_object_out() {
    let status = json!({
        "phase": "Sleeping",
        "autoscaling": {"lastScaleUpAttemptResult": "InternalError"},
    });
    let pool: SandboxPool = read(&whole("SandboxPool", &pool_spec(), Some(&status)));
    let status = pool.status.unwrap();
    assert_eq!((status.phase, status.autoscaling.unwrap().last_scale_up_attempt_result), (None, None));
    let status =
        json!({"clusters": [{"clusterID": "c", "observedMembers": [{"name": "m", "state": "New"}]}]});
    let env: SandboxEnv = read(&whole("SandboxEnv", &json!({"templateRef": {"name": "t"}}), Some(&status)));
    assert_eq!(env.status.unwrap().observed_in("c")[0].state, None);
}

#[test]
fn of_a_pod_is_kept_what_somebody_reads() {
    let pod: EnvPod = read(&json!({
        "metadata": {
            "name": "p-1", "namespace": "n", "uid": "u", "resourceVersion": "5",
            "creationTimestamp": "2026-11-16T07:00:00Z", "finalizers": [names::FINALIZER_POD],
            "managedFields": [{"manager": "m"}],
            "labels": {(names::LABEL_POOL): "p", (names::LABEL_PHASE): "running", (names::SANDBOX_ID): "s-1"},
            "annotations": {(names::ANNOTATION_STARTED_AT): "2026-11-16T08:00:00Z"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "k", "uid": "k", "controller": true}],
        },
        "spec": {
            "nodeName": "node",
            "containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}],
        },
        "status": {
            "phase": "Running", "podIP": "127.0.0.5",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T07:01:00Z"}],
            "containerStatuses": [
                {
                    "name": "b", "image": "b:0", "imageID": "b@sha256:1", "containerID": "c://1",
                    "restartCount": 2, "ready": false,
                    "state": {"terminated": {"exitCode": 3, "reason": "Error", "message": "m"}},
                },
                {"name": "a", "image": "a:1", "ready": true, "restartCount": 0, "state": {"running": {}}},
            ],
        },
    }));
    assert_eq!((pod.pool(), pod.sandbox_phase(), pod.sandbox_id()), ("p", SandboxPhase::Running, "s-1"));
    assert!(pod.is_ready && pod.has_finalizer() && !pod.is_deleting() && !pod.is_claimable());
    assert_eq!((pod.ip.as_deref(), pod.node.as_deref()), (Some("127.0.0.5"), Some("node")));
    assert_eq!(pod.controller().map(|owner| owner.name.as_str()), Some("k"));
    assert_eq!(pod.time(names::ANNOTATION_STARTED_AT).unwrap().to_string(), "2026-11-16T08:00:00Z");
    assert!(pod.metadata.managed_fields.is_none());
    let [a, b] = &pod.containers[..] else { panic!("{pod:?}") };
    assert!((a.name.as_str(), a.is_running, a.ended.is_none()) == ("a", true, true));
    assert_eq!((b.image.as_str(), b.running_image.as_str(), b.restarts), ("b:1", "b:0", 2));
    assert_eq!(b.ended.as_ref().map(|end| (end.exit_code, end.reason.as_str())), Some((3, "Error")));
}

#[test]
fn a_pod_is_claimable_while_it_waits_and_is_ready() {
    let pod = |phase: &str, extra: Value| {
        let mut pod = json!({
            "metadata": {"labels": {(names::LABEL_PHASE): phase}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        merge(&mut pod, &extra);
        read::<EnvPod>(&pod).is_claimable()
    };
    assert!(pod("idle", json!({})) && pod("a word of tomorrow", json!({})));
    for phase in ["starting", "running", "stopping", "failed"] {
        assert!(!pod(phase, json!({})), "{phase}");
    }
    for extra in [
        json!({"metadata": {"annotations": {(names::ANNOTATION_SCALE_DOWN): "2026-11-16T08:00:00Z"}}}),
        json!({"metadata": {"deletionTimestamp": "2026-11-16T08:00:00Z"}}),
        json!({"status": {"phase": "Pending"}}),
        json!({"status": {"conditions": []}}),
    ] {
        assert!(!pod("idle", extra.clone()), "{extra}");
    }
}

fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}
