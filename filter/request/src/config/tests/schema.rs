//! The published schema and the parser must judge alike.

use std::{env, fs, path::PathBuf};

use serde_json::Value;

use crate::FilterConfig;

fn published() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../envoy/config/filter.schema.json")
}

/// Run with `SANDGATE_BLESS=1` to write the file anew.
#[test]
fn the_published_schema_is_the_one_of_this_code() {
    let generated = FilterConfig::schema();
    if env::var_os("SANDGATE_BLESS").is_some() {
        let text = format!("{generated:#}\n");
        fs::create_dir_all(published().parent().expect("the file is in a folder"))
            .expect("the folder can be made");
        fs::write(published(), text).expect("the schema can be written");
    }
    let found = fs::read_to_string(published()).expect("the schema is published");
    let found: Value = serde_json::from_str(&found).expect("the published schema is JSON");
    assert!(
        found == generated,
        "envoy/config/filter.schema.json is out of date: run this test with SANDGATE_BLESS=1"
    );
}

#[test]
fn schema_and_parser_judge_alike() {
    let validator = jsonschema::validator_for(&FilterConfig::schema()).expect("the schema is a schema");
    let judge = |config: &Value| {
        let parsed = FilterConfig::parse(config.to_string().as_bytes());
        assert_eq!(
            validator.is_valid(config),
            parsed.is_ok(),
            "schema and parser disagree on {config}: {parsed:?}"
        );
        parsed.is_ok()
    };
    for good in good() {
        assert!(judge(&good), "{good} is refused");
    }
    for bad in bad() {
        assert!(!judge(&bad), "{bad} is accepted");
    }
}

#[test]
fn what_the_schema_cannot_say_the_parser_still_refuses() {
    let validator = jsonschema::validator_for(&FilterConfig::schema()).expect("the schema is a schema");
    for config in [
        r#"{"dialects":{"kruise":{"sandbox-header-name":"x","sandbox-port-header":"X"}}}"#,
        r#"{"dialects":{"kruise":{"sandbox-header-name":"X-Access-Token"}}}"#,
        r#"{"host-header-name":"cookie"}"#,
        r#"{"allowed-ports":["3001-3000"]}"#,
    ] {
        let value: Value = serde_json::from_str(config).expect("a test config is JSON");
        assert!(validator.is_valid(&value), "{config} could move to the corpus");
        assert!(FilterConfig::parse(config.as_bytes()).is_err(), "{config}");
    }
}

/// A config with one key, given by its path, set.
fn with(path: &str, value: Value) -> Value {
    path.rsplit('/').fold(value, |value, key| Value::Object([(key.to_owned(), value)].into_iter().collect()))
}

const SWITCHES: [&str; 14] = [
    "enable-auth",
    "clear-route-cache",
    "dialects/kruise/enabled",
    "dialects/kruise/path",
    "dialects/kruise/headers",
    "dialects/kruise/host",
    "dialects/agent-sandbox/enabled",
    "dialects/opensandbox/enabled",
    "dialects/opensandbox/headers",
    "dialects/opensandbox/host",
    "dialects/opensandbox/path",
    "dialects/sandbox-env/enabled",
    "dialects/sandbox-env/headers",
    "dialects/sandbox-env/path",
];
const LIMITS: [&str; 2] = ["limits/requests-per-sandbox", "limits/connections-per-sandbox"];
const PERCENT: &str = "limits/percent-per-client";
const PORTS: [&str; 2] = ["dialects/kruise/default-port", "dialects/agent-sandbox/default-port"];
const PORT_LISTS: [&str; 2] = ["allowed-ports", "denied-ports"];
const NAMES: [&str; 3] =
    ["dialects/kruise/sandbox-header-name", "dialects/kruise/sandbox-port-header", "host-header-name"];
const NAMESPACE: &str = "dialects/agent-sandbox/default-namespace";
const OBJECTS: [&str; 6] = [
    "limits",
    "dialects",
    "dialects/kruise",
    "dialects/agent-sandbox",
    "dialects/opensandbox",
    "dialects/sandbox-env",
];

fn good() -> Vec<Value> {
    let mut all = vec![Value::Object(serde_json::Map::new()), with("host-header-name", ":authority".into())];
    for switch in SWITCHES {
        all.extend([true, false].map(|on| with(switch, on.into())));
    }
    all.extend(["cluster", "original-dst"].map(|way| with("upstream", way.into())));
    for limit in LIMITS {
        all.extend([1, 80, 1_000_000].map(|n| with(limit, n.into())));
        all.push(with(limit, 80.0.into()));
    }
    all.extend([1, 50, 100].map(|n| with(PERCENT, n.into())));
    for port in PORTS {
        all.extend([1, 80, 9999, 10000, 49983, 65535].map(|n| with(port, n.into())));
        all.extend(
            ["1", "80", "59999", "60000", "64999", "65499", "65529", "65535"].map(|s| with(port, s.into())),
        );
        all.push(with(port, 80.0.into()));
    }
    for list in PORT_LISTS {
        all.push(with(list, Vec::<Value>::new().into()));
        all.push(with(
            list,
            Value::from(vec![Value::from(1), "80".into(), "3000-3999".into(), 65535.0.into()]),
        ));
        all.push(with(list, vec!["80-80"; 64].into()));
    }
    for name in NAMES {
        all.extend(["x", "X-Box", "!#$%&'*+.^_`|~-9"].map(|s| with(name, s.into())));
        all.push(with(name, "n".repeat(128).into()));
    }
    all.extend(["a", "0", "team-1"].map(|s| with(NAMESPACE, s.into())));
    all.push(with(NAMESPACE, "n".repeat(63).into()));
    for domain in ["localhost", "example.com", ".example.com", "A-1.B.example", "1.2", &"l".repeat(63)] {
        all.push(with("domains", vec![domain].into()));
    }
    all.push(with("domains", Vec::<String>::new().into()));
    all.push(with("domains", vec!["same.example"; 64].into()));
    all.extend(["pass", "refuse"].map(|s| with("unaddressed", s.into())));
    all.extend(OBJECTS.map(|key| with(key, Value::Object(serde_json::Map::new()))));
    all
}

fn bad() -> Vec<Value> {
    let mut all = vec![Value::Null, true.into(), "{}".into(), 1.into(), Vec::<Value>::new().into()];
    all.push(vec![Value::Object(serde_json::Map::new())].into());
    for switch in SWITCHES {
        all.extend([Value::Null, "true".into(), 1.into()].map(|v| with(switch, v)));
    }
    all.extend([Value::Null, "".into(), "Cluster".into(), true.into()].map(|v| with("upstream", v)));
    for limit in LIMITS {
        all.extend([0, 1_000_001, -1, i64::MAX].map(|n| with(limit, n.into())));
        all.extend([80.5, 0.5, 1e300].map(|n| with(limit, n.into())));
        all.extend([Value::Null, "80".into(), vec![80].into()].map(|v| with(limit, v)));
    }
    all.extend([0, 101, -1].map(|n| with(PERCENT, n.into())));
    all.extend([Value::Null, "50".into(), 50.5.into()].map(|v| with(PERCENT, v)));
    for port in PORTS {
        all.extend([0, 65536, -1, i64::MAX].map(|n| with(port, n.into())));
        all.extend([80.5, 0.5, -80.0, 1e300].map(|n| with(port, n.into())));
        let texts =
            ["", "0", "080", "65536", "70000", "100000", "+80", "-80", " 80", "80 ", "80\n", "８０", "http"];
        all.extend(texts.map(|s| with(port, s.into())));
        all.extend([Value::Null, true.into(), vec![80].into()].map(|v| with(port, v)));
    }
    for list in PORT_LISTS {
        all.extend(
            [Value::Null, 80.into(), "80".into(), vec![80; 65].into(), vec![0].into()].map(|v| with(list, v)),
        );
        all.extend([65536, -1].map(|n| with(list, vec![n].into())));
        all.push(with(list, vec![80.5].into()));
        for text in
            ["", "-", "80-", "-80", "0-80", "80-65536", "80-090", "1-2-3", "80 - 81", "80-81\n", "http"]
        {
            all.push(with(list, vec![text].into()));
        }
    }
    for name in NAMES {
        all.extend(
            ["", "a b", "a:b", ":path", ":Authority", "x\n", "é", "a/b", "\"x\""]
                .map(|s| with(name, s.into())),
        );
        all.push(with(name, "n".repeat(129).into()));
        all.extend([Value::Null, 1.into()].map(|v| with(name, v)));
    }
    all.extend(["", "-a", "a-", "Team", "a.b", "a_b", "é", "a\n"].map(|s| with(NAMESPACE, s.into())));
    all.push(with(NAMESPACE, "n".repeat(64).into()));
    let long_label = "l".repeat(64);
    let long_name = ["l".repeat(63), "l".repeat(63), "l".repeat(63), "l".repeat(62)].join(".");
    for domain in [
        "",
        ".",
        "..a",
        "a.",
        "a..b",
        "-a.b",
        "a-.b",
        "a_b",
        "*.example.com",
        "example.com:80",
        "http://a",
        "é.com",
        "a b",
        "a\n",
        &long_label,
        &long_name,
    ] {
        all.push(with("domains", vec![domain].into()));
    }
    all.push(with("domains", vec!["same.example"; 65].into()));
    all.extend([Value::Null, "example.com".into(), vec![1].into()].map(|v| with("domains", v)));
    all.extend(["", "Pass", "drop"].map(|s| with("unaddressed", s.into())));
    all.push(with("unaddressed", true.into()));
    for key in OBJECTS {
        all.extend([Value::Null, true.into(), "".into(), Vec::<Value>::new().into()].map(|v| with(key, v)));
        all.push(with(&format!("{key}/unknown"), true.into()));
        all.push(with(&format!("{key}/Enabled"), true.into()));
    }
    all.extend(["unknown", "enable_auth", "default-port", "$schema"].map(|key| with(key, true.into())));
    all
}
