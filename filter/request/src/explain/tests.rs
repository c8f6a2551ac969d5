use super::{StepOutcome, explain};
use crate::{FilterConfig, Form, Part};

/// The steps, one line each.
fn explained(json: &str, headers: &[(&str, &str)]) -> Vec<String> {
    let config = FilterConfig::parse(json.as_bytes()).expect("a config for a test is valid");
    let steps = explain(headers, &config);
    assert_eq!(steps.iter().map(|step| step.form).collect::<Vec<_>>(), Form::ALL, "one step for each form");
    steps.into_iter().map(|step| format!("{}: {}", step.form.as_str(), step.reason)).collect()
}

#[test]
fn each_form_says_why_it_was_not_taken_until_one_is() {
    assert_eq!(
        explained("", &[(":path", "/x"), (":authority", "demo-8080.example.com")]),
        [
            "kruise-path: the path does not begin with /kruise/",
            "kruise-header: no header e2b-sandbox-id",
            "opensandbox-header: no header opensandbox-ingress-to or open-sandbox-ingress",
            "agent-sandbox-header: no header x-sandbox-id",
            "sandbox-env-header: no header x-sandbox-id",
            "kruise-host: the label in :authority does not have the shape of a host {port}-{id}.{domain}",
            "opensandbox-host: sandbox demo, port 8080",
            "sandbox-env-path: not tried, since opensandbox-host had settled it",
            "opensandbox-proxy-path: not tried, since opensandbox-host had settled it",
            "opensandbox-path: not tried, since opensandbox-host had settled it",
        ]
    );
}

#[test]
fn a_wrong_part_is_named_with_what_was_expected() {
    let headers: &[(&str, &str)] = &[(":path", "/kruise/demo/0/")];
    let steps = explain(headers, &FilterConfig::default());
    assert_eq!(steps[0].outcome, StepOutcome::Malformed(Part::Port));
    assert!(steps[0].reason.contains("not a valid port: A port is a decimal number from 1 to 65535"));
    assert!(steps[1..].iter().all(|step| step.outcome == StepOutcome::NotTried));
}

#[test]
fn hosts_say_what_is_wrong_with_them() {
    let host = |json, host| explained(json, &[(":authority", host)])[5].clone();
    assert_eq!(
        host("", "[::1]:80"),
        "kruise-host: :authority is an IPv6 address, which never names a sandbox"
    );
    assert_eq!(host("", "80-demo"), "kruise-host: :authority has no domain after its first label");
    assert_eq!(explained("", &[])[5], "kruise-host: no host in :authority");
    assert_eq!(
        host(r#"{"domains":["example.com","b.example.com"]}"#, "80-demo.other.org"),
        "kruise-host: :authority is not under any of the domains b.example.com, example.com"
    );
}

#[test]
fn switches_the_managers_api_and_rewrites_are_told() {
    let off = explained(r#"{"dialects":{"kruise":{"enabled":false}}}"#, &[(":path", "/demo/80/x")]);
    assert_eq!(off[0], "kruise-path: switched off in the config");
    assert_eq!(off[9], "opensandbox-path: sandbox demo, port 80, and the prefix leaves the path");
    let api = explained("", &[(":path", "/kruise/api/x")]);
    assert_eq!(api[0], "kruise-path: /kruise/api is the manager's API and never a sandbox");
    assert_eq!(
        explained("", &[])[7..],
        [
            "sandbox-env-path: the path does not begin with /sandboxes/, an ID and a segment of digits",
            "opensandbox-proxy-path: the path does not begin with /sandboxes/ or /v1/sandboxes/, an ID, /proxy/ and a \
             segment of digits",
            "opensandbox-path: the path does not begin with an ID and a segment of digits",
        ]
    );
    let own = explained(r#"{"dialects":{"kruise":{"sandbox-header-name":"X-Box"}}}"#, &[]);
    assert_eq!(own[1], "kruise-header: no header x-box");
}

#[test]
fn both_readings_of_a_sandbox_id_are_told() {
    let id = |json: &str, headers: &[(&str, &str)]| {
        let steps = explained(json, headers);
        [steps[3].clone(), steps[4].clone()]
    };
    let header = [("x-sandbox-id", "demo"), ("x-sandbox-port", "80")];
    assert_eq!(
        id("", &header),
        [
            "agent-sandbox-header: sandbox default--demo, port 80",
            "sandbox-env-header: or sandbox demo, port 80: the table decides which one is meant",
        ]
    );
    assert_eq!(
        id("", &[header[0], header[1], (":authority", "80-demo.example.com")]),
        [
            "agent-sandbox-header: sandbox default--demo, port 80, but the host names the same as the other reading \
             of the header",
            "sandbox-env-header: sandbox demo, port 80",
        ]
    );
    assert_eq!(
        id("", &[header[0], header[1], (":authority", "80-default--demo.example.com")])[1],
        "sandbox-env-header: sandbox demo, port 80, but the host names the same as the other reading of the header"
    );
    assert_eq!(
        id("", &[header[0], header[1], ("e2b-sandbox-id", "demo")]),
        [
            "agent-sandbox-header: sandbox default--demo, port 80, but kruise-header names the same as the other \
             reading of the header",
            "sandbox-env-header: sandbox demo, port 80: the same as in kruise-header",
        ]
    );
    assert_eq!(
        id("", &header[..1])[1],
        "sandbox-env-header: no header x-sandbox-port, which has no default here"
    );
    assert_eq!(
        id("", &[header[0], header[1], ("x-sandbox-namespace", "team")])[1],
        "sandbox-env-header: a namespace is sent, so the header holds a name and no ID"
    );
    let alone = r#"{"dialects":{"agent-sandbox":{"enabled":false}}}"#;
    assert_eq!(id(alone, &header)[1], "sandbox-env-header: sandbox demo, port 80");
    assert_eq!(
        id(alone, &header[..1])[1],
        "sandbox-env-header: no header x-sandbox-port, which has no default here"
    );
    assert!(id(alone, &[header[0], ("x-sandbox-port", "0")])[1].contains("not a valid port"));
}

#[test]
fn a_signature_is_told_by_its_expiry_and_never_shown() {
    let label = "8080-demo-80-1vuhmo0-0a1b2c3dk";
    let host = format!("{label}.example.com");
    for headers in [
        [("opensandbox-ingress-to", label)],
        [(":authority", host.as_str())],
        [(":path", "/8080-demo/80/1vuhmo0/0a1b2c3dk/x")],
    ] {
        // As an ID of OpenKruise the text would be shown: that reading is off here.
        let steps = explained(r#"{"dialects":{"kruise":{"enabled":false}}}"#, &headers);
        let told = "sandbox 8080-demo, port 80, signed until 4102444800 in Unix seconds";
        assert!(steps.iter().any(|step| step.contains(told)), "{steps:?}");
        assert!(!steps.iter().any(|step| step.contains("0a1b2c3d")), "{steps:?}");
    }
    let both = [("opensandbox-ingress-to", "demo-80-1-0a1b2c3dk"), (":authority", "demo-80-2-0a1b2c3dk.a.b")];
    assert_eq!(
        explained("", &both)[6],
        "opensandbox-host: sandbox demo, port 80, signed until 2 in Unix seconds: the same as in opensandbox-header"
    );
}

#[test]
fn the_server_proxy_path_and_the_header_a_host_is_from_are_told() {
    let path = [(":path", "/v1/sandboxes/demo/proxy/80/x")];
    assert_eq!(
        explained("", &path)[8],
        "opensandbox-proxy-path: sandbox demo, port 80, and the prefix leaves the path"
    );
    let forwarded = r#"{"host-header-name":"x-forwarded-host","domains":["example.com"]}"#;
    let step = |headers: &[(&str, &str)]| explained(forwarded, headers)[5].clone();
    assert_eq!(step(&[]), "kruise-host: no host in :authority");
    assert_eq!(
        step(&[(":authority", "80-a.b")]),
        "kruise-host: :authority is not under any of the domains example.com"
    );
    assert_eq!(
        step(&[(":authority", "80-a.example.com"), ("x-forwarded-host", "80-a.b")]),
        "kruise-host: x-forwarded-host is not under any of the domains example.com"
    );
}
