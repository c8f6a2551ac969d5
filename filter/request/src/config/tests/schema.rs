//! The published schema and the parser must judge alike.

use std::{env, fs, path::PathBuf};

use serde_json::{Value, json};

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
        r#"{"enable-jwt-auth":true}"#,
        r#"{"traffic-access-token-header":"X-Access-Token"}"#,
        r#"{"traffic-access-token-header":"e2b-sandbox-id"}"#,
        r#"{"callers":{"mode":"bearer","subjects":["jane"]}}"#,
        r#"{"callers":{"mode":"scoped-token","groups":["agents"]}}"#,
        r#"{"callers":{"mode":"bearer","bind-namespace":true}}"#,
        r#"{"limits":{"burst":5}}"#,
        r#"{"limits":{"requests-per-second":5},"upstream":"original-dst"}"#,
        r#"{"connect-window":1,"upstream":"original-dst"}"#,
        r#"{"dialects":{"kruise":{"connect-window":1}},"upstream":"original-dst"}"#,
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

const SWITCHES: [&str; 17] = [
    "require-token",
    "forward/forwarded-host",
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
    "dialects/opensandbox/proxy-path",
    "dialects/sandbox-env/enabled",
    "dialects/sandbox-env/headers",
    "dialects/sandbox-env/path",
];
const LIMITS: [&str; 2] = ["limits/requests-per-sandbox", "limits/connections-per-sandbox"];
/// Sizes, and the most that each can be.
const SIZES: [(&str, u64); 2] = [("limits/request-bytes", 1 << 40), ("limits/request-header-bytes", 8 << 20)];
const SECRETS: [&str; 3] = ["secrets/secure-access-keys", "secrets/scoped-token", "secrets/bearer"];
const PERCENT: &str = "limits/percent-per-client";
const TIMEOUTS: [&str; 4] = [
    "timeouts/request",
    "timeouts/response-headers",
    "dialects/agent-sandbox/timeouts/request",
    "dialects/opensandbox/timeouts/response-headers",
];
const LONGEST: &str = "timeouts/max";
const WINDOWS: [&str; 5] = [
    "connect-window",
    "dialects/kruise/connect-window",
    "dialects/agent-sandbox/connect-window",
    "dialects/opensandbox/connect-window",
    "dialects/sandbox-env/connect-window",
];
const RATE: &str = "limits/requests-per-second";
const PORTS: [&str; 2] = ["dialects/kruise/default-port", "dialects/agent-sandbox/default-port"];
const PORT_LISTS: [&str; 2] = ["allowed-ports", "denied-ports"];
const NAMES: [&str; 3] =
    ["dialects/kruise/sandbox-header-name", "dialects/kruise/sandbox-port-header", "host-header-name"];
const NAMESPACE: &str = "dialects/agent-sandbox/default-namespace";
const NAMESPACES: &str = "dialects/opensandbox/agent-sandbox-namespaces";
const HEALTH_PATHS: &str = "health-paths";
const OBJECTS: [&str; 13] = [
    "forward",
    "limits",
    "secrets",
    "timeouts",
    "dialects/kruise/timeouts",
    "dialects/agent-sandbox/timeouts",
    "dialects/opensandbox/timeouts",
    "dialects/sandbox-env/timeouts",
    "dialects",
    "dialects/kruise",
    "dialects/agent-sandbox",
    "dialects/opensandbox",
    "dialects/sandbox-env",
];

fn callers(more: &Value) -> Value {
    let mut callers = serde_json::json!({ "mode": "token-review" });
    for (key, value) in more.as_object().into_iter().flatten() {
        callers[key] = value.clone();
    }
    with("callers", callers)
}

fn good_callers() -> [Value; 7] {
    [
        serde_json::json!({}),
        serde_json::json!({ "mode": "bearer" }),
        serde_json::json!({ "mode": "scoped-token", "allow-anonymous": true }),
        serde_json::json!({ "subjects": ["jane", "system:serviceaccount:team:*"], "groups": ["agents"] }),
        serde_json::json!({ "subjects": [], "groups": [] }),
        serde_json::json!({ "bind-namespace": true, "providers": ["agent-sandbox", "openkruise"] }),
        serde_json::json!({ "subjects": ["x".repeat(253)] }),
    ]
}

fn bad_callers() -> [Value; 8] {
    [
        serde_json::json!({ "mode": "none" }),
        serde_json::json!({ "mode": null }),
        serde_json::json!({ "providers": [] }),
        serde_json::json!({ "providers": ["Agent"] }),
        serde_json::json!({ "subjects": [""] }),
        serde_json::json!({ "groups": ["x".repeat(254)] }),
        serde_json::json!({ "subjects": vec!["x"; 65] }),
        serde_json::json!({ "tokens": [] }),
    ]
}

fn good() -> Vec<Value> {
    let mut all = vec![Value::Object(serde_json::Map::new()), with("host-header-name", ":authority".into())];
    all.extend(good_callers().iter().map(callers));
    all.push(serde_json::json!({ "enable-auth": true, "enable-jwt-auth": true }));
    all.push(with("traffic-access-token-header", "X-Traffic".into()));
    for key in ["forward/host", "forward/origin"] {
        all.extend(["client", "target"].map(|name| with(key, name.into())));
    }
    for switch in SWITCHES {
        all.extend([true, false].map(|on| with(switch, on.into())));
    }
    all.extend(["cluster", "original-dst"].map(|way| with("upstream", way.into())));
    for limit in LIMITS {
        all.extend([1, 80, 1_000_000].map(|n| with(limit, n.into())));
        all.push(with(limit, 80.0.into()));
    }
    all.extend([1, 50, 100].map(|n| with(PERCENT, n.into())));
    for timeout in TIMEOUTS {
        all.extend([0.0, 0.5, 60.0, 604_800.0].map(|n| with(timeout, n.into())));
        all.push(with(timeout, 60.into()));
    }
    all.extend([0.001, 1.0, 604_800.0].map(|n| with(LONGEST, n.into())));
    for window in WINDOWS {
        all.extend([0.0, 1.4, 60.0].map(|n| with(window, n.into())));
        all.push(with(window, 2.into()));
    }
    all.extend([0.001, 0.5, 10.0, 1_000_000.0].map(|n| with(RATE, n.into())));
    all.extend([1, 1_000_000].map(|n| {
        let limits = json!({ "requests-per-second": 3, "burst": n });
        with("limits", limits)
    }));
    for (size, most) in SIZES {
        all.extend([1, 80, most].map(|n| with(size, n.into())));
        all.push(with(size, 1e6.into()));
    }
    for secret in SECRETS {
        all.push(with(secret, json!({ "name": "n".repeat(253) })));
        all.push(with(secret, json!({ "name": "é", "sds-config": {} })));
        all.push(with(secret, json!({ "name": "n", "sds-config": { "ads": {}, "any": [1] } })));
    }
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
    all.extend([vec![], vec!["a", "team-1"], vec!["a"; 16]].map(|list| with(NAMESPACES, list.into())));
    let path = format!("/{}", "p".repeat(127));
    all.extend([vec![], vec!["/", "/a\"b$>@~!"], vec![&path; 8]].map(|list| with(HEALTH_PATHS, list.into())));
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
    all.extend(bad_callers().iter().map(callers));
    all.push(with("callers", Value::Null));
    all.push(with("callers/allow-anonymous", true.into()));
    all.push(with("traffic-access-token-header", "a b".into()));
    for key in ["forward/host", "forward/origin"] {
        all.extend([Value::Null, "".into(), "server".into(), true.into()].map(|name| with(key, name)));
    }
    for switch in SWITCHES {
        all.extend([Value::Null, "true".into(), 1.into()].map(|v| with(switch, v)));
    }
    all.extend([Value::Null, "".into(), "Cluster".into(), true.into()].map(|v| with("upstream", v)));
    for limit in LIMITS {
        all.extend([0, 1_000_001, -1, i64::MAX].map(|n| with(limit, n.into())));
        all.extend([80.5, 0.5, 1e300].map(|n| with(limit, n.into())));
        all.extend([Value::Null, "80".into(), vec![80].into()].map(|v| with(limit, v)));
    }
    for (size, most) in SIZES {
        all.extend([0, most + 1, u64::MAX].map(|n| with(size, n.into())));
        all.extend([-1.0, 0.5, 80.5, 1e300].map(|n| with(size, n.into())));
        all.extend([Value::Null, "80".into(), vec![80].into()].map(|v| with(size, v)));
    }
    for secret in SECRETS {
        all.extend([Value::Null, "n".into(), json!({}), json!(["n"])].map(|v| with(secret, v)));
        all.extend(
            [json!(""), json!("n".repeat(254)), json!(1)].map(|name| with(secret, json!({ "name": name }))),
        );
        all.extend(
            [Value::Null, "{}".into(), json!([])]
                .map(|config| with(secret, json!({ "name": "n", "sds-config": config }))),
        );
        all.push(with(secret, json!({ "name": "n", "sds_config": {} })));
    }
    all.extend([0, 101, -1].map(|n| with(PERCENT, n.into())));
    for timeout in TIMEOUTS {
        all.extend([-0.1, 604_800.5, 1e300].map(|n| with(timeout, n.into())));
        all.extend([Value::Null, "60".into(), vec![60].into()].map(|v| with(timeout, v)));
    }
    all.extend([0.0, -1.0, 604_801.0].map(|n| with(LONGEST, n.into())));
    all.push(with(LONGEST, Value::Null));
    for window in WINDOWS {
        all.extend([-0.1, 60.5, 1e300].map(|n| with(window, n.into())));
        all.extend([Value::Null, "1".into()].map(|v| with(window, v)));
    }
    all.extend([0.0, 0.0009, -1.0, 1_000_000.5].map(|n| with(RATE, n.into())));
    all.extend([Value::Null, "5".into()].map(|v| with(RATE, v)));
    for burst in [json!(0), json!(1.5), json!(1_000_001), json!("5"), Value::Null] {
        all.push(with("limits", json!({ "requests-per-second": 3, "burst": burst })));
    }
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
    all.push(with(NAMESPACES, vec!["a"; 17].into()));
    all.extend([Value::Null, "a".into(), vec![1].into()].map(|v| with(NAMESPACES, v)));
    for namespace in ["", "-a", "Team", "a.b", "a\n", &"n".repeat(64)] {
        all.push(with(NAMESPACES, vec![namespace].into()));
    }
    all.push(with(HEALTH_PATHS, vec!["/"; 9].into()));
    all.extend([Value::Null, "/healthz".into(), vec![1].into()].map(|v| with(HEALTH_PATHS, v)));
    for path in ["", "healthz", "/a?b", "/a#b", "/a b", "/a\n", "/é", &format!("/{}", "p".repeat(128))] {
        all.push(with(HEALTH_PATHS, vec![path].into()));
    }
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
