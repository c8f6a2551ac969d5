//! What of the addresses can be switched: dialects, forms, names, domains, and what happens to the rest.

use sandgate_tests::{Gateway, Request, route, routes};
use serde_json::{Value, json};

use crate::support::{PORT, ask, assert_refused, sandbox, split_routes, splitting};

/// A form's name, a request of that form, and configs without the form.
type Switch = (&'static str, fn() -> Request, Vec<Value>);

/// One request of each form, with the keys that switch it off: the form's own, and its dialect's.
fn forms() -> Vec<Switch> {
    let kruise = |key: &str| json!({ "dialects": { "kruise": { key: false } } });
    let opensandbox = |key: &str| json!({ "dialects": { "opensandbox": { key: false } } });
    vec![
        (
            "kruise path",
            || Request::get("/kruise/default--demo/8000/"),
            vec![kruise("path"), kruise("enabled")],
        ),
        ("kruise header", || ask("default--demo"), vec![kruise("headers"), kruise("enabled")]),
        (
            "kruise host",
            || Request::get("/").host("8000-default--demo.sandbox.test"),
            vec![kruise("host"), kruise("enabled")],
        ),
        (
            "opensandbox header",
            || Request::get("/").header("opensandbox-ingress-to", "default--demo-8000"),
            vec![opensandbox("headers"), opensandbox("enabled")],
        ),
        (
            "opensandbox host",
            || Request::get("/").host("default--demo-8000.sandbox.test"),
            vec![opensandbox("host"), opensandbox("enabled")],
        ),
        (
            "opensandbox path",
            || Request::get("/default--demo/8000/"),
            vec![
                json!({ "dialects": { "opensandbox": { "path": false, "proxy-path": true } } }),
                opensandbox("enabled"),
            ],
        ),
        (
            "opensandbox proxy path",
            || Request::get("/v1/sandboxes/default--demo/proxy/8000/"),
            vec![opensandbox("proxy-path"), opensandbox("path")],
        ),
        (
            "agent-sandbox header",
            || Request::get("/").header("x-sandbox-id", "demo").header("x-sandbox-port", "8000"),
            // The other dialect that reads this header would take it over.
            vec![
                json!({ "dialects": { "agent-sandbox": { "enabled": false }, "sandbox-env": { "headers": false } } }),
            ],
        ),
        (
            "sandbox-env path",
            || Request::get("/sandboxes/default--demo/8000/"),
            vec![
                json!({ "dialects": { "sandbox-env": { "path": false } } }),
                json!({ "dialects": { "sandbox-env": { "enabled": false } } }),
            ],
        ),
    ]
}

#[tokio::test]
async fn a_form_that_is_switched_off_is_not_seen_and_the_others_still_are() {
    let (demo, rest) = (sandbox("demo").await, sandbox("rest").await);
    let mut builder =
        Gateway::builder().routes(&routes([route("demo").ip(demo.ip())])).filter(splitting(json!({})));
    let mut listeners = Vec::new();
    for (form, request, switches) in forms() {
        for (number, switch) in switches.into_iter().enumerate() {
            let name = format!("{form} {number}");
            builder = builder.listener(&name, splitting(switch));
            listeners.push((name, form, request));
        }
    }
    let gateway = split_routes(builder, &rest).start().await;
    for (form, request, _) in forms() {
        assert_eq!(gateway.send(request()).await.sandbox(), "demo", "{form} with everything on");
    }
    for (listener, off, request) in &listeners {
        assert_eq!(gateway.send_to(listener, request()).await.sandbox(), "rest", "{listener} switched off");
        for (form, request, _) in forms() {
            // A whole dialect is off in the second listener of each of its forms.
            let dialect = |form: &str| form.split(' ').next().map(ToOwned::to_owned);
            if form != *off && (listener.ends_with('0') || dialect(form) != dialect(off)) {
                assert_eq!(
                    gateway.send_to(listener, request()).await.sandbox(),
                    "demo",
                    "{form} beside {listener}"
                );
            }
        }
    }
}

#[tokio::test]
async fn header_names_default_ports_and_the_default_namespace_come_from_the_config() {
    let demo = sandbox("demo").await;
    let filter = json!({
        "dialects": {
            "kruise": { "sandbox-header-name": "X-My-Box", "sandbox-port-header": "x-my-port", "default-port": PORT },
            "agent-sandbox": { "default-namespace": "team", "default-port": PORT },
        },
        "host-header-name": "x-original-host",
        "unaddressed": "refuse",
    });
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").namespace("team").ip(demo.ip())]))
        .filter(filter)
        .start()
        .await;
    let served = [
        Request::get("/").header("x-my-box", "team--demo"),
        Request::get("/").header("X-MY-BOX", "team--demo").header("x-my-port", "8888"),
        Request::get("/").header("x-sandbox-id", "demo"),
        Request::get("/").header("x-original-host", "8000-team--demo.sandbox.test"),
        // Without the header the host is the host.
        Request::get("/").host("8888-team--demo.sandbox.test"),
        Request::get("/")
            .host("8888-nobody.sandbox.test")
            .header("x-original-host", "8000-team--demo.sandbox.test"),
    ];
    let ports: [u64; 6] = [8000, 8888, 8000, 8000, 8888, 8000];
    for (request, port) in served.into_iter().zip(ports) {
        let reply = gateway.send(request).await;
        assert_eq!((reply.sandbox().as_str(), reply.seen_port()), ("demo", port));
    }
    let beside_header =
        Request::get("/").host("8000-team--demo.sandbox.test").header("x-original-host", "www.sandbox.test");
    for request in [ask("team--demo"), beside_header] {
        assert_refused(&gateway, &gateway.send(request).await, 404, "not_addressed").await;
    }
}

#[tokio::test]
async fn with_domains_only_hosts_under_them_name_sandboxes_and_their_labels_may_have_dots() {
    let (demo, dotted, rest) = (sandbox("demo").await, sandbox("dotted").await, sandbox("rest").await);
    let builder = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip()), route("dotted").id("my.box.v2").ip(dotted.ip())]))
        .filter(splitting(json!({ "domains": ["sandbox.test", "EU.sandbox.test"] })));
    let gateway = split_routes(builder, &rest).start().await;
    for (host, answered) in [
        ("8000-default--demo.sandbox.test", "demo"),
        ("8000-default--demo.SANDBOX.test.:80", "demo"),
        ("8000-default--demo.eu.sandbox.test", "demo"),
        ("default--demo-8000.sandbox.test", "demo"),
        ("8000-my.box.v2.sandbox.test", "dotted"),
        ("my.box.v2-8000.eu.sandbox.test", "dotted"),
        ("8000-default--demo.other.test", "rest"),
        ("8000-default--demo.notsandbox.test", "rest"),
        ("default--demo-8000.sandbox.test.evil.test", "rest"),
        ("sandbox.test", "rest"),
        ("www.sandbox.test", "rest"),
    ] {
        assert_eq!(gateway.send(Request::get("/").host(host)).await.sandbox(), answered, "{host}");
    }
}

#[tokio::test]
async fn a_request_to_no_sandbox_passes_untouched_or_is_refused() {
    let (demo, rest) = (sandbox("demo").await, sandbox("rest").await);
    let builder = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .filter(splitting(json!({})))
        .listener("refusing", json!({ "unaddressed": "refuse" }));
    let gateway = split_routes(builder, &rest).start().await;
    for path in ["/", "/index.html?a=1", "/v1/80a/x", "/kruise", "/kruise/api", "/kruise/api/v1/80/x?y=1"] {
        let reply = gateway.send(Request::get(path).host("www.test").header("x-other", "kept")).await;
        assert_eq!((reply.sandbox().as_str(), reply.seen_path().as_str()), ("rest", path));
        assert_eq!(reply.seen("x-other"), ["kept"]);
        assert_eq!(reply.json()["host"], "www.test");
        for ours in ["x-sandbox-id", "x-sandbox-uid", "x-sandgate-route"] {
            assert!(reply.seen(ours).is_empty(), "{ours} on {path}");
        }
        let refused = gateway.send_to("refusing", Request::get(path).host("www.test")).await;
        assert_refused(&gateway, &refused, 404, "not_addressed").await;
    }
    // The manager's API is no sandbox, whatever the headers and the host say.
    let request = ask("default--demo").path("/kruise/api/v1").host("8000-default--demo.sandbox.test");
    assert_eq!(gateway.send(request).await.sandbox(), "rest");
    assert_eq!(demo.requests(), 0);
    gateway.stat_is("sandgate.rq_passed", 7).await;
}

#[tokio::test]
async fn the_shipped_config_serves_sandboxes_and_refuses_everything_else() {
    let demo = sandbox("demo").await;
    let gateway =
        Gateway::builder().routes(&routes([route("demo").ip(demo.ip())])).shipped_filter().start().await;
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    let reply = gateway.send(Request::get("/").host("www.test")).await;
    assert_refused(&gateway, &reply, 404, "not_addressed").await;
    assert_eq!(reply.json()["sandbox"], Value::Null);
}
