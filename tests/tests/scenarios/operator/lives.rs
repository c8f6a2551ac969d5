//! The life of a sandbox, and the gateway that follows it.

use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;
use sandgate_tests::cluster::{Cluster, Resource, pod_template, sandbox};
use serde_json::{Value, json};

use super::{Place, condition, gateway, is_paused, is_true, name, refused, runs, served};

fn in_seconds(seconds: u64) -> String {
    let at = Timestamp::try_from(SystemTime::now() + Duration::from_secs(seconds)).expect("a time");
    // The API has whole seconds.
    Timestamp::from_second(at.as_second()).expect("a time").to_string()
}

fn ip(object: &Value) -> &str {
    object["status"]["podInfo"]["podIP"].as_str().expect("an address")
}

#[tokio::test]
async fn a_sandbox_is_made_paused_resumed_and_deleted_and_the_gateway_follows_each_step() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "life").await;
    let gateway = gateway(&cluster, &place.namespace).await;
    refused(&gateway, &place, "one", "sandbox_not_found").await;

    let made = place.sandboxes.create(&sandbox("one", &pod_template("hello"))).await;
    let first = place.sandboxes.until("one", "it runs", runs).await;
    assert_eq!(first["status"]["observedGeneration"], made["metadata"]["generation"]);
    let pod = place.pods.get("one").await.expect("its pod");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"]);
    assert_eq!(pod["status"]["podIP"], ip(&first));
    assert_eq!(first["status"]["nodeName"], "a");
    served(&gateway, &place, "one").await;

    place.sandboxes.patch("one", &json!({ "spec": { "paused": true } })).await;
    let paused = place.sandboxes.until("one", "it is paused", is_paused).await;
    assert_eq!(condition(&paused, "SandboxPaused")["reason"], "StopPauseSucceed");
    assert_eq!(ip(&paused), ip(&first), "a paused sandbox keeps its last address");
    assert!(place.pods.get("one").await.is_none(), "a pause deletes the pod");
    refused(&gateway, &place, "one", "sandbox_not_running").await;

    place.sandboxes.patch("one", &json!({ "spec": { "paused": false } })).await;
    let second = place.sandboxes.until("one", "it runs again", runs).await;
    assert_eq!(second["metadata"]["uid"], made["metadata"]["uid"]);
    assert!(is_true(&second, "SandboxResumed"), "{second:#}");
    let next = place.pods.get("one").await.expect("its next pod");
    assert_ne!(next["metadata"]["uid"], pod["metadata"]["uid"]);
    served(&gateway, &place, "one").await;

    place.sandboxes.delete("one").await;
    refused(&gateway, &place, "one", "sandbox_not_found").await;
    place.pods.until_gone("one").await;
    let events = cluster.objects(Resource::Event, &place.namespace);
    for reason in ["SandboxRunning", "SandboxPaused", "SandboxResuming"] {
        events.until_all(reason, |all| all.iter().any(|event| event["reason"] == reason)).await;
    }
}

#[tokio::test]
async fn a_sandbox_pauses_and_ends_at_its_times_also_after_it_has_failed() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "times").await;
    let timed = |name: &str, image: &str, spec: Value| {
        let mut object = sandbox(name, &pod_template(image));
        object["spec"].as_object_mut().expect("a spec").extend(spec.as_object().expect("fields").clone());
        object
    };
    let sleeper = timed("sleeper", "sleep", json!({ "pauseTime": in_seconds(2) }));
    place.sandboxes.create(&sleeper).await;
    let asleep = place.sandboxes.until("sleeper", "it is paused", is_paused).await;
    assert_eq!(asleep["spec"]["paused"], true);

    let mut failing = timed("failing", "sleep", json!({ "shutdownTime": in_seconds(600) }));
    failing["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    failing["spec"]["template"]["metadata"]["annotations"] =
        json!({ "node.sandgate.test/crash-after": "100ms" });
    place.sandboxes.create(&failing).await;
    place.sandboxes.until("failing", "it has failed", |object| object["status"]["phase"] == "Failed").await;
    place.sandboxes.patch("failing", &json!({ "spec": { "shutdownTime": in_seconds(1) } })).await;
    place.sandboxes.until_gone("failing").await;
    place.pods.until_gone("failing").await;

    place.sandboxes.patch("sleeper", &json!({ "spec": { "shutdownTime": in_seconds(1) } })).await;
    place.sandboxes.until_gone("sleeper").await;
}

#[tokio::test]
async fn what_is_not_ready_is_not_dead_and_can_be_paused() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "flap").await;
    let gateway = gateway(&cluster, &place.namespace).await;
    place.sandboxes.create(&sandbox("one", &pod_template("hello"))).await;
    place.sandboxes.until("one", "it runs", runs).await;
    served(&gateway, &place, "one").await;

    let unready =
        |value: Value| json!({ "metadata": { "annotations": { "node.sandgate.test/ready": value } } });
    place.pods.patch("one", &unready(json!("false"))).await;
    let flapped = place.sandboxes.until("one", "it is not ready", |object| !is_true(object, "Ready")).await;
    assert_eq!(flapped["status"]["phase"], "Running");
    refused(&gateway, &place, "one", "sandbox_not_running").await;
    place.pods.patch("one", &unready(Value::Null)).await;
    place.sandboxes.until("one", "it is ready again", runs).await;
    served(&gateway, &place, "one").await;

    place.pods.patch("one", &unready(json!("false"))).await;
    place.sandboxes.until("one", "it is not ready", |object| !is_true(object, "Ready")).await;
    place.sandboxes.patch("one", &json!({ "spec": { "paused": true } })).await;
    place.sandboxes.until("one", "it is paused", is_paused).await;

    let mut slow = sandbox("slow", &pod_template("hello"));
    slow["spec"]["template"]["metadata"]["annotations"] = json!({ "node.sandgate.test/start-delay": "60s" });
    place.sandboxes.create(&slow).await;
    place.sandboxes.until("slow", "it is pending", |object| object["status"]["phase"] == "Pending").await;
    place.sandboxes.patch("slow", &json!({ "spec": { "paused": true } })).await;
    place.sandboxes.until("slow", "it is paused", is_paused).await;
}

#[tokio::test]
async fn a_sandbox_of_a_name_that_was_used_before_waits_for_the_other_pod_to_go() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "again").await;
    let gateway = gateway(&cluster, &place.namespace).await;
    let mut template = pod_template("hello");
    template["metadata"]["annotations"] = json!({ "node.sandgate.test/stop-delay": "2s" });
    template["spec"]["terminationGracePeriodSeconds"] = json!(10);
    place.sandboxes.create(&sandbox("one", &template)).await;
    let first = place.sandboxes.until("one", "it runs", runs).await;
    served(&gateway, &place, "one").await;
    place.sandboxes.delete("one").await;
    place.sandboxes.until_gone("one").await;
    let second = place.sandboxes.create(&sandbox("one", &pod_template("hello"))).await;
    let running = place.sandboxes.until("one", "it runs", runs).await;
    let pod = place.pods.get("one").await.expect("a pod");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], second["metadata"]["uid"]);
    assert_ne!(running["status"]["podInfo"]["podUID"], first["status"]["podInfo"]["podUID"]);
    served(&gateway, &place, "one").await;

    // A pod of somebody else's is neither taken nor touched.
    let stranger = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "theirs" },
        "spec": pod_template("sleep")["spec"],
    });
    let stranger = place.pods.create(&stranger).await;
    place.sandboxes.create(&sandbox("theirs", &pod_template("hello"))).await;
    let waits = |object: &Value| condition(object, "Ready")["reason"] == "PodNameTaken";
    place.sandboxes.until("theirs", "it says that the name is taken", waits).await;
    let still = place.pods.get("theirs").await.expect("the stranger's pod");
    assert_eq!(still["metadata"]["uid"], stranger["metadata"]["uid"]);
    assert!(still["metadata"]["deletionTimestamp"].is_null(), "{}", name(&still));
    place.pods.delete("theirs").await;
    place.sandboxes.until("theirs", "it runs", runs).await;
}

#[tokio::test]
async fn a_sandbox_follows_a_template_that_appears_and_its_claims_of_volumes_outlive_a_pause() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "template").await;
    let claims = cluster.objects(Resource::PersistentVolumeClaim, &place.namespace);
    let mut object = sandbox("one", &Value::Null);
    object["spec"] = json!({ "templateRef": { "name": "base" } });
    place.sandboxes.create(&object).await;
    let missing = |object: &Value| condition(object, "Ready")["reason"] == "TemplateNotFound";
    place.sandboxes.until("one", "it says that its template is missing", missing).await;
    let templates = cluster.objects(Resource::SandboxTemplate, &place.namespace);
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } },
    });
    templates
        .create(&json!({
            "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxTemplate",
            "metadata": { "name": "base" },
            "spec": { "template": pod_template("sleep"), "volumeClaimTemplates": [claim] },
        }))
        .await;
    let made = claims.until("data-one", "it was made", |_| true).await;
    assert_eq!(made["metadata"]["ownerReferences"][0]["name"], "one");
    let pod = place.pods.until("one", "it was made", |_| true).await;
    let volumes = pod["spec"]["volumes"].to_string();
    assert!(volumes.contains("data-one"), "the pod has the claim: {volumes}");

    place.sandboxes.patch("one", &json!({ "spec": { "paused": true } })).await;
    place.sandboxes.until("one", "it is paused", is_paused).await;
    let kept = claims.get("data-one").await.expect("the claim is kept");
    assert_eq!(kept["metadata"]["uid"], made["metadata"]["uid"]);
    place.sandboxes.delete("one").await;
    // The controller that protects claims from their pods does not run here; an owner that is gone is enough.
    claims
        .until_all("the claim goes with its sandbox", |all| {
            all.iter().all(|claim| claim["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
}
