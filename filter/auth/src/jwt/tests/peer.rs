//! What OpenKruise's gateway tests about its verifier (pkg/identity/oidc and the filter, as of 2026-08-22),
//! in our words. Its cases about discovery, certificates and settings are for whoever fetches the keys.
//!
//! Different on purpose:
//! - A good token without `sandbox` claims is good for its verifier, and its filter then refuses it with the
//!   same reply. Here the verifier refuses it.
//! - An ES512 key is accepted there and left out here.
//! - A key of unknown type refuses the set there. Here it refuses the set only if there is no other key.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{ISSUER, NOW, SANDBOX, claims, claims_with, claims_without, key_set, verify};
use crate::testing::Signer;
use crate::{Algorithm, KeyFault, KeySet, KeySetError, Sandbox, TokenError, UnixTime, Verifier};

const MINUTE: u64 = 60;
const YEAR: u64 = 365 * 24 * 3600;

struct Site {
    rsa: Signer,
    ec: Signer,
    verifier: Verifier,
}

fn site() -> Site {
    let (rsa, ec) = (Signer::rs256("rsa"), Signer::es256("ecdsa"));
    let mut free = rsa.jwk();
    free["kid"] = json!("rsa-no-alg");
    free.as_object_mut().expect("a key is an object").remove("alg");
    let keys = key_set(json!({ "keys": [rsa.jwk(), ec.jwk(), free] }).to_string());
    Site { rsa, ec, verifier: Verifier::new(keys, ISSUER, Duration::from_secs(MINUTE)) }
}

#[test]
fn tokens_that_the_peer_accepts_are_accepted() {
    let Site { rsa, ec, verifier } = site();
    let UnixTime(now) = NOW;
    let mut more = claims();
    more["sandbox"]["ignored"] = json!("value");
    more["metadata"] = json!({"tenant": "ignored"});
    more["pod"] = json!({"name": "ignored"});
    let mut old = claims();
    (old["iat"], old["nbf"], old["exp"]) = (json!(now - YEAR), json!(now - YEAR), json!(now + YEAR));
    let mut skewed = claims();
    (skewed["iat"], skewed["nbf"], skewed["exp"]) = (json!(now + 30), json!(now + 30), json!(now - 30));
    for (case, token) in [
        ("RSA, with claims that nobody reads", rsa.token(&more)),
        ("ECDSA", ec.token(&claims())),
        ("a JWK without alg", rsa.token_with(&json!({"alg": "RS256", "kid": "rsa-no-alg"}), &claims())),
        ("any audience", rsa.token(&claims_with("aud", json!(["unrelated-service"])))),
        ("a long life", rsa.token(&old)),
        ("clocks half a minute apart", rsa.token(&skewed)),
    ] {
        assert_eq!(verify(&verifier, token), Ok(()), "{case}");
    }
}

#[test]
fn tokens_that_the_peer_refuses_are_refused() {
    let Site { rsa, ec, verifier } = site();
    let UnixTime(now) = NOW;
    let with = |name, value: Value| rsa.token(&claims_with(name, value));
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let of = |header: Value| rsa.token_with(&header, &claims());
    let payload = part(&claims().to_string());
    let good = rsa.token(&claims());
    let (signed, _) = good.rsplit_once('.').expect("it has parts");
    let forged = format!("{signed}.{}", part(&"x".repeat(256)));
    for (case, error, token) in [
        ("none at all", TokenError::Missing, String::new()),
        ("not a token", TokenError::Malformed, "not-a-jwt".to_owned()),
        ("alg none", TokenError::Algorithm, format!("{}.{payload}.", part(r#"{"alg":"none","kid":"rsa"}"#))),
        ("HMAC", TokenError::Algorithm, of(json!({"alg": "HS256", "kid": "rsa"}))),
        ("no kid", TokenError::Malformed, of(json!({"alg": "RS256"}))),
        ("unknown kid", TokenError::UnknownKey, of(json!({"alg": "RS256", "kid": "unknown"}))),
        ("another signature", TokenError::Signature, forged),
        ("not the alg of the JWK", TokenError::Algorithm, of(json!({"alg": "PS256", "kid": "rsa"}))),
        (
            "an alg of another type of key",
            TokenError::Algorithm,
            ec.token_with(&json!({"alg": "ES256", "kid": "rsa-no-alg"}), &claims()),
        ),
        ("exp is a word", TokenError::Claims, with("exp", json!("invalid"))),
        ("no exp", TokenError::Claims, rsa.token(&claims_without("exp"))),
        ("no iat", TokenError::Claims, rsa.token(&claims_without("iat"))),
        ("no nbf", TokenError::Claims, rsa.token(&claims_without("nbf"))),
        ("expired", TokenError::Expired, with("exp", json!(now - 2 * MINUTE))),
        ("issued in the future", TokenError::NotYetValid, with("iat", json!(now + 2 * MINUTE))),
        ("not yet valid", TokenError::NotYetValid, with("nbf", json!(now + 2 * MINUTE))),
        ("another issuer", TokenError::Issuer, with("iss", json!("https://other.example"))),
        ("no subject", TokenError::Claims, with("sub", json!(""))),
        ("too long", TokenError::Malformed, with("more", json!("x".repeat(64 << 10)))),
        ("no sandbox: its filter refuses it", TokenError::Claims, rsa.token(&claims_without("sandbox"))),
    ] {
        assert_eq!(verify(&verifier, token), Err(error), "{case}");
    }
    let token = rsa.token(&claims());
    for (case, sandbox) in [
        ("another ID", Sandbox { id: b"other", ..SANDBOX }),
        ("another UID", Sandbox { uid: b"other", ..SANDBOX }),
    ] {
        assert_eq!(verifier.verify(token.as_bytes(), sandbox, NOW), Err(TokenError::Sandbox), "{case}");
    }
}

#[test]
fn key_sets_are_accepted_and_refused_as_the_peer_does() {
    let (rsa, ec, ed) = (Signer::rs256("rsa").jwk(), Signer::es256("ec").jwk(), Signer::ed25519("ed").jwk());
    let with = |key: &Value, name: &str, value: Value| {
        let mut key = key.clone();
        key[name] = value;
        key
    };
    let key = |index, fault| Err(KeySetError::Key { index, fault });
    for (case, answer, keys) in [
        ("RSA and ECDSA", Ok(2), json!([rsa, ec])),
        ("Ed25519", Ok(1), json!([ed])),
        ("key_ops with verify", Ok(1), json!([with(&rsa, "key_ops", json!(["sign", "verify"]))])),
        ("none", Err(KeySetError::Empty), json!([])),
        ("no numbers", key(0, KeyFault::Material), json!([{"kty": "RSA", "kid": "bad"}])),
        ("empty kid", key(0, KeyFault::NoKid), json!([with(&rsa, "kid", json!(""))])),
        ("for encryption", key(0, KeyFault::Use), json!([with(&rsa, "use", json!("enc"))])),
        ("symmetric", key(0, KeyFault::Symmetric), json!([{"kty": "oct", "kid": "shared", "k": "eHh4eHh4"}])),
        ("private", key(0, KeyFault::Private), json!([with(&rsa, "d", json!("AQAB"))])),
        (
            "key_ops without verify",
            key(0, KeyFault::KeyOps),
            json!([with(&rsa, "key_ops", json!(["encrypt"]))]),
        ),
        ("double kid", key(1, KeyFault::DoubleKid), json!([rsa, with(&ec, "kid", json!("rsa"))])),
        ("an alg of another type", key(0, KeyFault::Algorithm), json!([with(&ec, "alg", json!("RS256"))])),
        (
            "an unknown type",
            Err(KeySetError::NothingUsable { found: 1 }),
            json!([{"kty": "unsupported", "kid": "bad"}]),
        ),
    ] {
        let found =
            KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).map(|keys| keys.kids().len());
        assert_eq!(found, answer, "{case}");
    }
    assert!(matches!(KeySet::parse(b"{"), Err(KeySetError::NotAKeySet { .. })), "malformed");
}

#[test]
fn algorithms_fit_keys_as_the_peer_has_it() {
    let key = |algorithm| {
        let mut jwk = Signer::new(algorithm, "main").jwk();
        jwk.as_object_mut().expect("a key is an object").remove("alg");
        key_set(json!({ "keys": [jwk] }).to_string())
    };
    let allows = |of, algorithm| key(of).find("main").expect("it is there").allows(algorithm);
    use Algorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
    for (of, yes) in [
        (Rs256, vec![Rs256, Rs384, Rs512, Ps256, Ps384, Ps512]),
        (Es256, vec![Es256]),
        (Es384, vec![Es384]),
        (EdDsa, vec![EdDsa]),
    ] {
        for algorithm in Algorithm::ALL {
            assert_eq!(allows(of, algorithm), yes.contains(&algorithm), "{of}, {algorithm}");
        }
    }
}
