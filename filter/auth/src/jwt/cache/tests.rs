use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::jwt::tests::{ISSUER, NOW, SANDBOX, claims, claims_with, key_set, verifier};
use crate::testing::{self, Signer, jwks};
use crate::{DEFAULT_LEEWAY, KeySet};

/// A cache with all the time there is.
struct Worker {
    cache: TokenCache,
    budget: Budget,
}

impl Worker {
    fn new(limits: CacheLimits) -> Self {
        Self { cache: TokenCache::new(limits), budget: Budget::new(100, Duration::from_secs(3600)) }
    }

    fn check(&mut self, token: &str, verifier: &Verifier) -> Result<(), TokenError> {
        self.check_for(token, verifier, SANDBOX, NOW)
    }

    fn check_for(
        &mut self,
        token: &str,
        verifier: &Verifier,
        sandbox: Sandbox<'_>,
        now: UnixTime,
    ) -> Result<(), TokenError> {
        self.cache.check(token.as_bytes(), verifier, sandbox, now, &mut self.budget)
    }

    fn checked(&self) -> u64 {
        self.cache.counts().checked
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new(CacheLimits::default())
    }
}

fn after(set: &str, verifier: &Verifier) -> Verifier {
    let keys = KeySet::parse_after(set.as_bytes(), verifier.keys()).expect("the set is good");
    Verifier::new(Arc::new(keys), ISSUER, DEFAULT_LEEWAY)
}

/// Ends in another signature of the same length.
fn spoilt(token: &str) -> String {
    let at = token.len() - 20;
    let other = if &token[at..=at] == "A" { "B" } else { "A" };
    format!("{}{other}{}", &token[..at], &token[at + 1..])
}

#[test]
fn a_good_token_is_checked_once() {
    let signer = Signer::ed25519("main");
    let (verifier, token) = (verifier(&signer), signer.token(&claims()));
    let mut worker = Worker::default();
    for _ in 0..3 {
        assert_eq!(worker.check(&token, &verifier), Ok(()));
    }
    assert_eq!(worker.cache.counts(), CacheCounts { remembered: 2, checked: 1 });
    assert_eq!(worker.cache.len(), 1);
}

#[test]
fn a_remembered_token_is_good_for_its_sandbox_and_its_time_alone() {
    let signer = Signer::ed25519("main");
    let (verifier, token) = (verifier(&signer), signer.token(&claims()));
    let mut worker = Worker::default();
    assert_eq!(worker.check(&token, &verifier), Ok(()));
    let UnixTime(now) = NOW;
    let sandbox = |id, uid| Sandbox { id, uid };
    for (sandbox, now, answer) in [
        (sandbox(b"sandbox-2", b"uid-1"), now, Err(TokenError::Sandbox)),
        (sandbox(b"sandbox-1", b"uid-2"), now, Err(TokenError::Sandbox)),
        (sandbox(b"sandbox-1u", b"id-1"), now, Err(TokenError::Sandbox)),
        (sandbox(b"", b""), now, Err(TokenError::Sandbox)),
        (SANDBOX, now + 3660, Ok(())),
        (SANDBOX, now + 3661, Err(TokenError::Expired)),
        (SANDBOX, now - 120, Ok(())),
        (SANDBOX, now - 121, Err(TokenError::NotYetValid)),
    ] {
        let now = UnixTime(now);
        assert_eq!(worker.check_for(&token, &verifier, sandbox, now), answer, "{sandbox:?} {now:?}");
        assert_eq!(verifier.verify(token.as_bytes(), sandbox, now), answer, "and so says a check");
    }
    assert_eq!(worker.checked(), 1);
}

#[test]
fn a_token_with_one_byte_changed_is_another_token() {
    let signer = Signer::ed25519("main");
    let (verifier, token) = (verifier(&signer), signer.token(&claims()));
    let mut worker = Worker::default();
    assert_eq!(worker.check(&token, &verifier), Ok(()));
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] ^= 1;
        let changed = String::from_utf8(bytes).expect("it is ASCII");
        assert!(worker.check(&changed, &verifier).is_err(), "byte {at}");
        assert!(worker.check(&token[..at], &verifier).is_err(), "the first {at} bytes");
    }
    assert_eq!(worker.check(&token, &verifier), Ok(()));
}

#[test]
fn new_keys_keep_the_tokens_of_keys_that_stay_and_refuse_those_of_keys_that_went() {
    let [stays, goes] = ["stays", "goes"].map(Signer::ed25519);
    let first = Verifier::new(key_set(jwks([&stays, &goes])), ISSUER, DEFAULT_LEEWAY);
    let tokens = [&stays, &goes].map(|signer| signer.token(&claims()));
    let mut worker = Worker::default();
    for token in &tokens {
        assert_eq!(worker.check(token, &first), Ok(()));
    }
    let second = after(&stays.jwks(), &first);
    assert_eq!(worker.check(&tokens[0], &second), Ok(()));
    assert_eq!(worker.check(&tokens[1], &second), Err(TokenError::UnknownKey));
    assert_eq!(worker.checked(), 2, "nothing was checked again");

    let third = after(&jwks([&stays, &Signer::ed25519("goes")]), &second);
    assert_eq!(worker.check(&tokens[0], &third), Ok(()));
    assert_eq!(worker.check(&tokens[1], &third), Err(TokenError::Signature), "another key with the ID");

    let fourth = after(&jwks([&stays, &goes]), &third);
    assert_eq!(worker.check(&tokens[1], &fourth), Ok(()), "the key is back");
    assert_eq!(worker.checked(), 4);
}

#[test]
fn another_issuer_with_the_same_keys_does_not_get_what_is_remembered() {
    let signer = Signer::ed25519("main");
    let (ours, token) = (verifier(&signer), signer.token(&claims()));
    let other = Verifier::new(Arc::clone(ours.keys()), "https://other.example", DEFAULT_LEEWAY);
    let mut worker = Worker::default();
    assert_eq!(worker.check(&token, &ours), Ok(()));
    assert_eq!(worker.check(&token, &other), Err(TokenError::Issuer));
    assert_eq!(worker.check(&token, &ours), Ok(()));
    assert_eq!(worker.checked(), 1);
}

#[test]
fn the_leeway_of_the_day_counts_for_what_is_remembered() {
    let signer = Signer::ed25519("main");
    let (lenient, token) = (verifier(&signer), signer.token(&claims_with("exp", NOW.0 - 30)));
    let strict = Verifier::new(Arc::clone(lenient.keys()), ISSUER, Duration::ZERO);
    let mut worker = Worker::default();
    assert_eq!(worker.check(&token, &lenient), Ok(()));
    assert_eq!(worker.check(&token, &strict), Err(TokenError::Expired));
}

#[test]
fn a_wrong_signature_is_checked_once_until_its_key_changes() {
    let [one, other] = ["one", "other"].map(Signer::ed25519);
    let first = Verifier::new(key_set(jwks([&one])), ISSUER, DEFAULT_LEEWAY);
    let bad = spoilt(&one.token(&claims()));
    let mut worker = Worker::default();
    for _ in 0..3 {
        assert_eq!(worker.check(&bad, &first), Err(TokenError::Signature));
    }
    let more = after(&jwks([&one, &other]), &first);
    assert_eq!(worker.check(&bad, &more), Err(TokenError::Signature));
    assert_eq!(worker.cache.counts(), CacheCounts { remembered: 3, checked: 1 });
    assert!(worker.cache.is_empty());

    let late = Signer::ed25519("one");
    let token = late.token(&claims());
    assert_eq!(
        worker.check(&token, &more),
        Err(TokenError::Signature),
        "signed by a key that is not yet there"
    );
    let changed = after(&jwks([&late, &other]), &more);
    assert_eq!(worker.check(&token, &changed), Ok(()));
}

#[test]
fn two_tokens_with_one_hash_are_not_taken_for_one() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let tokens: Vec<_> = (0..3).map(|number| signer.token(&claims_with("jti", number))).collect();
    let [good, bad, other] = [tokens[0].clone(), spoilt(&tokens[1]), tokens[2].clone()];
    const HASH: u64 = 0x5eed_0000_0000_0001;
    let TokenCache { good: kept, refused, .. } = &mut TokenCache::default();
    let lifetime = verifier.examine(good.as_bytes(), SANDBOX, NOW).expect("it is good").lifetime;
    let serial = verifier.keys().find("main").expect("it is there").serial;
    kept.keep(HASH, good.as_bytes(), &verifier, SANDBOX, serial, lifetime);
    refused.keep(HASH, bad.as_bytes(), serial);
    assert_eq!(kept.recall(HASH, good.as_bytes(), &verifier, SANDBOX, NOW), Some(Ok(())));
    assert_eq!(kept.recall(HASH, other.as_bytes(), &verifier, SANDBOX, NOW), None);
    assert_eq!(kept.recall(HASH, bad.as_bytes(), &verifier, SANDBOX, NOW), None);
    assert!(refused.has(HASH, bad.as_bytes(), verifier.keys()));
    assert!(!refused.has(HASH, other.as_bytes(), verifier.keys()));
}

#[test]
fn the_memory_is_bounded_in_tokens_and_in_bytes() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let few = CacheLimits { tokens: 16, bytes: 1 << 20 };
    let small = CacheLimits { tokens: 4096, bytes: 8 << 10 };
    let tiny = CacheLimits { tokens: 0, bytes: 0 };
    for (limits, at_least) in [(few, 8), (small, 4), (tiny, 0)] {
        let mut worker = Worker::new(limits);
        for number in 0..100 {
            let token = signer.token(&claims_with("jti", number));
            assert_eq!(worker.check(&token, &verifier), Ok(()));
            assert!(
                worker.cache.len() <= limits.tokens && worker.cache.bytes() <= limits.bytes,
                "{limits:?}"
            );
        }
        assert!(worker.cache.len() >= at_least, "{limits:?}: {:?}", worker.cache);
        let (len, bytes) = (worker.cache.len(), worker.cache.bytes());
        assert!(bytes >= len * 400 && bytes <= len * 1000, "{:?}", worker.cache);
    }
}

#[test]
fn the_token_that_was_used_least_lately_goes_first() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let tokens: Vec<_> = (0..100).map(|number| signer.token(&claims_with("jti", number))).collect();
    let mut worker = Worker::new(CacheLimits { tokens: 8, bytes: 1 << 20 });
    for token in &tokens {
        assert_eq!(worker.check(token, &verifier), Ok(()));
        assert_eq!(worker.check(&tokens[0], &verifier), Ok(()));
    }
    assert_eq!(worker.checked(), 100, "the first one was always there");
    for token in &tokens[93..] {
        assert_eq!(worker.check(token, &verifier), Ok(()));
    }
    assert_eq!(worker.checked(), 100, "and so were the last ones");
    assert_eq!(worker.check(&tokens[92], &verifier), Ok(()));
    assert_eq!(worker.checked(), 101);
}

#[test]
fn a_long_token_is_checked_each_time() {
    let signer = Signer::ed25519("main");
    let (verifier, token) = (verifier(&signer), signer.token(&claims_with("more", "x".repeat(MAX_KEPT))));
    let mut worker = Worker::default();
    for checked in 1..=2 {
        assert_eq!(worker.check(&token, &verifier), Ok(()));
        assert_eq!(worker.checked(), checked);
    }
    assert!(worker.cache.is_empty());
    let bad = spoilt(&token);
    for _ in 0..2 {
        assert_eq!(worker.check(&bad, &verifier), Err(TokenError::Signature));
        assert_eq!(worker.checked(), 3, "a bad one is remembered however long it is");
    }
}

#[test]
fn without_time_new_tokens_wait_and_remembered_ones_do_not() {
    let signer = Signer::ed25519("main");
    let verifier = verifier(&signer);
    let now = Cell::new(Duration::ZERO);
    // Each look at this clock takes a millisecond, so a check does.
    let mut budget = Budget::with_clock(20, Duration::from_millis(10), || {
        now.set(now.get() + Duration::from_millis(1));
        now.get()
    });
    let mut cache = TokenCache::default();
    let mut check = |token: &str, id: &[u8]| {
        cache.check(token.as_bytes(), &verifier, Sandbox { id, ..SANDBOX }, NOW, &mut budget)
    };
    let good = signer.token(&claims());
    assert_eq!(check(&good, SANDBOX.id), Ok(()));
    let mut answers: Vec<_> = (0..50)
        .map(|number| check(&spoilt(&signer.token(&claims_with("jti", number))), SANDBOX.id))
        .collect();
    let busy = answers.iter().filter(|answer| **answer == Err(TokenError::Busy)).count();
    assert!(busy > 30, "{answers:?}");
    answers.dedup();
    assert_eq!(answers[..2], [Err(TokenError::Signature), Err(TokenError::Busy)]);
    assert_eq!(check(&good, SANDBOX.id), Ok(()), "it is remembered");
    assert_eq!(check("not-a-jwt", SANDBOX.id), Err(TokenError::Malformed), "it needs no signature check");
    // Sixty-four sources share the buckets of failures: one of a few IDs has another one.
    let others = (2..8).map(|number| {
        let id = format!("sandbox-{number}");
        let sandbox = json!({"sandboxId": id, "sandboxUid": "uid-1"});
        check(&signer.token(&claims_with("sandbox", sandbox)), id.as_bytes())
    });
    assert!(others.into_iter().any(|answer| answer == Ok(())), "there is time for other sandboxes");
}

#[test]
fn nothing_of_a_token_is_shown() {
    let signer = Signer::ed25519("main");
    let claims = testing::claims(ISSUER, "sandbox-1", "uid-1", NOW);
    let mut worker = Worker::default();
    assert_eq!(worker.check(&signer.token(&claims), &verifier(&signer)), Ok(()));
    assert_eq!(
        format!("{:?}", worker.cache),
        format!(
            "TokenCache {{ len: 1, bytes: {}, counts: CacheCounts {{ remembered: 0, checked: 1 }} }}",
            worker.cache.bytes()
        )
    );
}
