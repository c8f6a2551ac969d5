//! What clients send to prove who they are, and files of keys: nothing may panic, and no text may be taken
//! for a credential that nobody made.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandgate_auth::{
    ScopedBuffer, ScopedKey, SignedKeys, StaticToken, TAG, any_matches, bearer_token, verify_scoped,
};

/// Until when the tokens that are made here are good.
const END: i64 = 2_000_000_000;

fuzz_target!(|data: &[u8]| {
    let key = ScopedKey::new(&[b'k'; 32]).expect("a key of 32 bytes");
    let token = StaticToken::new(b"0123456789abcdef").expect("a token of 16 bytes");
    if let Some(bearer) = bearer_token(data) {
        assert!(!bearer.is_empty() && !bearer.starts_with(b" ") && !bearer.ends_with(b" "));
        assert!(!any_matches(std::slice::from_ref(&token), bearer) || bearer == b"0123456789abcdef");
    }
    let mut buffer = ScopedBuffer::default();
    if verify_scoped(data, std::slice::from_ref(&key), 1, &mut buffer).is_ok() {
        // Its MAC cannot be guessed, so it is the one that stands among the seeds.
        assert_eq!(data, key.sign("team", "box", END).as_bytes());
    }
    if let Ok(keys) = SignedKeys::parse(data) {
        assert!((1..=36).contains(&keys.ids().count()));
        for id in keys.ids() {
            let tag: [u8; TAG] = keys.sign(id, b"box", 80, b"1").expect("a key of the file");
            assert!(keys.verifies(&tag, b"box", 80, b"1"));
            assert!(!keys.verifies(&tag, b"box", 81, b"1"));
        }
    }
    if let Ok(tokens) = StaticToken::parse_file(data) {
        assert!(!any_matches(&tokens, b""));
    }
});
