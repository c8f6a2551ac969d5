//! `/{id}/{port}/{rest}` and `OpenSandbox-Ingress-To: {id}-{port}[.domain]` against a second reading of each.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::{Request, checked, config, expected, port, summary};
use sandgate_request::{FilterConfig, Form, Part};
use sandgate_routes::is_valid_id;

static CONFIG: LazyLock<FilterConfig> =
    LazyLock::new(|| config(r#"{"dialects":{"kruise":{"enabled":false},"sandbox-env":{"enabled":false}}}"#));

fuzz_target!(|data: &[u8]| {
    // One character a byte, so that the second reading can use text.
    let text: String = data.iter().map(|byte| char::from(*byte)).collect();
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());

    let path = text.split('?').next().unwrap_or_default();
    let second = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["", id, number, ..] if is_valid_id(id.as_bytes()) && digits(number) => {
            Some(expected(Form::OpenSandboxPath, id, port(number)))
        }
        _ => None,
    };
    assert_eq!(summary(&checked(&Request::of(":path", data), &CONFIG)), second);

    let label = text.split('.').next().unwrap_or_default();
    let second = match label.rsplit_once('-') {
        _ if text.is_empty() => Err((Form::OpenSandboxHeader, Part::Id)),
        Some((id, number)) if digits(number) => expected(Form::OpenSandboxHeader, id, port(number)),
        _ => Err((Form::OpenSandboxHeader, Part::Port)),
    };
    for name in ["opensandbox-ingress-to", "open-sandbox-ingress"] {
        assert_eq!(summary(&checked(&Request::of(name, data), &CONFIG)), Some(second.clone()));
    }
});
