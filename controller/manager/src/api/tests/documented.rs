//! The OpenAPI document and the router say the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::Api;
use super::reference::reference;
use crate::{ApiSettings, document};

fn shown() -> Value {
    serde_json::to_value(document()).unwrap()
}

/// Every operation of the document: path, method, operation.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(|(method, operation)| (path.clone(), method.to_uppercase(), operation.clone()))
        })
        .collect()
}

/// Compares a file of the repository with what it is made from, or writes it anew.
fn committed(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("SANDGATE_BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let old = fs::read_to_string(&file).unwrap_or_default();
    assert!(old == text, "{path} is old: `make docs-reference` writes it anew");
}

#[test]
fn the_committed_document_is_current() {
    committed("openapi.json", &(document().to_pretty_json().unwrap() + "\n"));
}

/// The bounds that a setting moves are those of this server.
#[tokio::test]
async fn the_served_document_has_the_bounds_of_the_settings() {
    let served = async |seconds: u64| {
        let max_timeout = Duration::from_secs(seconds);
        let api = Api::with(ApiSettings { max_timeout, ..ApiSettings::default() });
        let reply = api.get("/openapi.json").await;
        assert_eq!(reply.status, 200);
        reply.body
    };
    let usual = served(ApiSettings::default().max_timeout.as_secs()).await;
    assert!(usual == shown(), "the committed document is that of the default settings");
    let bounds = |document: &Value, name: &str, field: &str| {
        let property = &document["components"]["schemas"][name]["properties"][field];
        ["minimum", "maximum", "default"].map(|bound| property[bound].as_u64())
    };
    for (longest, usual, refresh, refreshed) in
        [(45, 45, 45, 45), (1000, 300, 1000, 60), (3_153_600_000, 300, 3600, 60)]
    {
        let document = served(longest).await;
        for name in ["NewSandbox", "ConnectSandbox", "ResumedSandbox", "SandboxFork"] {
            assert_eq!(bounds(&document, name, "timeout"), [Some(1), Some(longest), Some(usual)], "{name}");
        }
        assert_eq!(bounds(&document, "SandboxTimeout", "timeout"), [Some(1), Some(longest), None]);
        assert_eq!(
            bounds(&document, "SandboxRefresh", "duration"),
            [Some(0), Some(refresh), Some(refreshed)]
        );
        let usual_longest = ApiSettings::default().max_timeout.as_secs().to_string();
        assert!(!document.to_string().contains(&usual_longest), "a bound was left as it is by default");
    }
}

#[test]
fn the_api_reference_is_made_from_the_document() {
    committed("../../envoy/docs/api-reference.md", &reference(&shown()));
}

#[tokio::test]
async fn every_operation_is_served_and_answers_as_it_says() {
    let api = Api::new();
    let document = shown();
    for (path, method, operation) in operations(&document) {
        let uri =
            path.replace("{sandboxID}", "sbx1").replace("{templateID}", "base").replace("{alias}", "base");
        let uri = uri.replace("{apiKeyID}", "k1");
        let query = if path == "/sandboxes/metrics" { "?sandbox_ids=sbx1" } else { "" };
        let body = operation
            .get("requestBody")
            .map(|_| serde_json::json!({"templateID": "base", "timeout": 60, "name": "n"}));
        for prefix in ["", "/kruise/api"] {
            let reply = api.ask(&method, &format!("{prefix}{uri}{query}"), body.clone()).await;
            let status = reply.status.as_str().to_owned();
            let told = resolved(&document, &operation["responses"][&status]);
            assert!(told.is_object(), "{method} {path} answered {status}, which is not documented");
            assert!(
                reply.status.is_success() || path == "/templates/{templateID}",
                "{method} {path}: {status}"
            );
            let schema = &told["content"]["application/json"]["schema"];
            if reply.body.is_null() {
                assert!(schema.is_null(), "{method} {path} says that {status} has a body");
            } else {
                fits(&document, schema, &reply.body, &format!("{method} {path}"));
            }
        }
    }
}

/// What a reference stands for.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
    pointer.map_or(value, |pointer| document.pointer(pointer).unwrap_or(&Value::Null))
}

/// Whether a value has the fields of its schema, no others, and all that are required.
fn fits(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let target = resolved(document, schema);
        assert!(target.is_object(), "{place}: no {name}");
        return fits(document, target, value, place);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let required =
            parts.iter().filter_map(|part| resolved(document, part)["required"].as_array().cloned());
        let required: Vec<Value> = required.flatten().collect();
        assert!(required.iter().all(|name| value.get(name.as_str().unwrap()).is_some()), "{place}: {value}");
        return;
    }
    match value {
        Value::Array(all) => {
            for one in all {
                fits(document, &schema["items"], one, &format!("{place}[]"));
            }
        }
        Value::Object(fields) if schema["properties"].is_object() => {
            for (name, value) in fields {
                let property = &schema["properties"][name];
                assert!(property.is_object(), "{place}: {name} is not documented");
                fits(document, property, value, &format!("{place}.{name}"));
            }
            let required = schema["required"].as_array().into_iter().flatten();
            for name in required {
                assert!(fields.contains_key(name.as_str().unwrap()), "{place}: no {name}");
            }
        }
        _ => {}
    }
}

#[test]
fn every_operation_has_an_id_a_summary_and_its_failures() {
    let document = shown();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        assert!(ids.insert(operation["operationId"].to_string()), "{method} {path} has another's ID");
        assert!(operation["summary"].is_string(), "{method} {path} has no summary");
        let statuses: Vec<&String> = operation["responses"].as_object().unwrap().keys().collect();
        let expected: &[&str] =
            if path == "/health" { &["200"] } else { &["400", "401", "429", "500", "503"] };
        for status in expected {
            assert!(statuses.iter().any(|known| known == status), "{method} {path} lacks {status}");
        }
    }
}

#[test]
fn every_field_is_described() {
    for (name, schema) in shown()["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name} is not described");
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (field, property) in properties {
            assert!(
                property["description"].is_string()
                    || property["$ref"].is_string()
                    || property["oneOf"].is_array(),
                "{name}.{field}: {property}"
            );
        }
    }
}
