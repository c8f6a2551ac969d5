//! Sets of warm sandboxes.

use std::collections::BTreeSet;
use std::time::Duration;

use sandgate_tests::cluster::{Cluster, Resource, pod_template, sandbox_set};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::{Value, json};

use super::{Place, gateway, name, served};

fn names(objects: &[Value]) -> BTreeSet<&str> {
    objects.iter().map(name).collect()
}

#[tokio::test]
async fn a_set_fills_scales_both_ways_and_refills_what_is_claimed() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "fills").await;
    let gateway = gateway(&cluster, &place.namespace).await;
    place.sets.create(&sandbox_set("base", 2, &pod_template("hello"))).await;
    let first = place.filled("base", 2).await;
    for child in &first {
        let labels = &child["metadata"]["labels"];
        assert_eq!(labels["agents.kruise.io/sandbox-claimed"], "false", "{child:#}");
        assert_eq!(labels["agents.kruise.io/sandbox-template"], "base", "{child:#}");
    }

    let claimed = place.claim(&first[0]).await;
    let after = place.filled("base", 2).await;
    assert!(!names(&after).contains(name(&claimed)), "a claimed sandbox is not the set's any more");
    served(&gateway, &place, name(&claimed)).await;

    let scale = |replicas: u32| json!({ "spec": { "replicas": replicas } });
    place.sets.patch("base", &scale(5)).await;
    let five = place.filled("base", 5).await;
    assert!(names(&after).is_subset(&names(&five)), "scaling up replaces nothing");
    place.sets.patch("base", &scale(1)).await;
    let one = place.filled("base", 1).await;
    assert!(names(&one).is_subset(&names(&five)), "scaling down makes nothing");
    place.sets.patch("base", &scale(0)).await;
    place.filled("base", 0).await;
    assert!(place.sandboxes.get(name(&claimed)).await.is_some(), "what is claimed stays");
    served(&gateway, &place, name(&claimed)).await;
    place.assert_no_pod_is_shared().await;

    let shown = cluster.kubectl(&["-n", &place.namespace, "get", "sbs,sbx"]).await;
    assert!(shown.stdout.contains("base") && shown.stdout.contains("Running"), "{}", shown.stdout);
    place.sets.delete("base").await;
    place.sandboxes.until_all("only the claimed one is left", |all| all.len() == 1).await;
}

#[tokio::test]
async fn a_pool_by_template_reference_can_be_found_by_claims_under_its_own_name() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "byref").await;
    let templates = cluster.objects(Resource::SandboxTemplate, &place.namespace);
    templates
        .create(&json!({
            "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxTemplate",
            "metadata": { "name": "shared" }, "spec": { "template": pod_template("hollow") },
        }))
        .await;
    let mut set = sandbox_set("pool", 2, &Value::Null);
    set["spec"] = json!({ "replicas": 2, "templateRef": { "name": "shared" } });
    place.sets.create(&set).await;
    let first = place.filled("pool", 2).await;
    let found = place.sandboxes.labelled("agents.kruise.io/sandbox-template=pool").await;
    assert_eq!(names(&found), names(&first));

    // A change of what it refers to rolls the set.
    let image = json!({ "spec": { "template": pod_template("sleep") } });
    templates.patch("shared", &image).await;
    let all_new = eventually("the set is rolled", 3 * DEADLINE, async || {
        let children = place.children("pool").await;
        let new = children.len() == 2 && names(&children).is_disjoint(&names(&first));
        new.then_some(())
    });
    all_new.await;
    place.filled("pool", 2).await;
}

#[tokio::test]
async fn a_set_rolls_within_its_budget_and_leaves_what_is_claimed_alone() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "rolls").await;
    let mut set = sandbox_set("base", 8, &pod_template("hollow"));
    set["spec"]["updateStrategy"] = json!({ "maxUnavailable": "25%" });
    place.sets.create(&set).await;
    let first = place.filled("base", 8).await;
    let claimed = place.claim(&first[0]).await;
    let before = place.filled("base", 8).await;

    // Slow enough to be seen: a new one needs a second.
    let mut template = pod_template("hollow");
    template["metadata"]["annotations"] = json!({ "node.sandgate.test/ready-delay": "1s" });
    place.sets.patch("base", &json!({ "spec": { "template": template } })).await;
    let mut least = usize::MAX;
    let rolled = eventually("the set is rolled", 3 * DEADLINE, async || {
        let children = place.children("base").await;
        let available = children.iter().filter(|child| super::is_true(child, "Ready")).count();
        least = least.min(available);
        let new = children.len() == 8 && names(&children).is_disjoint(&names(&before));
        (new && available == 8).then_some(())
    });
    rolled.await;
    // Looked at from outside a moment apart: a list is one moment of the server, so no moment may have fewer.
    assert!(least >= 6, "a quarter of eight may be missing, and {} were", 8 - least);
    assert!(least < 8, "the roll was seen");
    let kept = place.sandboxes.get(name(&claimed)).await.expect("what is claimed stays");
    assert!(kept["metadata"]["deletionTimestamp"].is_null());
    let is_done = |set: &Value| set["status"]["currentRevision"] == set["status"]["updateRevision"];
    place.sets.until("base", "it is of the new revision", is_done).await;
}

#[tokio::test]
async fn a_set_survives_a_lost_node_and_a_template_that_fails_does_not_spin() {
    let lost = Duration::from_secs(10);
    let cluster = Cluster::builder().nodes_are_lost_after(lost, Duration::from_secs(1)).start().await;
    let mut node = cluster.node("a").start().await;
    let _operator = cluster.operator().start().await;
    let place = Place::new(&cluster, "lost").await;
    place.sets.create(&sandbox_set("base", 3, &pod_template("hollow"))).await;
    let first = place.filled("base", 3).await;

    let _other = cluster.node("b").start().await;
    node.lose().await;
    let moved = eventually("three are available elsewhere", 3 * DEADLINE, async || {
        let children = place.children("base").await;
        let ready = children.iter().filter(|child| super::runs(child)).count();
        (ready == 3 && names(&children).is_disjoint(&names(&first))).then_some(())
    });
    moved.await;
    node.find().await;
    // The pods of the lost node go when it is back, and nothing else is left.
    place.pods.until_all("three pods are left", |pods| pods.len() == 3).await;
    place.filled("base", 3).await;
    place.assert_no_pod_is_shared().await;

    let mut failing = pod_template("sleep");
    failing["spec"]["restartPolicy"] = json!("Never");
    failing["metadata"]["annotations"] = json!({ "node.sandgate.test/exit": "1" });
    place.sets.create(&sandbox_set("failing", 2, &failing)).await;
    let events = cluster.objects(Resource::Event, &place.namespace);
    let waits = |all: &[Value]| {
        all.iter().any(|event| event["regarding"]["name"] == "failing" && event["type"] == "Warning")
    };
    events.until_all("a warning says that the set waits", waits).await;
    let left = place.sandboxes.labelled("agents.kruise.io/sandbox-pool=failing").await;
    assert!(left.len() <= 4, "failed ones are not piled up: {}", left.len());
}
