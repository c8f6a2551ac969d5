use sandgate_request::Unaddressed;
use serde_json::json;

use super::{Config, Mistake};

fn parse(text: &str) -> Result<Config, Mistake> {
    Config::parse(text, json!({ "unaddressed": "refuse" }))
}

#[test]
fn sections_are_laid_over_the_shipped_config() {
    let empty = parse("").unwrap();
    assert_eq!((empty.filter, empty.gateway.len()), (json!({ "unaddressed": "refuse" }), 0));
    assert_eq!(empty.parsed.unaddressed(), Unaddressed::Refuse);

    let config = parse("filter:\n  enable-auth: true\ngateway:\n  max-tombstones: 5\n").unwrap();
    assert_eq!(config.filter, json!({ "unaddressed": "refuse", "enable-auth": true }));
    assert_eq!(config.gateway.get("max-tombstones"), Some(&json!(5)));
    assert!(config.parsed.enable_auth());

    let json = parse(r#"{"filter": {"unaddressed": "pass"}}"#).unwrap();
    assert_eq!(json.parsed.unaddressed(), Unaddressed::Pass);
}

#[test]
fn every_mistake_has_a_place_and_a_key() {
    for (text, expected) in [
        (
            "[]",
            "1:1: expected a mapping with keys of `filter`, `gateway`, `cluster`, `listen`, `timeouts`, `tls` or `manager`",
        ),
        (
            "filters: {}\n",
            "1:1: filters: unknown key, expected `filter`, `gateway`, `cluster`, `listen`, `timeouts`, `tls` or `manager`",
        ),
        ("gateway: {}\nfilter: 5\n", "2:1: filter: expected a mapping"),
        ("filter:\n  enable-auth: maybe\n", "2:3: filter.enable-auth: "),
        (
            "filter:\n  dialects:\n    kruise:\n      default-port: 0\n",
            "4:7: filter.dialects.kruise.default-port: ",
        ),
        ("filter:\n  no-such-key: 1\n", "2:3: filter.no-such-key: "),
        ("gateway:\n  max-tombstones: 0\n", "2:3: gateway.max-tombstones: "),
        ("gateway:\n  routes-file: ''\n", "2:3: gateway.routes-file: "),
        ("gateway:\n  no-such-key: 1\n", "2:3: gateway.no-such-key: "),
        ("cluster:\n  idle-seconds: 0\n", "2:3: cluster.idle-seconds: "),
        ("cluster:\n  no-such-key: 1\n", "2:3: cluster.no-such-key: "),
        ("listen:\n", "1:1: listen: invalid type: null, expected an object"),
        ("listen:\n  trusted-hops: 99\n", "2:3: listen.trusted-hops: expected a number from 0 to 32"),
        ("timeouts: { connect-seconds: 0 }\n", "1:13: timeouts.connect-seconds: expected seconds above 0"),
        ("tls:\n", "1:1: tls: invalid type: null, expected an object"),
        ("tls:\n  certificates: []\n", "2:3: tls.certificates: expected 1 to 64"),
        ("tls:\n  certificates:\n    - certificate: a\n      kay: b\n", "4:7: tls.certificates[0].kay: "),
        ("tls:\n  certificates:\n    - certificate: a\n", "2:3: tls.certificates[0]: missing field `key`"),
        (
            "tls:\n  certificates: [{ certificate: a, key: b }]\n  min-version: 1.1\n",
            "3:3: tls.min-version: ",
        ),
        ("manager:\n", "1:1: manager: invalid type: null, expected an object"),
        ("manager:\n  address: nowhere\n", "2:3: manager.address: expected a name or an address"),
        ("manager:\n  address: m:1\n  tls: { ca: '' }\n", "3:10: manager.tls.ca: expected the path"),
        ("filter: {\n", "1:9: "),
        ("filter:\n\tenable-auth: true\n", "2:2: "),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}\n{error}");
        assert!(!error.contains(" at line "), "{error}");
    }
}
