//! `/{id}/{port}/{rest}`, `/sandboxes/{id}/proxy/{port}/{rest}` and
//! `OpenSandbox-Ingress-To: {id}-{port}[.domain]`, signed or not, against a second reading of each.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::{Request, checked, config, expected, port, summary};
use sandgate_request::{FilterConfig, Form, Part, Recognition};
use sandgate_routes::is_valid_id;

static CONFIG: LazyLock<FilterConfig> =
    LazyLock::new(|| config(r#"{"dialects":{"kruise":{"enabled":false},"sandbox-env":{"enabled":false}}}"#));

fuzz_target!(|data: &[u8]| {
    // One character a byte, so that the second reading can use text.
    let text: String = data.iter().map(|byte| char::from(*byte)).collect();
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());

    let path = text.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').collect();
    let below_v1 = if segments.get(1) == Some(&"v1") { &segments[1..] } else { &segments[..] };
    let second = match segments.as_slice() {
        _ if let [_, "sandboxes", id, "proxy", number, ..] = below_v1
            && path.starts_with('/')
            && is_valid_id(id.as_bytes())
            && digits(number) =>
        {
            Some(expected(Form::OpenSandboxProxyPath, id, port(number)))
        }
        ["", id, number, ..] if is_valid_id(id.as_bytes()) && digits(number) => {
            Some(expected(Form::OpenSandboxPath, id, port(number)))
        }
        _ => None,
    };
    let found = checked(&Request::of(":path", data), &CONFIG);
    let is_plain = matches!(second, Some(Ok((Form::OpenSandboxPath, ..))));
    let signed = segments.get(3..5).filter(|_| is_plain).and_then(|parts| signature(parts[0], parts[1]));
    assert_eq!(expires(&found), signed);
    assert_eq!(summary(&found), second);

    let host = text.strip_prefix("https://").unwrap_or(&text);
    let host = host.strip_prefix("http://").unwrap_or(host);
    let label = host.split('.').next().unwrap_or_default();
    let mut parts = label.rsplitn(3, '-');
    let (tag, at) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let rest = parts.next().unwrap_or_default();
    let is_signed = rest.rsplit_once('-').is_some_and(|(_, number)| digits(number));
    let signed = signature(at, tag).filter(|_| is_signed);
    let label = if signed.is_some() { rest } else { label };
    let second = match label.rsplit_once('-') {
        _ if text.is_empty() => Err((Form::OpenSandboxHeader, Part::Id)),
        Some((id, number)) if digits(number) => expected(Form::OpenSandboxHeader, id, port(number)),
        _ => Err((Form::OpenSandboxHeader, Part::Port)),
    };
    for name in ["opensandbox-ingress-to", "open-sandbox-ingress"] {
        let found = checked(&Request::of(name, data), &CONFIG);
        assert_eq!(expires(&found), signed.filter(|_| second.is_ok()));
        assert_eq!(summary(&found), Some(second.clone()));
    }
});

/// A second opinion on a signature, by the standard library: when it expires.
fn signature(expires: &str, tag: &str) -> Option<u64> {
    let lower = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase());
    let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
    let is_tag = tag.len() == 9 && lower(tag) && tag.get(..8).is_some_and(is_hex);
    let is_number = lower(expires) && (expires == "0" || !expires.starts_with('0'));
    if is_tag && is_number { u64::from_str_radix(expires, 36).ok() } else { None }
}

fn expires(found: &Recognition) -> Option<u64> {
    match found {
        Recognition::Addressed(address) => address.signature().map(|signature| signature.expires()),
        _ => None,
    }
}
