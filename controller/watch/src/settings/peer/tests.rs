use serde_json::{Value, json};

use crate::Settings;

fn whole(refresh: &Value) -> Value {
    json!({ "routes-file": "r", "refresh": refresh })
}

fn parse(value: &Value) -> Result<Settings, String> {
    Settings::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
}

fn keys() -> Value {
    json!({ "keys": [{ "id": "main", "file": "/keys/main" }] })
}

fn review() -> Value {
    json!({ "audience": "sandgate", "subjects": ["system:serviceaccount:a:b"] })
}

fn tls() -> Value {
    json!({ "certificate": "c", "key": "k", "client-ca": "ca", "client-names": ["manager.svc", "10.0.0.1"] })
}

#[test]
fn what_is_left_out_is_as_openkruise_has_it() {
    let settings = parse(&whole(&json!({ "hmac": keys() }))).unwrap();
    let refresh = settings.refresh().unwrap();
    assert_eq!(
        (refresh.listen.to_string().as_str(), refresh.provider.as_str()),
        ("0.0.0.0:7789", "openkruise")
    );
    assert_eq!((refresh.max_connections, refresh.is_insecure()), (256, false));
    assert_eq!(refresh.hmac.as_ref().unwrap().window.as_secs(), 30);
    assert!(parse(&json!({ "routes-file": "r" })).unwrap().refresh().is_none());
}

#[test]
fn every_method_is_named() {
    let refresh = json!({ "tls": tls(), "token-review": review(), "hmac": keys() });
    let settings = parse(&whole(&refresh)).unwrap();
    assert_eq!(settings.refresh().unwrap().methods(), ["mtls", "token-review", "hmac"]);
}

/// What is taken.
fn good() -> Vec<Value> {
    vec![
        json!({ "insecure": true }),
        json!({ "insecure": true, "address": "::", "port": 0, "provider": "x", "max-connections": 1 }),
        json!({ "insecure": true, "tls": { "certificate": "c", "key": "k" } }),
        json!({ "tls": tls() }),
        json!({ "hmac": keys(), "insecure": false }),
        json!({ "token-review": review(), "tls": { "certificate": "c", "key": "k" } }),
    ]
}

/// What is refused, and what the error must say.
fn refused() -> Vec<(Value, [&'static str; 2])> {
    let hmac = |keys: Value| json!({ "hmac": { "keys": keys } });
    vec![
        (json!({}), ["refresh", "insecure: true"]),
        (json!({ "insecure": false }), ["refresh", "hmac"]),
        (json!({ "tls": { "certificate": "c", "key": "k" } }), ["refresh", "tls.client-ca"]),
        (json!({ "insecure": true, "hmac": keys() }), ["refresh.insecure", "hmac is given"]),
        (json!({ "insecure": true, "tls": tls() }), ["refresh.insecure", "mtls"]),
        (json!({ "insecure": true, "port": 65536 }), ["refresh.port", "u16"]),
        (json!({ "insecure": true, "address": "localhost" }), ["refresh.address", "IP address"]),
        (json!({ "insecure": true, "provider": "a/b" }), ["refresh.provider", "letters"]),
        (json!({ "insecure": true, "provider": "" }), ["refresh.provider", "letters"]),
        (json!({ "insecure": true, "max-connections": 0 }), ["refresh.max-connections", "from 1"]),
        (json!({ "insecure": true, "ports": 1 }), ["refresh.ports", "unknown field"]),
        (json!({ "tls": { "key": "k", "client-ca": "ca" } }), ["refresh.tls", "certificate"]),
        (
            json!({ "tls": { "certificate": "", "key": "k", "client-ca": "ca" } }),
            ["refresh.tls.certificate", "path"],
        ),
        (hmac(json!([])), ["refresh.hmac.keys", "1 to 16"]),
        (hmac(json!([{ "id": "a b", "file": "f" }])), ["refresh.hmac.keys.id", "letters"]),
        (hmac(json!([{ "id": "a", "file": "" }])), ["refresh.hmac.keys.file", "path"]),
        (
            json!({ "hmac": { "keys": [{ "id": "a", "file": "f" }], "window-seconds": 0 } }),
            ["window-seconds", "1 to 300"],
        ),
        (
            json!({ "token-review": { "audience": "", "subjects": ["a"] } }),
            ["refresh.token-review.audience", "empty"],
        ),
        (
            json!({ "token-review": { "audience": "a", "subjects": [] } }),
            ["refresh.token-review.subjects", "user names"],
        ),
        (json!({ "token-review": { "audience": "a" } }), ["refresh.token-review", "subjects"]),
    ]
}

#[test]
fn an_error_names_the_key_and_what_was_expected() {
    let more = [
        (
            json!({ "hmac": { "keys": [{ "id": "a", "file": "f" }, { "id": "a", "file": "g" }] } }),
            ["hmac.keys.id", "twice"],
        ),
        (
            json!({ "tls": { "certificate": "c", "key": "k", "client-ca": "ca", "client-names": ["a b"] } }),
            ["client-names", "DNS names"],
        ),
        (
            json!({ "hmac": keys(), "tls": { "certificate": "c", "key": "k", "client-names": ["a"] } }),
            ["client-names", "client-ca"],
        ),
    ];
    for (refresh, words) in refused().into_iter().chain(more) {
        let error = parse(&whole(&refresh)).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{refresh} gave {error:?}, without {word:?}");
        }
    }
}

#[test]
fn schema_and_parser_judge_alike() {
    let schema = jsonschema::options().should_validate_formats(true).build(&Settings::schema()).unwrap();
    for refresh in good().iter().chain(refused().iter().map(|(refresh, _)| refresh)) {
        let value = whole(refresh);
        assert_eq!(schema.is_valid(&value), parse(&value).is_ok(), "{value}");
    }
    for ranges in [json!(["10.0.0.0/8"]), json!([]), json!("10.0.0.0/8")] {
        let value = json!({ "routes-file": "r", "pod-ranges": ranges });
        assert_eq!(schema.is_valid(&value), parse(&value).is_ok(), "{value}");
    }
}

#[test]
fn a_signature_may_not_outlive_a_delete() {
    let refresh = json!({ "hmac": { "keys": [{ "id": "a", "file": "f" }], "window-seconds": 60 } });
    let with = |lifetime: u64| json!({ "routes-file": "r", "refresh": refresh, "tombstone-lifetime-seconds": lifetime });
    assert!(parse(&with(120)).is_ok());
    assert!(parse(&with(119)).unwrap_err().contains("half of tombstone-lifetime-seconds"));
}

#[test]
fn pod_ranges_are_ranges() {
    let with = |ranges: Value| parse(&json!({ "routes-file": "r", "pod-ranges": ranges }));
    let settings = with(json!(["10.244.0.0/16", "fd00::/48"])).unwrap();
    assert!(settings.addresses().admits("10.244.1.2".parse().unwrap()));
    assert!(!settings.addresses().admits("10.245.1.2".parse().unwrap()));
    for (ranges, word) in [
        (json!(["10.0.0.1"]), "number 1"),
        (json!(["10.0.0.0/8", "ten"]), "number 2"),
        (json!(["10.0.0.0/33"]), "number 1"),
        (json!([]), "at least one"),
    ] {
        let error = with(ranges).unwrap_err();
        assert!(error.starts_with("pod-ranges: ") && error.contains(word), "{error}");
    }
}
