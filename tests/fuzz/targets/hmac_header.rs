//! The `Authorization` header of a signed push: no input panics, a signature verifies, and it verifies
//! nothing else: not with one byte changed in the header or in the body, not for another path, not by another
//! key.
//!
//! The first byte of the input says which byte is changed, the second how; the rest is tried as a header and
//! as a body.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandgate_peering::HmacKey;

static KEY: LazyLock<HmacKey> = LazyLock::new(|| key(b'k'));
static OTHER: LazyLock<HmacKey> = LazyLock::new(|| key(b'o'));

fn key(byte: u8) -> HmacKey {
    HmacKey::new("main", &[byte; 32]).expect("32 bytes are a key")
}

fuzz_target!(|data: &[u8]| {
    let [at, change, body @ ..] = data else { return };
    assert!(!KEY.verifies(body, "POST", "/refresh", b""), "a header that nobody signed");

    let header = KEY.sign("POST", "/refresh", body, u64::from(*at)).expect("random numbers").into_bytes();
    assert!(KEY.verifies(&header, "POST", "/refresh", body));
    assert!(!KEY.verifies(&header, "PUT", "/refresh", body));
    assert!(!KEY.verifies(&header, "POST", "/refresh?all", body));
    assert!(!OTHER.verifies(&header, "POST", "/refresh", body));

    let changed = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let at = usize::from(*at) % bytes.len().max(1);
        bytes.get_mut(at).map(|byte| *byte ^= (*change).max(1)).map(|()| bytes)
    };
    if let Some(body) = changed(body) {
        assert!(!KEY.verifies(&header, "POST", "/refresh", &body), "another body");
    }
    if let Some(header) = changed(&header) {
        assert!(!KEY.verifies(&header, "POST", "/refresh", body), "{}", String::from_utf8_lossy(&header));
    }
});
