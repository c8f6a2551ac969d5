//! The router of SIG agent-sandbox: its headers.

use super::super::{config, read_with};

/// The headers alone: as `X-Sandbox-ID`, `-Namespace` and `-Port`, each if given.
fn routed(id: Option<&str>, namespace: Option<&str>, port: Option<&str>) -> String {
    let sent = [("x-sandbox-id", id), ("x-sandbox-namespace", namespace), ("x-sandbox-port", port)];
    let sent: Vec<(&str, &str)> = sent.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let read = read_with(&config(r#"{"dialects":{"sandbox-env":{"enabled":false}}}"#), &sent);
    read.strip_prefix("agent-sandbox-header ").map_or(read.clone(), str::to_owned)
}

#[test]
fn good_headers_and_their_defaults() {
    let longest = "a".repeat(63);
    for (id, namespace, port, expected) in [
        ("my-box", Some("prod"), Some("9000"), "prod--my-box:9000"),
        ("my-box", None, None, "default--my-box:8888"),
        ("my-box", Some(""), Some(""), "default--my-box:8888"),
        ("my-box", Some("my-ns-1"), None, "my-ns-1--my-box:8888"),
        ("x", None, Some("1"), "default--x:1"),
        ("x", None, Some("65535"), "default--x:65535"),
        ("1abc", Some("1abc"), None, "1abc--1abc:8888"),
        ("a", Some(longest.as_str()), None, &format!("{longest}--a:8888")),
    ] {
        assert_eq!(routed(Some(id), namespace, port), expected);
    }
}

#[test]
fn bad_headers() {
    let malformed = |part: &str| format!("malformed {part} in agent-sandbox-header");
    assert_eq!(routed(Some(""), None, None), malformed("id"));
    let long = "a".repeat(64);
    for namespace in
        ["bad namespace", "bad!", "---", "-", "MY-NS", "my_ns", "my.ns", "foo/bar", "-x", "x-", "é", &long]
    {
        assert_eq!(routed(Some("x"), Some(namespace), None), malformed("namespace"), "{namespace}");
    }
    for port in ["abc", "0", "-1", "65536"] {
        assert_eq!(routed(Some("x"), None, Some(port)), malformed("port"), "{port}");
    }
    for id in ["foo/bar", "bad id", "é", "a\0"] {
        assert_eq!(routed(Some(id), None, None), malformed("id"), "{id}");
    }
}

#[test]
fn what_is_read_otherwise_is_so_on_purpose() {
    // Nothing is asked of DNS here: the ID is looked up, and one that no object has is not found. Names of
    // objects may have dots and be longer than a label.
    let long = "a".repeat(64);
    for id in ["foo.evil.com", "foo_bar", "FooBar", "-foo", "foo-", "..", &long] {
        assert_eq!(routed(Some(id), None, None), format!("default--{id}:8888"));
    }
    // A number has one text.
    for port in ["+80", "080"] {
        assert_eq!(routed(Some("x"), None, Some(port)), "malformed port in agent-sandbox-header");
    }
    // Other clients' requests come in too: without the header it is none of this form, and no mistake.
    assert_eq!(routed(None, Some("prod"), Some("80")), "unaddressed");
    // The address of a pod is never followed, so none is refused here for what it leads to.
    for pod_ip in ["10.0.0.5", "127.0.0.1", "169.254.169.254", "::1", "not-an-ip"] {
        let headers = [("x-sandbox-id", "x"), ("x-sandbox-pod-ip", pod_ip)];
        assert_eq!(read_with(&config(""), &headers), "agent-sandbox-header default--x:8888");
    }
}
