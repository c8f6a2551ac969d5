//! `/kruise/{id}/{port}/{rest}` against a second reading of the same path.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::{Request, checked, config, expected, port, summary};
use sandgate_request::{FilterConfig, Form, Part};

static CONFIG: LazyLock<FilterConfig> = LazyLock::new(|| {
    config(r#"{"dialects":{"opensandbox":{"enabled":false},"sandbox-env":{"enabled":false}}}"#)
});

fuzz_target!(|data: &[u8]| {
    let found = summary(&checked(&Request::of(":path", data), &CONFIG));
    // One character a byte, so that the second reading can use text.
    let text: String = data.iter().map(|byte| char::from(*byte)).collect();
    let path = text.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').collect();
    let second = match segments.as_slice() {
        ["", "kruise", "api", ..] => None,
        ["", "kruise", _] => Some(Err((Form::KruisePath, Part::Path))),
        ["", "kruise", id, number, ..] => Some(expected(Form::KruisePath, id, port(number))),
        _ => None,
    };
    assert_eq!(found, second);
});
