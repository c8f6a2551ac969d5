//! The cluster of the scenarios itself: what a real one does, it does too.

use std::net::IpAddr;
use std::time::Duration;

use sandgate_tests::cluster::{Cluster, Resource, pod_template, sandbox};
use sandgate_tests::{Client, DEADLINE, Request, eventually, eventually_every};
use serde_json::{Value, json};

/// A pod with the template of a sandbox.
fn pod(name: &str, image: &str) -> Value {
    let template = pod_template(image);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name },
        "spec": template["spec"],
    })
}

fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

#[tokio::test]
async fn a_pod_is_bound_runs_answers_and_goes_with_its_owner() {
    let cluster = Cluster::builder().start().await;
    let node = cluster.node("a").start().await;
    let namespace = cluster.namespace("pods").await;
    let owners = cluster.objects(Resource::ConfigMap, &namespace);
    let pods = cluster.objects(Resource::Pod, &namespace);
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "owner" } });
    let owner = owners.create(&owner).await;
    let mut owned = pod("one", "hello");
    owned["metadata"]["ownerReferences"] = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"] }]);
    pods.create(&owned).await;
    let made = pods.until("one", "it is ready", ready).await;
    assert_eq!(made["spec"]["nodeName"], node.name());
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    let ip = made["status"]["podIP"].as_str().expect("an address");
    let ip: IpAddr = ip.parse().expect("an address");
    let answer = eventually("the pod's process answers", DEADLINE, async || {
        let mut client = Client::http1((ip, 3000_u16).into()).await.ok()?;
        client.send(Request::get("/")).await.ok()
    });
    assert_eq!(answer.await.text(), "hello from one\n");

    owners.delete("owner").await;
    pods.until_gone("one").await;
    let refused = eventually("its process is gone", DEADLINE, async || {
        Client::http1((ip, 3000_u16).into()).await.err().map(drop)
    });
    refused.await;
}

#[tokio::test]
async fn kubectl_reads_writes_and_enters_pods() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let namespace = cluster.namespace("kubectl").await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    pods.create(&pod("one", "sleep")).await;
    pods.until("one", "it is ready", ready).await;
    let kubectl = async |arguments: &[&str]| {
        let all: Vec<&str> = ["-n", &namespace].into_iter().chain(arguments.iter().copied()).collect();
        let done = cluster.kubectl(&all).await;
        assert_eq!(done.code, Some(0), "kubectl {arguments:?}: {}{}", done.stdout, done.stderr);
        done.stdout
    };
    assert_eq!(kubectl(&["get", "pods", "-o", "name"]).await, "pod/one\n");
    assert_eq!(kubectl(&["exec", "one", "--", "sh", "-c", "echo $POD_NAME"]).await, "one\n");
    let kinds = kubectl(&["api-resources", "--api-group=agents.kruise.io", "-o", "name"]).await;
    assert!(kinds.contains("sandboxsets.agents.kruise.io"), "{kinds}");
    kubectl(&["delete", "pod", "one", "--wait"]).await;
    assert!(pods.get("one").await.is_none(), "a deleted pod is gone");
}

#[tokio::test]
async fn a_job_runs_to_its_end_and_a_namespace_goes_with_all_that_is_in_it() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let namespace = cluster.namespace("jobs").await;
    let jobs = cluster.objects(Resource::Job, &namespace);
    let mut template = pod_template("sleep");
    template["spec"]["restartPolicy"] = json!("Never");
    template["spec"]["containers"][0]["command"] = json!(["true"]);
    let metadata = json!({ "name": "once" });
    let spec = json!({ "template": template });
    jobs.create(&json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec }))
        .await;
    jobs.until("once", "it has succeeded", |job| job["status"]["succeeded"] == 1).await;

    let pods = cluster.objects(Resource::Pod, &namespace);
    pods.create(&pod("left", "sleep")).await;
    pods.until("left", "it is ready", ready).await;
    let done = cluster.kubectl(&["delete", "namespace", &namespace, "--wait=false"]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    // Not by kubectl's own wait, which would have to end within the deadline of one command.
    let get = ["get", "namespace", &namespace, "-o", "name", "--ignore-not-found"];
    let pace = Duration::from_millis(500);
    eventually_every(pace, "the namespace is gone", 3 * DEADLINE, async || {
        let left = cluster.kubectl(&get).await;
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        left.stdout.is_empty().then_some(())
    })
    .await;
    assert!(pods.list().await.is_empty() && jobs.list().await.is_empty(), "everything in it is gone");
}

#[tokio::test]
async fn a_lost_node_is_seen_its_pods_are_deleted_and_go_when_it_is_back() {
    let lost = Duration::from_secs(10);
    let cluster = Cluster::builder().nodes_are_lost_after(lost, Duration::from_secs(1)).start().await;
    let mut node = cluster.node("a").start().await;
    let _other = cluster.node("b").start().await;
    let namespace = cluster.namespace("lost").await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    let mut here = pod("here", "sleep");
    here["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "a" });
    pods.create(&here).await;
    pods.until("here", "it is ready", ready).await;

    node.lose().await;
    node.until_lost().await;
    // The object stays: nobody knows whether its processes still run.
    pods.until("here", "it is to go", |pod| pod["metadata"]["deletionTimestamp"].is_string()).await;
    node.find().await;
    pods.until_gone("here").await;
}

#[tokio::test]
async fn a_killed_control_plane_comes_back_with_its_controllers_and_keeps_its_nodes() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let namespace = cluster.namespace("killed").await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    pods.create(&pod("before", "sleep")).await;
    let before = pods.until("before", "it is ready", ready).await;

    cluster.api().kill();
    cluster.api().start_again().await;
    let after = pods.get("before").await.expect("what was there is there");
    let id = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    assert_eq!(id(&after), id(&before), "the same process");
    let another = cluster.namespace("another").await;
    let pods = cluster.objects(Resource::Pod, &another);
    pods.create(&pod("after", "sleep")).await;
    pods.until("after", "it is ready", ready).await;
}

#[tokio::test]
async fn an_operator_makes_sandboxes_is_killed_and_goes_on_when_it_is_back() {
    let cluster = Cluster::builder().start().await;
    let _node = cluster.node("a").start().await;
    let mut operator = cluster.operator().start().await;
    let namespace = cluster.namespace("operator").await;
    let sandboxes = cluster.objects(Resource::Sandbox, &namespace);
    let pods = cluster.objects(Resource::Pod, &namespace);
    let running = |object: &Value| object["status"]["phase"] == "Running" && ready(object);
    sandboxes.create(&sandbox("before", &pod_template("envd"))).await;
    let before = sandboxes.until("before", "it runs", running).await;
    let pod = pods.get("before").await.expect("its pod");
    assert_eq!(before["status"]["podInfo"]["podIP"], pod["status"]["podIP"]);

    operator.kill();
    sandboxes.create(&sandbox("after", &pod_template("envd"))).await;
    sandboxes.delete("before").await;
    operator.start_again().await;
    sandboxes.until("after", "it runs", running).await;
    pods.until_gone("before").await;
    assert!(operator.stop().await.success(), "asked to end, it ends well");
}
