//! No bytes make a token or a key set panic, and no change makes a bad token of a good one go through.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;
use sandgate_auth::testing::{Signer, claims};
use sandgate_auth::{
    Budget, DEFAULT_LEEWAY, KeySet, KeySetError, Sandbox, TokenCache, TokenError, UnixTime, Verifier,
};

const NOW: UnixTime = UnixTime(1_800_000_000);
const SANDBOX: Sandbox<'static> = Sandbox { id: b"sandbox-1", uid: b"uid-1" };

struct Site {
    verifier: Verifier,
    token: String,
}

fn site(signer: &Signer) -> Site {
    let keys = KeySet::parse(signer.jwks().as_bytes()).expect("the set is good");
    let verifier = Verifier::new(Arc::new(keys), "https://issuer.example", DEFAULT_LEEWAY);
    let token = signer.token(&claims("https://issuer.example", "sandbox-1", "uid-1", NOW));
    Site { verifier, token }
}

static SITES: LazyLock<[Site; 3]> = LazyLock::new(|| {
    [Signer::rs256("main"), Signer::es256("main"), Signer::ed25519("main")].map(|s| site(&s))
});

/// What a cache says, once it has seen the good token.
fn check(site: &Site, token: &[u8]) -> Result<(), TokenError> {
    let mut cache = TokenCache::default();
    let mut budget = Budget::new(100, Duration::from_secs(3600));
    let mut check = |token: &[u8]| cache.check(token, &site.verifier, SANDBOX, NOW, &mut budget);
    assert_eq!(check(site.token.as_bytes()), Ok(()));
    let first = check(token);
    assert_eq!(check(token), first, "memory and check say the same");
    first
}

proptest! {
    #[test]
    fn a_good_token_with_any_bit_flipped_is_refused(which in 0..3usize, at in any::<prop::sample::Index>(), bit in 0..8) {
        let site = &SITES[which];
        let mut token = site.token.clone().into_bytes();
        let at = at.index(token.len());
        token[at] ^= 1_u8 << bit;
        prop_assert!(check(site, &token).is_err());
    }

    #[test]
    fn a_good_token_with_bytes_put_in_or_taken_out_is_refused(
        which in 0..3usize,
        range in any::<[prop::sample::Index; 2]>(),
        bytes in "[-_.A-Za-z0-9=]{0,4}",
    ) {
        let site = &SITES[which];
        let mut ends = range.map(|at| at.index(site.token.len() + 1));
        ends.sort_unstable();
        let mut token = site.token.clone();
        token.replace_range(ends[0]..ends[1], &bytes);
        prop_assert_eq!(check(site, token.as_bytes()).is_ok(), token == site.token);
    }

    #[test]
    fn any_bytes_are_a_token_that_is_refused(token in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(check(&SITES[2], &token).is_err());
    }

    #[test]
    fn any_claims_of_a_good_key_never_panic(
        header in r#"\{("(alg|kid|crit)":("EdDSA"|"main"|1|null|\[\]),?){0,3}\}"#,
        payload in r#"\{("(iss|sub|exp|iat|nbf|sandbox)":("x"|-?[0-9]{1,20}(\.5)?(e[0-9]{1,3})?|null|\{\}|\[\]),?){0,6}\}"#,
    ) {
        let signer = Signer::ed25519("main");
        let site = site(&signer);
        prop_assert!(check(&site, signer.sign(header.as_bytes(), payload.as_bytes()).as_bytes()).is_err());
    }

    #[test]
    fn any_bytes_are_a_key_set_that_is_refused(json in prop::collection::vec(any::<u8>(), 0..300)) {
        let refused = matches!(KeySet::parse(&json), Err(KeySetError::NotAKeySet { .. }));
        prop_assert!(refused);
    }

    #[test]
    fn a_key_set_with_any_byte_changed_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut json = sandgate_auth::testing::jwks([&Signer::rs256("rsa"), &Signer::es256("ec")]).into_bytes();
        let at = at.index(json.len());
        json[at] = byte;
        if let Ok(keys) = KeySet::parse(&json) {
            prop_assert!(keys.kids().len() > 0);
            prop_assert!(KeySet::parse_after(&json, &keys).is_ok_and(|again| again.same_as(&keys)));
        }
    }
}
