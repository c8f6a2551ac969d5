use std::fs;

use sandgate_request::FilterConfig;
use serde_json::Value;

use super::request::headers;
use super::{Header, Table, judge, look_up, read_routes, take_over};
use crate::args::Explain;
use crate::routes::RouteView;

fn request(url: &str, given: &[&str]) -> Vec<Header> {
    let given: Vec<String> = given.iter().map(|&header| header.to_owned()).collect();
    headers(url, "get", &given).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn value<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    headers.iter().find(|(n, _)| n == name).map(|(_, value)| str::from_utf8(value).unwrap())
}

#[test]
fn a_url_becomes_the_headers_envoy_would_show() {
    for (url, host, path) in [
        ("http://a.example:7788/x/y?z#f", Some("a.example:7788"), "/x/y?z"),
        ("https://a.example", Some("a.example"), "/"),
        ("a.example/x", Some("a.example"), "/x"),
        ("a.example?x", Some("a.example"), "/?x"),
        ("/only//a/path?u=http://b/", None, "/only//a/path?u=http://b/"),
        ("http://user:pw@a.example/", Some("a.example"), "/"),
        ("http://[::1]:80/x", Some("[::1]:80"), "/x"),
    ] {
        let headers = request(url, &[]);
        assert_eq!((value(&headers, ":authority"), value(&headers, ":path")), (host, Some(path)), "{url}");
        assert_eq!(value(&headers, ":method"), Some("GET"));
    }
}

#[test]
fn headers_are_trimmed_and_host_replaces_that_of_the_url() {
    let headers = request("http://127.0.0.1/", &["X-Sandbox-ID:  demo ", "HOST: b.example", "x-empty:"]);
    assert_eq!(value(&headers, ":authority"), Some("b.example"));
    assert_eq!(value(&headers, "x-sandbox-id"), Some("demo"));
    assert_eq!(value(&headers, "x-empty"), Some(""));
}

#[test]
fn what_cannot_be_sent_is_refused_without_repeating_it() {
    for (url, header) in [
        ("http://a b/", None),
        ("ftp://a/", None),
        ("http:///x", None),
        ("http://a/", Some("secret-token-without-a-colon")),
        ("http://a/", Some("bad name secret-token: x")),
        ("http://a/", Some("x-access-token: secret\u{7}token")),
    ] {
        let given: Vec<String> = header.iter().map(|&header| header.to_owned()).collect();
        let error = headers(url, "GET", &given).expect_err(url).to_string();
        assert!(
            !error.contains("token-w") && !error.contains("secret-token") && !error.contains("secret\u{7}"),
            "{error}"
        );
    }
}

fn args(url: &str, routes: Option<std::path::PathBuf>) -> Explain {
    let url = url.to_owned();
    Explain {
        routes,
        admin: None,
        config: None,
        headers: Vec::new(),
        method: "GET".to_owned(),
        json: false,
        url,
    }
}

/// The report on a request, with a table of one file.
async fn report(file: Option<&str>, config: &str, url: &str, given: &[&str]) -> (Value, String, u8) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.yaml");
    let config = FilterConfig::parse(config.as_bytes()).unwrap();
    let headers = request(url, given);
    let mut table = None;
    if let Some(file) = file {
        fs::write(&path, file).unwrap();
        if let sandgate_request::Recognition::Addressed(address) =
            sandgate_request::recognise(headers.as_slice(), &config)
        {
            let observed = read_routes(&path).unwrap_or_else(|failure| panic!("{failure}"));
            let ids = sandgate_request::lookup_ids(&address, &config);
            table = look_up(&args(url, Some(path)), Some(observed), &ids, &headers, &config).await.unwrap();
        }
    }
    let steps = sandgate_request::explain(headers.as_slice(), &config);
    let report = judge(&headers, &config, steps, table.as_ref());
    let json = serde_json::from_str(&report.to_json()).unwrap();
    (json, report.to_text(), report.exit_code())
}

const FILE: &str = "routes:\n- { name: demo, ip: 10.0.0.1, access-token: hunter2 }\n- { name: off, state: paused }\n- \
                    { name: six, ip: '2001:db8::1' }\n";

#[tokio::test]
async fn a_running_sandbox_is_forwarded_to_its_address_and_port() {
    let (json, text, code) = report(Some(FILE), "", "http://gw/kruise/default--demo/8080/x?y", &[]).await;
    assert_eq!(code, 0);
    assert_eq!(json["answer"]["upstream"], "10.0.0.1:8080");
    assert_eq!(json["answer"]["path"], "/x?y");
    assert_eq!(json["address"]["dialect"], "kruise");
    assert_eq!(json["forms"].as_array().unwrap().len(), sandgate_request::Form::ALL.len());
    assert!(text.contains("Answer:    forwarded to 10.0.0.1:8080, the path rewritten to /x?y\n"), "{text}");
    assert!(!text.contains("hunter2") && !json.to_string().contains("hunter2"));

    let (json, ..) = report(Some(FILE), "", "http://99-default--six.example.com/x", &[]).await;
    assert_eq!(json["answer"]["upstream"], "[2001:db8::1]:99");
    assert_eq!(json["answer"]["path"], "/x");
}

#[tokio::test]
async fn a_refusal_says_status_detail_and_reason() {
    let (json, text, code) = report(Some(FILE), "", "http://80-default--off.example.com/", &[]).await;
    assert_eq!((code, &json["answer"]["status"]), (1, &502.into()));
    assert_eq!(json["answer"]["details"], "sandbox_not_running");
    assert!(text.contains("file:default/off is paused, says the routes file"), "{text}");
    assert!(text.contains("Answer:    502 sandbox_not_running: "), "{text}");

    let (json, text, code) = report(Some(FILE), "", "http://80-nobody.example.com/", &[]).await;
    assert_eq!((code, &json["answer"]["details"]), (1, &"sandbox_not_found".into()));
    assert!(text.contains("no such sandbox, says the routes file"), "{text}");

    let (json, text, code) = report(Some(FILE), "", "http://gw/kruise/a/99999/", &[]).await;
    assert_eq!((code, &json["answer"]["status"]), (1, &400.into()));
    assert!(text.contains("  bad kruise-path") && text.contains("Addressed: no sandbox"), "{text}");
}

#[tokio::test]
async fn a_token_is_checked_and_never_shown() {
    let (url, auth) = ("http://80-default--demo.example.com/", r#"{"enable-auth": true}"#);
    let (json, _, code) = report(Some(FILE), auth, url, &[]).await;
    assert_eq!((code, &json["answer"]["details"]), (1, &"unauthorized".into()));
    let (json, text, code) = report(Some(FILE), auth, url, &["x-access-token: hunter2"]).await;
    assert_eq!((code, &json["answer"]["outcome"]), (0, &"forwarded".into()));
    assert!(text.contains("has a token") && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_signed_route_is_told_with_its_expiry_and_without_its_tag() {
    let file = "routes:\n- { name: demo, ip: 10.0.0.1 }\n";
    for (url, given, path) in [
        ("http://default--demo-80-1vuhmo0-0a1b2c3dk.example.com/x", vec![], "/x"),
        ("http://gw/x", vec!["OpenSandbox-Ingress-To: default--demo-80-1vuhmo0-0a1b2c3dk"], "/x"),
        // Nobody has closed this sandbox, so it gets all that follows the port.
        ("http://gw/default--demo/80/1vuhmo0/0a1b2c3dk/x", vec![], "/1vuhmo0/*********/x"),
    ] {
        let (json, text, code) = report(Some(file), "", url, &given).await;
        assert_eq!(
            (code, &json["address"]["signature"]["expires"]),
            (0, &4_102_444_800_u64.into()),
            "{text}"
        );
        assert_eq!(json["answer"]["path"], path);
        assert!(
            text.contains("Signed:    until 2100-01-01T00:00:00Z, which is 4102444800 in Unix"),
            "{text}"
        );
        assert!(!text.contains("0a1b2c3d") && !json.to_string().contains("0a1b2c3d"), "{text}");
    }
    let (json, ..) = report(Some(file), "", "http://default--demo-80.example.com/", &[]).await;
    assert!(json["address"]["signature"].is_null());
}

#[tokio::test]
async fn an_object_found_by_its_name_is_told() {
    let config = r#"{"dialects":{"opensandbox":{"agent-sandbox-namespaces":["default"]}}}"#;
    let (json, text, code) = report(Some(FILE), config, "http://gw/v1/sandboxes/six/proxy/99/x", &[]).await;
    assert_eq!((code, &json["answer"]["upstream"]), (0, &"[2001:db8::1]:99".into()), "{text}");
    assert_eq!((&json["address"]["id"], &json["answer"]["path"]), (&"six".into(), &"/x".into()));
    let (json, text, code) = report(Some(FILE), config, "http://off-80.example.com/", &[]).await;
    assert_eq!((code, &json["answer"]["status"]), (1, &503.into()));
    assert!(text.contains("file:default/off is paused"), "{text}");
}

#[tokio::test]
async fn a_health_check_is_told() {
    let config = r#"{"health-paths":["/healthz","/readyz"],"unaddressed":"refuse"}"#;
    for path in ["/healthz", "/readyz"] {
        let (json, text, code) = report(None, config, &format!("http://gw{path}"), &[]).await;
        assert_eq!((code, &json["answer"]["outcome"]), (0, &"health-check".into()), "{text}");
    }
}

#[tokio::test]
async fn a_request_to_no_sandbox_is_passed_or_refused_by_config() {
    let (json, text, code) = report(Some(FILE), "", "http://example.com/", &[]).await;
    assert_eq!((code, &json["answer"]["outcome"]), (1, &"passed".into()));
    assert!(text.contains("passed on untouched"), "{text}");
    let (json, _, code) =
        report(Some(FILE), r#"{"unaddressed": "refuse"}"#, "http://example.com/", &[]).await;
    assert_eq!((code, &json["answer"]["details"]), (1, &"not_addressed".into()));
}

#[tokio::test]
async fn with_no_table_only_the_address_is_explained() {
    let (json, text, code) = report(None, "", "http://gw/", &["X-Sandbox-ID: demo"]).await;
    assert_eq!((code, &json["answer"]["outcome"]), (0, &"not-asked".into()));
    assert_eq!(json["address"]["id"], "default--demo");
    assert!(json["table"].is_null() && text.contains("--routes FILE or --admin URL"), "{text}");
}

#[test]
fn a_gateways_route_with_a_token_takes_the_one_sent_for_right() {
    let view: RouteView = serde_json::from_value(serde_json::json!({
        "id": "default--demo", "namespace": "default", "name": "demo", "provider": "kruise", "uid": "u", "owner": "",
        "state": "running", "ip": "10.0.0.1", "version": "12345678901234567890", "identity": 1, "auth": true,
        "requireTrafficAuth": false
    }))
    .unwrap();
    let config = FilterConfig::parse(br#"{"enable-auth": true}"#).unwrap();
    for (given, code, noted) in [(vec![], 1, false), (vec!["x-access-token: anything"], 0, true)] {
        let headers = request("http://80-default--demo.example.com/", &given);
        let (writer, reader) = sandgate_routes::RouteTable::new(sandgate_routes::Limits::default());
        let note = take_over(&writer, &view, &headers, &config).unwrap();
        writer.set_ready();
        let table = Table { reader, source: "the gateway".to_owned(), note };
        let steps = sandgate_request::explain(headers.as_slice(), &config);
        let report = judge(&headers, &config, steps, Some(&table));
        assert_eq!((report.exit_code(), note.is_some()), (code, noted), "{}", report.to_text());
    }
}

#[test]
fn a_gateways_route_with_a_traffic_token_takes_the_one_sent_for_right() {
    let view: RouteView = serde_json::from_value(serde_json::json!({
        "id": "default--demo", "namespace": "default", "name": "demo", "provider": "kruise", "uid": "u", "owner": "",
        "state": "running", "ip": "10.0.0.1", "version": "7", "identity": 1, "auth": false,
        "trafficToken": true, "requireTrafficAuth": false
    }))
    .unwrap();
    let (writer, reader) = sandgate_routes::RouteTable::new(sandgate_routes::Limits::default());
    let config = FilterConfig::parse(br#"{"traffic-access-token-header": "x-pass"}"#).unwrap();
    let headers = request("http://80-default--demo.example.com/", &["x-pass: hunter2"]);
    let note = take_over(&writer, &view, &headers, &config).unwrap();
    let route = reader.get("default--demo").unwrap();
    assert!(note.is_some() && route.token().is_none());
    assert!(route.traffic_token().unwrap().matches(b"hunter2"));
}

#[test]
fn a_gateways_ambiguous_route_is_explained_as_what_it_is() {
    let view: RouteView = serde_json::from_value(serde_json::json!({
        "id": "default--demo", "namespace": "default", "name": "demo", "provider": "opensandbox", "uid": "u", "owner": "",
        "state": "running", "ip": "10.0.0.1", "version": "7", "identity": 1, "auth": false,
        "requireTrafficAuth": false, "ambiguous": true
    }))
    .unwrap();
    let config = FilterConfig::parse(b"").unwrap();
    for url in ["http://80-default--demo.example.com/", "http://gw/default--demo/80/"] {
        let headers = request(url, &[]);
        let (writer, reader) = sandgate_routes::RouteTable::new(sandgate_routes::Limits::default());
        let note = take_over(&writer, &view, &headers, &config).unwrap();
        writer.set_ready();
        let table = Table { reader, source: "the gateway".to_owned(), note };
        let steps = sandgate_request::explain(headers.as_slice(), &config);
        let text = judge(&headers, &config, steps, Some(&table)).to_text();
        let found = "opensandbox:default/demo is running at 10.0.0.1, and is not the only one with this id, says the gateway";
        assert!(text.contains(found) && text.contains("Answer:    502 sandbox_ambiguous: "), "{text}");
    }
}
