//! Requests with a bad part: a 400 that names the part, never another form, never a crash.

use sandgate_tests::{Gateway, Request, raw_exchange, route, routes};
use serde_json::json;

use crate::support::{ask, assert_refused, demo, sandbox};

const BAD_PORTS: [&str; 11] =
    ["0", "65536", "00080", "080", "+80", "-80", "80.0", "8 0", "99999999999999999999", "", "0x50"];

#[tokio::test]
async fn a_bad_port_is_malformed_in_every_form() {
    let (demo, gateway) = demo().await;
    for port in BAD_PORTS {
        let mut requests = Vec::new();
        // An empty header is one that is not sent.
        if !port.is_empty() {
            requests.push(
                Request::get("/").header("e2b-sandbox-id", "default--demo").header("e2b-sandbox-port", port),
            );
            requests.push(Request::get("/").header("x-sandbox-id", "demo").header("x-sandbox-port", port));
        }
        if !port.contains(' ') {
            requests.push(Request::get(&format!("/kruise/default--demo/{port}/")));
        }
        if !port.contains(['-', '.', ' ']) {
            requests
                .push(Request::get("/").header("opensandbox-ingress-to", format!("default--demo-{port}")));
        }
        // In a host or a plain path only digits have the shape of an address.
        if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
            requests.push(Request::get("/").host(&format!("{port}-default--demo.sandbox.test")));
            requests.push(Request::get("/").host(&format!("default--demo-{port}.sandbox.test")));
            requests.push(Request::get(&format!("/default--demo/{port}/")));
        }
        for request in requests {
            let what = format!("{request:?}");
            let reply = gateway.send(request).await;
            assert_eq!(reply.status, 400, "{what}: {}", reply.text());
            assert_refused(&gateway, &reply, 400, "malformed_port").await;
        }
    }
    for port in ["1", "65535"] {
        // Nobody listens there, but the address is a good one.
        let reply = gateway.send(Request::get(&format!("/kruise/default--demo/{port}/"))).await;
        assert_eq!((reply.status, &reply.json()["reason"]), (502, &json!("sandbox_port_closed")));
    }
    assert_eq!(demo.requests(), 0);
}

#[tokio::test]
async fn a_bad_id_namespace_host_or_path_is_malformed_and_no_later_form_gets_a_say() {
    let (demo, gateway) = demo().await;
    let too_long = "a".repeat(254);
    let good_host = "8000-default--demo.sandbox.test";
    let header = |value: &str| Request::get("/").header("e2b-sandbox-id", value);
    let cases = [
        (header(&too_long), "malformed_id"),
        (header(""), "malformed_id"),
        (header("a/b"), "malformed_id"),
        (header("a b"), "malformed_id"),
        (header("a%2Fb"), "malformed_id"),
        (header("ä"), "malformed_id"),
        (header("default--demo,default--other"), "malformed_id"),
        (Request::get("/").header("e2b-sandbox-id", [0xFF, 0xFE, 0x80]), "malformed_id"),
        (Request::get(&format!("/kruise/{too_long}/80/")), "malformed_id"),
        (Request::get("/kruise//80/"), "malformed_id"),
        (Request::get("/kruise/a%20b/80/"), "malformed_id"),
        (Request::get("/kruise/"), "malformed_path"),
        (Request::get("/kruise/default--demo"), "malformed_path"),
        (Request::get("/").header("x-sandbox-id", ""), "malformed_id"),
        (Request::get("/").header("x-sandbox-id", &too_long), "malformed_id"),
        (
            Request::get("/").header("x-sandbox-id", "demo").header("x-sandbox-namespace", "-x"),
            "malformed_namespace",
        ),
        (
            Request::get("/").header("x-sandbox-id", "demo").header("x-sandbox-namespace", "UP"),
            "malformed_namespace",
        ),
        (Request::get("/").header("opensandbox-ingress-to", ""), "malformed_id"),
        (Request::get("/").header("opensandbox-ingress-to", "-8000"), "malformed_id"),
        (Request::get("/").host("8000-.sandbox.test"), "malformed_id"),
        (Request::get("/").host("8000-a_b!.sandbox.test"), "malformed_id"),
        (Request::get("/").host("8000-default--demo.sandbox..test"), "malformed_host"),
    ];
    for (request, reason) in cases {
        // Each of them beside a later form that is good.
        let has_host = reason == "malformed_host" || format!("{request:?}").contains("8000-");
        let request = if has_host { request } else { request.host(good_host) };
        let what = format!("{request:?}");
        let reply = gateway.send(request).await;
        assert_eq!(reply.status, 400, "{what}: {}", reply.text());
        assert_refused(&gateway, &reply, 400, reason).await;
        assert_eq!(reply.json()["sandbox"], json!(null), "an address that is not valid names no sandbox");
    }
    assert_eq!(demo.requests(), 0);
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
}

#[tokio::test]
async fn bytes_no_library_would_send_do_no_harm() {
    let demo = sandbox("demo").await;
    let mut gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .filter(json!({ "unaddressed": "refuse" }))
        .start()
        .await;
    let mut cases: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: \xFF\xFE\x80\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: 8000-\xC3\xA4.sandbox.test\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: 8000-default--demo.\xE2\x82\xAC\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: :::::\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET /kruise/\xFF/80/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET /kruise/a\0b/80/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\ne2b-sandbox-id: \xFF\xFF\r\nConnection: close\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\nx-sandbox-id: a\x01b\r\nConnection: close\r\n\r\n".to_vec(),
        b"\x00\x01\x02\x03\r\n\r\n".to_vec(),
    ];
    let long = format!("GET / HTTP/1.1\r\nHost: {}.test\r\nConnection: close\r\n\r\n", "8000-a".repeat(5000));
    cases.push(long.into_bytes());
    for case in cases {
        let answer = raw_exchange(gateway.address(), &case).await;
        let status = answer.split(' ').nth(1).unwrap_or("closed");
        assert!(
            matches!(status, "400" | "404" | "closed"),
            "{} got {answer}",
            String::from_utf8_lossy(&case[..case.len().min(80)])
        );
    }
    // An absolute URI is an address like any other.
    let absolute =
        b"GET http://8000-default--demo.sandbox.test/abs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = raw_exchange(gateway.address(), absolute).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"path\":\"/abs\""), "{answer}");
    assert!(gateway.is_alive());
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    assert_eq!(demo.requests(), 2);
    assert_eq!(gateway.stat("sandgate.panics").await.unwrap_or(0), 0);
}
