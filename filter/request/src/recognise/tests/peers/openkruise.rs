//! OpenKruise's gateway: its host, headers and path.

use super::super::{config, each, read, read_with};
use crate::FilterConfig;

#[test]
fn hosts_and_paths() {
    each(
        &FilterConfig::default(),
        ":authority",
        &[
            ("9222-sandbox1234.example.com", "kruise-host sandbox1234:9222"),
            ("3000-sandbox5678.example.com", "kruise-host sandbox5678:3000"),
            ("3000-ns--sandbox1.example.com", "kruise-host ns--sandbox1:3000"),
            ("invalid-authority", "unaddressed"),
            ("some-non-matching-host", "unaddressed"),
            ("some-api-gateway.internal", "unaddressed"),
            ("api.example.com", "unaddressed"),
            ("api.something.example.com", "unaddressed"),
            ("API.example.com:8443", "unaddressed"),
            ("8080-demo", "unaddressed"),
        ],
    );
    each(
        &FilterConfig::default(),
        ":path",
        &[
            ("/kruise/sandbox1234/9222/some/path", "kruise-path sandbox1234:9222 /some/path"),
            ("/kruise/sandbox1234/3000/some/path", "kruise-path sandbox1234:3000 /some/path"),
            ("/kruise/", "malformed path in kruise-path"),
            ("/kruise/sandbox1234", "malformed path in kruise-path"),
            ("/kruise/sandbox1234/invalid-port/some/path", "malformed port in kruise-path"),
            ("/kruise/some/other/path", "malformed port in kruise-path"),
            ("/kruise/api/something", "unaddressed"),
        ],
    );
}

#[test]
fn headers_come_first_and_have_a_default_port() {
    let id = ("e2b-sandbox-id", "ns--sandbox1");
    let gateway = (":authority", "some-non-matching-host");
    let port = |port| ("e2b-sandbox-port", port);
    assert_eq!(read(&[id, port("8080"), gateway]), "kruise-header ns--sandbox1:8080");
    assert_eq!(read(&[id, gateway]), "kruise-header ns--sandbox1:49983");
    assert_eq!(read(&[id, port(""), gateway]), "kruise-header ns--sandbox1:49983");
    assert_eq!(read(&[id, port("not-a-number")]), "malformed port in kruise-header");
    let own = config(
        r#"{"dialects":{"kruise":{"sandbox-header-name":"x-sandbox-id","sandbox-port-header":"x-sandbox-port"},
          "agent-sandbox":{"enabled":false},"sandbox-env":{"enabled":false}}}"#,
    );
    let sent = [("x-sandbox-id", "ns--sandbox1"), ("x-sandbox-port", "7777")];
    assert_eq!(read_with(&own, &sent), "kruise-header ns--sandbox1:7777");
}

#[test]
fn a_header_of_the_hosts_own_falls_back_to_the_authority() {
    let own = config(r#"{"host-header-name":"x-custom-host"}"#);
    let gateway = (":authority", "some-api-gateway.internal");
    let custom = ("x-custom-host", "8080-ns--sandbox2.example.com");
    assert_eq!(read_with(&own, &[gateway, custom]), "kruise-host ns--sandbox2:8080");
    assert_eq!(read_with(&own, &[gateway]), "unaddressed");
    assert_eq!(read_with(&own, &[(":authority", "80-a.example.com")]), "kruise-host a:80");
    let empty = [(":authority", "80-a.example.com"), ("x-custom-host", "")];
    assert_eq!(read_with(&own, &empty), "kruise-host a:80");
}

#[test]
fn what_is_read_otherwise_is_so_on_purpose() {
    // A header that says otherwise than the host is refused: the peer takes the header.
    let both = [
        ("e2b-sandbox-id", "ns--header-sandbox"),
        ("e2b-sandbox-port", "9090"),
        (":authority", "3000-host--sandbox.example.com"),
    ];
    assert_eq!(read(&both), "conflict of kruise-header and kruise-host");
    // Only the segment `api` is the manager's: an ID may begin with it.
    assert_eq!(read(&[(":path", "/kruise/apiserver/something")]), "malformed port in kruise-path");
    assert_eq!(read(&[(":path", "/kruise/apiserver/80/")]), "kruise-path apiserver:80 /");
    // And only the segment `kruise` is the prefix.
    assert_eq!(read(&[(":path", "/kruisex/sandbox1234/80")]), "unaddressed");
    // Ports are checked here, and have one text.
    for port in ["0", "70000", "080", "+80"] {
        let path = format!("/kruise/a/{port}/");
        assert_eq!(read(&[(":path", &path)]), "malformed port in kruise-path", "{port}");
    }
    // An empty ID is a client's mistake, and not a reason to look at the host.
    let empty = [("e2b-sandbox-id", ""), (":authority", "80-a.example.com")];
    assert_eq!(read(&empty), "malformed id in kruise-header");
    // There is always a default port; the peer has one only where its config does.
    assert_eq!(read(&[("e2b-sandbox-id", "a")]), "kruise-header a:49983");
}
