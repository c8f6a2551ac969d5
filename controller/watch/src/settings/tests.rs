use serde_json::{Value, json};

use super::Settings;

fn parse(value: &Value) -> Result<Settings, String> {
    Settings::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn only_the_routes_file_has_to_be_given() {
    let settings = parse(&json!({ "routes-file": "routes.yaml" })).unwrap();
    assert_eq!(settings.routes_file().to_str(), Some("routes.yaml"));
    assert_eq!(settings.limits().tombstone_lifetime.as_secs(), 600);
    assert_eq!(settings.limits().max_tombstones, 1_000_000);
}

#[test]
fn every_key_reaches_the_table() {
    let settings = parse(&json!({
        "routes-file": "r", "tombstone-lifetime-seconds": 7, "max-tombstones": 9
    }))
    .unwrap();
    assert_eq!(settings.limits().tombstone_lifetime.as_secs(), 7);
    assert_eq!(settings.limits().max_tombstones, 9);
}

/// What is refused, and what the error must say.
fn refused() -> Vec<(Value, [&'static str; 2])> {
    vec![
        (json!({}), ["routes-file", "missing"]),
        (json!(["r", 1, 1]), ["top level", "expected an object"]),
        (json!({ "routes-file": "" }), ["routes-file", "path of a file"]),
        (json!({ "routes-file": 7 }), ["routes-file", "expected a string"]),
        (json!({ "routes-file": "r", "routes": "r" }), ["routes", "unknown field"]),
        (
            json!({ "routes-file": "r", "tombstone-lifetime-seconds": 0 }),
            ["tombstone-lifetime-seconds", "from 1 to 604800"],
        ),
        (
            json!({ "routes-file": "r", "tombstone-lifetime-seconds": "10m" }),
            ["tombstone-lifetime-seconds", "expected u64"],
        ),
        (json!({ "routes-file": "r", "max-tombstones": -1 }), ["max-tombstones", "expected u64"]),
        (json!({ "routes-file": "r", "max-tombstones": 100_000_001 }), ["max-tombstones", "found 100000001"]),
    ]
}

#[test]
fn an_error_names_the_key_and_what_was_expected() {
    for (value, words) in refused() {
        let error = parse(&value).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{value} gave {error:?}, without {word:?}");
        }
    }
}

#[test]
fn nothing_may_follow_the_settings() {
    let error = Settings::parse(br#"{"routes-file": "r"} {}"#).unwrap_err().to_string();
    assert!(error.contains("trailing"), "{error}");
}

#[test]
fn schema_and_parser_judge_alike() {
    let schema = jsonschema::validator_for(&Settings::schema()).unwrap();
    let good = [
        json!({ "routes-file": "r" }),
        json!({ "routes-file": "r", "tombstone-lifetime-seconds": 1, "max-tombstones": 100_000_000 }),
    ];
    for value in good.iter().chain(refused().iter().map(|(value, _)| value)) {
        assert_eq!(schema.is_valid(value), parse(value).is_ok(), "{value}");
    }
}

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/config/gateway.schema.json");
    let generated = format!("{:#}\n", Settings::schema());
    if std::env::var_os("SANDGATE_BLESS").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), generated, "SANDGATE_BLESS=1 writes it anew");
}
