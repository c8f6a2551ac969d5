//! Known answers. The examples of the RFCs have no claims of a traffic token, so they are tried on the key
//! alone; what `ring` can sign is signed here.

use serde_json::{Value, json};

use super::{claims, key_set, verifier, verify};
use crate::jwt::compact::Compact;
use crate::testing::Signer;
use crate::{Algorithm, KeySet, UnusableReason};

const RFC7515_RSA: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJ\
    PMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5re\
    xMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoud\
    F8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

const RFC7520_RSA: &str = "n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0\
    VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-Of\
    VfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwd\
    q_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw";

const RFC7515_CLAIMS: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

const RFC7520_PAYLOAD: &str = "SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW9\
    1IHN0ZXAgb250byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2h\
    lcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4";

/// Whether the key verifies the token by its algorithm, and by no other one, and nothing that differs.
fn known(algorithm: Algorithm, mut jwk: Value, token: &str) {
    jwk["kid"] = json!("rfc");
    let keys = key_set(json!({ "keys": [jwk] }).to_string());
    let key = keys.find("rfc").expect("it is there");
    let compact = Compact::split(token.as_bytes()).expect("it has three parts");
    let signature = compact.signature().expect("it is base64url");
    for other in Algorithm::ALL {
        assert_eq!(
            key.verifies(other, compact.signed, &signature),
            other == algorithm,
            "{algorithm}, {other}"
        );
    }
    let end = compact.signed.len() - 1;
    assert!(!key.verifies(algorithm, &compact.signed[..end], &signature));
    assert!(!key.verifies(algorithm, compact.signed, &signature[1..]));
}

#[test]
fn rs256_verifies_the_example_of_rfc_7515() {
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2\
        Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K\
        0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9F\
        s98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let token = format!("eyJhbGciOiJSUzI1NiJ9.{RFC7515_CLAIMS}.{signature}");
    known(Algorithm::Rs256, json!({"kty": "RSA", "n": RFC7515_RSA, "e": "AQAB"}), &token);
}

#[test]
fn es256_verifies_the_example_of_rfc_7515() {
    let jwk = json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    known(Algorithm::Es256, jwk, &format!("eyJhbGciOiJFUzI1NiJ9.{RFC7515_CLAIMS}.{signature}"));
}

#[test]
fn rs256_verifies_the_example_of_rfc_7520() {
    let signature = "MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83x\
        uglII7PNDi84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9e\
        Ro4QPocSadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6\
        QZWJushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg";
    let header = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9";
    let jwk = json!({"kty": "RSA", "use": "sig", "n": RFC7520_RSA, "e": "AQAB"});
    known(Algorithm::Rs256, jwk, &format!("{header}.{RFC7520_PAYLOAD}.{signature}"));
}

#[test]
fn ps384_verifies_the_example_of_rfc_7520() {
    let signature = "cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O\
        8TTB5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrYRXe8P_ij\
        Q7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi\
        7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw";
    let header = "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9";
    let jwk = json!({"kty": "RSA", "use": "sig", "n": RFC7520_RSA, "e": "AQAB"});
    known(Algorithm::Ps384, jwk, &format!("{header}.{RFC7520_PAYLOAD}.{signature}"));
}

#[test]
fn eddsa_verifies_the_example_of_rfc_8037() {
    let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let token = format!("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.{signature}");
    known(Algorithm::EdDsa, jwk, &token);
}

#[test]
fn the_p_521_key_of_rfc_7520_is_left_out_and_named() {
    let p521 = json!({
        "kty": "EC",
        "kid": "bilbo.baggins@hobbiton.example",
        "use": "sig",
        "crv": "P-521",
        "x": "AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl_oJXu9A5RkTKqjqvjyekWF-7ytDyRXYgCF5cj0Kt",
        "y": "AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kfmC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1",
        "alg": "ES512",
    });
    let set = json!({ "keys": [p521, Signer::ed25519("other").jwk()] }).to_string();
    let keys = KeySet::parse(set.as_bytes()).expect("the other key can be used");
    assert_eq!(keys.kids().collect::<Vec<_>>(), ["other"]);
    let [left_out] = keys.unusable() else { panic!("one is left out") };
    assert_eq!(left_out.reason, UnusableReason::Curve);
    assert_eq!(
        left_out.to_string(),
        "key \"bilbo.baggins@hobbiton.example\" has a curve that this gateway does not have"
    );
}

#[test]
fn every_algorithm_verifies_what_it_signed() {
    for algorithm in Algorithm::ALL {
        let signer = Signer::new(algorithm, "main");
        assert_eq!(verify(&verifier(&signer), signer.token(&claims())), Ok(()), "{algorithm}");
    }
}
