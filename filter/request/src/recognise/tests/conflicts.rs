//! Several addresses in one request, and one address that can be read in several ways.

use super::{config, read, read_with};
use crate::{FilterConfig, Form};

/// One header of each form but the last, each naming the same: `default--a` on port 80.
const SAME: [(Form, &[(&str, &str)]); 6] = [
    (Form::KruisePath, &[(":path", "/kruise/default--a/80/x")]),
    (Form::KruiseHeader, &[("e2b-sandbox-id", "default--a"), ("e2b-sandbox-port", "80")]),
    (Form::OpenSandboxHeader, &[("opensandbox-ingress-to", "default--a-80")]),
    (Form::AgentSandboxHeader, &[("x-sandbox-id", "a"), ("x-sandbox-port", "80")]),
    (Form::KruiseHost, &[(":authority", "80-Default--A.example.com")]),
    (Form::OpenSandboxHost, &[(":authority", "DEFAULT--a-80.example.com")]),
];
/// The same forms, each naming another sandbox.
const OTHER: [&[(&str, &str)]; 6] = [
    &[(":path", "/kruise/default--b/80/x")],
    &[("e2b-sandbox-id", "default--b"), ("e2b-sandbox-port", "80")],
    &[("opensandbox-ingress-to", "default--b-80")],
    &[("x-sandbox-id", "b"), ("x-sandbox-port", "80")],
    &[(":authority", "80-default--b.example.com")],
    &[(":authority", "default--b-80.example.com")],
];
/// And each naming another port of the same sandbox.
const OTHER_PORT: [&[(&str, &str)]; 6] = [
    &[(":path", "/kruise/default--a/81/x")],
    &[("e2b-sandbox-id", "default--a"), ("e2b-sandbox-port", "81")],
    &[("opensandbox-ingress-to", "default--a-81")],
    &[("x-sandbox-id", "a"), ("x-sandbox-port", "81")],
    &[(":authority", "81-default--a.example.com")],
    &[(":authority", "default--a-81.example.com")],
];

#[test]
fn forms_that_name_the_same_go_together_and_any_other_sandbox_or_port_is_a_conflict() {
    for (index, (form, address)) in SAME.iter().enumerate() {
        for (later, (other, same)) in SAME.iter().enumerate().skip(index + 1) {
            if address[0].0 == same[0].0 {
                continue;
            }
            let read = |other: &[(&'static str, &'static str)]| read(&[address, other].concat());
            assert!(read(same).starts_with(form.as_str()), "{form:?} and {other:?}: {}", read(same));
            let conflict = format!("conflict of {} and {}", form.as_str(), other.as_str());
            assert_eq!(read(OTHER[later]), conflict);
            assert_eq!(read(OTHER_PORT[later]), conflict);
        }
    }
}

#[test]
fn a_port_that_is_only_a_default_agrees_with_any() {
    let host = (":authority", "3000-a.example.com");
    assert_eq!(read(&[("e2b-sandbox-id", "a"), host]), "kruise-header a:49983");
    assert_eq!(read(&[("e2b-sandbox-id", "b"), host]), "conflict of kruise-header and kruise-host");
    let both = [("e2b-sandbox-id", "default--a"), ("x-sandbox-id", "a"), ("x-sandbox-port", "80")];
    assert_eq!(read(&both), "kruise-header default--a:49983");
}

#[test]
fn an_id_in_another_case_is_another_sandbox_beside_a_host() {
    let path = |host| read(&[(":path", "/kruise/Team--a/80/sw.js"), (":authority", host)]);
    assert_eq!(path("80-team--a.example.com"), "conflict of kruise-path and kruise-host");
    assert_eq!(path("team--a-80.example.com"), "conflict of kruise-path and opensandbox-host");
    assert_eq!(path("80-TEAM--A.example.com"), "conflict of kruise-path and kruise-host");
    assert_eq!(path("80-Team--a.example.com"), "kruise-path Team--a:80 /sw.js", "just as it is written");
    let header =
        |id| read(&[("e2b-sandbox-id", id), ("e2b-sandbox-port", "80"), (":authority", "80-a.example.com")]);
    assert_eq!(header("A"), "conflict of kruise-header and kruise-host");
    assert_eq!(header("a"), "kruise-header a:80");
}

#[test]
fn a_path_beside_a_host_with_two_readings_is_a_conflict_with_one_of_them() {
    let path = |path| read(&[(":path", path), (":authority", "80-web-3000.example.com")]);
    assert_eq!(path("/kruise/80-web/3000/sw.js"), "conflict of kruise-path and kruise-host");
    assert_eq!(path("/kruise/web-3000/80/sw.js"), "conflict of kruise-path and opensandbox-host");
}

#[test]
fn what_names_nothing_beside_an_address_is_no_conflict() {
    let header = [("e2b-sandbox-id", "a"), ("e2b-sandbox-port", "80")];
    for host in
        ["gateway.example.com", "10.0.0.1:7788", "gateway-0.example.com", "lb-1234567890.elb.example.com"]
    {
        let headers = [&header[..], &[(":authority", host)]].concat();
        assert_eq!(read(&headers), "kruise-header a:80", "{host}");
    }
    // An application's path may look like the last form.
    for (name, value) in [("e2b-sandbox-id", "a"), (":authority", "80-a.example.com")] {
        assert!(!read(&[(name, value), (":path", "/users/42")]).contains("conflict"), "{name}");
    }
    let domains = config(r#"{"domains":["example.com"]}"#);
    let foreign = [&header[..], &[(":authority", "80-b.other.org")]].concat();
    assert_eq!(read_with(&domains, &foreign), "kruise-header a:80");
}

#[test]
fn a_wrong_part_in_a_later_header_is_not_passed_over() {
    let headers = [("e2b-sandbox-id", "a"), ("x-sandbox-id", "b/c")];
    assert_eq!(read(&headers), "malformed id in agent-sandbox-header");
}

#[test]
fn a_uuid_that_begins_with_digits_is_an_id_and_no_port() {
    let host = |host| read(&[(":authority", host)]);
    assert_eq!(
        host("12345678-0b4d-4e5f-9a6b-7c8d9e0f1a2b-8080.example.com"),
        "opensandbox-host 12345678-0b4d-4e5f-9a6b-7c8d9e0f1a2b:8080"
    );
    // And one that ends with digits.
    assert_eq!(
        host("8080-8c1f03a2-0b4d-4e5f-9a6b-123456789012.example.com"),
        "kruise-host 8c1f03a2-0b4d-4e5f-9a6b-123456789012:8080"
    );
    assert_eq!(host("0-demo-80.example.com"), "opensandbox-host 0-demo:80");
    // Nothing good in it: the first form is blamed, as ever.
    assert_eq!(host("99999-demo-0.example.com"), "malformed port in kruise-host");
    let kruise = config(r#"{"dialects":{"opensandbox":{"host":false}}}"#);
    let uuid = [(":authority", "12345678-0b4d-4e5f-9a6b-7c8d9e0f1a2b-8080.example.com")];
    assert_eq!(read_with(&kruise, &uuid), "malformed port in kruise-host");
}

#[test]
fn a_host_that_fits_both_forms_has_two_readings_where_both_are_on() {
    let host = [(":authority", "80-web-3000.example.com")];
    assert_eq!(read(&host), "kruise-host web-3000:80 or 80-web:3000");
    assert_eq!(read(&[(":authority", "80-90.example.com")]), "kruise-host 90:80 or 80:90");
    let kruise = config(r#"{"dialects":{"opensandbox":{"host":false}}}"#);
    assert_eq!(read_with(&kruise, &host), "kruise-host web-3000:80");
    let opensandbox = config(r#"{"dialects":{"kruise":{"host":false}}}"#);
    assert_eq!(read_with(&opensandbox, &host), "opensandbox-host 80-web:3000");
    // A header that agrees with one of them says which.
    let header = |id, port| read(&[host[0], ("e2b-sandbox-id", id), ("e2b-sandbox-port", port)]);
    assert_eq!(header("web-3000", "80"), "kruise-header web-3000:80");
    assert_eq!(header("80-web", "3000"), "kruise-header 80-web:3000");
    assert_eq!(header("web", "80"), "conflict of kruise-header and kruise-host");
}

#[test]
fn a_host_label_too_long_for_an_id_has_one_reading() {
    let domains = config(r#"{"domains":["example.com"]}"#);
    let id = format!("{}-3000", "a".repeat(248));
    let host = format!("80-{id}.example.com");
    assert_eq!(read_with(&domains, &[(":authority", &host)]), format!("kruise-host {id}:80"));
}

#[test]
fn with_host_forms_and_domains_the_path_forms_are_off_unless_asked_for() {
    let paths = [("/kruise/a/80/x", "kruise-path a:80 /x"), ("/a/80/x", "opensandbox-path a:80 /x")];
    let on = r#""dialects":{"kruise":{"path":true},"opensandbox":{"path":true}}"#;
    let no_hosts = r#""dialects":{"kruise":{"host":false},"opensandbox":{"host":false}}"#;
    let one_host = r#""dialects":{"kruise":{"host":false}}"#;
    for (path, expected) in paths {
        let read = |json: &str| read_with(&config(json), &[(":path", path)]);
        assert_eq!(read("{}"), expected);
        assert_eq!(read(r#"{"domains":["example.com"]}"#), "unaddressed");
        assert_eq!(read(&format!(r#"{{"domains":["example.com"],{one_host}}}"#)), "unaddressed");
        assert_eq!(read(&format!(r#"{{"domains":["example.com"],{no_hosts}}}"#)), expected);
        assert_eq!(read(&format!(r#"{{"domains":["example.com"],{on}}}"#)), expected);
    }
    assert!(FilterConfig::default().kruise.path && FilterConfig::default().opensandbox.path);
}
