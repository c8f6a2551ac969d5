use std::num::NonZeroU64;
use std::path::Path;

use sandgate_routes::Version;
use serde_json::{Value, json};

use super::super::check::KEYS;
use super::super::{Format, parse_routes, routes_file_schema};

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../envoy/config/routes.schema.json");
    let generated = format!("{:#}\n", routes_file_schema());
    if std::env::var_os("SANDGATE_BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(published, generated, "write it anew with SANDGATE_BLESS=1");
}

#[test]
fn the_schema_has_the_keys_of_the_parser() {
    let schema = routes_file_schema();
    let described = schema.pointer("/$defs/RouteEntry/properties").and_then(Value::as_object).unwrap();
    let mut described: Vec<&str> = described.keys().map(String::as_str).collect();
    let mut read: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
    described.sort_unstable();
    read.sort_unstable();
    assert_eq!(described, read);
}

fn with(key: &str, value: Value) -> Value {
    let mut route = json!({ "name": "a", "ip": "10.0.0.1" });
    route[key] = value;
    json!({ "routes": [route] })
}

#[test]
fn schema_and_parser_agree() {
    let long = |n: usize| "x".repeat(n);
    let mut files = vec![
        json!({ "routes": [] }),
        json!({ "routes": [{ "name": "a", "ip": "10.0.0.1" }, { "name": "b", "state": "paused" }] }),
        json!({ "routes": [{ "name": "a" }] }),
        json!({ "routes": [{ "name": "a", "state": "running" }] }),
        json!({ "routes": [{ "name": "a", "state": "dead" }] }),
        json!({ "routes": [{ "ip": "10.0.0.1" }] }),
        json!({ "routes": [{ "name": "a", "ip": "10.0.0.1", "access-token": "x", "secure-access-token": "x" }] }),
        json!({ "routes": [{}] }),
        json!({ "routes": ["a"] }),
        json!({ "routes": [null] }),
        json!({ "routes": {} }),
        json!({ "routes": null }),
        json!({ "routes": [], "more": 1 }),
        json!({}),
        json!([]),
        json!("routes"),
        json!(null),
    ];
    let values = [
        json!(null),
        json!(true),
        json!(12),
        json!(1.5),
        json!([]),
        json!({}),
        json!(""),
        json!("a"),
        json!("true"),
        json!("a b"),
        json!("a/b"),
        json!("a:b"),
        json!("a\tb"),
        json!("é"),
        json!("\u{85}"),
        json!("😀"),
        json!(long(63)),
        json!(long(64)),
        json!(long(200)),
        json!(long(254)),
        json!(long(256)),
        json!(long(4096)),
        json!(long(4097)),
        json!("127.0.0.1"),
        json!("127.0.0.1:80"),
        json!("127.0.0.01"),
        json!("127.1"),
        json!("::1"),
        json!("[::1]"),
        json!("::ffff:10.0.0.1"),
        json!("fe80::1%eth0"),
        json!("2001:db8::g"),
        json!("running"),
        json!("Running"),
        json!("paused"),
        json!("available"),
        json!("creating"),
        json!("dead"),
        json!("gone"),
    ];
    for key in KEYS.iter().map(|(key, _)| *key).chain(["ID", "token"]) {
        files.extend(values.iter().map(|value| with(key, value.clone())));
    }

    let validator = jsonschema::options().should_validate_formats(true).build(&routes_file_schema()).unwrap();
    let mut good = 0;
    for file in &files {
        let parsed = parse_routes(file.to_string().as_bytes(), Format::Json, &Version::from(NonZeroU64::MIN));
        let valid = validator.is_valid(file);
        assert_eq!(valid, parsed.is_ok(), "{file}\nparser: {:?}", parsed.err());
        // And the same in YAML's own writing of it, which the other parser reads.
        let yaml = parse_routes(file.to_string().as_bytes(), Format::Yaml, &Version::from(NonZeroU64::MIN));
        assert_eq!(valid, yaml.is_ok(), "{file}\nYAML parser: {:?}", yaml.err());
        good += usize::from(valid);
    }
    assert!(good > 30 && files.len() - good > 100, "{good} of {} are good", files.len());
}
