//! What a client of another gateway would notice, if it were otherwise here: one scenario each.

use sandgate_tests::{Gateway, Request, SECRET, Sandbox, route, routes};
use serde_json::{Value, json};

use crate::support::{PORT, ask, assert_refused, sandbox};

async fn serving(filter: Value) -> (Sandbox, Gateway) {
    let up = sandbox("up").await;
    let entries = [
        route("demo").set("uid", "uid-1").ip(up.ip()),
        route("batch").id("batch").ip(up.ip()),
        route("closed").set("secure-access-token", SECRET).ip(up.ip()),
    ];
    let gateway = Gateway::builder().routes(&routes(entries)).filter(filter).start().await;
    (up, gateway)
}

fn named(name: &str) -> Request {
    Request::get("/").header("x-sandbox-id", name).header("x-sandbox-namespace", "default")
}

#[tokio::test]
async fn the_pod_address_that_agent_sandboxs_clients_send_is_compared_and_never_followed() {
    let (up, gateway) = serving(json!({})).await;
    let decoy = sandbox("decoy").await;
    for good in [up.ip().to_string(), String::new()] {
        let reply = gateway.send(named("demo").header("x-sandbox-pod-ip", &good)).await;
        assert_eq!(reply.sandbox(), "up", "{good:?}");
    }
    for other in [decoy.ip().to_string(), "169.254.169.254".into(), "::1".into()] {
        let reply = gateway.send(named("demo").header("x-sandbox-pod-ip", &other)).await;
        assert_refused(&gateway, &reply, 502, "pod_ip_mismatch").await;
    }
    let reply = gateway.send(named("demo").header("x-sandbox-pod-ip", "localhost")).await;
    assert_refused(&gateway, &reply, 400, "malformed_pod_ip").await;
    assert_eq!(decoy.requests(), 0);
    // To another dialect's application it is a header like any.
    let reply = gateway.send(ask("default--demo").header("x-sandbox-pod-ip", "anything")).await;
    assert_eq!((reply.sandbox(), reply.seen("x-sandbox-pod-ip")), ("up".into(), vec!["anything".into()]));
    // Who may not reach a sandbox does not learn its address by asking.
    let reply = gateway.send(named("closed").header("x-sandbox-pod-ip", up.ip().to_string())).await;
    assert_refused(&gateway, &reply, 401, "unauthorized").await;
}

#[tokio::test]
async fn an_empty_uid_of_an_sdk_is_as_good_as_none() {
    let (_up, gateway) = serving(json!({})).await;
    assert_eq!(gateway.send(named("demo").header("x-sandbox-uid", "")).await.sandbox(), "up");
    let other = gateway.send(named("demo").header("x-sandbox-uid", "uid-0")).await;
    assert_refused(&gateway, &other, 502, "sandbox_not_found").await;
}

#[tokio::test]
async fn empty_headers_of_agent_sandboxs_clients_have_their_defaults() {
    let (_up, gateway) = serving(json!({})).await;
    let request = Request::get("/").header("x-sandbox-id", "demo");
    for name in ["x-sandbox-namespace", "x-sandbox-port", "x-sandbox-uid", "x-sandbox-pod-ip"] {
        let request = Request::get("/").header("x-sandbox-id", "demo").header(name, "");
        let reply = gateway.send(request).await;
        assert_eq!((reply.sandbox(), reply.seen_port()), ("up".into(), 8888), "{name}");
    }
    assert_eq!(gateway.send(request).await.sandbox(), "up");
}

#[tokio::test]
async fn the_sandbox_gets_the_clients_names_or_its_own_as_the_config_says() {
    let request = || {
        let request = ask("default--demo").host("gateway.example.com:7788");
        request.header("origin", "https://gateway.example.com").header("x-forwarded-host", "lie.example")
    };
    let (_up, gateway) = serving(json!({})).await;
    let reply = gateway.send(request()).await;
    assert_eq!(reply.seen("host"), ["gateway.example.com:7788"]);
    assert_eq!(reply.seen("origin"), ["https://gateway.example.com"]);
    let forward = json!({ "forward": { "host": "target", "origin": "target", "forwarded-host": true } });
    let (up, gateway) = serving(forward).await;
    let reply = gateway.send(request()).await;
    let target = format!("{}:{PORT}", up.ip());
    assert_eq!(reply.seen("host"), std::slice::from_ref(&target));
    assert_eq!(reply.seen("origin"), [format!("http://{target}")]);
    assert_eq!(reply.seen("x-forwarded-host"), ["gateway.example.com:7788"]);
    let silent = gateway.send(ask("default--demo")).await;
    assert!(silent.seen("origin").is_empty(), "{}", silent.text());
}

#[tokio::test]
async fn opensandboxs_ingress_header_may_have_a_scheme_and_leaves_the_request() {
    let (_up, gateway) = serving(json!({})).await;
    for name in ["OpenSandbox-Ingress-To", "OPEN-SANDBOX-INGRESS"] {
        for value in ["batch-8000", "https://batch-8000.example.com", "http://batch-8000"] {
            let request = Request::get("/").header(name, value).header("open-sandbox-api-key", SECRET);
            let reply = gateway.send(request).await;
            assert_eq!(reply.sandbox(), "up", "{name}: {value}");
            for gone in [name, "open-sandbox-api-key"] {
                assert!(reply.seen(&gone.to_lowercase()).is_empty(), "{}", reply.text());
            }
        }
    }
    let other = ask("default--demo").header("open-sandbox-api-key", "own");
    assert_eq!(gateway.send(other).await.seen("open-sandbox-api-key"), ["own"], "another dialect's own");
}

#[tokio::test]
async fn a_host_without_a_domain_names_a_sandbox_where_no_domains_are_given() {
    let (_up, gateway) = serving(json!({ "unaddressed": "refuse" })).await;
    for host in ["batch-8000", "batch-8000:7788"] {
        assert_eq!(gateway.send(Request::get("/").host(host)).await.sandbox(), "up", "{host}");
    }
    let (_up, gateway) = serving(json!({ "unaddressed": "refuse", "domains": ["example.com"] })).await;
    let reply = gateway.send(Request::get("/").host("batch-8000")).await;
    assert_refused(&gateway, &reply, 404, "not_addressed").await;
}

#[tokio::test]
async fn where_the_configured_host_header_is_not_sent_the_host_counts() {
    let (_up, gateway) =
        serving(json!({ "host-header-name": "X-Original-Host", "unaddressed": "refuse" })).await;
    let host = "8000-default--demo.example.com";
    let sent = Request::get("/").host("other.example").header("x-original-host", host);
    assert_eq!(gateway.send(sent).await.sandbox(), "up");
    assert_eq!(gateway.send(Request::get("/").host(host)).await.sandbox(), "up");
    let other = Request::get("/").host(host).header("x-original-host", "other.example");
    assert_refused(&gateway, &gateway.send(other).await, 404, "not_addressed").await;
}

#[tokio::test]
async fn the_proxy_paths_of_opensandboxs_server_lead_to_the_sandbox_without_its_key() {
    let (_up, gateway) = serving(json!({})).await;
    for path in ["/sandboxes/batch/proxy/8000/a?b=c", "/v1/sandboxes/batch/proxy/8000/a?b=c"] {
        let reply = gateway.send(Request::get(path).header("open-sandbox-api-key", SECRET)).await;
        assert_eq!((reply.sandbox(), reply.seen_path()), ("up".into(), "/a?b=c".into()), "{path}");
        assert!(reply.seen("open-sandbox-api-key").is_empty(), "{}", reply.text());
    }
}

#[tokio::test]
async fn opensandboxs_clients_reach_agent_sandboxs_objects_by_name_in_the_namespaces_that_are_named() {
    let filter = |namespaces: Value| json!({ "dialects": { "opensandbox": { "agent-sandbox-namespaces": namespaces } } });
    let (_up, gateway) = serving(filter(json!(["team", "default"]))).await;
    let request = || Request::get("/").header("opensandbox-ingress-to", "demo-8000");
    assert_eq!(gateway.send(request()).await.sandbox(), "up");
    let closed = Request::get("/").header("opensandbox-ingress-to", "closed-8000");
    assert_refused(&gateway, &gateway.send(closed).await, 401, "unauthorized").await;
    let (_up, gateway) = serving(filter(json!(["team"]))).await;
    assert_refused(&gateway, &gateway.send(request()).await, 404, "sandbox_not_found").await;
}

#[tokio::test]
async fn probes_of_the_other_gateways_are_answered_on_the_traffic_port_by_config() {
    let paths = ["/status.ok", "/healthz", "/readyz"];
    let (_up, gateway) = serving(json!({ "health-paths": paths, "unaddressed": "refuse" })).await;
    for path in paths {
        assert_eq!(gateway.send(Request::get(path)).await.status, 200, "{path}");
        let own = gateway.send(Request::get(path).header("e2b-sandbox-id", "default--demo")).await;
        assert_eq!(own.sandbox(), "up", "a sandbox's own {path}");
    }
    let (_up, gateway) = serving(json!({ "unaddressed": "refuse" })).await;
    for path in paths {
        let reply = gateway.send(Request::get(path)).await;
        assert_refused(&gateway, &reply, 404, "not_addressed").await;
    }
}

#[tokio::test]
async fn a_bad_label_selector_is_refused_at_start() {
    let provider = json!([{ "kind": "openkruise", "label-selector": "a in (b" }]);
    let exit = Gateway::builder().setting("kubernetes", json!({ "providers": provider })).run_to_exit().await;
    assert_ne!(exit.code, Some(0));
    assert!(exit.log.contains("label-selector"), "{}", exit.log);
}
