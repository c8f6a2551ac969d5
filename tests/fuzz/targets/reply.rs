//! Replies: JSON stays JSON, a page keeps its tags whatever the request holds, escaped text is inert and
//! reads the same.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::{Request, checked, config};
use sandgate_request::{Escaped, FilterConfig, Media, Recognition, Refusal, reply};

static CONFIG: LazyLock<FilterConfig> = LazyLock::new(|| config(""));

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let escaped = Escaped(&text).to_string();
    assert!(!escaped.contains(['<', '>', '"', '\'']), "{escaped}");
    assert_eq!(unescaped(&escaped), text);

    let (refusal, address) = match checked(&Request::parse(data), &CONFIG) {
        Recognition::Addressed(address) => (Refusal::Unknown, Some(address)),
        Recognition::Malformed { form, part } => (Refusal::Malformed { form, part }, None),
        Recognition::Conflicting { taken, other } => (Refusal::Conflicting { taken, other }, None),
        Recognition::Unaddressed => (Refusal::Unaddressed, None),
    };
    let json = reply(refusal, address.as_ref(), Media::Json);
    let body: serde_json::Value = serde_json::from_str(&json.body).expect("the body is JSON");
    assert_eq!(body["sandbox"].as_str(), address.as_ref().map(|address| address.id()));
    assert_eq!(body["code"], json.status);
    assert_eq!(body["reason"], json.details);

    let page = reply(refusal, address.as_ref(), Media::Html).body;
    let plain = reply(refusal, None, Media::Html).body;
    let row = address.map_or(String::new(), |a| format!("<dt>Sandbox</dt><dd>{}</dd>\n", a.id()));
    // The status may differ by dialect, nothing else may.
    assert_eq!(page.matches('<').count(), plain.matches('<').count() + row.matches('<').count());
    assert!(page.contains(&row));
});

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}
