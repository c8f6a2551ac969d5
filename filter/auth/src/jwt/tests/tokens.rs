use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{ISSUER, NOW, SANDBOX, claims, claims_with, claims_without, key_set, verifier, verify};
use crate::testing::Signer;
use crate::{MAX_TOKEN, Sandbox, TokenError, UnixTime, Verifier};

fn header() -> Value {
    json!({"alg": "EdDSA", "kid": "main"})
}

#[test]
fn only_three_parts_of_strict_base64url_are_a_token() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let good = signer.token(&claims());
    assert_eq!(verify(&verifier, &good), Ok(()));
    assert_eq!(verify(&verifier, ""), Err(TokenError::Missing));
    let parts: Vec<&str> = good.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("it has three parts") };
    // 64 bytes are 85 digits and one of which four bits do not count.
    let (start, last) = signature.split_at(signature.len() - 1);
    let next = char::from(last.as_bytes()[0] + 1);
    for bad in [
        "not-a-jwt".to_owned(),
        ".".to_owned(),
        "..".to_owned(),
        format!("{header}.{payload}"),
        format!("{good}.{signature}"),
        format!("{good}."),
        format!(" {good}"),
        format!("{good}\n"),
        format!("{good}=="),
        format!("{header}=.{payload}.{signature}"),
        format!("{header}.{payload}.{start}{next}"),
        format!("{header}.{payload}\r\n.{signature}"),
        format!("{header}.{payload}.{}", signature.replacen(|_| true, "+", 1)),
        format!("{header}.{payload}.\u{e9}"),
        format!("{{\"protected\":\"{header}\",\"payload\":\"{payload}\",\"signature\":\"{signature}\"}}"),
    ] {
        assert_eq!(verify(&verifier, &bad), Err(TokenError::Malformed), "{bad}");
    }
    for unsigned in [format!("{header}.{payload}."), format!("{header}.{payload}.{}", &signature[..80])] {
        assert_eq!(verify(&verifier, &unsigned), Err(TokenError::Signature), "{unsigned}");
    }
}

#[test]
fn a_token_of_64_kib_is_read_and_a_longer_one_is_not() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let of_len = |len: usize| {
        let token = signer.token(&claims_with("more", "x".repeat(len * 3 / 4)));
        let more = len * 3 / 4 - (token.len() - len) * 3 / 4;
        signer.token(&claims_with("more", "x".repeat(more)))
    };
    let longest = (MAX_TOKEN - 8..).map(of_len).take_while(|token| token.len() <= MAX_TOKEN).last();
    let longest = longest.expect("some token has nearly the greatest length");
    assert!(longest.len() > MAX_TOKEN - 4);
    assert_eq!(verify(&verifier, longest), Ok(()));
    assert_eq!(verify(&verifier, of_len(MAX_TOKEN + 8)), Err(TokenError::Malformed));
    assert_eq!(verify(&verifier, "a".repeat(MAX_TOKEN + 1)), Err(TokenError::Malformed));
}

#[test]
fn a_header_that_does_not_say_key_and_algorithm_once_is_refused() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let payload = claims().to_string();
    for (error, header) in [
        (TokenError::Malformed, "{}"),
        (TokenError::Malformed, "[]"),
        (TokenError::Malformed, r#"["EdDSA","main"]"#),
        (TokenError::Malformed, "null"),
        (TokenError::Malformed, "\u{feff}{}"),
        (TokenError::Malformed, r#"{"alg":"EdDSA"}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":""}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":null}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":5}"#),
        (TokenError::Malformed, r#"{"kid":"main"}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":"main","kid":"main"}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","\u0061lg":"EdDSA","kid":"main"}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":"main"} x"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":"main","crit":["exp"]}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":"main","crit":[]}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":"main","crit":null}"#),
        (TokenError::Malformed, r#"{"alg":"EdDSA","kid":"main","crit":["b64"],"b64":false}"#),
        (TokenError::Algorithm, r#"{"alg":"none","kid":"main"}"#),
        (TokenError::Algorithm, r#"{"alg":"HS256","kid":"main"}"#),
        (TokenError::Algorithm, r#"{"alg":"ES512","kid":"main"}"#),
        (TokenError::Algorithm, r#"{"alg":"eddsa","kid":"main"}"#),
        (TokenError::Algorithm, r#"{"alg":"","kid":"main"}"#),
        (TokenError::Algorithm, r#"{"alg":"RS256","kid":"main"}"#),
        (TokenError::UnknownKey, r#"{"alg":"EdDSA","kid":"Main"}"#),
    ] {
        let token = signer.sign(header.as_bytes(), payload.as_bytes());
        assert_eq!(verify(&verifier, token), Err(error), "{header}");
    }
    for header in [
        r#"{"typ":"JWT","alg":"EdDSA","kid":"main"}"#,
        r#" {"kid":"\u006dain","alg":"EdDSA","jwk":{"kty":"oct"},"jku":"https://other.example"} "#,
    ] {
        let token = signer.sign(header.as_bytes(), payload.as_bytes());
        assert_eq!(verify(&verifier, token), Ok(()), "{header}");
    }
}

#[test]
fn every_claim_must_be_there_and_be_what_it_is() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    for name in ["iss", "sub", "exp", "iat", "nbf", "sandbox"] {
        assert_eq!(verify(&verifier, signer.token(&claims_without(name))), Err(TokenError::Claims), "{name}");
        for value in [json!(null), json!(true), json!([]), json!(["x", "y"])] {
            let token = signer.token(&claims_with(name, value.clone()));
            assert_eq!(verify(&verifier, token), Err(TokenError::Claims), "{name}: {value}");
        }
    }
    for (name, value) in [
        ("sub", json!("")),
        ("exp", json!("1800000100")),
        ("exp", json!(1e300)),
        ("exp", json!(u64::MAX)),
        ("nbf", json!(-1e300)),
        ("nbf", json!(i64::MIN)),
        ("sandbox", json!({})),
        ("sandbox", json!({"sandboxId": "sandbox-1"})),
        ("sandbox", json!({"sandboxUid": "uid-1"})),
        ("sandbox", json!({"sandboxid": "sandbox-1", "sandboxuid": "uid-1"})),
        ("sandbox", json!({"sandboxId": 1, "sandboxUid": 1})),
        ("sandbox", json!(["sandbox-1", "uid-1"])),
    ] {
        let token = signer.token(&claims_with(name, value.clone()));
        assert_eq!(verify(&verifier, token), Err(TokenError::Claims), "{name}: {value}");
    }
}

#[test]
fn a_claim_that_is_there_twice_is_refused_and_others_are_not_read() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let header = header().to_string();
    let claims = claims().to_string();
    let start = claims.strip_suffix('}').expect("it is an object");
    for (answer, payload) in [
        (Err(TokenError::Claims), format!("{start},\"exp\":9999999999}}")),
        (Err(TokenError::Claims), format!("{start},\"sandbox\":{{}}}}")),
        (Err(TokenError::Claims), format!("{start},\"sub\":\"again\"}}")),
        (Err(TokenError::Malformed), claims.replacen("1800003600", "1e999", 1)),
        (Err(TokenError::Malformed), format!("{start},\"x\":NaN}}")),
        (Err(TokenError::Malformed), format!("{start},}}")),
        (Err(TokenError::Malformed), start.to_owned()),
        (Err(TokenError::Malformed), format!("{claims}{claims}")),
        (Err(TokenError::Claims), format!("[{claims}]")),
        (Err(TokenError::Claims), "\"text\"".to_owned()),
        (Err(TokenError::Malformed), String::new()),
        (Ok(()), format!("{start},\"x\":1,\"x\":{{\"sandbox\":null}}}}")),
        (Ok(()), format!("{start},\"x\":1e999}}")),
        (Ok(()), format!("{start},\"aud\":{{\"any\":\"thing\"}}}}")),
        (Ok(()), format!(" {claims} ")),
    ] {
        let token = signer.sign(header.as_bytes(), payload.as_bytes());
        assert_eq!(verify(&verifier, token), answer, "{payload}");
    }
    let token = signer.sign(header.as_bytes(), &[b"{\"x\":\"\xff\",", &claims.as_bytes()[1..]].concat());
    assert_eq!(verify(&verifier, token), Err(TokenError::Malformed), "not UTF-8");
}

#[test]
fn both_ends_of_a_lifetime_belong_to_it_and_the_leeway_is_added() {
    let signer = Signer::ed25519("main");
    let UnixTime(now) = NOW;
    let verifier = verifier(&signer);
    let exact = Verifier::new(key_set(signer.jwks()), ISSUER, Duration::ZERO);
    let endless = Verifier::new(key_set(signer.jwks()), ISSUER, Duration::MAX);
    let cases = [
        ("exp", json!(now - 60), Ok(())),
        ("exp", json!(now - 61), Err(TokenError::Expired)),
        ("exp", json!((now - 61) as f64 + 0.999), Err(TokenError::Expired)),
        ("exp", json!((now - 60) as f64 + 0.5), Ok(())),
        ("exp", json!(0), Err(TokenError::Expired)),
        ("exp", json!(-5), Err(TokenError::Expired)),
        ("exp", json!(1_u64 << 53), Ok(())),
        ("nbf", json!(now + 60), Ok(())),
        ("nbf", json!((now + 60) as f64 + 0.999), Ok(())),
        ("nbf", json!(now + 61), Err(TokenError::NotYetValid)),
        ("nbf", json!(-1.5), Ok(())),
        ("iat", json!(now + 60), Ok(())),
        ("iat", json!(now + 61), Err(TokenError::NotYetValid)),
        ("iat", json!(0), Ok(())),
    ];
    for (name, value, answer) in cases {
        let token = signer.token(&claims_with(name, value.clone()));
        assert_eq!(verify(&verifier, &token), answer, "{name}: {value}");
        assert_eq!(verify(&endless, &token), Ok(()), "{name}: {value}");
    }
    for (name, value, answer) in [
        ("exp", now, Ok(())),
        ("exp", now - 1, Err(TokenError::Expired)),
        ("nbf", now, Ok(())),
        ("nbf", now + 1, Err(TokenError::NotYetValid)),
    ] {
        assert_eq!(verify(&exact, signer.token(&claims_with(name, value))), answer, "{name}: {value}");
    }
    let token = signer.token(&claims());
    for (now, answer) in [(0, Err(TokenError::NotYetValid)), (u64::MAX, Err(TokenError::Expired))] {
        assert_eq!(verifier.verify(token.as_bytes(), SANDBOX, UnixTime(now)), answer);
    }
}

#[test]
fn a_token_is_for_one_issuer_and_one_sandbox() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    for issuer in ["https://issuer.example/", "https://other.example", "HTTPS://issuer.example", ""] {
        assert_eq!(verify(&verifier, signer.token(&claims_with("iss", issuer))), Err(TokenError::Issuer));
    }
    let nobody = Verifier::new(key_set(signer.jwks()), "", Duration::ZERO);
    assert_eq!(verify(&nobody, signer.token(&claims_with("iss", ""))), Err(TokenError::Issuer));

    let token = signer.token(&claims());
    for (id, uid) in
        [("sandbox-2", "uid-1"), ("sandbox-1", "uid-2"), ("", ""), ("sandbox-1", ""), ("", "uid-1")]
    {
        let sandbox = Sandbox { id: id.as_bytes(), uid: uid.as_bytes() };
        assert_eq!(verifier.verify(token.as_bytes(), sandbox, NOW), Err(TokenError::Sandbox), "{id} {uid}");
    }
    for (id, uid) in [("", ""), ("sandbox-1", ""), ("", "uid-1")] {
        let token = signer.token(&claims_with("sandbox", json!({"sandboxId": id, "sandboxUid": uid})));
        let sandbox = Sandbox { id: id.as_bytes(), uid: uid.as_bytes() };
        assert_eq!(verifier.verify(token.as_bytes(), sandbox, NOW), Err(TokenError::Sandbox), "{id} {uid}");
    }
}

#[test]
fn a_signature_of_another_key_or_another_algorithm_of_the_key_is_wrong() {
    for signer in [Signer::ed25519 as fn(&str) -> Signer, Signer::es256] {
        let token = signer("main").token(&claims());
        assert_eq!(verify(&verifier(&signer("main")), token), Err(TokenError::Signature));
    }
    // The key without `alg` may be used by each algorithm of RSA, and each signs otherwise.
    let rs256 = Signer::rs256("main");
    let mut jwk = rs256.jwk();
    jwk.as_object_mut().expect("a key is an object").remove("alg");
    let free = Verifier::new(key_set(json!({ "keys": [jwk] }).to_string()), ISSUER, Duration::ZERO);
    for (name, answer) in [
        ("RS256", Ok(())),
        ("RS384", Err(TokenError::Signature)),
        ("PS256", Err(TokenError::Signature)),
        ("ES256", Err(TokenError::Algorithm)),
    ] {
        let token = rs256.token_with(&json!({"alg": name, "kid": "main"}), &claims());
        assert_eq!(verify(&free, token), answer, "{name}");
    }
}

#[test]
fn nothing_of_a_token_is_in_an_error() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let errors = [
        TokenError::Missing,
        TokenError::Malformed,
        TokenError::Algorithm,
        TokenError::UnknownKey,
        TokenError::Issuer,
        TokenError::Expired,
        TokenError::NotYetValid,
        TokenError::Claims,
        TokenError::Sandbox,
        TokenError::Signature,
        TokenError::Busy,
    ];
    let mut reasons: Vec<_> = errors.iter().map(|error| error.reason()).collect();
    assert!(reasons.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(reasons.len(), errors.len());
    let shown = format!("{verifier:?} {signer:?}");
    let jwk = signer.jwk()["x"].as_str().expect("it is a text").to_owned();
    let point = URL_SAFE_NO_PAD.decode(jwk).expect("it is base64url");
    assert!(!shown.contains(&format!("{}, {}", point[0], point[1])), "{shown}");
}
