//! A header that any form reads, sent twice.

use super::{config, read, read_with};

/// A header, what stands beside it, and the form.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);

/// Each header that a form reads, what must stand beside it for the form to be there, and the form.
const READ: [Case; 9] = [
    ("e2b-sandbox-id", &[], "kruise-header"),
    ("e2b-sandbox-port", &[("e2b-sandbox-id", "a")], "kruise-header"),
    ("opensandbox-ingress-to", &[], "opensandbox-header"),
    ("open-sandbox-ingress", &[], "opensandbox-header"),
    ("x-sandbox-id", &[], "agent-sandbox-header"),
    ("x-sandbox-namespace", &[("x-sandbox-id", "a")], "agent-sandbox-header"),
    ("x-sandbox-port", &[("x-sandbox-id", "a")], "agent-sandbox-header"),
    ("x-sandbox-pod-ip", &[("x-sandbox-id", "a")], "agent-sandbox-header"),
    ("x-forwarded-host", &[], "kruise-host"),
];

const FORWARDED: &str = r#"{"host-header-name":"x-forwarded-host"}"#;

#[test]
fn every_header_of_an_address_is_refused_where_it_is_sent_twice() {
    let config = config(FORWARDED);
    for (name, beside, form) in READ {
        // The same, others, and empty ones: what counts is that another reader may take another one.
        for values in [["1", "1"], ["a-1", "b-2"], ["", "80-a.example.com"], ["80-a.example.com", ""]] {
            let twice = [(name, values[0]), (name, values[1])];
            let expected = format!("malformed header in {form}");
            assert_eq!(read_with(&config, &[beside, &twice].concat()), expected, "{name}: {values:?}");
            let apart = [&twice[..1], beside, &twice[1..]].concat();
            assert_eq!(read_with(&config, &apart), expected, "{name} around {beside:?}");
        }
    }
}

#[test]
fn beside_a_good_address_a_second_value_of_another_form_is_refused_too() {
    let path = (":path", "/kruise/default--a/80/");
    for (name, beside, form) in READ {
        if !form.starts_with("kruise") {
            let headers = [&[path], beside, &[(name, "1"), (name, "1")]].concat();
            assert_eq!(read(&headers), format!("malformed header in {form}"), "{name}");
        }
    }
}

#[test]
fn the_host_header_is_refused_in_the_first_host_form_that_is_on() {
    let hosts = [("x-forwarded-host", "www.example.com"), ("x-forwarded-host", "a-80.example.com")];
    let json = r#"{"host-header-name":"x-forwarded-host","dialects":{"kruise":{"host":false}}}"#;
    assert_eq!(read_with(&config(json), &hosts), "malformed header in opensandbox-host");
    let off = r#"{"host-header-name":"x-forwarded-host","dialects":{"kruise":{"host":false},"opensandbox":{"host":false}}}"#;
    assert_eq!(read_with(&config(off), &hosts), "unaddressed");
}

#[test]
fn what_nobody_reads_may_come_as_often_as_it_likes() {
    let off = config(r#"{"dialects":{"agent-sandbox":{"enabled":false}}}"#);
    assert_eq!(read_with(&off, &[("x-sandbox-id", "a"), ("x-sandbox-id", "b")]), "unaddressed");
    for name in
        ["x-sandbox-namespace", "x-sandbox-port", "x-sandbox-pod-ip", "e2b-sandbox-port", "x-forwarded-host"]
    {
        assert_eq!(read(&[(name, "1"), (name, "1")]), "unaddressed", "{name}");
    }
    let pod_ips = [
        ("x-sandbox-id", "a"),
        ("x-sandbox-port", "80"),
        ("x-sandbox-pod-ip", "1"),
        ("x-sandbox-pod-ip", "1"),
    ];
    assert_eq!(read_with(&off, &pod_ips), "sandbox-env-header a:80");
}
