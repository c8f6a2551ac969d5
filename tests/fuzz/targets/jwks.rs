//! A provider's key set: no input panics; what is accepted has public keys of bounded number with an ID each,
//! reads the same again, and verifies nothing that nobody signed. A refusal shows nothing of the document.
#![no_main]

use std::collections::BTreeSet;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use sandgate_auth::{DEFAULT_LEEWAY, KeySet, MAX_KEYS, Sandbox, UnixTime, Verifier};
use serde_json::Value;

const NOW: UnixTime = UnixTime(1_800_000_000);

fuzz_target!(|data: &[u8]| {
    let keys = match KeySet::parse(data) {
        Ok(keys) => keys,
        Err(error) => {
            assert!(error.to_string().len() < 120, "{error}");
            return;
        }
    };
    let again = KeySet::parse_after(data, &keys).expect("it was accepted before");
    assert!(again.same_as(&keys) && keys.same_as(&again));

    let document: Value = match serde_json::from_slice(data) {
        Ok(document) => document,
        // What nobody asks for may be a number of any size.
        Err(error) => return assert!(error.to_string().starts_with("number out of range"), "{error}"),
    };
    let members = document["keys"].as_array().expect("it has keys");
    assert!((1..=MAX_KEYS).contains(&members.len()));
    let is_public = |key: &Value| {
        let has = |name: &&str| key.get(name).is_some();
        key["kty"] != "oct" && !["d", "p", "q", "k", "priv"].iter().any(has)
    };
    assert!(members.iter().all(is_public));
    let named: BTreeSet<&str> = members.iter().filter_map(|key| key["kid"].as_str()).collect();
    let left_out = keys.unusable().iter().map(|key| &*key.kid);
    assert_eq!(keys.kids().chain(left_out).collect::<BTreeSet<_>>(), named);
    assert_eq!(named.len(), members.len());
    for key in keys.unusable() {
        assert!(!key.to_string().contains('\n'));
    }

    let verifier = Verifier::new(Arc::new(keys), "https://issuer.example", DEFAULT_LEEWAY);
    let sandbox = Sandbox { id: b"sandbox-1", uid: b"uid-1" };
    assert!(verifier.verify(b"eyJhbGciOiJFZERTQSIsImtpZCI6Im1haW4ifQ.e30.AAAA", sandbox, NOW).is_err());
});
