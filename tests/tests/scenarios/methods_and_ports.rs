//! What no request may be: methods that are about the gateway, and ports that are kept closed.

use sandgate_tests::{Gateway, Request, raw_exchange, route, routes};
use serde_json::json;

use crate::support::{ask, assert_refused, sandbox};

#[tokio::test]
async fn connect_and_trace_get_an_answer_of_their_own_and_reach_nobody() {
    let up = sandbox("up").await;
    let gateway =
        Gateway::builder().routes(&routes([route("up").ip(up.ip())])).shipped_filter().start().await;
    let hosts = ["8000-default--up.sandbox.test", "www.test"];
    for host in hosts {
        let trace = gateway.send(Request::get("/").method("TRACE").host(host)).await;
        assert_refused(&gateway, &trace, 405, "method_not_allowed").await;
        assert!(trace.header("allow").contains("GET"), "{:?}", trace.headers);
        let connect = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\nConnection: close\r\n\r\n");
        let answer = raw_exchange(gateway.address(), connect.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("method_not_allowed"), "{answer}");
    }
    assert_eq!(up.requests(), 0);
    gateway.stat_is("sandgate.rq_method_not_allowed", 4).await;
}

#[tokio::test]
async fn only_ports_that_are_allowed_and_not_denied_are_reached() {
    let up = sandbox("up").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("up").ip(up.ip())]))
        .filter(json!({ "allowed-ports": ["8000-8999"], "denied-ports": [8888] }))
        .start()
        .await;
    assert_eq!(gateway.send(ask("default--up")).await.sandbox(), "up");
    // Both listen, and neither is asked.
    for port in ["8888", "49983"] {
        let request =
            Request::get("/").header("e2b-sandbox-id", "default--up").header("e2b-sandbox-port", port);
        let reply = gateway.send(request).await;
        assert_refused(&gateway, &reply, 403, "port_not_allowed").await;
    }
    assert_eq!(up.requests(), 1);
}
