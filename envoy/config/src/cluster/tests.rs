use std::path::PathBuf;
use std::{env, fs};

use serde_json::{Value, json};

use super::{ClusterConfig, Ending};

fn published() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../envoy/config/cluster.schema.json")
}

fn parse(config: &Value) -> Result<ClusterConfig, String> {
    ClusterConfig::parse(config.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// Run with `SANDGATE_BLESS=1` to write the file anew.
#[test]
fn the_published_schema_of_the_cluster_is_the_one_of_this_code() {
    let generated = ClusterConfig::schema();
    if env::var_os("SANDGATE_BLESS").is_some() {
        fs::write(published(), format!("{generated:#}\n")).expect("the schema can be written");
    }
    let found = fs::read_to_string(published()).expect("the schema is published");
    let found: Value = serde_json::from_str(&found).expect("the published schema is JSON");
    assert!(
        found == generated,
        "envoy/config/cluster.schema.json is out of date: run this test with SANDGATE_BLESS=1"
    );
}

#[test]
fn schema_and_parser_of_the_cluster_judge_alike() {
    let validator = jsonschema::validator_for(&ClusterConfig::schema()).expect("the schema is a schema");
    let good = [
        json!({}),
        json!({ "idle-seconds": 5, "max-ports-per-sandbox": 1, "max-wait-milliseconds": 600_000 }),
        json!({ "max-hosts": 1, "max-held-requests": 1_000_000 }),
        json!({ "on-pause": "end", "on-delete": "finish", "shares-connections": true }),
        json!({ "tls": [{ "match": "mtls", "provider": "p", "ports": [443], "server-name": "{name}.test" }] }),
    ];
    let bad = [
        json!([]),
        json!({ "idle": 5 }),
        json!({ "idle-seconds": 0 }),
        json!({ "max-ports-per-sandbox": 65_536 }),
        json!({ "max-wait-milliseconds": "1" }),
        json!({ "max-hosts": 0 }),
        json!({ "max-hosts": 1_000_001 }),
        json!({ "max-held-requests": 0 }),
        json!({ "max-held-requests": true }),
        json!({ "on-pause": "kill" }),
        json!({ "tls": [{}] }),
        json!({ "tls": [{ "match": "" }] }),
        json!({ "tls": [{ "match": "x", "ports": [0] }] }),
        json!({ "tls": [{ "match": "x", "sni": "y" }] }),
        json!({ "tls": [["provider", [443], "match", "name"]] }),
    ];
    for (config, accepted) in good.iter().map(|c| (c, true)).chain(bad.iter().map(|c| (c, false))) {
        assert_eq!(validator.is_valid(config), accepted, "the schema on {config}");
        assert_eq!(parse(config).is_ok(), accepted, "the parser on {config}: {:?}", parse(config));
    }
}

#[test]
fn a_paused_sandboxs_requests_finish_and_a_deleted_ones_end_unless_told_otherwise() {
    let default = ClusterConfig::parse(b"").expect("the defaults are valid");
    assert_eq!((default.on_pause, default.on_delete), (Ending::Finish, Ending::End));
    assert_eq!((default.idle.as_secs(), default.max_ports, default.max_wait.as_millis()), (60, 64, 5000));
    assert_eq!((default.max_hosts, default.max_held), (200_000, 20_000));
}

#[test]
fn the_first_tls_rule_that_fits_provider_and_port_decides() {
    let config = parse(&json!({ "tls": [
        { "match": "first", "provider": "openkruise", "ports": [443, 8443] },
        { "match": "second", "ports": [443], "server-name": "{name}.{namespace}.test" },
        { "match": "third", "provider": "file" },
    ]}))
    .expect("a good config");
    let socket = |provider, port| config.tls(provider, port).map(|rule| rule.socket());
    assert_eq!(socket("openkruise", 8443), Some("first"));
    assert_eq!(socket("opensandbox", 443), Some("second"));
    assert_eq!(socket("opensandbox", 8443), None);
    assert_eq!(socket("file", 80), Some("third"));
    let named = config.tls("opensandbox", 443).and_then(|rule| rule.server_name("i", "team", "demo", "u"));
    assert_eq!(named.as_deref(), Some("demo.team.test"));
}

#[test]
fn an_error_names_the_key_and_what_was_expected() {
    for (config, parts) in [
        (json!({ "idle-seconds": 0 }), ["idle-seconds", "from 1 to 86400, found 0"]),
        (json!({ "max-hosts": 0 }), ["max-hosts", "from 1 to 1000000, found 0"]),
        (json!({ "on-delete": "x" }), ["on-delete", "`finish` or `end`"]),
        (json!({ "tls": [{ "match": "x" }, { "match": "" }] }), ["tls[1].match", "an empty one"]),
    ] {
        let error = parse(&config).expect_err("a bad config");
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}
