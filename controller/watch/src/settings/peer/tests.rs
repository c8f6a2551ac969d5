use std::time::Duration;

use sandgate_routes::Clash;
use serde_json::{Value, json};

use crate::Settings;

/// A gateway on pushes and a file.
fn whole(refresh: &Value) -> Value {
    let mut refresh = refresh.clone();
    if refresh["provider"].is_null() {
        refresh["provider"] = json!("openkruise");
    }
    json!({ "routes-file": "r", "refresh": refresh, "pod-ranges": ["10.0.0.0/8"] })
}

/// One with watches beside them.
fn watching(kinds: &[&str], mut refresh: Value) -> Result<Settings, String> {
    refresh["insecure"] = json!(true);
    let providers: Vec<Value> = kinds
        .iter()
        .enumerate()
        .map(|(at, kind)| json!({ "kind": kind, "namespaces": [format!("n{at}")] }))
        .collect();
    parse(&json!({
        "kubernetes": { "providers": providers }, "refresh": refresh, "pod-ranges": ["10.0.0.0/8"],
    }))
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
    assert_eq!(refresh.listen.to_string(), "0.0.0.0:7789");
    assert_eq!((refresh.max_connections, refresh.is_insecure()), (256, false));
    assert_eq!(settings.limits().push_lease, Some(Duration::from_secs(300)));
    assert_eq!(settings.limits().push_confirmation, Duration::from_secs(30));
    assert_eq!(refresh.hmac.as_ref().unwrap().window.as_secs(), 30);
    let without = parse(&json!({ "routes-file": "r" })).unwrap();
    assert!(without.refresh().is_none() && without.limits().push_lease.is_none());
}

#[test]
fn the_pushed_provider_is_one_that_is_watched_and_the_only_one_need_not_be_named() {
    let chosen = |kinds: &[&str], refresh: Value| {
        watching(kinds, refresh).map(|settings| settings.refresh().unwrap().pushed.provider.clone())
    };
    assert_eq!(chosen(&["agent-sandbox"], json!({})).unwrap(), "agent-sandbox");
    assert_eq!(chosen(&["opensandbox", "opensandbox"], json!({})).unwrap(), "opensandbox");
    let both = ["openkruise", "opensandbox"];
    assert_eq!(chosen(&both, json!({ "provider": "opensandbox" })).unwrap(), "opensandbox");
    let error = chosen(&both, json!({})).unwrap_err();
    assert!(
        error.starts_with("refresh.provider: ") && error.ends_with("several: openkruise, opensandbox"),
        "{error}"
    );
    let error = chosen(&both, json!({ "provider": "agent-sandbox" })).unwrap_err();
    assert!(
        error.starts_with("refresh.provider: ")
            && error.contains("kubernetes.providers (openkruise, opensandbox)")
            && error.contains("found agent-sandbox"),
        "{error}"
    );
}

#[test]
fn where_nothing_is_watched_the_pushed_provider_has_to_be_named() {
    let push_only = |provider: Option<&str>| {
        let mut refresh = json!({ "insecure": true });
        if let Some(provider) = provider {
            refresh["provider"] = json!(provider);
        }
        parse(&json!({ "routes-file": "r", "refresh": refresh }))
            .map(|settings| settings.refresh().unwrap().pushed.provider.clone())
    };
    let error = push_only(None).unwrap_err();
    assert!(error.starts_with("refresh.provider: ") && error.contains("openkruise"), "{error}");
    assert!(push_only(Some("file")).unwrap_err().contains("routes file"));
    for provider in ["openkruise", "agent-sandbox", "mine"] {
        assert_eq!(push_only(Some(provider)).unwrap(), provider);
    }
    // Its address is a tenant's word, as it is when it is watched.
    assert!(push_only(Some("opensandbox")).unwrap_err().contains("pod-ranges"));
}

#[test]
fn of_two_entries_of_a_provider_the_stricter_counts_for_what_is_pushed() {
    let entry = |clash: &str, namespace: &str| json!({ "kind": "opensandbox", "clash": clash, "namespaces": [namespace] });
    for (clashes, expected) in [
        (["rank", "rank"], Clash::Rank),
        (["rank", "refuse"], Clash::Refuse),
        (["refuse", "rank"], Clash::Refuse),
    ] {
        let settings = parse(&json!({
            "kubernetes": { "providers": [entry(clashes[0], "a"), entry(clashes[1], "b")] },
            "refresh": { "insecure": true },
            "pod-ranges": ["10.0.0.0/8"],
        }));
        assert_eq!(settings.unwrap().refresh().unwrap().pushed.clash, expected, "{clashes:?}");
    }
}

#[test]
fn what_holds_for_the_watched_objects_of_a_provider_holds_for_the_pushed_ones() {
    for kind in ["openkruise", "agent-sandbox", "opensandbox", "sandbox-env"] {
        let watched = watching(&[kind], json!({})).unwrap();
        let provider = &watched.kubernetes().unwrap().watched()[0].provider;
        let pushed = &watched.refresh().unwrap().pushed;
        assert_eq!(
            (pushed.clash, pushed.ip_is_claimed),
            (provider.clash(), provider.address_is_claimed()),
            "{kind}"
        );
        let alone = parse(&whole(&json!({ "insecure": true, "provider": kind }))).unwrap();
        assert_eq!(alone.refresh().unwrap().pushed, *pushed, "{kind}");
        assert_eq!(pushed.ip_is_claimed, kind == "opensandbox");
        assert_eq!(pushed.id_is_name, kind == "opensandbox");
        assert_eq!(pushed.token_kind, provider.token_kind(), "{kind}");
    }
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
        json!({ "insecure": true, "lease-seconds": 604_800 }),
        json!({ "insecure": true, "confirmation-seconds": 3_600 }),
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
        (json!({ "insecure": true, "lease-seconds": 0 }), ["refresh.lease-seconds", "from 1 to 604800"]),
        (json!({ "insecure": true, "lease-seconds": 604_801 }), ["refresh.lease-seconds", "found 604801"]),
        (
            json!({ "insecure": true, "confirmation-seconds": 0 }),
            ["refresh.confirmation-seconds", "from 1 to 3600"],
        ),
        (json!({ "insecure": true, "lease-seconds": null }), ["refresh.lease-seconds", "u64"]),
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
    let hmac = json!({ "keys": [{ "id": "a", "file": "f" }], "window-seconds": 60 });
    let refresh = json!({ "provider": "openkruise", "hmac": hmac });
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

#[test]
fn the_providers_of_a_table_are_those_of_all_its_sources() {
    let names = |settings: Settings| settings.providers().into_iter().collect::<Vec<_>>();
    let refresh = json!({ "insecure": true, "provider": "mine" });
    assert_eq!(names(parse(&whole(&refresh)).unwrap()), ["file", "mine"]);
    let watched =
        watching(&["openkruise", "opensandbox", "openkruise"], json!({ "provider": "opensandbox" }));
    assert_eq!(names(watched.unwrap()), ["openkruise", "opensandbox"]);
    assert_eq!(names(parse(&json!({ "routes-file": "r" })).unwrap()), ["file"]);
}
