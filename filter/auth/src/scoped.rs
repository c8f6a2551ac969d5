//! Scoped tokens of SIG agent-sandbox: good for one sandbox, by namespace and name, until a time.
//!
//! `v1.{payload}.{mac}`, both parts in base64url without padding. The payload is JSON, `{"ns","name","exp"}`;
//! the MAC is HMAC-SHA-256 of `agent-sandbox/scoped-token/v1.` and the payload as it is written, so nothing
//! is serialised again. The time of `exp` is over already at that second.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::Deserialize;

use crate::keys::{KeyFileError, MAX_KEY};

const CONTEXT: &[u8] = b"agent-sandbox/scoped-token/v1.";
const MAC: usize = 32;
/// The fewest bytes of a secret. Whoever has one token can try secrets for it without asking anybody.
const MIN_SECRET: usize = 32;
/// The longest payload: a namespace, a name and a number are some 350 bytes.
const MAX_PAYLOAD: usize = 1024;
const MAX_TOKEN: usize = MAX_PAYLOAD / 3 * 4 + 64;

/// A secret that scoped tokens are made with.
#[derive(Clone)]
pub struct ScopedKey(hmac::Key);

impl ScopedKey {
    /// Takes a secret. White space around it does not count.
    ///
    /// # Errors
    /// When fewer than 32 bytes are left, or too many.
    pub fn new(secret: &[u8]) -> Result<Self, KeyFileError> {
        let secret = secret.trim_ascii();
        match secret.len() {
            0..MIN_SECRET => Err(KeyFileError::TooShort(MIN_SECRET)),
            MIN_SECRET..=MAX_KEY => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret))),
            _ => Err(KeyFileError::TooLong),
        }
    }

    fn mac(&self, payload: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(CONTEXT);
        context.update(payload);
        context.sign()
    }

    /// A token for a sandbox until `expires`: for tests and tools. The gateway makes none.
    pub fn sign(&self, namespace: &str, name: &str, expires: i64) -> String {
        let payload = serde_json::json!({ "ns": namespace, "name": name, "exp": expires }).to_string();
        let payload = URL_SAFE_NO_PAD.encode(payload);
        format!("v1.{payload}.{}", URL_SAFE_NO_PAD.encode(self.mac(payload.as_bytes())))
    }
}

impl fmt::Debug for ScopedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Room for the payload of one token.
#[derive(Debug)]
pub struct ScopedBuffer([u8; MAX_PAYLOAD]);

impl Default for ScopedBuffer {
    fn default() -> Self {
        Self([0; MAX_PAYLOAD])
    }
}

/// Which sandbox a token that was verified is good for.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct ScopedClaims<'a> {
    #[serde(borrow, rename = "ns", default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    exp: i64,
}

impl ScopedClaims<'_> {
    /// Whether it is good for this sandbox.
    pub fn is_for(&self, namespace: &str, name: &str) -> bool {
        self.namespace == namespace && self.name == name
    }
}

/// Why a token is not good for any sandbox. They are told apart for tests; clients get one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopedError {
    /// It does not have the form.
    #[error("not a scoped token")]
    Malformed,
    /// None of the keys made it.
    #[error("not made with any of the keys")]
    Mac,
    /// Its time is over.
    #[error("expired")]
    Expired,
}

/// Verifies a token with one of the keys, at `now` in seconds since 1970. The payload is not looked at before
/// its MAC is known to be good.
///
/// # Errors
/// When the token is not good for any sandbox.
pub fn verify_scoped<'b>(
    token: &[u8],
    keys: &[ScopedKey],
    now: u64,
    buffer: &'b mut ScopedBuffer,
) -> Result<ScopedClaims<'b>, ScopedError> {
    if token.len() > MAX_TOKEN {
        return Err(ScopedError::Malformed);
    }
    let mut parts = token.split(|byte| *byte == b'.');
    let (Some(b"v1"), Some(payload), Some(mac), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(ScopedError::Malformed);
    };
    let mut sent = [0; MAC + 1];
    let Ok(MAC) = URL_SAFE_NO_PAD.decode_slice(mac, &mut sent) else { return Err(ScopedError::Malformed) };
    let is_good = |key: &ScopedKey| subtle::ConstantTimeEq::ct_eq(key.mac(payload).as_ref(), &sent[..MAC]);
    if !keys.iter().fold(false, |found, key| found | bool::from(is_good(key))) {
        return Err(ScopedError::Mac);
    }
    let room = URL_SAFE_NO_PAD.decode_slice(payload, &mut buffer.0);
    let payload = room.ok().and_then(|length| buffer.0.get(..length));
    // The derived reader takes a list of the values as well.
    let payload = payload.filter(|json| json.starts_with(b"{")).ok_or(ScopedError::Malformed)?;
    let claims: ScopedClaims<'b> = serde_json::from_slice(payload).map_err(|_| ScopedError::Malformed)?;
    if u64::try_from(claims.exp).is_ok_and(|exp| now < exp) { Ok(claims) } else { Err(ScopedError::Expired) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef\n";

    fn verify(token: &str, keys: &[ScopedKey], now: u64) -> Result<bool, ScopedError> {
        verify_scoped(token.as_bytes(), keys, now, &mut ScopedBuffer::default())
            .map(|claims| claims.is_for("team", "box-a"))
    }

    // Made with another implementation of HMAC: Python's hmac and hashlib.
    #[test]
    fn the_known_answer_of_the_format_is_verified() {
        let keys = [ScopedKey::new(SECRET).unwrap()];
        let token = "v1.eyJucyI6InRlYW0iLCJuYW1lIjoiYm94LWEiLCJleHAiOjQxMDI0NDQ4MDB9.\
                     ghwGh-4Ld_oA04e1ZVhtpEJVcDTPDnAgvChxjQgygSc";
        assert_eq!(verify(token, &keys, 1_700_000_000), Ok(true));
    }

    #[test]
    fn a_token_is_good_for_one_sandbox_until_the_second_of_its_end() {
        let keys = [ScopedKey::new(SECRET).unwrap()];
        let token = keys[0].sign("team", "box-a", 2000);
        assert_eq!(verify(&token, &keys, 1999), Ok(true));
        assert_eq!(verify(&token, &keys, 2000), Err(ScopedError::Expired));
        assert_eq!(verify(&keys[0].sign("team", "box-b", 2000), &keys, 1999), Ok(false));
        assert_eq!(verify(&keys[0].sign("other", "box-a", 2000), &keys, 1999), Ok(false));
        assert_eq!(verify(&keys[0].sign("team", "box-a", -1), &keys, 0), Err(ScopedError::Expired));
    }

    #[test]
    fn each_of_several_keys_verifies_and_no_other() {
        let [old, new, other] = [b'a', b'b', b'c'].map(|byte| ScopedKey::new(&[byte; 32]).unwrap());
        let keys = [old.clone(), new.clone()];
        for key in &keys {
            assert_eq!(verify(&key.sign("team", "box-a", 9), &keys, 8), Ok(true));
        }
        assert_eq!(verify(&other.sign("team", "box-a", 9), &keys, 8), Err(ScopedError::Mac));
        assert_eq!(verify(&old.sign("team", "box-a", 9), &[], 8), Err(ScopedError::Mac));
    }

    #[test]
    fn what_does_not_have_the_form_is_refused() {
        let keys = [ScopedKey::new(SECRET).unwrap()];
        let good = keys[0].sign("team", "box-a", 9);
        let mac = good.rsplit('.').next().unwrap();
        for token in [
            String::new(),
            "v1".into(),
            "v1.".into(),
            "v1..".into(),
            good.replace("v1.", "v2."),
            good.replace("v1.", ""),
            format!("{good}."),
            format!("{good}="),
            good[..good.len() - 1].to_owned(),
            format!("{good}AAAA"),
            format!("v1.{}.{mac}", "A".repeat(MAX_TOKEN)),
        ] {
            assert!(verify(&token, &keys, 8).is_err(), "{token}");
        }
        // Under a good MAC too: whoever has the secret may make nonsense.
        let signed = |payload: &str| {
            let payload = URL_SAFE_NO_PAD.encode(payload);
            format!("v1.{payload}.{}", URL_SAFE_NO_PAD.encode(keys[0].mac(payload.as_bytes())))
        };
        for payload in ["", "null", "[]", "{\"exp\":\"9\"}", "{\"ns\":1,\"name\":\"a\",\"exp\":9}"] {
            assert_eq!(verify(&signed(payload), &keys, 8), Err(ScopedError::Malformed), "{payload}");
        }
        assert_eq!(verify(&signed("{}"), &keys, 8), Err(ScopedError::Expired));
        let escaped = signed("{\"ns\":\"te\\u0061m\",\"name\":\"box-a\",\"exp\":9,\"more\":1}");
        assert_eq!(verify(&escaped, &keys, 8), Ok(true));
    }

    #[test]
    fn a_changed_bit_anywhere_is_refused() {
        let keys = [ScopedKey::new(SECRET).unwrap()];
        let good = keys[0].sign("team", "box-a", 9).into_bytes();
        for at in 0..good.len() {
            for bit in 0..7 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let mut buffer = ScopedBuffer::default();
                let found = verify_scoped(&bad, &keys, 8, &mut buffer);
                assert!(found.is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn a_short_secret_is_refused_and_none_is_shown() {
        let short = ScopedKey::new(b"  0123456789abcdef0123456789abcde  ");
        assert_eq!(short.unwrap_err(), KeyFileError::TooShort(32));
        assert_eq!(ScopedKey::new(&[b'x'; MAX_KEY + 1]).unwrap_err(), KeyFileError::TooLong);
        assert_eq!(format!("{:?}", ScopedKey::new(SECRET).unwrap()), "***");
    }
}
