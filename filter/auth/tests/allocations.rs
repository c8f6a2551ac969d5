//! A token that is remembered costs no allocation, and neither does one that is remembered as bad.

use std::sync::Arc;
use std::time::Duration;

use sandgate_auth::testing::{Signer, claims};
use sandgate_auth::{Budget, DEFAULT_LEEWAY, KeySet, Sandbox, TokenCache, TokenError, UnixTime, Verifier};

const NOW: UnixTime = UnixTime(1_800_000_000);

#[test]
fn a_hit_allocates_nothing() {
    let signer = Signer::es256("main");
    let keys = KeySet::parse(signer.jwks().as_bytes()).expect("the set is good");
    let verifier = Verifier::new(Arc::new(keys), "https://issuer.example", DEFAULT_LEEWAY);
    // A refresh that changed nothing: the first hit after it looks at the keys again.
    let refreshed = KeySet::parse_after(signer.jwks().as_bytes(), verifier.keys()).expect("the set is good");
    let refreshed = Verifier::new(Arc::new(refreshed), "https://issuer.example", DEFAULT_LEEWAY);
    let good = signer.token(&claims("https://issuer.example", "sandbox-1", "uid-1", NOW));
    let bad = Signer::es256("main").token(&claims("https://issuer.example", "sandbox-1", "uid-1", NOW));
    let sandbox = Sandbox { id: b"sandbox-1", uid: b"uid-1" };
    let other = Sandbox { id: b"sandbox-2", uid: b"uid-1" };
    let mut cache = TokenCache::default();
    let mut budget = Budget::new(100, Duration::from_secs(3600));
    for token in [&good, &bad] {
        // What is new is checked and kept.
        let _ = cache.check(token.as_bytes(), &verifier, sandbox, NOW, &mut budget);
    }
    for (token, verifier, sandbox, now, expected) in [
        (&good, &verifier, sandbox, NOW, Ok(())),
        (&good, &verifier, other, NOW, Err(TokenError::Sandbox)),
        (&good, &verifier, sandbox, UnixTime(NOW.0 + 9999), Err(TokenError::Expired)),
        (&good, &refreshed, sandbox, NOW, Ok(())),
        (&good, &refreshed, sandbox, NOW, Ok(())),
        (&bad, &refreshed, sandbox, NOW, Err(TokenError::Signature)),
    ] {
        let mut answer = Ok(());
        let counted = allocation_counter::measure(|| {
            answer = cache.check(token.as_bytes(), verifier, sandbox, now, &mut budget);
        });
        assert_eq!((counted.count_total, answer), (0, expected), "{now:?}");
    }
    assert_eq!(cache.counts().checked, 2);
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1, "the counter counts");
}
