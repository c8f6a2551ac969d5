//! The header that two dialects read, and the path of one of them.

use super::{config, each, read, read_with};

const ENV_ONLY: &str = r#"{"dialects":{"agent-sandbox":{"enabled":false}}}"#;

#[test]
fn with_a_port_and_no_namespace_the_header_has_two_readings_where_both_are_on() {
    let header = [("x-sandbox-id", "demo"), ("x-sandbox-port", "80")];
    assert_eq!(read(&header), "agent-sandbox-header default--demo:80 or demo:80");
    assert_eq!(
        read(&header[..1]),
        "agent-sandbox-header default--demo:8888",
        "the port has no other default"
    );
    let namespace = ("x-sandbox-namespace", "default");
    assert_eq!(read(&[header[0], header[1], namespace]), "agent-sandbox-header default--demo:80");
    let agent_only = config(r#"{"dialects":{"sandbox-env":{"headers":false}}}"#);
    assert_eq!(read_with(&agent_only, &header), "agent-sandbox-header default--demo:80");
    assert_eq!(read_with(&config(ENV_ONLY), &header), "sandbox-env-header demo:80");
}

#[test]
fn alone_the_header_names_nothing_without_a_port_or_with_a_namespace() {
    let alone = config(ENV_ONLY);
    let with_port = |port| read_with(&alone, &[("x-sandbox-id", "demo"), ("x-sandbox-port", port)]);
    assert_eq!(with_port("65535"), "sandbox-env-header demo:65535");
    assert_eq!(with_port(""), "unaddressed", "an empty port is not sent");
    for port in ["0", "080", "65536", "+80", "http"] {
        assert_eq!(with_port(port), "malformed port in sandbox-env-header", "{port:?}");
    }
    for id in ["demo", "", "a/b"] {
        assert_eq!(read_with(&alone, &[("x-sandbox-id", id)]), "unaddressed", "{id:?}");
    }
    assert_eq!(read_with(&alone, &[("x-sandbox-id", "a"), ("x-sandbox-id", "b")]), "unaddressed");
    let beside = [("e2b-sandbox-id", "other"), ("x-sandbox-id", "demo")];
    assert_eq!(read_with(&alone, &beside), "kruise-header other:49983");
    for id in ["", "a/b", "a b", "a%41"] {
        let headers = [("x-sandbox-id", id), ("x-sandbox-port", "80")];
        assert_eq!(read_with(&alone, &headers), "malformed id in sandbox-env-header", "{id:?}");
    }
    let named = [("x-sandbox-id", "demo"), ("x-sandbox-port", "80"), ("x-sandbox-namespace", "team")];
    assert_eq!(read_with(&alone, &named), "unaddressed");
    let empty = [named[0], named[1], ("x-sandbox-namespace", "")];
    assert_eq!(read_with(&alone, &empty), "sandbox-env-header demo:80", "an empty namespace is not sent");
    let twice = [named[0], named[1], named[2], named[2]];
    assert_eq!(read_with(&alone, &twice), "unaddressed");
    let twice = [("x-sandbox-id", "a"), ("x-sandbox-id", "a"), ("x-sandbox-port", "80")];
    assert_eq!(read_with(&alone, &twice), "malformed header in sandbox-env-header");
    let twice = [("x-sandbox-id", "a"), ("x-sandbox-port", "80"), ("x-sandbox-port", "80")];
    assert_eq!(read_with(&alone, &twice), "malformed header in sandbox-env-header");
}

#[test]
fn a_reading_with_a_part_that_cannot_be_is_none_beside_a_good_one() {
    let long = "x".repeat(250);
    let headers = [("x-sandbox-id", long.as_str()), ("x-sandbox-port", "80")];
    assert_eq!(read(&headers), format!("sandbox-env-header {long}:80"), "with its namespace it is no ID");
    assert_eq!(read(&headers[..1]), "malformed id in agent-sandbox-header");
    let headers = [("x-sandbox-id", "demo"), ("x-sandbox-port", "0")];
    assert_eq!(
        read(&headers),
        "malformed port in agent-sandbox-header",
        "wrong in both: the first is blamed"
    );
}

#[test]
fn another_form_chooses_the_reading_that_it_agrees_with() {
    let header = [("x-sandbox-id", "demo"), ("x-sandbox-port", "80")];
    let beside = |name, value| read(&[header[0], header[1], (name, value)]);
    // An earlier form.
    assert_eq!(beside("e2b-sandbox-id", "demo"), "kruise-header demo:49983");
    assert_eq!(beside("e2b-sandbox-id", "default--demo"), "kruise-header default--demo:49983");
    assert_eq!(beside("e2b-sandbox-id", "other"), "conflict of kruise-header and agent-sandbox-header");
    assert_eq!(beside("opensandbox-ingress-to", "demo-80"), "opensandbox-header demo:80");
    assert_eq!(
        beside("opensandbox-ingress-to", "demo-81"),
        "conflict of opensandbox-header and agent-sandbox-header"
    );
    // The host, which is a later one.
    assert_eq!(beside(":authority", "80-demo.example.com"), "sandbox-env-header demo:80");
    assert_eq!(beside(":authority", "demo-80.example.com"), "sandbox-env-header demo:80");
    assert_eq!(beside(":authority", "80-default--demo.example.com"), "agent-sandbox-header default--demo:80");
    assert_eq!(
        beside(":authority", "80-other.example.com"),
        "conflict of agent-sandbox-header and kruise-host"
    );
    assert_eq!(
        beside(":authority", "gateway.example.com"),
        "agent-sandbox-header default--demo:80 or demo:80",
        "which names nothing"
    );
    let alone = config(ENV_ONLY);
    let headers = [header[0], header[1], ("e2b-sandbox-id", "other")];
    assert_eq!(read_with(&alone, &headers), "conflict of kruise-header and sandbox-env-header");
}

#[test]
fn the_path_is_an_id_and_a_port_behind_the_prefix() {
    each(
        &config(""),
        ":path",
        &[
            ("/sandboxes/demo/80", "sandbox-env-path demo:80 /"),
            ("/sandboxes/demo/80/", "sandbox-env-path demo:80 /"),
            ("/sandboxes/demo/80/a//b?c=/d", "sandbox-env-path demo:80 /a//b?c=/d"),
            ("/sandboxes/demo/80?c", "sandbox-env-path demo:80 /?c"),
            ("/sandboxes/local.0b4d-4e5f/8080/ws", "sandbox-env-path local.0b4d-4e5f:8080 /ws"),
            ("/sandboxes/demo/0/", "malformed port in sandbox-env-path"),
            ("/sandboxes/demo/65536/", "malformed port in sandbox-env-path"),
            // E2B's API, and what is no path of a sandbox.
            ("/sandboxes", "unaddressed"),
            ("/sandboxes/", "unaddressed"),
            ("/sandboxes/demo", "unaddressed"),
            ("/sandboxes/demo/timeout", "unaddressed"),
            ("/sandboxes//80/", "unaddressed"),
            ("/sandboxes/a%2Fb/80/", "unaddressed"),
            ("/Sandboxes/demo/80/", "unaddressed"),
            ("/v2/sandboxes/demo/80/", "unaddressed"),
            // The weaker form reads what the prefix does not.
            ("/sandboxes/80/x", "opensandbox-path sandboxes:80 /x"),
        ],
    );
    let off = config(r#"{"dialects":{"sandbox-env":{"path":false}}}"#);
    assert_eq!(read_with(&off, &[(":path", "/sandboxes/demo/80/x")]), "unaddressed");
}

#[test]
fn the_path_gives_way_to_every_other_form_and_stays_as_it_is() {
    let path = (":path", "/sandboxes/demo/80/x");
    let header = [path, ("x-sandbox-id", "other"), ("x-sandbox-port", "3000")];
    assert_eq!(read_with(&config(ENV_ONLY), &header), "sandbox-env-header other:3000");
    assert_eq!(read(&[path, (":authority", "3000-other.example.com")]), "kruise-host other:3000");
}

#[test]
fn with_host_forms_and_domains_the_path_is_off_unless_asked_for() {
    let read = |json: &str| read_with(&config(json), &[(":path", "/sandboxes/a/80/x")]);
    assert_eq!(read(r#"{"domains":["example.com"]}"#), "unaddressed");
    let on = r#"{"domains":["example.com"],"dialects":{"sandbox-env":{"path":true}}}"#;
    assert_eq!(read(on), "sandbox-env-path a:80 /x");
}
