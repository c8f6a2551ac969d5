//! Signed routes of OpenSandbox, in a header, a host and a path.

use super::{config, each, read, read_with};
use crate::{Dialect, FilterConfig, Recognition, recognise};

/// 4102444800 in base 36.
const EXPIRES: &str = "1vuhmo0";

#[test]
fn a_label_splits_from_the_right_into_id_port_expiry_and_signature() {
    let cases = [
        ("demo-80-1vuhmo0-0a1b2c3dk", "demo:80 signed until 4102444800"),
        ("my-demo-80-0-0a1b2c3dk", "my-demo:80 signed until 0"),
        ("demo-80-80-80-123456789", "demo-80:80 signed until 288"),
        ("demo-80-3w5e11264sgsf-0a1b2c3dk", "demo:80 signed until 18446744073709551615"),
    ];
    for (label, expected) in cases {
        let header = |value: &str| read(&[("opensandbox-ingress-to", value)]);
        assert_eq!(header(label), format!("opensandbox-header {expected}"));
        assert_eq!(header(&format!("https://{label}.example.com")), format!("opensandbox-header {expected}"));
        assert_eq!(read(&[("open-sandbox-ingress", label)]), format!("opensandbox-header {expected}"));
        let host = |host: String| read(&[(":authority", &host)]);
        assert_eq!(host(format!("{label}.example.com:443")), format!("opensandbox-host {expected}"));
        assert_eq!(host(format!("{label}:443")), format!("opensandbox-host {expected}"), "without a domain");
        let domains = config(r#"{"domains":["example.com"]}"#);
        let dotted = format!("a.{label}.Example.com");
        assert_eq!(read_with(&domains, &[(":authority", &dotted)]), format!("opensandbox-host a.{expected}"));
    }
}

#[test]
fn a_label_whose_last_parts_are_no_signature_is_an_unsigned_one() {
    for (label, in_header) in [
        // No expiry: a leading zero, upper case, another character, too much for 64 bits.
        ("demo-80-01-0a1b2c3dk", "malformed port"),
        ("demo-80-1Vuhmo0-0a1b2c3dk", "malformed port"),
        ("demo-80-1_0-0a1b2c3dk", "malformed port"),
        ("demo-80-3w5e11264sgsg-0a1b2c3dk", "malformed port"),
        // No signature: too short, too long, upper case.
        ("demo-80-1vuhmo0-0a1b2c3d", "malformed port"),
        ("demo-80-1vuhmo0-0a1b2c3dkk", "malformed port"),
        ("demo-80-1vuhmo0-0A1B2C3DK", "malformed port"),
        ("demo-80-1vuhmo0-0a1b2c3dK", "malformed port"),
        // The port is bad, or there is none.
        ("demo-0-1vuhmo0-0a1b2c3dk", "malformed port"),
        ("demo-080-1vuhmo0-0a1b2c3dk", "malformed port"),
        ("demo-http-1vuhmo0-0a1b2c3dk", "malformed port"),
        ("demo-1vuhmo0-0a1b2c3dk", "malformed port"),
        ("-80-1vuhmo0-0a1b2c3dk", "malformed id"),
    ] {
        let read = read(&[("opensandbox-ingress-to", label)]);
        assert_eq!(read, format!("{in_header} in opensandbox-header"), "{label}");
    }
    // And one whose last part is a port has another ID.
    let label = "demo-80-zz-badsig-90";
    assert_eq!(read(&[("opensandbox-ingress-to", label)]), "opensandbox-header demo-80-zz-badsig:90");
    each(
        &FilterConfig::default(),
        ":authority",
        &[
            ("demo-80-zz-badsig.example.com", "unaddressed"),
            ("DEMO-80-1VUHMO0-0A1B2C3DK.example.com", "unaddressed"),
            ("demo-0-1vuhmo0-0a1b2c3dk.example.com", "malformed port in opensandbox-host"),
        ],
    );
}

#[test]
fn a_path_may_have_the_signature_behind_the_port_and_can_be_cut_with_it_or_without() {
    each(
        &FilterConfig::default(),
        ":path",
        &[
            (
                "/demo/80/1vuhmo0/0a1b2c3dk/a/b?c",
                "opensandbox-path demo:80 signed until 4102444800 /a/b?c or unsigned /1vuhmo0/0a1b2c3dk/a/b?c",
            ),
            (
                "/demo/80/1vuhmo0/0a1b2c3dk",
                "opensandbox-path demo:80 signed until 4102444800 / or unsigned /1vuhmo0/0a1b2c3dk",
            ),
            (
                "/demo/80/1vuhmo0/0a1b2c3dk?c",
                "opensandbox-path demo:80 signed until 4102444800 /?c or unsigned /1vuhmo0/0a1b2c3dk?c",
            ),
            (
                "/demo/80/0/0a1b2c3dk//x",
                "opensandbox-path demo:80 signed until 0 //x or unsigned /0/0a1b2c3dk//x",
            ),
            // No signature: these are the sandbox's own paths.
            ("/demo/80/1vuhmo0/0a1b2c3dkk/x", "opensandbox-path demo:80 /1vuhmo0/0a1b2c3dkk/x"),
            ("/demo/80/01/0a1b2c3dk/x", "opensandbox-path demo:80 /01/0a1b2c3dk/x"),
            ("/demo/80/1vuhmo0", "opensandbox-path demo:80 /1vuhmo0"),
            ("/demo/80/1vuhmo0/?0a1b2c3dk", "opensandbox-path demo:80 /1vuhmo0/?0a1b2c3dk"),
            ("/demo/80//1vuhmo0/0a1b2c3dk", "opensandbox-path demo:80 //1vuhmo0/0a1b2c3dk"),
            ("/demo/80?/1vuhmo0/0a1b2c3dk", "opensandbox-path demo:80 /?/1vuhmo0/0a1b2c3dk"),
            ("/demo/0/1vuhmo0/0a1b2c3dk/x", "malformed port in opensandbox-path"),
            // Another form, which has no signatures.
            ("/kruise/demo/80/1vuhmo0/0a1b2c3dk/x", "kruise-path demo:80 /1vuhmo0/0a1b2c3dk/x"),
        ],
    );
}

#[test]
fn the_signature_is_that_of_the_form_that_is_taken() {
    let header = |value: &'static str| ("opensandbox-ingress-to", value);
    let host = |value: &'static str| (":authority", value);
    let signed = "opensandbox-header demo:80 signed until 1";
    assert_eq!(read(&[header("demo-80-1-0a1b2c3dk"), host("demo-80.example.com")]), signed);
    assert_eq!(read(&[header("demo-80-1-0a1b2c3dk"), host("demo-80-2-ffffffffk.example.com")]), signed);
    assert_eq!(
        read(&[header("demo-80"), host("demo-80-2-ffffffffk.example.com")]),
        "opensandbox-header demo:80",
        "the other is not looked at"
    );
    let kruise = ("e2b-sandbox-id", "demo");
    assert_eq!(read(&[kruise, host("demo-80-2-ffffffffk.example.com")]), "kruise-header demo:49983");
    // Without the signature they still have to agree.
    let conflict = "conflict of opensandbox-header and opensandbox-host";
    assert_eq!(read(&[header("demo-80-1-0a1b2c3dk"), host("other-80-1-0a1b2c3dk.example.com")]), conflict);
    assert_eq!(read(&[header("demo-80-1-0a1b2c3dk"), host("demo-81-1-0a1b2c3dk.example.com")]), conflict);
    // Under both names of the header it is one value.
    let both = [header("demo-80-1-0a1b2c3dk"), ("open-sandbox-ingress", "demo-80-2-0a1b2c3dk")];
    assert_eq!(read(&both), "malformed header in opensandbox-header");
}

#[test]
fn of_two_readings_of_a_host_the_signature_is_opensandboxs() {
    let host = [(":authority", "3000-web-80-1vuhmo0-0a1b2c3dk.example.com")];
    let Recognition::Addressed(address) = recognise(host.as_slice(), &FilterConfig::default()) else {
        panic!("{host:?} is an address");
    };
    assert_eq!((address.dialect(), address.id()), (Dialect::Kruise, "web-80-1vuhmo0-0a1b2c3dk"));
    assert_eq!(address.signature(), None);
    let other = address.other_reading().expect("it has two readings");
    assert_eq!((other.id(), other.port()), ("3000-web", 80));
    let signature = other.signature().expect("this one is signed");
    assert_eq!((signature.expires_text(), signature.tag()), (EXPIRES.as_bytes(), b"0a1b2c3dk"));
    let shown = format!("{other:?}");
    assert!(shown.contains("4102444800"), "{shown}");
}
