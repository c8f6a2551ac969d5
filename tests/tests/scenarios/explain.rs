//! `sandgate explain` says what the gateway does: both are asked, and must agree.

use std::fs;

use sandgate_tests::{Cli, Gateway, Request, SECRET, Sandbox, route, routes};
use serde_json::{Value, json};

use crate::support::sandbox;

/// A request, as both understand it.
struct Case {
    path: &'static str,
    headers: Vec<(&'static str, &'static str)>,
}

fn case(path: &'static str, headers: &[(&'static str, &'static str)]) -> Case {
    Case { path, headers: headers.to_vec() }
}

impl Case {
    fn request(&self) -> Request {
        self.headers.iter().fold(Request::get(self.path), |request, (name, value)| match *name {
            "Host" => request.host(value),
            name => request.header(name, value),
        })
    }

    async fn explained(&self, more: &[&str]) -> (Option<i32>, Value) {
        let headers: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let mut arguments = vec!["explain", "--json"];
        arguments.extend(more);
        for header in &headers {
            arguments.extend(["-H", header]);
        }
        arguments.push(self.path);
        let done = Cli::run(&arguments).await;
        assert!(!done.stdout.contains(SECRET) && !done.stderr.contains(SECRET), "{done:?}");
        let report = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
        (done.code, report)
    }
}

fn cases() -> Vec<Case> {
    vec![
        case("/kruise/default--up/8000/a/b?c=1", &[]),
        case("/kruise/default--up/8000", &[]),
        case("/kruise/default--up/0/", &[]),
        case("/kruise/default--up", &[]),
        case("/kruise/api/v1", &[]),
        case("/kruise/default--nobody/8000/", &[("e2b-sandbox-id", "default--up")]),
        case("/", &[("e2b-sandbox-id", "default--up"), ("e2b-sandbox-port", "8000")]),
        case("/", &[("e2b-sandbox-id", "default--up")]),
        case("/", &[("e2b-sandbox-id", "default--asleep")]),
        case("/", &[("e2b-sandbox-id", "default--nobody")]),
        case("/", &[("e2b-sandbox-id", "bad id")]),
        case("/", &[("e2b-sandbox-id", "default--guarded")]),
        case("/", &[("e2b-sandbox-id", "default--guarded"), ("x-access-token", SECRET)]),
        case("/", &[("e2b-sandbox-id", "default--jwt"), ("x-access-token", SECRET)]),
        case("/x", &[("opensandbox-ingress-to", "default--up-8000")]),
        case("/x", &[("opensandbox-ingress-to", "default--asleep-8000")]),
        case("/x", &[("opensandbox-ingress-to", "default--nobody-8000")]),
        case("/x", &[("opensandbox-ingress-to", "default--up-70000")]),
        case("/x", &[("x-sandbox-id", "up"), ("x-sandbox-port", "8000")]),
        case("/x", &[("x-sandbox-id", "up"), ("x-sandbox-namespace", "team")]),
        case("/x", &[("x-sandbox-id", "up"), ("x-sandbox-uid", "another")]),
        case("/x", &[("Host", "8000-default--up.sandbox.test:7788")]),
        case("/x", &[("Host", "8000-DEFAULT--UP.sandbox.test.")]),
        case("/x", &[("Host", "default--up-8000.sandbox.test")]),
        case("/x", &[("Host", "8000-default--up.other.test")]),
        case("/x", &[("Host", "www.sandbox.test")]),
        case("/default--up/8000/rest", &[("Host", "www.sandbox.test")]),
        case("/default--asleep/8000/rest", &[]),
        case("/", &[]),
        case("/x", &[("Host", "8000-default--up.sandbox.test"), ("e2b-sandbox-id", "default--up")]),
        case("/x", &[("Host", "8000-default--up.sandbox.test"), ("e2b-sandbox-id", "default--asleep")]),
        case("/x", &[("Host", "8000-default--up.sandbox.test"), ("x-sandbox-uid", "another")]),
        case("/x", &[("Host", "8000-two-8888.sandbox.test")]),
        case("/x", &[("Host", "8000-both-8888.sandbox.test")]),
        case("/x", &[("Host", "9901-default--up.sandbox.test")]),
        case("/x", &[("e2b-sandbox-id", "default--up"), ("e2b-sandbox-id", "default--up")]),
        case("/x", &[("e2b-sandbox-id", "default--closed"), ("x-access-token", SECRET)]),
        case("/x", &[("e2b-sandbox-id", "default--closed"), ("opensandbox-secure-access", SECRET)]),
        case("/x", &[("Host", "default--up-8000-1vuhmo0-0a1b2c3dk.sandbox.test")]),
        case("/x", &[("opensandbox-ingress-to", "https://default--up-8000-1vuhmo0-0a1b2c3dk")]),
        case(
            "/default--closed/8000/1vuhmo0/0a1b2c3dk/x?y",
            &[("opensandbox-secure-access", SECRET), ("Host", "www.sandbox.test")],
        ),
        case("/v1/sandboxes/default--up/proxy/8000/x", &[]),
        case("/x", &[("opensandbox-ingress-to", "up-8000")]),
        case("/x", &[("opensandbox-ingress-to", "asleep-8000")]),
    ]
}

async fn gateway() -> (Sandbox, Gateway) {
    let up = sandbox("up").await;
    let text = routes([
        route("up").ip(up.ip()),
        route("asleep").state("paused").ip(up.ip()),
        route("guarded").token(SECRET).ip(up.ip()),
        route("jwt").token(SECRET).set("require-traffic-auth", true).ip(up.ip()),
        route("closed").set("secure-access-token", SECRET).ip(up.ip()),
        route("two").id("8000-two").ip(up.ip()),
        route("one-reading").id("8000-both").ip(up.ip()),
        route("other-reading").id("both-8888").ip(up.ip()),
    ]);
    let gateway = Gateway::builder().routes(&text).filter(filter()).start().await;
    (up, gateway)
}

fn filter() -> Value {
    json!({
        "dialects": { "kruise": { "path": true }, "opensandbox": { "path": true, "agent-sandbox-namespaces": ["default"] } },
        "enable-auth": true, "domains": ["sandbox.test"], "unaddressed": "refuse", "denied-ports": [9901],
    })
}

#[tokio::test]
async fn explain_agrees_with_what_the_gateway_does() {
    let (_up, gateway) = gateway().await;
    let config = gateway.folder().join("config.json");
    fs::write(&config, json!({ "filter": filter() }).to_string()).expect("write");
    let config = config.to_str().expect("text").to_owned();
    let file = gateway.routes_file();
    let file = file.to_str().expect("text");
    let admin = format!("http://{}", gateway.admin_address());
    for case in cases() {
        let reply = gateway.send(case.request()).await;
        let access = gateway.access(&reply).await;
        for table in [["--routes", file], ["--admin", &admin]] {
            let (code, report) = case.explained(&[table[0], table[1], "--config", &config]).await;
            let answer = &report["answer"];
            let what = format!("{} {:?} by {}: {report:#}", case.path, case.headers, table[0]);
            if reply.status == 200 {
                assert_eq!(answer["outcome"], "forwarded", "{what}");
                assert_eq!(answer["upstream"], access.upstream, "{what}");
                assert_eq!(answer["path"], reply.seen_path(), "{what}");
                assert_eq!(code, Some(0), "{what}");
            } else {
                assert_eq!(answer["outcome"], "refused", "{what}");
                assert_eq!(
                    (&answer["status"], &answer["details"]),
                    (&json!(reply.status), &json!(access.details)),
                    "{what}"
                );
                assert_eq!(answer["message"], reply.json()["message"], "{what}");
                assert_eq!(code, Some(1), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn explain_tells_people_the_form_the_sandbox_and_the_answer() {
    let (_up, gateway) = gateway().await;
    let file = gateway.routes_file();
    let done = Cli::run(&[
        "explain",
        "--routes",
        file.to_str().expect("text"),
        "http://8000-default--asleep.sandbox.test/x",
    ])
    .await;
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    for part in ["kruise-host", "default--asleep", "paused", "502", "sandbox_not_running"] {
        assert!(done.stdout.contains(part), "no {part} in {}", done.stdout);
    }
    let done = Cli::run(&["explain", "http://8000-default--asleep.sandbox.test/x"]).await;
    assert_eq!(done.code, Some(0), "without a table the address alone is explained: {}", done.stderr);
    let done = Cli::run(&["explain", "--routes", "missing.yaml", "/default--up/8000/"]).await;
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("missing.yaml"), "{}", done.stderr);
}
