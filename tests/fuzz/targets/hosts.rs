//! `{port}-{id}.{domain}` and `{id}-{port}.{domain}`, signed or not, with and without configured domains.
//! Port and a trailing dot must make no difference, nor case but for a signature.
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
        let signature = address.signature().map_or(String::new(), |signature| {
            let parts = [signature.expires_text(), signature.tag()].map(String::from_utf8_lossy);
            format!("-{}-{}", parts[0], parts[1])
        });
        let label = match address.form() {
            Form::KruiseHost => format!("{}-{}", address.port(), address.id()),
            Form::OpenSandboxHost => format!("{}-{}{signature}", address.id(), address.port()),
            other => panic!("a host was read as {other:?}"),
        };
        let domain = text.strip_prefix(&label).expect("the host begins with the address");
        let domain = domain.split(':').next().unwrap_or_default();
        let is_whole = domain.trim_end_matches('.').is_empty();
        assert!(!is_whole || address.form() == Form::OpenSandboxHost, "a label must not be the whole host");

        let bare = format!("{label}{}", domain.strip_suffix('.').unwrap_or(domain));
        let alike = [bare.clone(), format!("{bare}."), format!("{bare}:8080"), format!("{bare}.:")];
        for host in alike {
            assert_eq!(read(host.as_bytes()), Recognition::Addressed(address.clone()), "{host}");
        }
        if !signature.is_empty() || address.other_reading().is_some_and(|other| other.signature().is_some()) {
            continue;
        }
        let Recognition::Addressed(upper) = read(bare.to_ascii_uppercase().as_bytes()) else {
            panic!("{bare} is no address in upper case");
        };
        assert!(upper.id().eq_ignore_ascii_case(address.id()) && upper.port() == address.port());
    }
});
