use schemars::schema_for;
use serde_json::{Value, json};

use super::*;

const WELL_KNOWN: &str = "https://a.example/.well-known/openid-configuration";

fn parse(value: &Value) -> Result<AuthSettings, String> {
    let raw: RawAuth = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    raw.check().map_err(|error| error.to_string())
}

fn jwt(value: &Value) -> Value {
    json!({ "traffic-jwt": value })
}

#[test]
fn everything_that_is_left_out_has_a_default() {
    let settings = parse(&json!({
        "secure-access-keys": { "files": ["/k1", "/k2"] },
        "scoped-token": { "files": ["/s"] },
        "bearer": { "files": ["/b"] },
        "traffic-jwt": { "discovery-url": WELL_KNOWN },
        "token-review": { "audiences": ["a", "b"] },
    }))
    .unwrap();
    assert_eq!(settings.signed, ["/k1", "/k2"].map(PathBuf::from));
    assert_eq!((settings.scoped, settings.bearer), (vec!["/s".into()], vec!["/b".into()]));
    let jwt = settings.jwt.unwrap();
    let [leeway, refresh, min_refetch] = [60, 300, 5].map(Duration::from_secs);
    assert_eq!((jwt.leeway, jwt.refresh, jwt.min_refetch, jwt.ca_file), (leeway, refresh, min_refetch, None));
    assert_eq!(jwt.origin, JwtOrigin::Discovery { url: WELL_KNOWN.parse().unwrap(), issuer: None });
    let review = settings.token_review.unwrap();
    assert_eq!(review.audiences, ["a", "b"]);
    assert_eq!((review.access, review.remember), (Access::default(), Duration::from_secs(30)));
}

#[test]
fn every_key_counts() {
    let settings = parse(&json!({
        "traffic-jwt": {
            "jwks-url": "https://a/keys", "issuer": "i", "ca-file": "/ca", "clock-skew-seconds": 0,
            "refresh-seconds": 7, "min-refetch-seconds": 8,
        },
        "token-review": { "audiences": ["a"], "kubeconfig": "/k", "context": "c", "remember-seconds": 9 },
    }))
    .unwrap();
    let url = "https://a/keys".parse().unwrap();
    let expected = JwtSettings {
        origin: JwtOrigin::Url { url, issuer: "i".to_owned() },
        ca_file: Some("/ca".into()),
        leeway: Duration::ZERO,
        refresh: Duration::from_secs(7),
        min_refetch: Duration::from_secs(8),
    };
    assert_eq!(settings.jwt, Some(expected));
    let access = Access { kubeconfig: Some("/k".into()), context: Some("c".to_owned()) };
    let expected =
        ReviewSettings { audiences: vec!["a".to_owned()], access, remember: Duration::from_secs(9) };
    assert_eq!(settings.token_review, Some(expected));
}

/// What is refused, and what the error must say.
fn refused() -> Vec<(Value, [&'static str; 2])> {
    vec![
        (json!({}), ["auth: ", "expected one of secure-access-keys"]),
        (json!({ "bearer": null }), ["invalid type", "null"]),
        (json!({ "basic": {} }), ["unknown field", "basic"]),
        (json!({ "bearer": {} }), ["missing field", "files"]),
        (json!({ "bearer": { "files": [] } }), ["auth.bearer.files", "1 to 16 files"]),
        (json!({ "bearer": { "files": [""] } }), ["auth.bearer.files", "path of a file"]),
        (json!({ "scoped-token": { "files": vec!["f"; 17] } }), ["auth.scoped-token.files", "1 to 16"]),
        (json!({ "secure-access-keys": { "files": ["f"], "key": "a" } }), ["unknown field", "key"]),
        (jwt(&json!({})), ["auth.traffic-jwt: ", "expected one of discovery-url"]),
        (jwt(&json!({ "issuer": "i" })), ["auth.traffic-jwt: ", "expected one of discovery-url"]),
        (
            jwt(&json!({ "discovery-url": WELL_KNOWN, "jwks-file": "f", "issuer": "i" })),
            ["auth.traffic-jwt: ", "expected one of discovery-url"],
        ),
        (
            jwt(&json!({ "discovery-url": "http://a/.well-known/openid-configuration" })),
            ["discovery-url", "https://"],
        ),
        (
            jwt(&json!({ "discovery-url": "https://a/other" })),
            ["auth.traffic-jwt.issuer", "does not end with"],
        ),
        (jwt(&json!({ "jwks-url": "https://a" })), ["auth.traffic-jwt.issuer", "expected the issuer"]),
        (jwt(&json!({ "jwks-url": "https://u@a", "issuer": "i" })), ["jwks-url", "without a user"]),
        (jwt(&json!({ "jwks-file": "f" })), ["auth.traffic-jwt.issuer", "expected the issuer"]),
        (jwt(&json!({ "jwks-file": "f", "issuer": "" })), ["auth.traffic-jwt.issuer", "empty"]),
        (jwt(&json!({ "jwks-file": "", "issuer": "i" })), ["auth.traffic-jwt.jwks-file", "empty"]),
        (jwt(&json!({ "jwks-file": "f", "issuer": "i", "ca-file": "c" })), ["ca-file", "expected a URL"]),
        (jwt(&json!({ "discovery-url": WELL_KNOWN, "refresh-seconds": 0 })), ["refresh-seconds", "from 1"]),
        (jwt(&json!({ "discovery-url": WELL_KNOWN, "min-refetch-seconds": 3601 })), ["min-refetch", "3600"]),
        (jwt(&json!({ "discovery-url": WELL_KNOWN, "clock-skew-seconds": 601 })), ["clock-skew", "0 to 600"]),
        (json!({ "token-review": {} }), ["missing field", "audiences"]),
        (json!({ "token-review": { "audiences": [] } }), ["token-review.audiences", "1 to 16"]),
        (json!({ "token-review": { "audiences": ["a", ""] } }), ["token-review.audiences", "empty"]),
        (json!({ "token-review": { "audiences": ["a"], "context": "" } }), ["token-review.context", "empty"]),
        (
            json!({ "token-review": { "audiences": ["a"], "remember-seconds": 0 } }),
            ["remember-seconds", "from 1"],
        ),
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
fn schema_and_parser_judge_alike() {
    let schema = jsonschema::validator_for(&Value::from(schema_for!(RawAuth))).unwrap();
    let good = [
        json!({ "bearer": { "files": ["a"] } }),
        jwt(&json!({ "discovery-url": WELL_KNOWN })),
        jwt(&json!({ "discovery-url": "https://a/b", "issuer": "i" })),
        jwt(&json!({ "discovery-url": WELL_KNOWN, "issuer": "i", "ca-file": "c" })),
        jwt(&json!({ "jwks-url": "HTTPS://[::1]:8443/keys", "issuer": "i", "ca-file": "c" })),
        jwt(&json!({ "jwks-file": "f", "issuer": "i", "clock-skew-seconds": 600 })),
        json!({ "token-review": { "audiences": ["a"] } }),
    ];
    for value in &good {
        assert_eq!(parse(value).err(), None, "{value}");
    }
    for value in good.iter().chain(refused().iter().map(|(value, _)| value)) {
        assert_eq!(schema.is_valid(value), parse(value).is_ok(), "{value}");
    }
}
