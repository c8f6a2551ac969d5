//! All forms together: which one wins, what a switch does, what a request costs.

use std::cell::RefCell;

use super::{config, read, read_with};
use crate::{FilterConfig, Form, Headers, Recognition, recognise};

/// One header of each form, in the order of recognition, each with an ID and port of its own.
const FORMS: [(Form, &str, &str, &str); 10] = [
    (Form::KruisePath, ":path", "/kruise/a/1/", "kruise-path a:1 /"),
    (Form::KruiseHeader, "e2b-sandbox-id", "b", "kruise-header b:49983"),
    (Form::OpenSandboxHeader, "opensandbox-ingress-to", "c-3", "opensandbox-header c:3"),
    (Form::AgentSandboxHeader, "x-sandbox-id", "d", "agent-sandbox-header default--d:8888"),
    (Form::SandboxEnvHeader, "x-sandbox-id", "h", "agent-sandbox-header default--h:8888"),
    (Form::KruiseHost, ":authority", "5-e.example.com", "kruise-host e:5"),
    (Form::OpenSandboxHost, ":authority", "f-6.example.com", "opensandbox-host f:6"),
    (Form::SandboxEnvPath, ":path", "/sandboxes/i/9/", "sandbox-env-path i:9 /"),
    (Form::OpenSandboxProxyPath, ":path", "/sandboxes/j/proxy/10/", "opensandbox-proxy-path j:10 /"),
    (Form::OpenSandboxPath, ":path", "/g/7/", "opensandbox-path g:7 /"),
];

#[test]
fn each_form_alone_is_the_address_and_of_two_the_last_forms_alone_give_way() {
    assert_eq!(FORMS.map(|(form, ..)| form), Form::ALL);
    for (index, (_, name, value, expected)) in FORMS.iter().enumerate() {
        assert_eq!(read(&[(name, value)]), *expected);
        for (form, other, later, _) in &FORMS[index + 1..] {
            let read = read(&[(other, later), (name, value)]);
            if form.is_weak() && other != name {
                assert_eq!(read, *expected, "{name} against {other}");
            } else if other != name {
                assert!(read.starts_with("conflict of "), "{name} against {other}: {read}");
            }
        }
    }
}

#[test]
fn a_malformed_earlier_form_is_not_passed_over_for_a_valid_later_one() {
    let spoilt = [
        (":path", "/kruise/a/0/", "malformed port in kruise-path"),
        ("e2b-sandbox-id", "", "malformed id in kruise-header"),
        ("opensandbox-ingress-to", "c", "malformed port in opensandbox-header"),
        ("x-sandbox-id", "d/e", "malformed id in agent-sandbox-header"),
        (":authority", "0-e.example.com", "malformed port in kruise-host"),
        (":authority", "f-0.example.com", "malformed port in opensandbox-host"),
    ];
    for (index, (name, value, expected)) in spoilt.iter().enumerate() {
        for (_, other, later, _) in &FORMS[index + 1..] {
            if other != name {
                assert_eq!(read(&[(other, later), (name, value)]), *expected, "{name} against {other}");
            }
        }
    }
}

#[test]
fn both_names_of_the_opensandbox_header_must_say_the_same() {
    let headers = [("open-sandbox-ingress", "old-1"), ("opensandbox-ingress-to", "new-2")];
    assert_eq!(read(&headers), "malformed header in opensandbox-header");
    let headers = [("open-sandbox-ingress", "same-1"), ("opensandbox-ingress-to", "same-1")];
    assert_eq!(read(&headers), "opensandbox-header same:1");
}

#[test]
fn each_form_can_be_switched_off_alone() {
    let off = [
        r#"{"dialects":{"kruise":{"path":false},"opensandbox":{"path":false,"proxy-path":true}}}"#,
        r#"{"dialects":{"kruise":{"headers":false}}}"#,
        r#"{"dialects":{"opensandbox":{"headers":false}}}"#,
        r#"{"dialects":{"agent-sandbox":{"enabled":false},"sandbox-env":{"headers":false}}}"#,
        r#"{"dialects":{"agent-sandbox":{"enabled":false},"sandbox-env":{"headers":false}}}"#,
        r#"{"dialects":{"kruise":{"host":false},"opensandbox":{"host":false}}}"#,
        r#"{"dialects":{"opensandbox":{"host":false}}}"#,
        r#"{"dialects":{"sandbox-env":{"path":false}}}"#,
        r#"{"dialects":{"opensandbox":{"proxy-path":false}}}"#,
        r#"{"dialects":{"opensandbox":{"path":false,"proxy-path":true}}}"#,
    ];
    for (json, (form, name, value, _)) in off.iter().zip(FORMS) {
        assert_eq!(read_with(&config(json), &[(name, value)]), "unaddressed", "{}", form.as_str());
        let kept = FORMS.iter().filter(|(kept, ..)| *kept != form).filter(|(kept, ..)| {
            // Some of the configs switch off a pair of forms, since the other would take over the text.
            !matches!(
                (form, kept),
                (Form::KruisePath, Form::OpenSandboxPath)
                    | (Form::KruiseHost, Form::OpenSandboxHost)
                    | (Form::AgentSandboxHeader, Form::SandboxEnvHeader)
                    | (Form::SandboxEnvHeader, Form::AgentSandboxHeader)
            )
        });
        for (_, name, value, expected) in kept {
            assert_eq!(read_with(&config(json), &[(name, value)]), *expected, "{json}");
        }
    }
}

#[test]
fn a_dialect_can_be_switched_off_as_a_whole() {
    for dialect in ["kruise", "agent-sandbox", "opensandbox", "sandbox-env"] {
        let config = config(&format!(r#"{{"dialects":{{"{dialect}":{{"enabled":false}}}}}}"#));
        for (form, name, value, expected) in FORMS {
            let read = read_with(&config, &[(name, value)]);
            if form == Form::SandboxEnvHeader {
                // It shares its header with another dialect.
            } else if form.dialect().as_str() == dialect {
                assert!(!read.starts_with(dialect), "{dialect}: {read}");
            } else {
                assert_eq!(read, expected, "{dialect} off");
            }
        }
    }
}

#[test]
fn with_the_kruise_path_off_its_prefix_is_nothing_special() {
    let config = config(r#"{"dialects":{"kruise":{"path":false}}}"#);
    assert_eq!(read_with(&config, &[(":path", "/kruise/80/x")]), "opensandbox-path kruise:80 /x");
    let headers = [(":path", "/kruise/api/x"), ("e2b-sandbox-id", "demo")];
    assert_eq!(read_with(&config, &headers), "kruise-header demo:49983");
}

/// Headers that write down what was asked for.
struct Asked<'a>(&'a [(&'a str, &'a str)], RefCell<Vec<String>>);

impl Headers for Asked<'_> {
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        self.1.borrow_mut().push(name.to_owned());
        self.0.with(name, f)
    }

    fn repeats(&self, name: &str) -> bool {
        self.0.repeats(name)
    }
}

fn asked(config: &FilterConfig, headers: &[(&str, &str)]) -> (bool, Vec<String>) {
    let headers = Asked(headers, RefCell::default());
    let found = matches!(recognise(&headers, config), Recognition::Addressed(_));
    (found, headers.1.into_inner())
}

#[test]
fn a_request_costs_one_read_for_each_header_that_could_name_a_sandbox() {
    let host = [(":path", "/x/80"), (":authority", "80-demo.example.com")];
    let all = [
        ":path",
        "e2b-sandbox-id",
        "opensandbox-ingress-to",
        "open-sandbox-ingress",
        "x-sandbox-id",
        ":authority",
    ];
    assert_eq!(asked(&FilterConfig::default(), &host), (true, all.map(String::from).to_vec()));
    // The last form looks at the path again.
    let again = all.into_iter().chain([":path"]).map(String::from).collect();
    assert_eq!(asked(&FilterConfig::default(), &host[..1]), (true, again));
    // And what is there beside an address has to agree with it.
    let path = [(":path", "/kruise/demo/80/"), (":authority", "80-demo.example.com")];
    assert_eq!(asked(&FilterConfig::default(), &path), (true, all.map(String::from).to_vec()));
    let kruise_only = config(
        r#"{"dialects":{"kruise":{"path":false},"agent-sandbox":{"enabled":false},"opensandbox":{"enabled":false},
          "sandbox-env":{"enabled":false}}}"#,
    );
    assert_eq!(
        asked(&kruise_only, &host),
        (true, vec!["e2b-sandbox-id".into(), ":authority".into()]),
        "what is switched off is not asked for"
    );
}
