//! The filter's config: no input panics, errors name a key, and what is accepted works.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::{Request, checked};
use sandgate_request::FilterConfig;

fuzz_target!(|data: &[u8]| match FilterConfig::parse(data) {
    Ok(config) => {
        let is_object =
            serde_json::from_slice::<serde_json::Value>(data).is_ok_and(|value| value.is_object());
        assert!(is_object || data.trim_ascii().is_empty(), "something other than an object was accepted");
        let request =
            b":authority: 80-a.b.example.com\n:path: /kruise/a/1\ne2b-sandbox-id: a\nx-sandbox-id: b";
        for end in 0..request.len() {
            checked(&Request::parse(&request[..end]), &config);
        }
    }
    Err(error) => assert!(!error.key.is_empty() && !error.reason.is_empty()),
});
