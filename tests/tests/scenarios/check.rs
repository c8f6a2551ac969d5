//! `sandgate check` against a real API server: what it says of a good cluster, and of each thing that can be
//! wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandgate_tests::kubernetes::{ApiServer, ServiceAccount, agent_sandbox, kruise, opensandbox};
use sandgate_tests::{Cli, DEADLINE, Place, eventually, locations};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::support::allow;

async fn check(kubeconfig: &Path, more: &[&str]) -> Cli {
    let kubeconfig = kubeconfig.to_str().expect("a path of text");
    let mut arguments = vec!["check", "--kubeconfig", kubeconfig];
    arguments.extend(more);
    Cli::run(&arguments).await
}

/// The line of a step, and the lines below that belong to it.
fn step(done: &Cli, name: &str) -> String {
    let mut lines =
        done.stdout.lines().skip_while(|line| !line.get(6..).is_some_and(|rest| rest.starts_with(name)));
    let first = lines.next().unwrap_or_else(|| panic!("no {name:?} in:\n{}\n{}", done.stdout, done.stderr));
    let rest = lines.take_while(|line| line.starts_with("      "));
    [first].into_iter().chain(rest).map(str::to_owned).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_step(done: &Cli, name: &str, mark: &str, parts: &[&str]) {
    let step = step(done, name);
    assert!(step.starts_with(mark), "{step}\nin:\n{}", done.stdout);
    for part in parts {
        assert!(step.contains(part), "no {part:?} in {step}");
    }
}

/// An account and its kubeconfig, with no rights yet.
async fn account(api: &ApiServer, namespace: &str) -> (ServiceAccount, PathBuf) {
    let account = api.service_account(namespace, "gateway").await;
    let kubeconfig = api.kubeconfig(&account.token().await);
    (account, kubeconfig)
}

#[tokio::test]
async fn a_cluster_in_order_is_all_good_and_its_sandboxes_are_counted_by_state() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("check").await;
    for name in ["a", "b"] {
        kruise(&api, &namespace, name).running("10.1.2.3").with_template().create().await;
    }
    kruise(&api, &namespace, "c").running("10.1.2.4").paused().create().await;
    kruise(&api, &namespace, "d").failed().create().await;
    let (account, kubeconfig) = account(&api, &namespace).await;
    allow(&api, &namespace, "list, watch").await;
    let folder = TempDir::new().expect("a folder");
    let config = folder.path().join("gateway.yaml");
    let provider = json!({ "kind": "openkruise", "namespaces": [namespace] });
    let gateway =
        json!({ "gateway": { "kubernetes": { "kubeconfig": kubeconfig, "providers": [provider] } } });
    fs::write(&config, gateway.to_string()).expect("write");
    let config = config.to_str().expect("text");

    // A right that was just given takes the server a moment to notice.
    let done = eventually("all is good", DEADLINE, async || {
        let done = Cli::run(&["check", "--config", config]).await;
        (done.code == Some(0)).then_some(done)
    })
    .await;
    assert_step(&done, "API server", "ok", &["v1.", &api.url()]);
    assert_step(&done, "identity", "ok", &[&account.user()]);
    assert_step(&done, "definition", "ok", &["v1alpha1"]);
    assert_step(&done, "right to list", "ok", &[&namespace]);
    assert_step(&done, "right to watch", "ok", &[&namespace]);
    assert_step(&done, "list", "ok", &["streaming", "4 objects"]);
    assert_step(&done, "sandboxes", "ok", &["2 running, 1 paused, 1 dead"]);
    assert!(done.stdout.trim_end().ends_with("All good."), "{}", done.stdout);
    assert_eq!(done.stderr, "", "nothing but the report where there is no terminal");

    let json = Cli::run(&["check", "--config", config, "--json"]).await;
    let report: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!((json.code, &report["ok"]), (Some(0), &json!(true)), "{report}");
    let checks = report["checks"].as_array().expect("checks");
    let sandboxes = checks.iter().find(|check| check["name"] == "sandboxes").expect("sandboxes");
    assert_eq!(sandboxes["data"], json!({ "running": 2, "paused": 1, "dead": 1 }));
}

#[tokio::test]
async fn a_missing_right_is_named_with_the_file_that_gives_it() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("check").await;
    let (account, kubeconfig) = account(&api, &namespace).await;
    allow(&api, &namespace, "list").await;
    let arguments = ["--provider", "openkruise", "--namespace", &namespace];
    let done = eventually("the right to list", DEADLINE, async || {
        let done = check(&kubeconfig, &arguments).await;
        step(&done, "right to list").starts_with("ok").then_some(done)
    })
    .await;
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    let binding = format!("--serviceaccount={namespace}:gateway");
    let role = "--clusterrole=sandgate-openkruise";
    let file = "envoy/deploy/rbac/openkruise.yaml";
    assert_step(&done, "right to watch", "fail", &["missing", &namespace, file, role, &binding]);
    assert!(!done.stdout.contains("sandboxes  "), "listed without a chance to watch:\n{}", done.stdout);

    let everywhere = check(&kubeconfig, &["--provider", "openkruise"]).await;
    assert_eq!(everywhere.code, Some(1));
    let apply = format!("kubectl apply -f {file}");
    assert_step(&everywhere, "right to list", "fail", &["in all namespaces", &apply, &binding]);
    assert!(locations::repository().join(file).is_file());
    assert!(!everywhere.stdout.contains(&account.token().await), "a token is shown");
}

#[tokio::test]
async fn a_kind_that_is_not_installed_fails_only_where_it_was_asked_for() {
    let api = ApiServer::builder().without_definitions().start().await;
    let kubeconfig = api.admin_kubeconfig();
    let none = check(&kubeconfig, &[]).await;
    assert_eq!(none.code, Some(1), "{}", none.stdout);
    assert_step(&none, "providers", "fail", &["hint: install"]);
    let asked = check(&kubeconfig, &["--provider", "openkruise"]).await;
    assert_eq!(asked.code, Some(1));
    assert_step(
        &asked,
        "definition",
        "fail",
        &["does not know", "kubectl get crd sandboxes.agents.kruise.io"],
    );

    api.install("agent-sandbox").await;
    let namespace = api.namespace("check").await;
    agent_sandbox(&api, &namespace, "a").running("10.1.2.3").create().await;
    let some = check(&kubeconfig, &[]).await;
    assert_eq!(some.code, Some(0), "{}", some.stdout);
    assert_step(&some, "definition", "skip", &["not in this cluster"]);
    assert_step(&some, "sandboxes", "ok", &["1 running"]);
}

#[tokio::test]
async fn addresses_outside_the_pod_ranges_and_ranges_that_are_missing_are_told() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("check").await;
    opensandbox(&api, &namespace, "in").running("10.1.2.3").create().await;
    opensandbox(&api, &namespace, "out").running("203.0.113.7").create().await;
    let kubeconfig = api.admin_kubeconfig();
    let done = check(&kubeconfig, &["--provider", "opensandbox", "-n", &namespace]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert_step(&done, "sandboxes", "ok", &["2 running"]);
    assert_step(&done, "addresses", "warn", &["1 object", "outside the pod ranges", "hint:"]);
    assert_step(&done, "pod-ranges", "warn", &["not given", "hint: a gateway does not start"]);

    let folder = TempDir::new().expect("a folder");
    let config = folder.path().join("gateway.yaml");
    let provider = json!({ "kind": "opensandbox", "namespaces": [namespace] });
    let gateway = json!({ "gateway": {
        "kubernetes": { "providers": [provider] }, "pod-ranges": ["10.0.0.0/8", "203.0.113.0/24"]
    } });
    fs::write(&config, gateway.to_string()).expect("write");
    let done = check(&kubeconfig, &["--config", config.to_str().expect("text")]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.trim_end().ends_with("All good."), "{}", done.stdout);
}

#[tokio::test]
async fn a_version_that_is_not_served_is_told_with_those_that_are() {
    let api = ApiServer::shared().await;
    let folder = TempDir::new().expect("a folder");
    let config = folder.path().join("gateway.yaml");
    let provider = json!({
        "kind": "generic",
        "name": "old",
        "resource": { "group": "agents.x-k8s.io", "version": "v9", "kind": "Sandbox", "plural": "sandboxes" },
        "ip": "status.podIPs[0]",
        "states": [{ "when": [{ "path": "status.gone", "absent": true }], "state": "running" }],
        "default-state": "dead",
    });
    let gateway = json!({ "gateway": { "kubernetes": { "providers": [provider] } } });
    fs::write(&config, gateway.to_string()).expect("write");
    let done = check(&api.admin_kubeconfig(), &["--config", config.to_str().expect("text")]).await;
    assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
    assert_step(&done, "definition", "fail", &["v9 is not served, but", "v1alpha1", "v1beta1"]);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_named_with_the_field_and_the_others_are_counted() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("check").await;
    kruise(&api, &namespace, "good").running("10.1.2.3").create().await;
    let bad = kruise(&api, &namespace, "bad").running("10.1.2.4");
    bad.annotation("agents.kruise.io/owner", &"o".repeat(256)).create().await;
    let nowhere = kruise(&api, &namespace, "nowhere").running("10.1.2.5").create().await;
    nowhere.patch_status(json!({ "podInfo": { "podIP": "not an address" } })).await;
    let done = check(&api.admin_kubeconfig(), &["--provider", "openkruise", "-n", &namespace]).await;
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert_step(&done, "sandboxes", "ok", &["1 running"]);
    assert_step(
        &done,
        "unreadable",
        "fail",
        &["1 object", &format!("- {namespace}/bad: metadata."), "hint:"],
    );
    assert_step(&done, "addresses", "warn", &["1 object", "hint:"]);
    assert!(!step(&done, "unreadable").contains("good"), "{}", done.stdout);
}

#[tokio::test]
async fn without_streaming_lists_the_list_is_read_in_pages_and_that_is_good() {
    let api = ApiServer::builder().without_streaming_lists().start().await;
    let namespace = api.namespace("check").await;
    api.seed((0..1200).map(|n| kruise(&api, &namespace, &format!("s{n}")).running("10.1.2.3"))).await;
    let done = check(&api.admin_kubeconfig(), &["--provider", "openkruise"]).await;
    assert_eq!(done.code, Some(0), "{}", done.stdout);
    assert_step(&done, "list", "ok", &["in pages", "1200 objects"]);
    assert_step(&done, "sandboxes", "ok", &["1200 running"]);
}

#[tokio::test]
async fn what_keeps_us_from_the_server_is_told_apart() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("check").await;
    let folder = TempDir::new().expect("a folder");
    let written = |name: &str, change: &dyn Fn(&mut Value)| {
        let text = fs::read_to_string(api.admin_kubeconfig()).expect("a kubeconfig");
        let mut kubeconfig: Value = serde_json::from_str(&text).expect("JSON");
        change(&mut kubeconfig);
        let file = folder.path().join(name);
        fs::write(&file, kubeconfig.to_string()).expect("write");
        file
    };
    let server = |address: String| {
        move |config: &mut Value| config["clusters"][0]["cluster"]["server"] = json!(address)
    };

    // Nobody listens on an address that is ours alone.
    let place = Place::reserve();
    let refused = written("refused", &server(format!("https://{}:6443", place.ip())));
    let done = check(&refused, &[]).await;
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert_step(&done, "API server", "fail", &["refused", "hint: is the address right"]);

    // Somebody accepts and says nothing.
    let silent = TcpListener::bind((place.ip(), 0)).await.expect("listen");
    let address = silent.local_addr().expect("an address");
    let silent_file = written("silent", &server(format!("https://{address}")));
    let done = tokio::time::timeout(Duration::from_secs(15), check(&silent_file, &["--timeout", "1"])).await;
    let done = done.expect("bounded by --timeout");
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert_step(&done, "API server", "fail", &["hint: is the address right"]);

    let other = ApiServer::builder().without_definitions().start().await;
    let stranger = written("stranger", &|config| {
        config["clusters"][0]["cluster"]["certificate-authority"] = json!(other.authority());
    });
    let done = check(&stranger, &[]).await;
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert_step(&done, "API server", "fail", &["certificate", "hint: the `certificate-authority`"]);

    let account = api.service_account(&namespace, "gone").await;
    let token = account.token_bound_to("lease").await;
    let kubeconfig = api.kubeconfig(&token);
    account.revoke("lease").await;
    let done = eventually("the token is refused", DEADLINE, async || {
        let done = check(&kubeconfig, &["--provider", "openkruise", "-n", &namespace]).await;
        done.stdout.contains("401").then_some(done)
    })
    .await;
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert_step(&done, "API server", "fail", &["401", "kubectl create token"]);
    assert!(!done.stdout.contains(&token), "a token is shown");

    let done = check(Path::new("nowhere/kubeconfig"), &[]).await;
    assert_eq!(done.code, Some(1));
    assert_step(&done, "config", "fail", &["nowhere/kubeconfig", "hint: name a kubeconfig"]);
    let done = check(&api.admin_kubeconfig(), &["--context", "none"]).await;
    assert_eq!(done.code, Some(1));
    assert_step(&done, "config", "fail", &["hint: name a kubeconfig"]);
}
