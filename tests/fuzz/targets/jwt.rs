//! A traffic token: no input panics, a token is good only if somebody signed it, and what is signed is good
//! only if its claims say so.
//!
//! The input is tried as a token, as a change of a good one, and as the claims of one (up to a line break)
//! with a header (behind it), signed. What memory says must be what a check says.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sandgate_auth::testing::{Signer, claims};
use sandgate_auth::{
    Budget, CacheLimits, DEFAULT_LEEWAY, KeySet, Sandbox, TokenCache, TokenError, UnixTime, Verifier,
};
use serde_json::Value;

const ISSUER: &str = "https://issuer.example";
const NOW: UnixTime = UnixTime(1_800_000_000);
const SANDBOX: Sandbox<'static> = Sandbox { id: b"sandbox-1", uid: b"uid-1" };

struct Site {
    signer: Signer,
    verifier: Verifier,
    good: String,
}

static SITE: LazyLock<Site> = LazyLock::new(|| {
    let signer = Signer::ed25519("main");
    let keys = KeySet::parse(signer.jwks().as_bytes()).expect("the set is good");
    let good = signer.token(&claims(ISSUER, "sandbox-1", "uid-1", NOW));
    Site { verifier: Verifier::new(Arc::new(keys), ISSUER, DEFAULT_LEEWAY), signer, good }
});

fn check(token: &[u8]) -> Result<(), TokenError> {
    let mut cache = TokenCache::new(CacheLimits { tokens: 8, bytes: 1 << 16 });
    let mut budget = Budget::new(100, Duration::from_secs(3600));
    let mut check = |token| cache.check(token, &SITE.verifier, SANDBOX, NOW, &mut budget);
    let answers = [check(token), check(token)];
    assert_eq!(answers[0], answers[1], "memory and check");
    assert_eq!(answers[0], SITE.verifier.verify(token, SANDBOX, NOW), "with and without memory");
    answers[0]
}

/// Whether another reader of JSON finds all that a good token must say.
fn says_all(claims: &[u8]) -> bool {
    let claims: Value = match serde_json::from_slice(claims) {
        Ok(claims) => claims,
        // What nobody asks for may be a number of any size.
        Err(error) => return error.to_string().starts_with("number out of range"),
    };
    let seconds = |name: &str| claims[name].as_f64();
    claims["iss"] == ISSUER
        && claims["sub"].as_str().is_some_and(|sub| !sub.is_empty())
        && claims["sandbox"]["sandboxId"] == "sandbox-1"
        && claims["sandbox"]["sandboxUid"] == "uid-1"
        && seconds("exp").is_some_and(|exp| exp >= 1_799_999_940.0)
        && ["iat", "nbf"].map(seconds).iter().all(|from| from.is_some_and(|from| from < 1_800_000_061.0))
}

fuzz_target!(|data: &[u8]| {
    let Site { signer, good, .. } = &*SITE;
    assert_eq!(check(good.as_bytes()), Ok(()));
    assert!(check(data).is_err(), "nobody signed it");

    if let [at, change, ..] = data {
        let mut changed = good.clone().into_bytes();
        let at = usize::from(*at) * 2 + usize::from(*change & 1);
        let at = at % changed.len();
        changed[at] ^= (*change).max(1);
        assert!(check(&changed).is_err(), "byte {at} was changed");
    }

    let mut parts = data.splitn(2, |&byte| byte == b'\n');
    let payload = parts.next().unwrap_or_default();
    let header = parts.next().unwrap_or(br#"{"alg":"EdDSA","kid":"main"}"#);
    let answer = check(signer.sign(header, payload).as_bytes());
    if answer.is_ok() {
        assert!(says_all(payload), "{}", String::from_utf8_lossy(payload));
        if let Ok(header) = serde_json::from_slice::<Value>(header) {
            assert!(header["alg"] == "EdDSA" && header["kid"] == "main" && header.get("crit").is_none());
        }
    }
    assert_ne!(answer, Err(TokenError::Signature), "it is signed");
});
