//! How the config of a route and that of the filter make one.

use sandgate_config::MAX_CONFIG;

use crate::{FilterConfig, RouteConfig, Unaddressed};

fn over(filter: &str, route: &str) -> FilterConfig {
    let route = RouteConfig::parse(route.as_bytes()).expect(route);
    route.over(filter.as_bytes()).expect(filter)
}

fn refused(route: &str) -> String {
    RouteConfig::parse(route.as_bytes()).expect_err(route).to_string()
}

#[test]
fn a_route_without_keys_has_the_filters_config() {
    let filter = r#"{"enable-auth":true,"domains":["a.example"],"limits":{"request-bytes":7},
      "secrets":{"bearer":{"name":"b"}}}"#;
    for (filter, route) in
        [(filter, ""), (filter, "{}"), (filter, r#"{"limits":{},"dialects":{}}"#), ("", "")]
    {
        let expected = FilterConfig::parse(filter.as_bytes()).expect(filter);
        assert_eq!(format!("{:?}", over(filter, route)), format!("{expected:?}"), "{filter} {route}");
    }
}

#[test]
fn objects_merge_key_by_key_and_other_values_are_replaced() {
    let merged = over(
        r#"{"limits":{"requests-per-sandbox":5,"connections-per-sandbox":6},"denied-ports":[80,81],
          "dialects":{"kruise":{"default-port":9000,"headers":false}},"unaddressed":"refuse"}"#,
        r#"{"limits":{"requests-per-sandbox":7,"request-bytes":100},"denied-ports":[82],
          "dialects":{"kruise":{"default-port":"9001"},"opensandbox":{"enabled":false}},
          "unaddressed":"pass"}"#,
    );
    assert_eq!((merged.requests_per_sandbox(), merged.connections_per_sandbox()), (7, 6));
    assert_eq!(merged.request_bytes(), Some(100));
    assert_eq!([80, 81, 82].map(|port| merged.allows_port(port)), [true, true, false], "a list is replaced");
    assert_eq!((merged.kruise.default_port, merged.kruise.headers), (9001, false));
    assert!(!merged.opensandbox.headers && merged.sandbox_env.headers);
    assert_eq!(merged.unaddressed(), Unaddressed::Pass);
}

#[test]
fn what_follows_from_several_keys_is_worked_out_of_both_configs() {
    assert!(!over(r#"{"domains":["a.example"]}"#, "{}").kruise.path, "domains switch the path off");
    let route = r#"{"dialects":{"kruise":{"host":false},"opensandbox":{"host":false}}}"#;
    assert!(over(r#"{"domains":["a.example"]}"#, route).kruise.path, "but not without a host form");
}

#[test]
fn a_route_can_turn_the_check_of_tokens_on_and_not_off() {
    let on = r#"{"enable-auth":true}"#;
    assert!(over("", on).enable_auth());
    assert!(over(on, "{}").enable_auth() && over(on, on).enable_auth());
    assert!(!over(r#"{"enable-auth":false}"#, "{}").enable_auth());
    for key in ["enable-auth", "require-token"] {
        let error = refused(&format!(r#"{{"{key}":false}}"#));
        assert!(error.starts_with(&format!("{key}: ")) && error.contains("on and not off"), "{error}");
    }
}

#[test]
fn a_route_has_no_keys_of_the_whole_filter() {
    for (key, value) in [
        ("callers", r#"{"mode":"scoped-token"}"#),
        ("enable-jwt-auth", "true"),
        ("enable-jwt-auth", "false"),
        ("secrets", r#"{"bearer":{"name":"b"}}"#),
    ] {
        let error = refused(&format!(r#"{{"{key}":{value}}}"#));
        assert!(error.starts_with(&format!("{key}: ")) && error.contains("in that of a route"), "{error}");
    }
}

#[test]
fn a_routes_config_is_checked_as_a_filters_is() {
    for (route, reason) in [
        (r#"{"enable-atuh":true}"#, "unknown field"),
        (r#"{"limits":{"request-bytes":"many"}}"#, "limits.request-bytes"),
        (r#"{"limits":{"request-bytes":1},"limits":{}}"#, "duplicate"),
        ("[]", "an object"),
    ] {
        let error = refused(route);
        assert!(error.contains(reason), "{error}");
    }
    assert!(refused(&" ".repeat(MAX_CONFIG + 1)).contains("at most 65536 bytes"));
}

#[test]
fn two_good_configs_that_do_not_go_together_are_refused_together() {
    let route = br#"{"dialects":{"kruise":{"sandbox-header-name":"x-box"}}}"#;
    let route = RouteConfig::parse(route).expect("good by itself");
    let filter = br#"{"dialects":{"kruise":{"sandbox-port-header":"x-box"}}}"#;
    FilterConfig::parse(filter).expect("good by itself");
    let error = route.over(filter).expect_err("one name for two headers").to_string();
    assert!(error.contains("dialects.kruise.sandbox-port-header"), "{error}");
}
