//! Config that Envoy must refuse, and what it says then.

use std::fs;

use sandgate_tests::{Builder, Exit, Gateway, locations, route, routes};
use serde_json::{Value, json};

use crate::support::{ask, sandbox};

fn with_routes() -> Builder {
    Gateway::builder().routes(&routes([route("demo").ip([127, 0, 0, 1])]))
}

/// One line of the log says it all: which key, and what was expected.
fn assert_explained(exit: &Exit, parts: &[&str]) {
    assert_ne!(exit.code, Some(0), "accepted, where {parts:?} was to be refused:\n{}", exit.log);
    let explained = exit
        .log
        .lines()
        .any(|line| line.contains("sandgate") && parts.iter().all(|part| line.contains(part)));
    assert!(explained, "no line with {parts:?} in:\n{}", exit.log);
}

#[tokio::test]
async fn a_bad_filter_config_is_refused_with_the_key_and_what_was_expected() {
    let kruise = |key: &str, value: Value| json!({ "dialects": { "kruise": { key: value } } });
    let cases = [
        (json!({ "dialect": {} }), vec!["dialect", "dialects"]),
        (kruise("port", json!(1)), vec!["dialects.kruise", "port", "default-port"]),
        (json!({ "enable-auth": "yes" }), vec!["enable-auth", "boolean"]),
        (kruise("default-port", json!(70_000)), vec!["dialects.kruise.default-port", "65535"]),
        (json!({ "unaddressed": "drop" }), vec!["unaddressed", "pass", "refuse"]),
        (
            kruise("sandbox-header-name", json!("bad name")),
            vec!["dialects.kruise.sandbox-header-name", "header name"],
        ),
        (
            kruise("sandbox-header-name", json!("x-access-token")),
            vec!["sandbox-header-name", "x-access-token"],
        ),
        (json!({ "host-header-name": ":path" }), vec!["host-header-name", ":authority"]),
        (json!({ "domains": ["*.test"] }), vec!["domains", "DNS name"]),
        (json!({ "domains": "test" }), vec!["domains"]),
    ];
    for (filter, parts) in cases {
        let exit = with_routes().filter(filter).validate().await;
        assert_explained(&exit, &parts);
    }
    // And not only in validation.
    let exit = with_routes().filter(json!({ "dialect": {} })).run_to_exit().await;
    assert_explained(&exit, &["dialect", "dialects"]);
}

#[tokio::test]
async fn a_bad_bootstrap_config_is_refused_with_the_key_and_what_was_expected() {
    let cases = [
        ("routes-files", json!("x"), vec!["routes-files", "routes-file"]),
        ("routes-file", json!(7), vec!["routes-file", "string"]),
        ("routes-file", json!(""), vec!["routes-file", "path"]),
        ("tombstone-lifetime-seconds", json!(-1), vec!["tombstone-lifetime-seconds"]),
        ("tombstone-lifetime-seconds", json!(0), vec!["tombstone-lifetime-seconds", "from 1"]),
        ("max-tombstones", json!("many"), vec!["max-tombstones"]),
    ];
    for (key, value, parts) in cases {
        let exit = with_routes().setting(key, value).validate().await;
        assert_explained(&exit, &parts);
    }
    let exit = with_routes().setting("routes-files", "x").run_to_exit().await;
    assert_explained(&exit, &["routes-files", "routes-file"]);
}

#[tokio::test]
async fn a_filter_without_the_bootstrap_extension_is_refused_and_so_is_a_second_extension() {
    let exit = with_routes().without_bootstrap_extension().validate().await;
    assert_explained(&exit, &["bootstrap extension", "envoy.bootstrap.dynamic_modules"]);
    let twice = |config: &mut Value| {
        let extensions = config["bootstrap_extensions"].as_array_mut().expect("a list");
        extensions.push(extensions[0].clone());
    };
    let exit = with_routes().adjust(twice).validate().await;
    assert_explained(&exit, &["bootstrap", "twice"]);
}

#[tokio::test]
async fn validation_passes_a_good_config_and_starts_nothing() {
    // A pipe that nobody writes to: reading it would hang, reading a missing or bad file would be logged.
    let builder = with_routes();
    let pipe = builder.folder().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("run mkfifo");
    assert!(made.success());
    let bad = builder.folder().join("bad.yaml");
    fs::write(&bad, "routes: no\n").expect("write");
    for file in [pipe, bad, "missing.yaml".into()] {
        let exit = with_routes().setting("routes-file", json!(file)).validate().await;
        assert_eq!(exit.code, Some(0), "{}", exit.log);
        assert!(!exit.log.contains("routes file"), "validation has read {}:\n{}", file.display(), exit.log);
    }
    let full = json!({
        "dialects": {
            "kruise": {
                "enabled": true, "path": true, "headers": true, "host": true,
                "sandbox-header-name": "e2b-sandbox-id", "sandbox-port-header": "e2b-sandbox-port", "default-port": 49_983,
            },
            "agent-sandbox": { "enabled": true, "default-namespace": "default", "default-port": 8888 },
            "opensandbox": { "enabled": true, "headers": true, "host": true, "path": true },
            "sandbox-env": { "enabled": true, "headers": true, "path": true },
        },
        "host-header-name": ":authority",
        "domains": ["sandbox.test"],
        "unaddressed": "refuse",
        "enable-auth": true,
        "clear-route-cache": true,
    });
    let exit = with_routes()
        .filter(full)
        .setting("tombstone-lifetime-seconds", 60)
        .setting("max-tombstones", 10)
        .validate()
        .await;
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    assert_eq!(with_routes().shipped_filter().validate().await.code, Some(0));
}

#[tokio::test]
async fn the_module_loads_without_a_warning_and_says_which_abi_it_speaks() {
    let demo = sandbox("demo").await;
    let gateway =
        Gateway::builder().routes(&routes([route("demo").ip(demo.ip())])).shipped_filter().start().await;
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    let log = gateway.log();
    let complaints: Vec<&str> = log
        .lines()
        .filter(|line| ["[warning]", "[error]", "[critical]"].iter().any(|level| line.contains(level)))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let abi = gateway.status().await["abi"].as_str().expect("the module says its ABI").to_owned();
    assert!(log.contains(&format!("ABI version {abi} matched")), "{log}");
    let envoy = gateway.admin("/server_info").await.json()["version"].as_str().expect("a version").to_owned();
    let pinned = fs::read_to_string(locations::repository().join("envoy/VERSION")).expect("the pin");
    assert!(envoy.contains(&format!("/{}/", pinned.trim())), "{envoy} is not {pinned}");
}
