//! OpenSandbox's ingress: its label, its path, its header.

use super::super::{config, each, read};
use crate::FilterConfig;

#[test]
fn labels_split_from_the_right() {
    let cases = [
        ("alpha-beta-8080-1a2b3c-abcdef12k", "alpha-beta:8080 signed until 77370024"),
        ("sandbox-8080", "sandbox:8080"),
        ("nosec-8080", "nosec:8080"),
        ("nosec-8080-0-0123abcda", "nosec:8080 signed until 0"),
        ("sec-7777-1vuhmo0-aabbccddk", "sec:7777 signed until 4102444800"),
    ];
    for (label, expected) in cases {
        let host = format!("{label}.sandbox.gw");
        assert_eq!(read(&[(":authority", &host)]), format!("opensandbox-host {expected}"));
        assert_eq!(read(&[("opensandbox-ingress-to", label)]), format!("opensandbox-header {expected}"));
    }
    for label in ["only-two", "sb-08080-0-abcdef12k", "sb", "-8080"] {
        assert!(read(&[("opensandbox-ingress-to", label)]).starts_with("malformed"), "{label}");
    }
}

#[test]
fn paths_are_signed_only_where_all_four_segments_are_good() {
    each(
        &FilterConfig::default(),
        ":path",
        &[
            ("/my-sandbox/8080", "opensandbox-path my-sandbox:8080 /"),
            (
                "/sb/9090/1a2b3c/01234567a/extra/path",
                "opensandbox-path sb:9090 signed until 77370024 /extra/path or unsigned /1a2b3c/01234567a/extra/path",
            ),
            ("/nosec/3000/v1/status", "opensandbox-path nosec:3000 /v1/status"),
            ("/sec/5000/only/legacy", "opensandbox-path sec:5000 /only/legacy"),
            ("/sb/08080", "malformed port in opensandbox-path"),
        ],
    );
}

#[test]
fn the_header_beats_the_host_and_the_newer_name_may_stand_alone() {
    let host = (":authority", "gateway.example.com");
    assert_eq!(read(&[("opensandbox-ingress-to", "sb-80"), host]), "opensandbox-header sb:80");
    assert_eq!(read(&[("open-sandbox-ingress", "sb-80"), host]), "opensandbox-header sb:80");
    assert_eq!(read(&[(":authority", "sb-80.example.com")]), "opensandbox-host sb:80");
}

#[test]
fn what_is_read_otherwise_is_so_on_purpose() {
    let header = |value: &str| read(&[("opensandbox-ingress-to", value)]);
    // A number has one text, as in every other place: the peer takes 080 and +80 in an unsigned label.
    assert_eq!(header("sb-x-08080"), "malformed port in opensandbox-header");
    assert_eq!(header("sb-x-+80"), "malformed port in opensandbox-header");
    // No port is above 65535: the peer takes it and fails to connect.
    assert_eq!(header("sb-x-70000"), "malformed port in opensandbox-header");
    // An empty header is a client's mistake, and not a reason to look at the host.
    let empty = [("opensandbox-ingress-to", ""), (":authority", "sb-80.example.com")];
    assert_eq!(read(&empty), "malformed id in opensandbox-header");
    // A header that says otherwise than the host is refused: the peer takes the header.
    let other = [("opensandbox-ingress-to", "sb-80"), (":authority", "other-80.example.com")];
    assert_eq!(read(&other), "conflict of opensandbox-header and opensandbox-host");
    // A port behind a host without a domain is the gateway's: the peer refuses it.
    assert_eq!(read(&[(":authority", "sb-80:7788")]), "opensandbox-host sb:80");
    // A host that names nothing is left to other sites: the peer serves nothing else and answers 400.
    assert_eq!(read(&[(":authority", "only-two.example.com")]), "unaddressed");
    assert_eq!(read(&[(":path", "/sb"), (":authority", "www.example.com")]), "unaddressed");
    // Encoded segments are not decoded, so that the gateway and the sandbox read the same path.
    assert_eq!(
        read(&[(":path", "/sb/80/%31a2b3c/01234567a/x")]),
        "opensandbox-path sb:80 /%31a2b3c/01234567a/x"
    );
}

#[test]
fn the_servers_proxy_path_is_its_pattern() {
    let config = config(r#"{"dialects":{"sandbox-env":{"enabled":false}}}"#);
    each(
        &config,
        ":path",
        &[
            ("/sandboxes/abc-123/proxy/8080/foo/bar", "opensandbox-proxy-path abc-123:8080 /foo/bar"),
            ("/v1/sandboxes/sid/proxy/443/", "opensandbox-proxy-path sid:443 /"),
            ("/proxy/sandboxes/anything", "unaddressed"),
            ("/sandboxes/s1/proxy/not-a-port/x", "unaddressed"),
            // The peer asks for its API key here. Ours has none, and the sandbox resolves the rest.
            ("/sandboxes/abc/proxy/8080/../other", "opensandbox-proxy-path abc:8080 /../other"),
        ],
    );
}
