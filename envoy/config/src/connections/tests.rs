use serde_json::{Value, json};

use super::ConnectionsConfig;

fn parse(value: &Value) -> Result<ConnectionsConfig, String> {
    ConnectionsConfig::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// What is refused, and what the error must say.
fn refused() -> Vec<(Value, [&'static str; 2])> {
    vec![
        (json!({}), ["connections-per-address", "missing"]),
        (json!([7]), ["top level", "expected an object"]),
        (json!({ "connections-per-address": 0 }), ["connections-per-address", "from 1 to 1000000"]),
        (json!({ "connections-per-address": 1_000_001 }), ["connections-per-address", "found 1000001"]),
        (json!({ "connections-per-address": "7" }), ["connections-per-address", "expected u32"]),
        (json!({ "connections-per-address": 7, "more": 1 }), ["more", "unknown field"]),
    ]
}

#[test]
fn the_share_is_a_number_that_has_to_be_given() {
    assert_eq!(parse(&json!({ "connections-per-address": 7 })), Ok(ConnectionsConfig { per_address: 7 }));
    for (value, words) in refused() {
        let error = parse(&value).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{value} gave {error:?}, without {word:?}");
        }
    }
    assert!(ConnectionsConfig::parse(br#"{"connections-per-address":7} {}"#).is_err());
}

#[test]
fn schema_and_parser_judge_alike() {
    let schema = jsonschema::validator_for(&ConnectionsConfig::schema()).unwrap();
    let good = json!({ "connections-per-address": 1 });
    for value in refused().iter().map(|(value, _)| value).chain([&good]) {
        assert_eq!(schema.is_valid(value), parse(value).is_ok(), "{value}");
    }
}

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/config/connections.schema.json");
    let generated = format!("{:#}\n", ConnectionsConfig::schema());
    if std::env::var_os("SANDGATE_BLESS").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(published, generated, "SANDGATE_BLESS=1 cargo test schema writes it anew");
}
