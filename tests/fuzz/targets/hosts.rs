//! `{port}-{id}.{domain}` and `{id}-{port}.{domain}`, with and without configured domains. Case, port and a
//! trailing dot must make no difference.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::{Request, checked, config};
use sandgate_request::{FilterConfig, Form, Recognition};

static ANY: LazyLock<FilterConfig> = LazyLock::new(|| config(""));
static OWN: LazyLock<FilterConfig> =
    LazyLock::new(|| config(r#"{"domains":["example.com","a.example.com","lh"]}"#));

fuzz_target!(|data: &[u8]| {
    for config in [&*ANY, &*OWN] {
        let read = |host: &[u8]| checked(&Request::of(":authority", host), config);
        let Recognition::Addressed(address) = read(data) else {
            continue;
        };
        let text = std::str::from_utf8(data).expect("an addressed host is ASCII");
        let label = match address.form() {
            Form::KruiseHost => format!("{}-{}.", address.port(), address.id()),
            Form::OpenSandboxHost => format!("{}-{}.", address.id(), address.port()),
            other => panic!("a host was read as {other:?}"),
        };
        let domain = text.strip_prefix(&label).expect("the host begins with the address");
        let domain = domain.split(':').next().unwrap_or_default();
        assert!(!domain.trim_end_matches('.').is_empty(), "a label must not be the whole host");

        let bare = format!("{label}{}", domain.strip_suffix('.').unwrap_or(domain));
        let alike = [bare.clone(), format!("{bare}."), format!("{bare}:8080"), format!("{bare}.:")];
        for host in alike {
            assert_eq!(read(host.as_bytes()), Recognition::Addressed(address.clone()), "{host}");
        }
        let Recognition::Addressed(upper) = read(bare.to_ascii_uppercase().as_bytes()) else {
            panic!("{bare} is no address in upper case");
        };
        assert!(upper.id().eq_ignore_ascii_case(address.id()) && upper.port() == address.port());
    }
});
