//! The manager as the chart installs it: with the arguments of its Deployment, and with the rights of its
//! account and no others.
//!
//! As for the operator, the audit log says which rights are used and which are missing.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use sandgate_tests::cluster::{Cluster, Daemon, Resource, api_request, pod_template, sandbox_set};
use sandgate_tests::deploy::{Audit, folder, granted, tool};
use sandgate_tests::{Client, DEADLINE, Place, Reply, Request, eventually, locations};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::file;

/// Rights that this scenario cannot be sure to make the manager use, each with what it is for.
const UNUSED: [(&str, &str); 8] = [
    (
        "update checkpoints/finalizers.agents.kruise.io",
        "asked by admission when a checkpoint owns something, not by a request",
    ),
    ("get checkpoints.agents.kruise.io", "whether a checkpoint was made whose answer was lost"),
    ("patch checkpoints.agents.kruise.io", "the label of one that was executed: nobody executes any here"),
    ("get sandboxsets.agents.kruise.io", "a template that this manager has not heard of yet"),
    ("get secrets.", "whether another Secret has the name of a key that was to be revoked"),
    ("patch secrets.", "when a key was last used, which is written now and then"),
    (
        "delete sandboxtemplates.agents.kruise.io",
        "what a snapshot that failed left, unless the garbage collector was faster",
    ),
    ("delete configmaps.", "the marker of a create that is a day old"),
];

/// The manager of a release.
struct Installed {
    daemon: Daemon,
    place: Place,
    user: String,
}

impl Installed {
    /// `helm install`, and then the manager as a node would start it.
    ///
    /// Sandboxes of the namespace can be without access to the internet.
    async fn start(cluster: &Cluster, release: &str, namespace: &str, files: &Path) -> Self {
        let (chart, kubeconfig) = (folder().join("chart"), cluster.kubeconfig());
        let [chart, kubeconfig] = [&chart, &kubeconfig].map(|path| path.to_str().expect("text"));
        let install = ["install", release, chart, "--kubeconfig", kubeconfig, "--namespace", release];
        let subject = format!(
            "push.tokenReview.subjects={{system:serviceaccount:{release}:{release}-sandgate-manager}}"
        );
        let cut_off = format!("manager.noInternetNamespaces={{{namespace}}}");
        let values = [
            "providers[0].kind=openkruise",
            "operator.enabled=true",
            "manager.enabled=true",
            "manager.snapshots=true",
            "push.enabled=true",
            "push.tokenReview.audience=sandgate-push",
            &subject,
            &cut_off,
        ];
        let values = values.iter().flat_map(|value| ["--set", value]);
        let arguments: Vec<&str> = install.into_iter().chain(values).collect();
        let notes = tool("helm", &arguments).await.unwrap_or_else(|e| panic!("{e}"));
        assert!(notes.contains("The manager is"), "{notes}");

        let name = format!("{release}-sandgate-manager");
        let path = format!("/apis/apps/v1/namespaces/{release}/deployments/{name}");
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        let deployment: Value = cluster.client().request(request).await.expect("a Deployment");
        let pod = &deployment["spec"]["template"]["spec"];
        let account = pod["serviceAccountName"].as_str().expect("an account");
        let account = cluster.api().service_account(release, account).await;
        let token = account.token().await;
        fs::create_dir_all(files.join("push")).expect("create a folder");
        fs::write(files.join("push/token"), &token).expect("write");
        let place = Place::reserve();
        let mut command = Command::new(locations::manager());
        command.env("KUBECONFIG", cluster.api().kubeconfig(&token));
        for argument in pod["containers"][0]["args"].as_array().expect("arguments") {
            let argument = argument.as_str().expect("text").replace("0.0.0.0", &place.ip().to_string());
            command.arg(argument.replace("/etc/sandgate", files.to_str().expect("text")));
        }
        let daemon = Daemon::start("the manager", &command, &files.join("manager.log"), "KILL");
        let mut installed = Self { daemon, place, user: account.user() };
        let container = &pod["containers"][0];
        for probe in ["livenessProbe", "readinessProbe"] {
            let probe = &container[probe]["httpGet"];
            let path = probe["path"].as_str().expect("a path").to_owned();
            let port = port(container, &probe["port"]);
            eventually(&path, 3 * DEADLINE, async || {
                installed.daemon.assert_alive();
                let mut client = Client::http1(SocketAddr::new(installed.place.ip(), port)).await.ok()?;
                (client.send(Request::get(&path)).await.ok()?.status == 200).then_some(())
            })
            .await;
        }
        assert_eq!(port(container, &json!("api")), 8080);
        installed
    }

    async fn ask(&self, request: Request) -> Reply {
        let mut client = Client::http1(SocketAddr::new(self.place.ip(), 8080)).await.expect("connect");
        client.send_within(4 * DEADLINE, request).await.expect("an answer")
    }

    /// Waits until it knows a key.
    async fn knows(&self, key: &str) {
        eventually("the key is known", DEADLINE, async || {
            (self.ask(api_request(key, "GET", "/v2/sandboxes", None)).await.status == 200).then_some(())
        })
        .await;
    }

    async fn done(&self, key: &str, method: &str, path: &str, body: Option<Value>) -> Reply {
        let reply = self.ask(api_request(key, method, path, body.as_ref())).await;
        assert!((200..300).contains(&reply.status), "{method} {path}: {} {}", reply.status, reply.text());
        reply
    }
}

fn port(container: &Value, name: &Value) -> u16 {
    let mut ports = container["ports"].as_array().expect("ports").iter();
    let port = ports.find(|port| port["name"] == *name).and_then(|port| port["containerPort"].as_u64());
    port.and_then(|port| port.try_into().ok()).unwrap_or_else(|| panic!("no port {name}"))
}

/// Makes the manager do everything that it can do.
async fn exercise(cluster: &Cluster, release: &str, manager: &Installed) {
    let own = ["--system-namespace", release];
    let admin = cluster.api_key_with("admin", &[&own[..], &["--team", "admin"]].concat()).await;
    let limited = cluster.api_key_with("ci", &[&own[..], &["--quota", "sandbox.count=5"]].concat()).await;
    manager.knows(&admin).await;
    manager.knows(&limited).await;

    // One of the pool, one more that is made, and one that is asked for twice.
    let create = json!({ "templateID": "base", "envVars": { "A": "b" } });
    let first = manager.done(&limited, "POST", "/sandboxes", Some(create.clone())).await.json();
    manager.done(&admin, "POST", "/sandboxes", Some(create.clone())).await;
    let twice = || api_request(&admin, "POST", "/sandboxes", Some(&create)).header("idempotency-key", "one");
    let ids = [manager.ask(twice()).await, manager.ask(twice()).await].map(|reply| reply.json());
    assert_eq!(ids[0]["sandboxID"], ids[1]["sandboxID"], "{ids:?}");

    let one = format!("/sandboxes/{}", first["sandboxID"].as_str().expect("an ID"));
    let path = |end: &str| format!("{one}/{end}");
    manager.done(&limited, "POST", &path("timeout"), Some(json!({ "timeout": 600 }))).await;
    // Nobody executes it.
    let snapshot = api_request(&limited, "POST", &path("snapshots"), Some(&json!({})));
    assert_eq!(manager.ask(snapshot).await.status, 501);
    manager.done(&limited, "POST", &path("pause"), Some(json!({}))).await;
    manager.done(&limited, "POST", &path("connect"), Some(json!({ "timeout": 300 }))).await;
    manager.done(&limited, "DELETE", &one, None).await;

    let made = manager.done(&admin, "POST", "/api-keys", Some(json!({ "name": "other" }))).await.json();
    let revoked = format!("/api-keys/{}", made["id"].as_str().expect("an ID"));
    manager.done(&admin, "DELETE", &revoked, None).await;
}

/// Takes a sandbox of the pool that must not reach the internet: the policy of the chart selects its pod, and
/// none of the others.
async fn cut_off(cluster: &Cluster, release: &str, namespace: &str, manager: &Installed) {
    let key = cluster.api_key_with("cut-off", &["--system-namespace", release]).await;
    manager.knows(&key).await;
    let sets = cluster.objects(Resource::SandboxSet, namespace);
    sets.until("base", "it is filled", |set| set["status"]["availableReplicas"] == 1).await;
    let create = json!({ "templateID": "base", "allow_internet_access": false });
    let made = manager.done(&key, "POST", "/sandboxes", Some(create)).await.json();
    let label = format!("agents.kruise.io/sandbox-id={}", made["sandboxID"].as_str().expect("an ID"));
    let sandbox = cluster.objects(Resource::Sandbox, namespace).labelled(&label).await;
    let name = sandbox[0]["metadata"]["name"].clone();

    let path = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies");
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    let policies: Value = cluster.client().request(request).await.expect("policies");
    let [policy] = policies["items"].as_array().expect("a list").as_slice() else {
        panic!("one policy: {policies}")
    };
    let labels = policy["spec"]["podSelector"]["matchLabels"].as_object().expect("labels").iter();
    let selector: Vec<String> =
        labels.map(|(name, value)| format!("{name}={}", value.as_str().expect("text"))).collect();
    let pods = cluster.objects(Resource::Pod, namespace);
    // It had its pod before, which gets the label from the operator.
    eventually("the policy selects the pod", DEADLINE, async || {
        let selected = pods.labelled(&selector.join(",")).await;
        let names: Vec<&Value> = selected.iter().map(|pod| &pod["metadata"]["name"]).collect();
        (names == [&name]).then_some(())
    })
    .await;
    assert!(pods.list().await.len() > 1, "there are others");
}

#[tokio::test]
async fn the_manager_works_with_exactly_the_rights_that_the_chart_gives_it() {
    let files = TempDir::with_prefix("sandgate-rights-").expect("create a folder");
    let (cluster, audit) = Audit::of(Cluster::builder(), files.path());
    let cluster = cluster.without_definitions().start().await;
    let _node = cluster.node("a").start().await;
    let (release, namespace) = (cluster.namespace("chart").await, cluster.namespace("tenant").await);
    let mut manager = Installed::start(&cluster, &release, &namespace, files.path()).await;
    let _operator = cluster.operator().start().await;
    let sets = cluster.objects(Resource::SandboxSet, &namespace);
    sets.create(&sandbox_set("base", 1, &pod_template("envd"))).await;
    sets.until("base", "it is filled", |set| set["status"]["availableReplicas"] == 1).await;
    exercise(&cluster, &release, &manager).await;
    cut_off(&cluster, &release, &namespace, &manager).await;
    let ended = manager.daemon.stop().await;
    assert!(ended.success(), "{ended}");

    let (asked, refused) = audit.asked(&manager.user);
    assert!(refused.is_empty(), "a right is missing: {refused:#?}");
    let granted = granted(&file("envoy/deploy/rbac/manager.yaml"));
    let unused: BTreeSet<String> = UNUSED.iter().map(|(right, _)| (*right).to_owned()).collect();
    assert_eq!(
        granted.difference(&asked).cloned().collect::<BTreeSet<_>>(),
        unused.difference(&asked).cloned().collect::<BTreeSet<_>>(),
        "left: granted and not used; right: what the scenario cannot make it use"
    );
    assert_eq!(asked.difference(&granted).collect::<Vec<_>>(), Vec::<&String>::new(), "asked, not granted");
}
