use serde_json::{Value, json};

use super::key_set;
use crate::testing::{Signer, jwks};
use crate::{Algorithm, KeyFault, KeySet, KeySetError, MAX_KEY_SET, UnusableReason};

/// 1024 bits.
const WEAK: &str = "3HrY1u-XbVTr5dz1n71vOL_KWvFl0iysCeBZtCYM4rWerOjlKYTpitdm7SdLA5AenqO_Sq9fVhHjT8BV0h1LRKGhQEJ\
    s28mwAhEhCvQDl_jLY0nNEpuduslsprkDRZnbuxTWnbDM8CzTbBkRZ9MdXbRuzwTgdp8VauIFgsrF_7E";

fn parse(set: &Value) -> Result<KeySet, KeySetError> {
    KeySet::parse(set.to_string().as_bytes())
}

/// A set of this key and a good one after it.
fn beside(key: &Value) -> Result<KeySet, KeySetError> {
    parse(&json!({ "keys": [key, Signer::ed25519("other").jwk()] }))
}

fn rsa() -> Value {
    Signer::rs256("main").jwk()
}

fn ec() -> Value {
    Signer::es256("main").jwk()
}

fn ed() -> Value {
    Signer::ed25519("main").jwk()
}

/// The key with some members changed; null takes one out.
fn with(mut key: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("members are an object") };
    for (name, value) in members {
        if value.is_null() {
            key.as_object_mut().expect("a key is an object").remove(&name);
        } else {
            key[name] = value;
        }
    }
    key
}

#[test]
fn one_bad_key_refuses_the_whole_set() {
    use KeyFault::{Algorithm, Curve, KeyOps, Material, NoKid, Private, Symmetric, Use, Weak};
    let off_curve = Signer::es256("main").jwk()["x"].clone();
    let cases = [
        (NoKid, with(rsa(), json!({"kid": null}))),
        (NoKid, with(rsa(), json!({"kid": ""}))),
        (KeyFault::DoubleKid, with(rsa(), json!({"kid": "other"}))),
        (KeyFault::DoubleKid, with(rsa(), json!({"kid": "other", "kty": "new"}))),
        (Private, with(rsa(), json!({"d": "AQ"}))),
        (Private, with(ec(), json!({"d": 5}))),
        (Private, with(ed(), json!({"d": ""}))),
        (Private, with(rsa(), json!({"p": "AQ"}))),
        (Private, with(rsa(), json!({"oth": []}))),
        (Private, json!({"kty": "AKP", "kid": "new", "pub": "AQ", "priv": "AQ"})),
        (Symmetric, json!({"kty": "oct", "kid": "shared", "k": "c2VjcmV0"})),
        (Symmetric, json!({"kty": "oct", "kid": "shared"})),
        (Symmetric, with(rsa(), json!({"k": "c2VjcmV0"}))),
        (Use, with(rsa(), json!({"use": "enc"}))),
        (Use, json!({"kty": "new", "kid": "new", "use": "enc"})),
        (KeyOps, with(rsa(), json!({"key_ops": ["encrypt", "sign"]}))),
        (Algorithm, with(rsa(), json!({"alg": "ES256"}))),
        (Algorithm, with(rsa(), json!({"alg": "HS256"}))),
        (Algorithm, with(rsa(), json!({"alg": "none"}))),
        (Algorithm, with(ec(), json!({"alg": "RS256"}))),
        (Algorithm, with(ec(), json!({"alg": "ES384"}))),
        (Algorithm, with(ed(), json!({"alg": "ES256"}))),
        (Curve, with(ec(), json!({"crv": "Ed25519"}))),
        (Curve, with(ec(), json!({"crv": null}))),
        (Curve, with(ed(), json!({"crv": "P-256"}))),
        (Curve, with(ed(), json!({"crv": ""}))),
        (Weak, with(rsa(), json!({"n": WEAK}))),
        (Material, with(rsa(), json!({"n": null}))),
        (Material, with(rsa(), json!({"e": null}))),
        (Material, with(rsa(), json!({"e": ""}))),
        (Material, with(rsa(), json!({"e": "AQ"}))),
        (Material, with(rsa(), json!({"e": "Ag"}))),
        (Material, with(rsa(), json!({"n": "not base64url!"}))),
        (Material, with(ec(), json!({"x": off_curve}))),
        (Material, with(ec(), json!({"y": null}))),
        (Material, with(ec(), json!({"x": "AQ"}))),
        (Material, with(ec(), json!({"crv": "P-384", "alg": "ES384"}))),
        (Material, with(ed(), json!({"x": "AQ"}))),
        (Material, with(ed(), json!({"x": null}))),
    ];
    for (fault, key) in cases {
        let double = fault == KeyFault::DoubleKid;
        let expected = KeySetError::Key { index: usize::from(double), fault };
        assert_eq!(beside(&key).map(|_| ()), Err(expected), "{key}");
    }
}

#[test]
fn a_key_that_cannot_be_used_here_is_left_out_and_named() {
    let cases = [
        (UnusableReason::Type, json!({"kty": "AKP", "kid": "new", "alg": "ML-DSA-44", "pub": "AQ"})),
        (UnusableReason::Curve, json!({"kty": "EC", "kid": "new", "crv": "secp256k1", "x": "AQ", "y": "AQ"})),
        (UnusableReason::Curve, json!({"kty": "OKP", "kid": "new", "crv": "Ed448", "x": "AQ"})),
        (UnusableReason::Algorithm, with(rsa(), json!({"kid": "new", "alg": "RS257"}))),
        (
            UnusableReason::TooLarge,
            with(rsa(), json!({"kid": "new", "n": format!("{}AQAB", "_".repeat(1400))})),
        ),
        (UnusableReason::TooLarge, with(rsa(), json!({"kid": "new", "e": "_____w8"}))),
    ];
    for (reason, key) in cases {
        let keys = beside(&key).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(keys.kids().collect::<Vec<_>>(), ["other"]);
        assert_eq!(
            keys.unusable().iter().map(|key| (&*key.kid, key.reason)).collect::<Vec<_>>(),
            [("new", reason)]
        );
        let alone = parse(&json!({ "keys": [key] })).map(|_| ());
        assert_eq!(alone, Err(KeySetError::NothingUsable { found: 1 }));
    }
}

#[test]
fn what_says_nothing_is_as_good_as_nothing() {
    for members in [
        json!({"alg": ""}),
        json!({"use": ""}),
        json!({"key_ops": []}),
        json!({"alg": null, "use": null}),
        json!({"key_ops": ["sign", "verify"]}),
        json!({"x5c": ["nonsense"], "x5t": "nonsense", "unknown": {"d": 1}}),
    ] {
        let keys = beside(&with(rsa(), members.clone())).unwrap_or_else(|error| panic!("{members}: {error}"));
        assert_eq!(keys.kids().collect::<Vec<_>>(), ["main", "other"]);
    }
}

#[test]
fn leading_zeros_and_padding_do_not_make_another_key() {
    let plain = parse(&json!({ "keys": [rsa()] })).expect("it is good");
    let e = with(rsa(), json!({"e": "AAAAAQAB"}));
    let padded = with(rsa(), json!({"n": format!("{}==", rsa()["n"].as_str().expect("it is a text"))}));
    for key in [e, padded] {
        assert!(parse(&json!({ "keys": [key] })).expect("it is good").same_as(&plain));
    }
}

#[test]
fn a_document_that_is_not_a_key_set_is_refused_and_not_shown() {
    for document in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"keys":[[]]}"#,
        r#"{"keys":["s3cret"]}"#,
        r#"[[{"kty":"RSA","kid":"a"}]]"#,
        r#"{"keys":[{"kid":"a"}]}"#,
        r#"{"keys":[{"kty":"RSA","kid":5}]}"#,
        r#"{"keys":[{"kty":"RSA","kid":"a","kid":"b"}]}"#,
        r#"{"keys":[],"keys":[]}"#,
        "s3cret",
        "{} trailing",
    ] {
        let error = KeySet::parse(document.as_bytes()).expect_err(document);
        assert!(matches!(error, KeySetError::NotAKeySet { .. }), "{document}: {error:?}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    assert_eq!(parse(&json!({"keys": []})).map(|_| ()), Err(KeySetError::Empty));
    let bytes = [b"{\n \"x\":\"\xff\",", &Signer::ed25519("main").jwks().as_bytes()[1..]].concat();
    let error = KeySet::parse(&bytes).map(|_| ());
    assert_eq!(error, Err(KeySetError::NotAKeySet { line: 2, column: 7 }), "not UTF-8");
}

#[test]
fn a_set_is_bounded_in_bytes_and_in_keys() {
    let signers: Vec<_> = (0..257).map(|number| Signer::ed25519(&format!("key-{number}"))).collect();
    assert_eq!(key_set(jwks(&signers[1..])).kids().len(), 256);
    let error = KeySet::parse(jwks(&signers).as_bytes()).map(|_| ());
    assert_eq!(error, Err(KeySetError::TooManyKeys { found: 257 }));

    let set = Signer::ed25519("main").jwks();
    let mut padded = format!("{set}{}", " ".repeat(MAX_KEY_SET - set.len()));
    assert!(KeySet::parse(padded.as_bytes()).is_ok());
    padded.push(' ');
    assert_eq!(KeySet::parse(padded.as_bytes()).map(|_| ()), Err(KeySetError::TooLong));
}

#[test]
fn a_key_that_stays_keeps_its_serial_number_and_no_other_key_gets_it() {
    let [kept, gone, new] = ["kept", "gone", "new"].map(Signer::ed25519);
    let first = key_set(jwks([&kept, &gone]));
    let serial = |keys: &KeySet, kid: &str| keys.find(kid).expect("it is there").serial;
    let after =
        |set: String, previous: &KeySet| KeySet::parse_after(set.as_bytes(), previous).expect("it is good");

    let second = after(jwks([&new, &kept]), &first);
    assert_eq!(serial(&second, "kept"), serial(&first, "kept"));
    assert_ne!(serial(&second, "new"), serial(&first, "gone"));
    assert!(!second.has_serial(serial(&first, "gone")));

    let third = after(jwks([&gone, &kept]), &second);
    assert_eq!(serial(&third, "kept"), serial(&first, "kept"));
    assert_ne!(serial(&third, "gone"), serial(&first, "gone"), "it was away, and comes as a new key");

    let same_id = after(Signer::ed25519("kept").jwks(), &first);
    assert_ne!(serial(&same_id, "kept"), serial(&first, "kept"), "another key with the same ID");
    let without_alg = json!({ "keys": [with(kept.jwk(), json!({"alg": null}))] }).to_string();
    assert_ne!(serial(&after(without_alg, &first), "kept"), serial(&first, "kept"), "another alg");
    assert_ne!(serial(&key_set(jwks([&kept])), "kept"), serial(&first, "kept"), "read by itself");
}

#[test]
fn two_sets_are_the_same_if_their_keys_are() {
    let [one, two] = ["one", "two"].map(Signer::ed25519);
    let set = key_set(jwks([&one, &two]));
    assert!(set.same_as(&key_set(jwks([&two, &one]))), "in any order");
    assert!(!set.same_as(&key_set(jwks([&one]))));
    assert!(!set.same_as(&key_set(jwks([&one, &Signer::ed25519("two")]))));
    assert!(!set.same_as(&key_set(jwks([&one, &Signer::new(Algorithm::Es384, "two")]))));
}
