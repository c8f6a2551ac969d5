//! The operator as the chart installs it: with the arguments of its Deployment, and with the rights of its
//! account and no others.
//!
//! The API server keeps an audit log of what the account asks for. So a right that is missing is a refused
//! request in it, and a right that nobody uses is one that no request needed.

mod environments;
mod opensandbox;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use sandgate_tests::cluster::{Cluster, Daemon, Resource, pod_template, sandbox, sandbox_set};
use sandgate_tests::deploy::{Audit, folder, granted, tool};
use sandgate_tests::{Client, DEADLINE, Place, Request, eventually, locations};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::file;

/// Rights that this scenario cannot be sure to make the operator use, each with what it is for.
const UNUSED: [(&str, &str); 6] = [
    ("get pods.", "whether a pod is really gone that is missing without having ended"),
    ("get sandboxes.agents.kruise.io", "whether a child was made whose answer was lost"),
    ("get sandboxtemplates.agents.kruise.io", "the same for a revision"),
    (
        "update sandboxes/finalizers.agents.kruise.io",
        "asked by admission when a sandbox owns something, not by a request",
    ),
    ("update sandboxsets/finalizers.agents.kruise.io", "the same for a set"),
    ("patch events.events.k8s.io", "an event that is repeated"),
];

/// A cluster with nothing of ours in it, that writes down who asks for what.
async fn cluster(files: &Path) -> (Cluster, Audit) {
    let (cluster, audit) = Audit::of(Cluster::builder(), files);
    (cluster.without_definitions().start().await, audit)
}

/// `helm install` with these values, and then the operator as a node would start it.
async fn install(cluster: &Cluster, release: &str, files: &Path, values: &[&str]) -> (Daemon, Place, String) {
    let (chart, kubeconfig) = (folder().join("chart"), cluster.kubeconfig());
    let [chart, kubeconfig] = [&chart, &kubeconfig].map(|path| path.to_str().expect("text"));
    let install = ["install", release, chart, "--kubeconfig", kubeconfig, "--namespace", release];
    let values = ["--set", "operator.enabled=true"].iter().chain(values).copied().collect::<Vec<_>>();
    let notes = tool("helm", &[&install[..], &values].concat()).await.unwrap_or_else(|e| panic!("{e}"));
    assert!(notes.contains("The operator is"), "{notes}");

    let name = format!("{release}-sandgate-operator");
    let path = format!("/apis/apps/v1/namespaces/{release}/deployments/{name}");
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    let deployment: Value = cluster.client().request(request).await.expect("a Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().expect("an account");
    let account = cluster.api().service_account(release, account).await;
    let kubeconfig = cluster.api().kubeconfig(&account.token().await);
    let place = Place::reserve();
    let mut command = Command::new(locations::operator());
    command.env("KUBECONFIG", &kubeconfig).env("POD_NAMESPACE", release);
    for argument in pod["containers"][0]["args"].as_array().expect("arguments") {
        let argument = argument.as_str().expect("text");
        command.arg(argument.replace("--listen=0.0.0.0:", &format!("--listen={}:", place.ip())));
    }
    let mut daemon = Daemon::start("the operator", &command, &files.join("operator.log"), "KILL");
    let container = &pod["containers"][0];
    let port = container["ports"][0]["containerPort"].as_u64().and_then(|port| u16::try_from(port).ok());
    let address = SocketAddr::new(place.ip(), port.expect("a port"));
    assert_eq!(container["ports"][0]["name"], "metrics");
    for probe in ["livenessProbe", "readinessProbe"] {
        let probe = &container[probe]["httpGet"];
        let path = probe["path"].as_str().expect("a path");
        assert_eq!(probe["port"], "metrics");
        eventually(path, 3 * DEADLINE, async || {
            daemon.assert_alive();
            let mut client = Client::http1(address).await.ok()?;
            (client.send(Request::get(path)).await.ok()?.status == 200).then_some(())
        })
        .await;
    }
    // The place is the operator's as long as it runs.
    (daemon, place, account.user())
}

fn condition(object: &Value, kind: &str) -> Option<bool> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(found["status"] == "True")
}

fn template(cpu: &str) -> Value {
    let mut template = pod_template("sleep");
    template["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": cpu, "memory": "16Mi" } });
    template
}

/// Makes the operator do everything that it can do.
async fn exercise(cluster: &Cluster, namespace: &str) {
    let sandboxes = cluster.objects(Resource::Sandbox, namespace);
    let pods = cluster.objects(Resource::Pod, namespace);

    // A sandbox of one's own: made, changed in place, paused by its time, resumed, ended by its time.
    sandboxes.create(&sandbox("one", &template("10m"))).await;
    let is_ready = |object: &Value| condition(object, "Ready") == Some(true);
    sandboxes.until("one", "it is ready", is_ready).await;
    sandboxes.patch("one", &json!({ "spec": { "template": template("20m") } })).await;
    // Whether this node can change the resources of a pod that runs is not what is asked here.
    sandboxes.until("one", "that is tried", |object| condition(object, "InplaceUpdate").is_some()).await;
    let mut labelled = template("10m");
    labelled["metadata"]["labels"]["colour"] = json!("blue");
    sandboxes.patch("one", &json!({ "spec": { "template": labelled } })).await;
    pods.until("one", "its pod has the label", |pod| pod["metadata"]["labels"]["colour"] == "blue").await;
    let past = json!({ "spec": { "pauseTime": "2020-01-01T00:00:00Z" } });
    sandboxes.patch("one", &past).await;
    sandboxes.until("one", "it is paused", |object| condition(object, "SandboxPaused") == Some(true)).await;
    assert!(pods.get("one").await.is_none(), "a pause deletes the pod");
    let resume = json!({ "spec": { "paused": false, "pauseTime": null } });
    sandboxes.patch("one", &resume).await;
    sandboxes.until("one", "it is ready again", is_ready).await;
    sandboxes.patch("one", &json!({ "spec": { "shutdownTime": "2020-01-01T00:00:00Z" } })).await;
    sandboxes.until_gone("one").await;

    // One with a volume claim. Its pod cannot be scheduled, as nobody makes volumes here; it is made anew
    // when it is deleted, and the claim is there then.
    let mut keeps = sandbox("keeps", &template("10m"));
    let claim = json!({
        "metadata": { "name": "home" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } },
    });
    keeps["spec"]["volumeClaimTemplates"] = json!([claim]);
    sandboxes.create(&keeps).await;
    let first = pods.until("keeps", "its pod is there", |pod| pod["metadata"]["uid"].is_string()).await;
    let claims = cluster.objects(Resource::PersistentVolumeClaim, namespace);
    let claim = claims.get("home-keeps").await.expect("a claim");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["kind"], "Sandbox");
    pods.delete_at_once("keeps").await;
    pods.until("keeps", "a new pod is there", |pod| pod["metadata"]["uid"] != first["metadata"]["uid"]).await;

    // A set: filled, and rolled so often that its oldest revisions go.
    let sets = cluster.objects(Resource::SandboxSet, namespace);
    sets.create(&sandbox_set("base", 1, &template("10m"))).await;
    sets.until("base", "it is filled", |set| set["status"]["availableReplicas"] == 1).await;
    let templates = cluster.objects(Resource::SandboxTemplate, namespace);
    for cpu in 11..24 {
        let known = sets.get("base").await.expect("a set")["status"]["updateRevision"].clone();
        sets.patch("base", &json!({ "spec": { "template": template(&format!("{cpu}m")) } })).await;
        let is_new = |set: &Value| set["status"]["updateRevision"] != known;
        sets.until("base", "it has seen the new template", is_new).await;
    }
    // 14 were made. Ten are kept, and the current one where it is none of them: revisions of one second are
    // ordered by their names.
    templates.until_all("old revisions are gone", |all| all.len() <= 11).await;
}

#[tokio::test]
async fn the_operator_works_with_exactly_the_rights_that_the_chart_gives_it() {
    let files = TempDir::with_prefix("sandgate-rights-").expect("create a folder");
    let (cluster, audit) = cluster(files.path()).await;
    let _node = cluster.node("a").start().await;
    let (release, namespace) = (cluster.namespace("chart").await, cluster.namespace("tenant").await);
    let values = ["--set", "providers[0].kind=openkruise"];
    let (mut operator, _place, user) = install(&cluster, &release, files.path(), &values).await;
    exercise(&cluster, &namespace).await;
    let events = cluster.objects(Resource::Event, &namespace);
    events
        .until_all("it tells of what it does", |events| {
            events.iter().any(|event| event["reason"] == "SandboxRunning")
        })
        .await;
    let ended = operator.stop().await;
    assert!(ended.success(), "{ended}");

    assert_uses_its_rights(&audit, &user, "envoy/deploy/rbac/operator.yaml", &UNUSED);
    let lease = cluster.objects(Resource::Lease, &release).get(&format!("{release}-sandgate-operator")).await;
    let holder = &lease.expect("a Lease")["spec"]["holderIdentity"];
    assert!(holder.as_str().is_none_or(str::is_empty), "the lease is given up: {holder}");
}

/// The account has asked for what the file grants it and for nothing else, but for what the scenario cannot
/// make it use.
fn assert_uses_its_rights(audit: &Audit, user: &str, rights: &str, unused: &[(&str, &str)]) {
    let (asked, refused) = audit.asked(user);
    assert!(refused.is_empty(), "a right is missing: {refused:#?}");
    let granted = granted(&file(rights));
    let unused: BTreeSet<String> = unused.iter().map(|(right, _)| (*right).to_owned()).collect();
    assert_eq!(
        granted.difference(&asked).cloned().collect::<BTreeSet<_>>(),
        unused.difference(&asked).cloned().collect::<BTreeSet<_>>(),
        "left: granted and not used; right: what the scenario cannot make it use"
    );
    assert_eq!(asked.difference(&granted).collect::<Vec<_>>(), Vec::<&String>::new(), "asked, not granted");
}
