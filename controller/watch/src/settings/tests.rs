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
        (
            json!({ "kubernetes": { "kubeconfig": "", "providers": [{ "kind": "openkruise" }] } }),
            ["kubernetes.kubeconfig", "empty"],
        ),
        (
            json!({ "kubernetes": { "open-after-seconds": 0, "providers": [{ "kind": "openkruise" }] } }),
            ["kubernetes.open-after-seconds", "from 1 to"],
        ),
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
    let both = json!({ "routes-file": "r", "kubernetes": { "providers": [{ "kind": "opensandbox" }] } });
    let both = parse(&both).unwrap();
    assert!(both.routes_file().is_some() && both.kubernetes().is_some());
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
    ] {
        let error = parse(&with(&json!([entry]))).unwrap_err();
        assert!(error.starts_with(&format!("kubernetes.providers[0].{key}: ")), "{error}");
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
        with(
            &json!([{ "kind": "openkruise", "namespaces": ["a"], "label-selector": "x=y" }, { "kind": "opensandbox" }]),
        ),
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
