use sandgate_config::MAX_CONFIG;

use super::{FilterConfig, SecretSource, Secrets, Unaddressed, raw::RawConfig};

mod route;
mod schema;

fn error(json: &str) -> String {
    FilterConfig::parse(json.as_bytes()).expect_err(json).to_string()
}

#[test]
fn nothing_and_an_empty_object_are_the_defaults() {
    let defaults = format!("{:?}", FilterConfig::default());
    for input in ["", " \n", "{}", r#"{"dialects":{}}"#, r#"{"dialects":{"kruise":{},"opensandbox":{}}}"#] {
        let config = FilterConfig::parse(input.as_bytes()).expect(input);
        assert_eq!(format!("{config:?}"), defaults, "{input:?}");
    }
    let config = FilterConfig::default();
    assert!(config.kruise.path && config.kruise.headers && config.kruise.host);
    assert!(config.opensandbox.path && config.opensandbox.headers && config.opensandbox.host);
    assert!(config.agent_sandbox.enabled && config.domains.is_empty());
    assert!(config.sandbox_env.headers && config.sandbox_env.path);
    assert!(config.opensandbox.proxy_path && config.opensandbox.agent_sandbox_namespaces.is_empty());
    assert!(config.health_paths.is_empty());
    assert_eq!(config.kruise.id_header, "e2b-sandbox-id");
    assert_eq!(config.kruise.port_header, "e2b-sandbox-port");
    assert_eq!((config.kruise.default_port, config.agent_sandbox.default_port), (49983, 8888));
    assert_eq!(config.agent_sandbox.default_namespace, "default");
    assert_eq!(config.host_header, ":authority");
    assert_eq!(config.unaddressed(), Unaddressed::Pass);
    assert!(!config.enable_auth() && !config.clear_route_cache());
    assert!([1, 80, 65535].iter().all(|port| config.allows_port(*port)));
}

#[test]
fn the_defaults_written_out_are_a_config_with_the_same_meaning() {
    let written = serde_json::to_vec(&RawConfig::default()).expect("the defaults serialize");
    let config = FilterConfig::parse(&written).expect("the defaults parse");
    assert_eq!(format!("{config:?}"), format!("{:?}", FilterConfig::default()));
}

#[test]
fn every_key_can_be_set() {
    let config = FilterConfig::parse(
        br#"{
          "dialects": {
            "kruise": {"enabled": true, "path": false, "headers": true, "host": false,
              "sandbox-header-name": "X-Box", "sandbox-port-header": "X-Box-Port", "default-port": "8080"},
            "agent-sandbox": {"enabled": false, "default-namespace": "team-1", "default-port": 81},
            "opensandbox": {"enabled": true, "headers": false, "host": true, "path": false, "proxy-path": true,
              "agent-sandbox-namespaces": ["team-2", "team-1", "team-2"]},
            "sandbox-env": {"enabled": true, "headers": false, "path": true}
          },
          "host-header-name": "X-Forwarded-Host",
          "domains": ["b.example", ".Sandboxes.B.example", "a.example", "A.Example"],
          "health-paths": ["/status.ok", "/readyz"],
          "unaddressed": "refuse", "enable-auth": true, "clear-route-cache": true,
          "allowed-ports": [80, "3000-3999"], "denied-ports": ["3500"],
          "limits": {"request-bytes": 1099511627776, "request-header-bytes": 8192.0},
          "secrets": {"bearer": {"name": "b"}, "scoped-token": {"name": "s", "sds-config": {"ads": {}}}}
        }"#,
    )
    .expect("the config is valid");
    assert!(!config.kruise.path && config.kruise.headers && !config.kruise.host);
    assert_eq!(config.kruise.id_header, "x-box");
    assert_eq!(config.kruise.port_header, "x-box-port");
    assert_eq!(config.kruise.default_port, 8080);
    assert!(!config.agent_sandbox.enabled);
    assert_eq!(config.agent_sandbox.default_namespace, "team-1");
    assert_eq!(config.agent_sandbox.default_port, 81);
    assert!(!config.opensandbox.headers && config.opensandbox.host && !config.opensandbox.path);
    assert_eq!(config.health_paths, ["/status.ok", "/readyz"]);
    assert!(config.opensandbox.proxy_path);
    assert_eq!(config.opensandbox.agent_sandbox_namespaces, ["team-1", "team-2"]);
    assert!(!config.sandbox_env.headers && config.sandbox_env.path);
    assert_eq!(config.host_header, "x-forwarded-host");
    assert_eq!(config.domains, ["sandboxes.b.example", "a.example", "b.example"]);
    assert_eq!(config.unaddressed(), Unaddressed::Refuse);
    assert!(config.enable_auth() && config.clear_route_cache());
    assert_eq!(
        [80, 81, 3000, 3500, 3999].map(|port| config.allows_port(port)),
        [true, false, true, false, true]
    );
    assert_eq!((config.request_bytes(), config.request_header_bytes()), (Some(1 << 40), Some(8192)));
    let source = |name: &str, sds_config: Option<&str>| {
        Some(SecretSource { name: name.to_owned(), sds_config: sds_config.map(str::to_owned) })
    };
    let secrets = Secrets {
        secure_access_keys: None,
        scoped_token: source("s", Some(r#"{"ads":{}}"#)),
        bearer: source("b", None),
    };
    assert_eq!(*config.secrets(), secrets);
}

#[test]
fn a_dialect_that_is_off_is_off_in_every_form() {
    let json = br#"{"dialects":{"kruise":{"enabled":false,"path":true},"opensandbox":{"enabled":false},
      "sandbox-env":{"enabled":false,"path":true}}}"#;
    let config = FilterConfig::parse(json).expect("the config is valid");
    assert!(!config.opensandbox.proxy_path);
    assert!(!config.kruise.path && !config.kruise.headers && !config.kruise.host);
    assert!(!config.opensandbox.path && !config.opensandbox.headers && !config.opensandbox.host);
    assert!(!config.sandbox_env.path && !config.sandbox_env.headers);
}

#[test]
fn an_error_names_the_key_what_was_expected_and_what_was_found() {
    let cases = [
        (
            r#"{"dialects":{"kruise":{"default-port":70000}}}"#,
            ["dialects.kruise.default-port", "a port from 1 to 65535", "found 70000", ""],
        ),
        (
            r#"{"dialects":{"agent-sandbox":{"default-port":"0"}}}"#,
            ["dialects.agent-sandbox.default-port", "a port from 1 to 65535", r#"found "0""#, ""],
        ),
        (
            r#"{"dialects":{"agent-sandbox":{"default-namespace":"Team"}}}"#,
            ["dialects.agent-sandbox.default-namespace", "a namespace", r#"found "Team""#, ""],
        ),
        (
            r#"{"dialects":{"kruise":{"sandbox-header-name":"a b"}}}"#,
            ["dialects.kruise.sandbox-header-name", "an HTTP header name", r#"found "a b""#, ""],
        ),
        (
            "{\n\"host-header-name\":\":path\"}",
            ["host-header-name", "\":authority\"", r#"found ":path""#, ""],
        ),
        (
            "{\"domains\":[\"ok.example\",\n\"*.example.com\"]}",
            ["domains[1]", "a DNS name", r#"found "*.example.com""#, ""],
        ),
        (r#"{"unaddressed":"drop"}"#, ["unaddressed", "`pass` or `refuse`", "`drop`", "line 1"]),
        (r#"{"enable-auth":"yes"}"#, ["enable-auth", "a boolean", r#"string "yes""#, "line 1"]),
        (
            r#"{"dialects":{"kruise":{"defalt-port":1}}}"#,
            ["dialects.kruise.defalt-port", "`default-port`", "unknown field `defalt-port`", "line 1"],
        ),
        (
            r#"{"dialect":{}}"#,
            ["dialect:", "expected one of `dialects`", "unknown field `dialect`", "line 1"],
        ),
        (
            r#"{"allowed-ports":[80,"90-80"]}"#,
            ["allowed-ports[1]", "a range of ports such as \"3000-3999\"", r#"found "90-80""#, ""],
        ),
        (
            r#"{"health-paths":["/ok","ok"]}"#,
            ["health-paths[1]", "begins with '/' and has no query", r#"found "ok""#, ""],
        ),
        (
            r#"{"dialects":{"opensandbox":{"agent-sandbox-namespaces":["a","B"]}}}"#,
            ["dialects.opensandbox.agent-sandbox-namespaces[1]", "a namespace", r#"found "B""#, ""],
        ),
        (r#"{"timeouts":{"max":0}}"#, ["timeouts.max", "a number of seconds above 0", "found 0", ""]),
        (
            r#"{"dialects":{"kruise":{"timeouts":{"request":-1}}}}"#,
            ["dialects.kruise.timeouts.request", "seconds from 0 to 604800", "found -1", ""],
        ),
        (r#"{"connect-window":61}"#, ["connect-window", "seconds from 0 to 60", "found 61", ""]),
        (r#"{"limits":{"burst":1}}"#, ["limits.burst", "limits.requests-per-second beside it", "", ""]),
        (
            r#"{"limits":{"requests-per-second":0},"upstream":"cluster"}"#,
            ["limits.requests-per-second", "a number from 0.001 to 1000000", "found 0", ""],
        ),
        (
            r#"{"connect-window":1,"upstream":"original-dst"}"#,
            ["connect-window", "expected upstream: cluster", "", ""],
        ),
        (
            r#"{"limits":{"request-bytes":0}}"#,
            ["limits.request-bytes", "a whole number from 1 to 1099511627776", "found 0", ""],
        ),
        (
            r#"{"secrets":{"bearer":{"name":""}}}"#,
            ["secrets.bearer.name", "a name of 1 to 253 characters", r#"found """#, ""],
        ),
        (r#"{"denied-ports":[0]}"#, ["denied-ports[0]", "a port from 1 to 65535", "found 0", ""]),
        (r#"{"dialects":{"kruise":{"path":null}}}"#, ["dialects.kruise.path", "a boolean", "null", "line 1"]),
        (r#"{"dialects":{"kruise":true}}"#, ["dialects.kruise", "an object", "boolean `true`", "line 1"]),
        (r#"{"enable-auth":true,"enable-auth":true}"#, ["enable-auth", "duplicate", "field", "line 1"]),
        ("{\"enable-auth\":\n}", ["enable-auth", "expected value", "", "line 2 column 1"]),
        (r#"{"enable-auth":true} x"#, ["top level", "trailing characters", "", "line 1 column 22"]),
        (r#"{"":1}"#, [r#""": "#, "expected one of `dialects`", "unknown field ``", "line 1"]),
        ("[]", ["top level", "an object", "sequence", "line 1"]),
    ];
    for (json, parts) in cases {
        let error = error(json);
        for part in parts {
            assert!(error.contains(part), "{json}: {part:?} is not in {error:?}");
        }
    }
}

#[test]
fn header_names_must_differ_from_each_other_and_carry_no_secret() {
    let same = error(r#"{"dialects":{"kruise":{"sandbox-port-header":"E2B-Sandbox-ID"}}}"#);
    assert!(same.contains("dialects.kruise.sandbox-port-header"), "{same}");
    assert!(same.contains("other than that of dialects.kruise.sandbox-header-name"), "{same}");
    let host = error(r#"{"host-header-name":"e2b-sandbox-id"}"#);
    assert!(host.contains("other than that of host-header-name"), "{host}");
    for name in super::check::RESERVED {
        for key in ["sandbox-header-name", "sandbox-port-header"] {
            let error =
                error(&format!(r#"{{"dialects":{{"kruise":{{"{key}":"{}"}}}}}}"#, name.to_uppercase()));
            assert!(error.contains(key) && error.contains("carries no secret"), "{error}");
        }
    }
}

#[test]
fn an_oversized_config_is_refused_unread() {
    let blank = " ".repeat(MAX_CONFIG);
    assert!(FilterConfig::parse(blank.as_bytes()).is_ok());
    let over = " ".repeat(MAX_CONFIG + 1);
    let error = FilterConfig::parse(over.as_bytes()).expect_err("one byte too many");
    assert_eq!(error.key, "top level");
    assert!(error.to_string().contains("at most 65536 bytes, found 65537"), "{error}");
}

#[test]
fn an_error_does_not_repeat_all_of_a_long_value() {
    let error = error(&format!(r#"{{"domains":["{}"]}}"#, "é".repeat(5000)));
    assert!(error.len() < 500 && error.contains('…'), "{error}");
}
