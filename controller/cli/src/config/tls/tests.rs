use serde_json::{Value, json};

use super::{MAX_CERTIFICATES, MAX_DOMAINS, Tls, Version};

fn one() -> Value {
    json!({ "certificates": [{ "certificate": "/a.pem", "key": "/a.key" }] })
}

fn with(key: &str, value: Value) -> Value {
    let mut section = one();
    section[key] = value;
    section
}

fn with_domains(domains: &Value) -> Value {
    with("certificates", json!([{ "certificate": "/a.pem", "key": "/a.key", "domains": domains }]))
}

fn good() -> Vec<Value> {
    let mut all = vec![one(), with("client-ca", json!("ca.pem"))];
    all.extend([json!("1.2"), json!("1.3"), json!(1.2), json!(1.3)].map(|v| with("min-version", v)));
    all.extend([json!([]), json!(["*.a.example", "A-1.b", "localhost"])].iter().map(with_domains));
    all.push(with_domains(&json!(vec!["a.example"; MAX_DOMAINS])));
    all.push(with("certificates", json!(vec![one()["certificates"][0].clone(); MAX_CERTIFICATES])));
    all
}

/// A section that is refused, and the key that is to blame.
fn bad() -> Vec<(Value, &'static str)> {
    let mut all = vec![
        (json!({}), "top level"),
        (json!([]), "top level"),
        (json!(true), "top level"),
        (json!({ "certificates": [] }), "certificates"),
        (json!({ "certificates": {} }), "certificates"),
        (json!({ "certificates": [{ "certificate": "/a.pem" }] }), "certificates[0]"),
        (json!({ "certificates": [["/a.pem", "/a.key", []]] }), "certificates[0]"),
        (json!({ "certificates": [{ "certificate": "", "key": "/k" }] }), "certificates[0].certificate"),
        (json!({ "certificates": [{ "certificate": "/c", "key": "" }] }), "certificates[0].key"),
        (json!({ "certificates": [{ "certificate": "/c", "key": 5 }] }), "certificates[0].key"),
        (
            json!({ "certificates": [{ "certificate": "/c", "key": "/k", "chain": "/d" }] }),
            "certificates[0].chain",
        ),
        (
            with("certificates", json!(vec![one()["certificates"][0].clone(); MAX_CERTIFICATES + 1])),
            "certificates",
        ),
        (with("client-ca", json!("")), "client-ca"),
        (with("client-ca", Value::Null), "client-ca"),
        (with("client-names", json!(["x"])), "client-names"),
        (with_domains(&json!("a.example")), "certificates[0].domains"),
        (with_domains(&json!(vec!["a.example"; MAX_DOMAINS + 1])), "certificates[0].domains"),
    ];
    for version in [json!("1.1"), json!(1.1), json!(1), json!("TLSv1_2"), json!(""), Value::Null] {
        all.push((with("min-version", version), "min-version"));
    }
    let long = ["l".repeat(63), "l".repeat(63), "l".repeat(63), "l".repeat(62)].join(".");
    for domain in
        ["", "*", "*.", "a.*", "*a.example", "**.a", "a..b", "a.", ".a", "-a", "a-", "a_b", "a:1", &long]
    {
        all.push((with_domains(&json!([domain])), "certificates[0].domains[0]"));
    }
    all
}

#[test]
fn schema_and_parser_judge_alike() {
    let schema = jsonschema::validator_for(&Tls::schema()).expect("the schema is a schema");
    for section in good() {
        let tls = Tls::parse(&section).unwrap_or_else(|error| panic!("{section}: {error}"));
        assert_eq!(Tls::parse(&json!(tls)).ok(), Some(tls), "what is written is read");
        assert!(schema.is_valid(&section), "{section}");
    }
    for (section, key) in bad() {
        let error = Tls::parse(&section).expect_err("a bad section");
        assert_eq!(error.key, key, "{section}: {error}");
        assert!(!schema.is_valid(&section), "{section}");
    }
}

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/config/tls.schema.json");
    let generated = format!("{:#}\n", Tls::schema());
    if std::env::var_os("SANDGATE_BLESS").is_some() {
        std::fs::write(path, &generated).expect("write the schema");
    }
    let published = std::fs::read_to_string(path).expect("read the schema");
    assert_eq!(published, generated, "SANDGATE_BLESS=1 writes it anew");
}

#[test]
fn what_is_left_out_has_a_default_and_paths_are_absolute() {
    let tls = Tls::parse(
        &json!({ "certificates": [{ "certificate": "a.pem", "key": "/a.key", "domains": ["*.A.example"] }] }),
    )
    .expect("a section");
    assert_eq!((tls.min_version, &tls.client_ca), (Version::V1_2, &None));
    let certificate = &tls.certificates[0];
    assert!(certificate.certificate.is_absolute() && certificate.certificate.ends_with("a.pem"));
    assert_eq!(certificate.domains, ["*.a.example"]);
}
