use serde_json::{Value, json};

use super::{Listen, Timeouts};

#[test]
fn a_section_without_keys_is_the_shipped_config() {
    assert_eq!(Listen::parse(&json!({})).unwrap(), Listen::default());
    assert_eq!(Timeouts::parse(&json!({})).unwrap(), Timeouts::default());
    assert_eq!(Timeouts::default().connect_milliseconds(), 5000);
}

#[test]
fn schema_and_parser_agree_and_a_mistake_names_its_key() {
    let listen = jsonschema::validator_for(&schemars::schema_for!(Listen).into()).expect("a schema");
    let timeouts = jsonschema::validator_for(&schemars::schema_for!(Timeouts).into()).expect("a schema");
    let parse = |of_timeouts: bool, section: &Value| match of_timeouts {
        true => Timeouts::parse(section).map(drop),
        false => Listen::parse(section).map(drop),
    };
    for (of_timeouts, key, good, bad) in [
        (false, "trusted-hops", [json!(0), json!(32)], [json!(33), json!(-1)]),
        (false, "max-request-headers-kb", [json!(1), json!(8192)], [json!(0), json!(8193)]),
        (false, "max-request-headers", [json!(1), json!(10_000)], [json!(0), json!("100")]),
        (true, "stream-idle-seconds", [json!(0), json!(604_800)], [json!(604_801), json!(1.5)]),
        (true, "websocket-idle-seconds", [json!(0), json!(60)], [json!(604_801), Value::Null]),
        (true, "websocket-lifetime-seconds", [json!(0), json!(60)], [json!(604_801), json!(true)]),
        (true, "connect-seconds", [json!(0.25), json!(300)], [json!(0), json!(301)]),
        (true, "upstream-idle-seconds", [json!(1), json!(60)], [json!(0), json!("60")]),
    ] {
        let schema = if of_timeouts { &timeouts } else { &listen };
        for value in good {
            let section = json!({ key: value });
            assert!(parse(of_timeouts, &section).is_ok() && schema.is_valid(&section), "{section}");
        }
        for value in bad {
            let section = json!({ key: value });
            assert!(!schema.is_valid(&section), "{section}");
            assert_eq!(parse(of_timeouts, &section).expect_err("a bad section").key, key, "{section}");
        }
    }
    for of_timeouts in [false, true] {
        assert_eq!(parse(of_timeouts, &json!({ "colour": 1 })).expect_err("unknown").key, "colour");
    }
}

fn assert_published(name: &str, schema: &Value) {
    let path = format!("{}/../../envoy/config/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let generated = format!("{schema:#}\n");
    if std::env::var_os("SANDGATE_BLESS").is_some() {
        std::fs::write(&path, &generated).expect("write the schema");
    }
    let published = std::fs::read_to_string(&path).expect("read the schema");
    assert_eq!(published, generated, "SANDGATE_BLESS=1 writes it anew");
}

#[test]
fn the_published_schemas_are_the_generated_ones() {
    assert_published("listen", &schemars::schema_for!(Listen).into());
    assert_published("timeouts", &schemars::schema_for!(Timeouts).into());
}
