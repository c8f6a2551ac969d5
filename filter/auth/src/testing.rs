//! An issuer of tokens for tests and benches: keys, their JWKS document, and tokens signed with them.
//!
//! The RSA key is the same one everywhere and stands in this repository. The others are made when they are
//! asked for.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaKeyPair};
use serde_json::{Value, json};

use crate::{Algorithm, UnixTime};

const RSA: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/test-only-rsa-2048.pk8"));

/// A private key with its ID. It panics where a test could not go on.
pub struct Signer {
    kid: String,
    algorithm: Algorithm,
    key: Key,
}

enum Key {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    /// Signs with this algorithm, by a key of this ID.
    ///
    /// # Panics
    /// If the system has no random numbers.
    pub fn new(algorithm: Algorithm, kid: &str) -> Self {
        let random = SystemRandom::new();
        let key = match algorithm {
            Algorithm::Es256 => ec(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, &random),
            Algorithm::Es384 => ec(&signature::ECDSA_P384_SHA384_FIXED_SIGNING, &random),
            Algorithm::EdDsa => {
                let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).expect("random numbers");
                Key::Ed(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key just made is a key"))
            }
            _ => Key::Rsa(RsaKeyPair::from_pkcs8(RSA).expect("the key of the repository is a key")),
        };
        Self { kid: kid.to_owned(), algorithm, key }
    }

    /// Ed25519.
    pub fn ed25519(kid: &str) -> Self {
        Self::new(Algorithm::EdDsa, kid)
    }

    /// ECDSA with P-256.
    pub fn es256(kid: &str) -> Self {
        Self::new(Algorithm::Es256, kid)
    }

    /// RSA with 2048 bits, PKCS #1 v1.5: always the same key.
    pub fn rs256(kid: &str) -> Self {
        Self::new(Algorithm::Rs256, kid)
    }

    /// The key's ID.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The public key as a JWK, with `kid`, `alg` and `use`.
    pub fn jwk(&self) -> Value {
        let mut jwk = match &self.key {
            Key::Rsa(key) => {
                let PublicKeyComponents::<Vec<u8>> { n, e } = key.public().into();
                json!({"kty": "RSA", "n": encode(&n), "e": encode(&e)})
            }
            Key::Ec(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = point[1..].split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
            }
            Key::Ed(key) => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().as_ref())}),
        };
        jwk["kid"] = json!(self.kid);
        jwk["alg"] = json!(self.algorithm.name());
        jwk["use"] = json!("sig");
        jwk
    }

    /// A key set of this key alone.
    pub fn jwks(&self) -> String {
        jwks([self])
    }

    /// A token with these claims. [`claims`] has good ones.
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm.name(), "typ": "JWT", "kid": self.kid}), claims)
    }

    /// A token with this header too, right or wrong.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.sign(header.to_string().as_bytes(), claims.to_string().as_bytes())
    }

    /// A compact JWS of any two texts.
    ///
    /// # Panics
    /// If the system has no random numbers.
    pub fn sign(&self, header: &[u8], payload: &[u8]) -> String {
        let signed = format!("{}.{}", encode(header), encode(payload));
        let random = SystemRandom::new();
        let signature = match &self.key {
            Key::Rsa(key) => {
                let padding: &dyn signature::RsaEncoding = match self.algorithm {
                    Algorithm::Rs384 => &signature::RSA_PKCS1_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding, &random, signed.as_bytes(), &mut signature).expect("random numbers");
                signature
            }
            Key::Ec(key) => key.sign(&random, signed.as_bytes()).expect("random numbers").as_ref().to_vec(),
            Key::Ed(key) => key.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", encode(&signature))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("kid", &self.kid).field("algorithm", &self.algorithm).finish()
    }
}

/// A key set of these keys.
pub fn jwks<'a>(signers: impl IntoIterator<Item = &'a Signer>) -> String {
    let keys: Vec<Value> = signers.into_iter().map(Signer::jwk).collect();
    json!({ "keys": keys }).to_string()
}

/// The claims of a good token: from a minute ago, for an hour.
pub fn claims(issuer: &str, sandbox_id: &str, sandbox_uid: &str, now: UnixTime) -> Value {
    let UnixTime(now) = now;
    json!({
        "iss": issuer,
        "sub": "a-client",
        "iat": now.saturating_sub(60),
        "nbf": now.saturating_sub(60),
        "exp": now.saturating_add(3600),
        "sandbox": {"sandboxId": sandbox_id, "sandboxUid": sandbox_uid},
    })
}

fn ec(algorithm: &'static EcdsaSigningAlgorithm, random: &SystemRandom) -> Key {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, random).expect("random numbers");
    Key::Ec(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), random).expect("a key just made is a key"))
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
