//! TLS to sandboxes, by port: the server's name, its certificate, and the gateway's own.

use sandgate_tests::{Authority, Builder, Gateway, Sandbox, route, routes};
use serde_json::{Value, json};

use crate::support::{ask, assert_answered};

const PLAIN: u16 = 8000;
const TLS: u16 = 8443;

fn tls_context(
    authority: &Authority,
    client: Option<&(std::path::PathBuf, std::path::PathBuf)>,
    name: Option<&str>,
) -> Value {
    let mut common = json!({ "validation_context": { "trusted_ca": { "filename": authority.file() } } });
    if let Some((certificate, key)) = client {
        common["tls_certificates"] =
            json!([{ "certificate_chain": { "filename": certificate }, "private_key": { "filename": key } }]);
    }
    let mut context = json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": common,
    });
    match name {
        Some(name) => {
            context["sni"] = json!(name);
            context["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"] =
                json!([{ "san_type": "DNS", "matcher": { "exact": name } }]);
        }
        // The name is the host's own, which the rule gives.
        None => {
            context["auto_host_sni"] = json!(true);
            context["auto_sni_san_validation"] = json!(true);
        }
    }
    context
}

/// TLS on [`TLS`] for the file's sandboxes, with this context; other ports stay plain.
fn with_tls(builder: Builder, rule: Value, context: Value) -> Builder {
    builder.cluster("tls", Value::Array(vec![rule])).adjust(move |config| {
        for cluster in config["static_resources"]["clusters"].as_array_mut().expect("clusters") {
            cluster["transport_socket_matches"] = json!([
                { "name": "tls", "match": { "sandgate": "inside" },
                  "transport_socket": { "name": "envoy.transport_sockets.tls", "typed_config": context } },
                { "name": "plain", "match": {}, "transport_socket": { "name": "envoy.transport_sockets.raw_buffer",
                  "typed_config": { "@type": "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer" } } },
            ]);
        }
    })
}

fn asking(port: u16) -> sandgate_tests::Request {
    sandgate_tests::Request::get("/")
        .header("e2b-sandbox-id", "default--demo")
        .header("e2b-sandbox-port", port.to_string())
}

#[tokio::test]
async fn a_port_with_a_tls_rule_is_spoken_to_with_tls_under_the_name_that_the_config_says() {
    let builder = Gateway::builder();
    let authority = Authority::new(builder.folder());
    let demo = Sandbox::over_tls("demo", &[TLS], authority.server("sandbox.internal", false)).await;
    let rule = json!({ "provider": "file", "ports": [TLS], "match": "inside" });
    let gateway = with_tls(builder, rule, tls_context(&authority, None, Some("sandbox.internal")))
        .routes(&routes([route("demo").ip(demo.ip())]))
        .start()
        .await;
    let mut client = gateway.client().await;
    for _ in 0..5 {
        assert_eq!(client.send(asking(TLS)).await.expect("an answer").sandbox(), "demo");
    }
    assert_eq!(demo.connections(), 1);
    let grpc = asking(TLS)
        .method("POST")
        .path("/trailers")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let reply = gateway.http2_client().await.send(grpc).await.expect("an answer");
    assert!(reply.trailers.get("grpc-status").is_some());
}

#[tokio::test]
async fn a_server_with_another_name_than_expected_is_not_spoken_to() {
    let builder = Gateway::builder();
    let authority = Authority::new(builder.folder());
    let demo = Sandbox::over_tls("demo", &[TLS], authority.server("stranger.internal", false)).await;
    let gateway = with_tls(
        builder,
        json!({ "match": "inside", "ports": [TLS] }),
        tls_context(&authority, None, Some("sandbox.internal")),
    )
    .routes(&routes([route("demo").ip(demo.ip())]))
    .start()
    .await;
    let reply = gateway.send(asking(TLS)).await;
    assert_answered(&gateway, &reply, 502, "sandbox_connect_failed").await;
    assert_eq!(demo.requests(), 0);
}

#[tokio::test]
async fn with_mtls_the_sandbox_takes_the_gateway_and_nobody_else_and_plain_ports_stay_plain() {
    let builder = Gateway::builder();
    let authority = Authority::new(builder.folder());
    let demo = Sandbox::over_tls("demo", &[TLS], authority.server("demo.default.test", true)).await;
    let other = Sandbox::on_ports("other", &[PLAIN]).await;
    let certificate = authority.client("gateway.test");
    // The server's name is made from the sandbox's own.
    let rule = || json!({ "match": "inside", "ports": [TLS], "server-name": "{name}.{namespace}.test" });
    let text = routes([route("demo").ip(demo.ip()), route("other").ip(other.ip())]);
    let gateway = with_tls(builder, rule(), tls_context(&authority, Some(&certificate), None))
        .routes(&text)
        .start()
        .await;
    assert_eq!(gateway.send(asking(TLS)).await.sandbox(), "demo");
    assert_eq!(gateway.send(ask("default--other")).await.sandbox(), "other");

    let nobody =
        with_tls(Gateway::builder(), rule(), tls_context(&authority, None, None)).routes(&text).start().await;
    let seen = demo.requests();
    let reply = nobody.send(asking(TLS)).await;
    assert!(reply.status >= 502, "{}: {}", reply.status, reply.text());
    assert_eq!(demo.requests(), seen);
}
