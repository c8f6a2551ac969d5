use sandgate_routes::Clash;
use serde_json::{Value, json};

use super::Settings;

fn parse(value: &Value) -> Result<Settings, String> {
    Settings::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn only_the_routes_file_has_to_be_given() {
    let settings = parse(&json!({ "routes-file": "routes.yaml" })).unwrap();
    assert_eq!(settings.routes_file(), Some("routes.yaml".as_ref()));
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
        (json!({}), ["`routes-file` and `kubernetes`", "missing"]),
        (json!(["r", 1, 1]), ["top level", "expected an object"]),
        (json!({ "kubernetes": null }), ["kubernetes", "null"]),
        (json!({ "kubernetes": {} }), ["kubernetes", "providers"]),
        (with(&json!([])), ["kubernetes.providers", "at least one"]),
        (with(&json!([{ "kind": "pods" }])), ["kubernetes.providers[0].kind", "openkruise"]),
        (
            with(&json!([{ "kind": "openkruise", "namespace": "a" }])),
            ["kubernetes.providers[0]", "unknown field"],
        ),
        (with(&json!([{ "kind": "opensandbox" }])), ["kubernetes.providers[0]: ", "set `pod-ranges`"]),
        (
            with(&json!([{ "kind": "openkruise" }, { "kind": "opensandbox", "any-address": false }])),
            ["kubernetes.providers[1]: ", "`any-address: true`"],
        ),
        (
            with(&json!([{ "kind": "openkruise", "any-address": true }])),
            ["kubernetes.providers[0].any-address: ", "only where owners write the address"],
        ),
        (with(&json!([{ "kind": "openkruise", "clash": "newest" }])), ["providers[0].clash", "`refuse`"]),
        (
            json!({ "kubernetes": { "kubeconfig": "", "providers": [{ "kind": "openkruise" }] } }),
            ["kubernetes.kubeconfig", "empty"],
        ),
        (
            json!({ "kubernetes": { "open-after-seconds": 0, "providers": [{ "kind": "openkruise" }] } }),
            ["kubernetes.open-after-seconds", "from 1 to"],
        ),
        (json!({ "routes-file": "r", "auth": {} }), ["auth", "expected one of secure-access-keys"]),
        (
            json!({ "routes-file": "r", "auth": { "traffic-jwt": { "jwks-file": "f" } } }),
            ["auth.traffic-jwt.issuer", "expected the issuer"],
        ),
        (
            json!({ "routes-file": "r", "auth": { "bearer": { "file": "f" } } }),
            ["auth.bearer", "unknown field"],
        ),
        (json!({ "routes-file": "r", "own-addresses": ["a:1"] }), ["own-addresses[0]", "expected ip:port"]),
        (json!({ "routes-file": "r", "own-addresses": vec!["[::]:1"; 65] }), ["own-addresses", "at most 64"]),
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

fn with(providers: &Value) -> Value {
    json!({ "kubernetes": { "providers": providers } })
}

#[test]
fn a_cluster_can_be_watched_with_or_without_a_routes_file() {
    let settings = parse(&json!({ "kubernetes": {
        "kubeconfig": "k", "context": "c", "open-after-seconds": 30,
        "providers": [
            { "kind": "openkruise", "namespaces": ["a", "b"], "label-selector": "x=y" },
            { "kind": "openkruise", "namespaces": ["c"] },
            { "kind": "agent-sandbox" },
        ],
    }}))
    .unwrap();
    assert_eq!(settings.routes_file(), None);
    let kubernetes = settings.kubernetes().unwrap();
    assert_eq!((kubernetes.kubeconfig(), kubernetes.context()), (Some("k".as_ref()), Some("c")));
    assert_eq!(kubernetes.open_after().map(|wait| wait.as_secs()), Some(30));
    let [first, second, third] = kubernetes.watched() else { panic!("three are watched") };
    assert_eq!((first.provider.name(), &*first.label_selector), ("openkruise", "x=y"));
    assert_eq!(
        (&first.namespaces[..], &second.namespaces[..]),
        (&["a".to_owned(), "b".to_owned()][..], &["c".to_owned()][..])
    );
    assert!(third.namespaces.is_empty() && third.label_selector.is_empty());
    let both = json!({ "routes-file": "r", "kubernetes": { "providers": [{ "kind": "agent-sandbox" }] } });
    let both = parse(&both).unwrap();
    assert!(both.routes_file().is_some() && both.kubernetes().is_some());
}

#[test]
fn a_selector_narrows_the_one_that_the_provider_has() {
    let own = sandgate_objects::sandbox_env::SELECTOR;
    for (entry, selector) in [
        (json!({ "kind": "sandbox-env" }), own.to_owned()),
        (json!({ "kind": "sandbox-env", "label-selector": " " }), own.to_owned()),
        (
            json!({ "kind": "sandbox-env", "label-selector": "tier in (a, b),!old" }),
            format!("{own},tier in (a, b),!old"),
        ),
        (json!({ "kind": "openkruise", "label-selector": "x=y" }), "x=y".to_owned()),
    ] {
        let settings = parse(&with(&json!([entry]))).unwrap();
        let [watched] = settings.kubernetes().unwrap().watched() else { panic!("one is watched") };
        assert_eq!(watched.label_selector, selector);
        assert_eq!(super::selector::check(&watched.label_selector), Ok(()));
    }
}

/// What the schema cannot say.
#[test]
fn two_entries_of_one_provider_may_not_watch_the_same_namespace() {
    for (providers, word) in [
        (json!([{ "kind": "openkruise" }, { "kind": "openkruise" }]), "all namespaces"),
        (json!([{ "kind": "openkruise", "namespaces": ["a"] }, { "kind": "openkruise" }]), "all namespaces"),
        (
            json!([{ "kind": "openkruise", "namespaces": ["a", "b"] }, { "kind": "openkruise", "namespaces": ["c", "b"] }]),
            "namespace b",
        ),
    ] {
        let error = parse(&with(&providers)).unwrap_err();
        assert!(error.starts_with("kubernetes.providers[1]: ") && error.contains(word), "{error}");
    }
    for (entry, key) in [
        (json!({ "kind": "openkruise", "namespaces": ["a", "a"] }), "namespaces[1]"),
        (json!({ "kind": "openkruise", "namespaces": ["a/b"] }), "namespaces[0]"),
        (json!({ "kind": "openkruise", "namespaces": [] }), "namespaces"),
        (json!({ "kind": "openkruise", "label-selector": "a\nb" }), "label-selector"),
        (json!({ "kind": "openkruise", "label-selector": "tier in gold" }), "label-selector"),
    ] {
        let error = parse(&with(&json!([entry]))).unwrap_err();
        assert!(error.starts_with(&format!("kubernetes.providers[0].{key}: ")), "{error}");
    }
}

#[test]
fn what_becomes_of_a_clash_is_the_providers_to_say() {
    let providers = json!([
        { "kind": "openkruise" },
        { "kind": "agent-sandbox", "clash": "refuse" },
        { "kind": "opensandbox", "clash": "rank", "any-address": true },
    ]);
    let settings = parse(&with(&providers)).unwrap();
    let clashes = settings.kubernetes().unwrap().watched().iter().map(|watched| watched.provider.clash());
    assert_eq!(clashes.collect::<Vec<_>>(), [Clash::Rank, Clash::Refuse, Clash::Rank]);
}

/// What the schema cannot say.
#[test]
fn addresses_that_owners_write_need_pod_ranges_or_an_override() {
    let generic = |ip: &str| {
        json!({
            "kind": "generic", "name": "boxes",
            "resource": { "group": "example.com", "version": "v1", "kind": "Box", "plural": "boxes" },
            "ip": ["status.ip", ip],
            "states": [{ "when": [{ "path": "status.up", "equals": true }], "state": "running" }],
            "default-state": "creating",
        })
    };
    assert!(parse(&with(&json!([generic("status.other")]))).is_ok());
    for ip in ["metadata.annotations.ip", "spec.ip"] {
        let mut settings = with(&json!([generic(ip)]));
        let error = parse(&settings).unwrap_err();
        assert!(error.contains("an object of boxes also writes its address"), "{error}");
        settings["pod-ranges"] = json!(["10.244.0.0/16"]);
        assert!(parse(&settings).is_ok());
        settings["kubernetes"]["providers"][0]["any-address"] = json!(true);
        let error = parse(&settings).unwrap_err();
        assert!(error.starts_with("kubernetes.providers[0].any-address: `pod-ranges` are given"), "{error}");
    }
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
        json!({ "routes-file": "r", "own-addresses": ["0.0.0.0:7788", "[::1]:9901"] }),
        with(&json!([
            { "kind": "openkruise", "namespaces": ["a"], "label-selector": "x=y", "clash": "rank" },
            { "kind": "opensandbox", "any-address": true, "clash": "refuse" },
        ])),
        json!({ "kubernetes": { "providers": [{ "kind": "opensandbox" }] }, "pod-ranges": ["10.0.0.0/8"] }),
        with(&json!([{ "kind": "openkruise", "any-address": false }])),
        json!({ "routes-file": "r", "auth": { "bearer": { "files": ["f"] } } }),
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
