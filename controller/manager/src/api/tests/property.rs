//! Whatever is sent, the answer is JSON and no defect.

use axum::body::Body;
use http::Request;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Api;
use super::fake::KEY;
use crate::api::{ApiSettings, Rate};

const PATHS: [(&str, &str); 11] = [
    ("POST", "/v2/sandboxes"),
    ("POST", "/v2/sandboxes/s/connect"),
    ("POST", "/sandboxes/s/timeout"),
    ("POST", "/sandboxes/s/refreshes"),
    ("POST", "/sandboxes/s/pause"),
    ("POST", "/sandboxes/s/resume"),
    ("PUT", "/sandboxes/s/network"),
    ("POST", "/sandboxes/s/snapshots"),
    ("POST", "/sandboxes/s/fork"),
    ("POST", "/api-keys"),
    ("DELETE", "/sandboxes/s"),
];

const FIELDS: [&str; 18] = [
    "templateID",
    "timeout",
    "autoPause",
    "autoPauseMemory",
    "autoResume",
    "allow_internet_access",
    "network",
    "metadata",
    "envVars",
    "mcp",
    "iam",
    "volumeMounts",
    "allowOut",
    "denyOut",
    "rules",
    "duration",
    "count",
    "name",
];

/// Any JSON, of the fields that are known and of others.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        "[a-z0-9./*:-]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let key = prop_oneof![proptest::sample::select(FIELDS.to_vec()).prop_map(str::to_owned), ".{0,12}"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn ask(method: &str, path: &str, query: &str, body: Vec<u8>) -> (u16, Value) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let free = Rate { per_second: 0, burst: 0 };
    let api = Api::with(ApiSettings { rate: free, ..ApiSettings::default() });
    let uri = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let request = Request::builder().method(method).uri(uri).header("X-API-KEY", KEY);
    let Ok(request) = request.header("content-type", "application/json").body(Body::from(body)) else {
        return (400, json!({"message": "no URI"}));
    };
    let reply = runtime.block_on(api.send(request));
    (reply.status.as_u16(), reply.body)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn no_body_makes_a_5xx(
        (method, path) in proptest::sample::select(PATHS.to_vec()),
        known in any_json(),
        template in proptest::option::of("[a-z]{1,5}"),
    ) {
        let mut body = known;
        if let (Value::Object(fields), Some(template)) = (&mut body, template) {
            fields.insert("templateID".to_owned(), template.into());
        }
        let (status, body) = ask(method, path, "", body.to_string().into_bytes());
        prop_assert!(status < 500, "{status} {body}");
    }

    #[test]
    fn no_bytes_make_a_5xx(
        (method, path) in proptest::sample::select(PATHS.to_vec()),
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let (status, body) = ask(method, path, "", body);
        prop_assert!(status < 500, "{status} {body}");
    }

    #[test]
    fn no_query_makes_a_5xx(
        path in proptest::sample::select(vec!["/v2/sandboxes", "/snapshots", "/sandboxes/metrics"]),
        query in "(metadata|state|limit|order|startedAfter|nextToken|sandbox_ids|x)=[a-z0-9%&=+,:T-]{0,40}",
    ) {
        let (status, body) = ask("GET", path, &query, Vec::new());
        prop_assert!(status < 500, "{status} {body}");
    }
}
