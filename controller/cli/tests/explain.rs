//! `sandgate explain` and the options of the other commands, as a shell sees them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn sandgate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sandgate"))
        .args(args)
        .env_remove("SANDGATE_ENVOY")
        .env_remove("SANDGATE_MODULE")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_request_is_explained_with_a_routes_file() {
    let folder = tempfile::tempdir().unwrap();
    let routes = write(folder.path(), "routes.yaml", "routes: [{ name: demo, ip: 127.0.0.9 }]");
    let url = "http://127.0.0.1:7788/x";
    let found = sandgate(&["explain", "--routes", &routes, "-H", "e2b-sandbox-id: default--demo", url]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert!(text(&found.stdout).contains("forwarded to 127.0.0.9:49983"), "{}", text(&found.stdout));

    let refused = sandgate(&["explain", "--json", "--routes", &routes, "-H", "e2b-sandbox-id: nobody", url]);
    assert_eq!(refused.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(json["answer"]["details"], "sandbox_not_found");

    // As `sandgate run` would: its filter config refuses what addresses no sandbox, unless told otherwise.
    let none = sandgate(&["explain", "--json", "http://example.com/"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stdout).contains("not_addressed"));
    let config = write(folder.path(), "config.yaml", "filter: { unaddressed: pass }");
    let passed = sandgate(&["explain", "--json", "--config", &config, "http://example.com/"]);
    assert!(text(&passed.stdout).contains(r#""outcome": "passed""#), "{}", text(&passed.stdout));
}

#[test]
fn what_is_wrong_with_a_file_or_an_option_ends_with_two_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let routes = write(folder.path(), "routes.yaml", "routes:\n- name: demo\n  ip: nowhere\n");
    let config = write(folder.path(), "config.yaml", "filter:\n  enable-auth: perhaps\n");
    let url = "http://80-a.example.com/";
    for (args, expected) in [
        (vec!["explain", "--routes", &routes, url], format!("{routes}:3:7: routes[0].ip: expected an IPv4")),
        (vec!["explain", "--config", &config, url], format!("{config}:2:3: filter.enable-auth: ")),
        (vec!["explain", "--routes", "/no/such/file", url], "/no/such/file: cannot be read".to_owned()),
        // Also where the request names no sandbox that could be looked up in it.
        (vec!["explain", "--routes", "/no/such/file", "/"], "/no/such/file: cannot be read".to_owned()),
        (vec!["explain", "-H", "no colon", url], "a header is written as 'Name: value'".to_owned()),
        (vec!["explain", "--routes", &routes, "--admin", "x", url], "cannot be used with".to_owned()),
        (vec!["explain"], "Usage:".to_owned()),
        (vec!["run", "--routes", &routes], format!("{routes}:3:7: routes[0].ip: expected an IPv4")),
        (vec!["run", "--config", &config], format!("{config}:2:3: filter.enable-auth: ")),
        (vec!["run", "--port", "70000"], "70000".to_owned()),
        (vec!["run", "--demo", "--module", "/no/such.so"], "no module at /no/such.so".to_owned()),
        (vec!["run", "--log-level", "loud"], "possible values".to_owned()),
        (vec!["routes", "--state", "odd"], "possible values".to_owned()),
    ] {
        let output = sandgate(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(&expected), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_config_for_envoy_can_be_printed() {
    let folder = tempfile::tempdir().unwrap();
    let routes = write(folder.path(), "routes.yaml", "routes: []");
    let config =
        write(folder.path(), "config.yaml", "filter: { enable-auth: true }\ngateway: { max-tombstones: 7 }");
    let args = [
        "run",
        "--print-config",
        "--routes",
        &routes,
        "--config",
        &config,
        "--port",
        "0",
        "--address",
        "::1",
    ];
    let output = sandgate(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let settings = json.pointer("/bootstrap_extensions/0/typed_config/extension_config/value").unwrap();
    assert_eq!(
        (&settings["routes-file"], &settings["max-tombstones"]),
        (&Value::from(routes), &Value::from(7))
    );
    let listener = json.pointer("/static_resources/listeners/0/address/socket_address").unwrap();
    assert_eq!(listener, &serde_json::json!({ "address": "::1", "port_value": 0 }));
}

#[test]
fn help_teaches_and_hides_what_is_internal() {
    let help = text(&sandgate(&["--help"]).stdout);
    assert!(help.contains("sandgate run --routes FILE") && !help.contains("__exec"), "{help}");
    for command in ["run", "explain", "routes"] {
        let help = sandgate(&[command, "--help"]);
        assert_eq!(help.status.code(), Some(0));
        assert!(text(&help.stdout).contains("Examples:"), "{command}");
    }
}

#[test]
fn a_gateway_that_is_not_there_ends_with_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let output = sandgate(&["routes", "--admin", &admin]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains(&format!("cannot read {admin}/sandgate/routes")),
        "{}",
        text(&output.stderr)
    );
}
