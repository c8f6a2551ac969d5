//! `sandgate run` and `sandgate routes`, as a person uses them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use sandgate_tests::{
    Cli, Client, Gateway, Request, Running, SECRET, Sandbox, process_exists, replace_by_rename, route, routes,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{ask, sandbox};

/// The curl lines that the command has printed.
fn curl_lines(output: &str) -> Option<Vec<String>> {
    let lines = output.lines().map(str::trim).filter(|line| line.starts_with("curl "));
    let lines: Vec<String> = lines.map(ToOwned::to_owned).collect();
    (lines.len() >= 3).then_some(lines)
}

/// The address on the line of the output that begins with `word`, as in `gateway  http://127.0.0.1:1234`.
pub(crate) fn address(output: &str, word: &str) -> Option<SocketAddr> {
    let line = output.lines().find(|line| line.trim().starts_with(word) && line.contains("http://"))?;
    line.split("http://").nth(1)?.split(|c: char| c.is_whitespace() || c == '/').next()?.parse().ok()
}

/// `sandgate run` on free ports with a routes file, and the address of its gateway.
pub(crate) async fn running(file: &Path, more: &[&str]) -> (Running, SocketAddr) {
    let file = file.to_str().expect("a path of text");
    let mut arguments =
        vec!["run", "--port", "0", "--admin-port", "0", "--concurrency", "2", "--routes", file];
    arguments.extend(more);
    let mut running = Running::start(&arguments);
    let gateway = running.printed("the address of the gateway", |output| address(output, "gateway")).await;
    (running, gateway)
}

pub(crate) async fn get(gateway: SocketAddr, request: Request) -> sandgate_tests::Reply {
    let mut client = Client::http1(gateway).await.expect("connect");
    client.send(request).await.expect("an answer")
}

/// One sandbox and a routes file that knows it.
pub(crate) async fn one_sandbox() -> (Sandbox, TempDir, std::path::PathBuf) {
    let demo = sandbox("demo").await;
    let folder = TempDir::with_prefix("sandgate-routes-").expect("create a folder");
    let file = folder.path().join("routes.yaml");
    fs::write(&file, routes([route("demo").ip(demo.ip())])).expect("write");
    (demo, folder, file)
}

#[tokio::test]
async fn the_three_curl_lines_it_prints_work_and_sigterm_leaves_nothing_behind() {
    let mut running = Running::start(&["run", "--demo", "--port", "0", "--admin-port", "0"]);
    let lines = running.printed("three curl lines", curl_lines).await;
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, name) in lines.iter().zip(["demo-a", "demo-b", "demo-a"]) {
        assert!(line.contains(name), "{line}");
        let done = Cli::shell(line).await;
        assert_eq!(done.code, Some(0), "{line}: {}", done.stderr);
        assert!(done.stdout.contains(&format!("the sandbox {name} ")), "{line} answered {}", done.stdout);
        assert!(done.stdout.contains("GET /hello "), "{line} answered {}", done.stdout);
    }
    let children = running.children();
    assert_eq!(children.len(), 1, "one child, which is Envoy: {children:?}");
    let admin = running.printed("the admin port", |output| address(output, "admin")).await;
    let status = get(admin, Request::get("/sandgate/status")).await;
    assert_eq!((status.status, &status.json()["ready"]), (200, &Value::Bool(true)));
    running.terminate();
    assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
    assert!(!process_exists(children[0]), "Envoy is still there");
    assert!(Client::http1(admin).await.is_err(), "somebody still listens on the admin port");
}

#[tokio::test]
async fn a_routes_file_is_followed_while_it_runs() {
    let (demo, _folder, file) = one_sandbox().await;
    let (_running, gateway) = running(&file, &[]).await;
    assert_eq!(get(gateway, ask("default--demo")).await.sandbox(), "demo");
    replace_by_rename(&file, &routes([route("other").ip(demo.ip())]));
    sandgate_tests::eventually("the new route is served", sandgate_tests::DEADLINE, async || {
        (get(gateway, ask("default--other")).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(get(gateway, ask("default--demo")).await.json()["reason"], "sandbox_not_found");
    // What stands behind nothing else is refused: the shipped setting.
    assert_eq!(get(gateway, Request::get("/").host("www.test")).await.json()["reason"], "not_addressed");
}

#[tokio::test]
async fn a_config_file_is_used() {
    let (_demo, folder, file) = one_sandbox().await;
    fs::write(
        &file,
        fs::read_to_string(&file)
            .expect("read")
            .replace("\"ip\"", &format!("\"access-token\":\"{SECRET}\",\"ip\"")),
    )
    .expect("write");
    let config = folder.path().join("config.yaml");
    fs::write(&config, "filter:\n  enable-auth: true\n").expect("write");
    let (running, gateway) =
        running(&file, &["--config", config.to_str().expect("text"), "--access-log"]).await;
    assert_eq!(get(gateway, ask("default--demo")).await.json()["reason"], "unauthorized");
    let reply = get(gateway, ask("default--demo").header("x-access-token", SECRET)).await;
    assert_eq!(reply.sandbox(), "demo");
    let output = format!("{}{}", running.stdout(), running.stderr());
    assert!(!output.contains(SECRET), "{output}");
}

#[tokio::test]
async fn sigterm_lets_a_request_under_way_finish_and_a_second_one_ends_at_once() {
    let (demo, _folder, file) = one_sandbox().await;
    let slow = || ask("default--demo").path("/slow");
    {
        let (mut running, gateway) = running(&file, &["--drain-seconds", "60"]).await;
        let held = tokio::spawn(async move { get(gateway, slow()).await });
        demo.holding(1).await;
        running.terminate();
        sandgate_tests::eventually("it says that it drains", sandgate_tests::DEADLINE, async || {
            running.stderr().contains("draining").then_some(())
        })
        .await;
        assert!(!held.is_finished());
        demo.release(1);
        assert_eq!(held.await.expect("no panic").sandbox(), "demo");
        assert_eq!(running.ended().await, Some(0), "{}", running.stderr());
    }
    let (mut running, gateway) = running(&file, &["--drain-seconds", "3600"]).await;
    let mut client = Client::http1(gateway).await.expect("connect");
    let held = tokio::spawn(async move { client.send(slow()).await });
    demo.holding(1).await;
    let envoy = running.children()[0];
    running.terminate();
    sandgate_tests::eventually("it says that it drains", sandgate_tests::DEADLINE, async || {
        running.stderr().contains("draining").then_some(())
    })
    .await;
    running.terminate();
    running.ended().await;
    assert!(held.await.expect("no panic").is_err(), "nobody was left to answer");
    assert!(!process_exists(envoy), "Envoy is still there");
}

#[tokio::test]
async fn envoy_does_not_outlive_a_command_that_was_killed() {
    let (_demo, _folder, file) = one_sandbox().await;
    let (mut running, _) = running(&file, &[]).await;
    let envoy = running.children()[0];
    running.kill();
    running.ended().await;
    sandgate_tests::eventually("Envoy ends", sandgate_tests::DEADLINE, async || {
        (!process_exists(envoy)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_bad_file_or_option_is_explained_before_envoy_starts() {
    let (_demo, folder, file) = one_sandbox().await;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("write");
        path.to_str().expect("text").to_owned()
    };
    let good = file.to_str().expect("text");
    let unknown = write("unknown.yaml", "filter:\n  enable-auth: true\n  colour: blue\n");
    let wrong = write("wrong.yaml", "filter:\n  dialects:\n    kruise:\n      default-port: 70000\n");
    let section = write("section.yaml", "filters: {}\n");
    let broken = write("broken.yaml", "filter: {\n");
    let bad_routes = write("bad-routes.yaml", "routes:\n  - name: demo\n    ip: nowhere\n");
    let cases = [
        (
            vec!["--routes", good, "--config", &unknown],
            vec!["unknown.yaml:3:3", "filter.colour", "enable-auth"],
        ),
        (
            vec!["--routes", good, "--config", &wrong],
            vec!["wrong.yaml:4:7", "filter.dialects.kruise.default-port", "65535"],
        ),
        (vec!["--routes", good, "--config", &section], vec!["section.yaml:1:1", "filters", "filter"]),
        (vec!["--routes", good, "--config", &broken], vec!["broken.yaml:"]),
        (vec!["--routes", good, "--config", "missing.yaml"], vec!["missing.yaml"]),
        (vec!["--routes", &bad_routes], vec!["bad-routes.yaml:3:9", "ip"]),
        (vec!["--routes", "missing-routes.yaml"], vec!["missing-routes.yaml"]),
        (vec!["--routes", good, "--envoy", "/nowhere/envoy"], vec!["/nowhere/envoy"]),
        (vec!["--routes", good, "--module", "/nowhere/lib.so"], vec!["/nowhere/lib.so"]),
        (vec!["--routes", good, "--prot", "1"], vec!["--prot", "--port"]),
    ];
    for (options, parts) in cases {
        let mut arguments = vec!["run", "--port", "0", "--admin-port", "0"];
        arguments.extend(&options);
        let done = Cli::run(&arguments).await;
        assert_eq!(done.code, Some(2), "{options:?}: {}", done.stderr);
        for part in parts {
            assert!(done.stderr.contains(part), "no {part} in what {options:?} says: {}", done.stderr);
        }
        assert!(!done.stderr.contains("[info]") && done.stdout.is_empty(), "Envoy was started: {done:?}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_to_be() {
    let (_demo, _folder, file) = one_sandbox().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = taken.local_addr().expect("an address").port().to_string();
    let file = file.to_str().expect("text");
    let done = Cli::run(&["run", "--routes", file, "--port", &port, "--admin-port", "0"]).await;
    assert_ne!(done.code, Some(0));
    assert!(done.stderr.contains(&port) && done.stderr.contains("--port"), "{}", done.stderr);
}

#[tokio::test]
async fn routes_lists_the_table_of_a_running_gateway_and_never_a_token() {
    let gateway = Gateway::serving(&routes([
        route("awake").token(SECRET).owner("alice").ip([127, 0, 0, 1]),
        route("asleep").namespace("team").state("paused").ip([127, 0, 0, 2]),
    ]))
    .await;
    let admin = format!("http://{}", gateway.admin_address());
    let list = async |more: &[&str]| {
        let mut arguments = vec!["routes", "--admin", &admin];
        arguments.extend(more);
        let done = Cli::run(&arguments).await;
        assert!(!format!("{done:?}").contains(SECRET), "{done:?}");
        done
    };
    let all = list(&[]).await;
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    for part in ["default--awake", "team--asleep", "running", "paused", "127.0.0.1", "127.0.0.2", "alice"] {
        assert!(all.stdout.contains(part), "no {part} in {}", all.stdout);
    }
    let paused = list(&["--state", "paused", "--json"]).await;
    let listed: Value = serde_json::from_str(&paused.stdout).expect("JSON");
    assert_eq!((listed.as_array().map(Vec::len), &listed[0]["id"]), (Some(1), &Value::from("team--asleep")));
    assert!(list(&["--id", "default--awake"]).await.stdout.contains("default--awake"));
    assert_eq!(list(&["--id", "nobody"]).await.code, Some(1));
    drop(gateway);
    let gone = list(&[]).await;
    assert_ne!(gone.code, Some(0));
    assert!(gone.stderr.contains(&admin), "{}", gone.stderr);
}

#[tokio::test]
async fn the_config_it_prints_is_one_that_envoy_takes() {
    let (_demo, folder, file) = one_sandbox().await;
    let done = Cli::run(&["run", "--print-config", "--routes", file.to_str().expect("text")]).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let config = folder.path().join("envoy.json");
    fs::write(&config, &done.stdout).expect("write");
    let envoy = sandgate_tests::locations::envoy();
    let checked =
        Cli::shell(&format!("{} --mode validate --config-path {}", envoy.display(), config.display())).await;
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}
