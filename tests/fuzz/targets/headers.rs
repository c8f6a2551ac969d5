//! Whole requests, every form at once, and the media type of the answer.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::{Request, checked, config};
use sandgate_request::{FilterConfig, Form, Headers, Media, Recognition, preferred_media};

static CONFIGS: LazyLock<[FilterConfig; 4]> = LazyLock::new(|| {
    [
        config(""),
        config(r#"{"domains":["example.com"],"host-header-name":"x-forwarded-host"}"#),
        config(r#"{"dialects":{"kruise":{"path":false},"opensandbox":{"headers":false,"host":false}}}"#),
        config(r#"{"dialects":{"agent-sandbox":{"enabled":false}}}"#),
    ]
});

fuzz_target!(|data: &[u8]| {
    let request = Request::parse(data);
    for config in CONFIGS.iter() {
        if let Recognition::Addressed(address) = checked(&request, config) {
            // An address comes from the header it is read from, and nothing else.
            let sent = |name| request.with(name, |value| value.map(<[u8]>::to_vec));
            match address.form() {
                Form::KruiseHeader => {
                    assert_eq!(sent("e2b-sandbox-id").as_deref(), Some(address.id().as_bytes()))
                }
                Form::SandboxEnvHeader => {
                    assert_eq!(sent("x-sandbox-id").as_deref(), Some(address.id().as_bytes()));
                    assert_eq!(sent("x-sandbox-port"), Some(address.port().to_string().into_bytes()));
                    assert_eq!(sent("x-sandbox-namespace").unwrap_or_default(), b"");
                    assert!(address.object().is_none());
                }
                Form::AgentSandboxHeader => {
                    let (namespace, name) = address.object().expect("an agent-sandbox address has an object");
                    let namespace_sent = sent("x-sandbox-namespace").filter(|sent| !sent.is_empty());
                    let namespace_sent = namespace_sent.unwrap_or(b"default".to_vec());
                    assert_eq!(sent("x-sandbox-id").as_deref(), Some(name.as_bytes()));
                    assert_eq!(namespace_sent, namespace.as_bytes());
                    assert_eq!(address.id(), format!("{namespace}--{name}"));
                }
                _ => assert!(address.object().is_none()),
            }
        }
    }
    if preferred_media(&request) == Media::Html {
        assert!(request.with(":method", |method| matches!(method, Some(b"GET" | b"HEAD"))));
    }
});
