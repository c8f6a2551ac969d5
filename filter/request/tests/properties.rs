//! What holds for every request, whatever its bytes.

use proptest::prelude::*;
use sandgate_request::{
    Address, Dialect, FilterConfig, Form, Headers, Media, Recognition, Refusal, RouteSignature, concluded,
    explain, preferred_media, recognise, reply,
};
use sandgate_routes::is_valid_id;

type Request = Vec<(&'static str, Vec<u8>)>;

const NAMES: [&str; 15] = [
    ":path",
    ":authority",
    ":method",
    "x-forwarded-host",
    "e2b-sandbox-id",
    "e2b-sandbox-port",
    "opensandbox-ingress-to",
    "open-sandbox-ingress",
    "x-sandbox-id",
    "x-sandbox-namespace",
    "x-sandbox-port",
    "x-sandbox-uid",
    "x-sandbox-pod-ip",
    "accept",
    "sec-fetch-mode",
];

/// Values that often name the same sandbox in two forms.
const ALIKE: [&str; 16] = [
    "a",
    "default--a",
    "80",
    "80-a.example.com",
    "a-80.example.com",
    "80-default--a.example.com",
    "80-a-80.example.com",
    "a-80",
    "/kruise/a/80",
    "/sandboxes/a/80/x",
    "/v1/sandboxes/a/proxy/80/x",
    "/a/80/1vuhmo0/0a1b2c3dk/x",
    "a-80-1vuhmo0-0a1b2c3dk",
    "a-80-1vuhmo0-0a1b2c3dk.example.com",
    "80-a-80-1vuhmo0-0a1b2c3dk.example.com",
    "https://a-80.example.com:443",
];

/// Bytes that are all over the place, and bytes that are nearly an address.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        "(/kruise|/sandboxes)?/{0,2}[a-z.%-]{0,4}/{0,2}[0-9]{0,6}[/?#]{0,2}[a-z]{0,3}"
            .prop_map(String::into_bytes),
        "(/v1)?(/sandboxes)?/[a-z]{1,2}(/proxy)?/[0-9]{1,5}/[0-9a-z]{0,14}/[0-9a-f]{7,9}[0-9a-z]{0,2}[/?]?[a-z]{0,2}"
            .prop_map(String::into_bytes),
        "(https?://)?[a-z0-9-]{0,4}-[0-9]{1,5}-[0-9a-z]{0,14}-[0-9a-f]{7,9}[0-9a-zA-Z]{0,2}(\\.example\\.com)?"
            .prop_map(String::into_bytes),
        "[0-9]{0,6}-?[A-Za-z.-]{0,6}-?[0-9]{0,6}(\\.[a-z]{0,3}){0,3}(:[0-9a-z]{0,6})?"
            .prop_map(String::into_bytes),
        prop::sample::select(ALIKE.as_slice()).prop_map(|value| value.as_bytes().to_vec()),
        prop::sample::select(ALIKE.as_slice()).prop_map(|value| value.as_bytes().to_vec()),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    prop::collection::vec((prop::sample::select(NAMES.as_slice()), value()), 0..6)
}

fn config() -> impl Strategy<Value = FilterConfig> {
    let domains = prop_oneof![Just("[]"), Just(r#"["example.com"]"#), Just(r#"["a.bc","bc"]"#)];
    let host_header = prop_oneof![Just(":authority"), Just("x-forwarded-host")];
    (any::<[bool; 10]>(), domains, host_header).prop_map(|(on, domains, host_header)| {
        let json = format!(
            r#"{{"domains":{domains},"host-header-name":"{host_header}","dialects":{{
              "kruise":{{"path":{},"headers":{},"host":{}}},"agent-sandbox":{{"enabled":{}}},
              "opensandbox":{{"headers":{},"host":{},"path":{},"proxy-path":{}}},
              "sandbox-env":{{"headers":{},"path":{}}}}}}}"#,
            on[0], on[1], on[2], on[3], on[4], on[5], on[6], on[7], on[8], on[9]
        );
        FilterConfig::parse(json.as_bytes()).expect("the config is valid")
    })
}

fn id() -> impl Strategy<Value = String> {
    "[A-Za-z0-9._-]{1,253}"
}

fn read(headers: &[(&str, String)]) -> Option<Address> {
    read_with(headers, "")
}

fn read_with(headers: &[(&str, String)], config: &str) -> Option<Address> {
    let config = FilterConfig::parse(config.as_bytes()).expect("the config is valid");
    match recognise(headers, &config) {
        Recognition::Addressed(address) => Some(address),
        _ => None,
    }
}

fn same(address: Option<&Address>, form: Form, id: &str, port: u16) -> bool {
    address.is_some_and(|a| (a.form(), a.id(), a.port()) == (form, id, port))
}

/// A number as OpenSandbox writes it.
fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit((number % 36).try_into().expect("it is small"), 36));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_recognised_is_valid_and_explained_alike(headers in request(), config in config()) {
        let found = recognise(headers.as_slice(), &config);
        prop_assert_eq!(&found, &concluded(&explain(headers.as_slice(), &config)));
        if let Recognition::Addressed(address) = found {
            for address in [address.other_reading(), Some(address)].into_iter().flatten() {
                prop_assert!(is_valid_id(address.id().as_bytes()));
                prop_assert!(address.port() != 0);
                prop_assert_eq!(address.object().is_some(), address.form() == Form::AgentSandboxHeader);
                if let Some(signature) = address.signature() {
                    prop_assert_eq!(address.dialect(), Dialect::OpenSandbox);
                    let again = RouteSignature::parse(signature.expires_text(), signature.tag());
                    prop_assert_eq!(again.as_ref(), Some(signature));
                    let expires = str::from_utf8(signature.expires_text()).expect("base 36 is ASCII");
                    prop_assert_eq!(u64::from_str_radix(expires, 36).ok(), Some(signature.expires()));
                }
            }
        }
    }

    #[test]
    fn a_rewritten_path_is_what_followed_the_port(headers in request(), config in config()) {
        if let Recognition::Addressed(address) = recognise(headers.as_slice(), &config) {
            let path = headers.as_slice().with(":path", |path| path.map(<[u8]>::to_vec)).unwrap_or_default();
            let prefixes: &[&str] = match address.form() {
                Form::KruisePath => &["/kruise/"],
                Form::SandboxEnvPath => &["/sandboxes/"],
                Form::OpenSandboxProxyPath => &["/sandboxes/", "/v1/sandboxes/"],
                _ => &["/"],
            };
            let lead = prefixes.iter().rfind(|prefix| path.starts_with(prefix.as_bytes()));
            let infix = if address.form() == Form::OpenSandboxProxyPath { "/proxy/" } else { "/" };
            for signed in [false, true] {
                let rewritten = address.rewrite(&path, signed);
                prop_assert_eq!(rewritten.is_some(), address.rewrites_path());
                let Some(rewritten) = rewritten else { continue };
                prop_assert_eq!(rewritten.first(), Some(&b'/'));
                let lead = lead.expect("the path begins as its form does");
                let mut prefix = format!("{lead}{}{infix}{}", address.id(), address.port()).into_bytes();
                if let (true, Some(signature)) = (signed, address.signature()) {
                    prefix.extend([b"/", signature.expires_text(), b"/", signature.tag()].concat());
                }
                let rest = path.strip_prefix(prefix.as_slice()).expect("the path begins with the address");
                prop_assert_eq!(rest.strip_prefix(b"/").unwrap_or(rest), &rewritten[1..]);
            }
        }
    }

    #[test]
    fn rewriting_some_other_path_gives_a_path_or_nothing(
        headers in request(),
        other in value(),
        signed in any::<bool>(),
    ) {
        if let Recognition::Addressed(address) = recognise(headers.as_slice(), &FilterConfig::default())
            && let Some(path) = address.rewrite(&other, signed)
        {
            prop_assert_eq!(path.first(), Some(&b'/'));
        }
    }

    #[test]
    fn an_address_written_in_any_form_is_read_back(id in id(), port in 1u16.., rest in "(/[!-~]{0,9})?") {
        prop_assume!(id != "api");
        let address = read(&[(":path", format!("/kruise/{id}/{port}{rest}"))]);
        prop_assert!(same(address.as_ref(), Form::KruisePath, &id, port));
        let address = read(&[("e2b-sandbox-id", id.clone()), ("e2b-sandbox-port", port.to_string())]);
        prop_assert!(same(address.as_ref(), Form::KruiseHeader, &id, port));
        let address = read(&[(":authority", format!("{port}-{id}.example.com"))]);
        prop_assert!(id.contains('.') || same(address.as_ref(), Form::KruiseHost, &id, port));
        let domains = r#"{"domains":["example.com"],"dialects":{"kruise":{"host":false}}}"#;
        let address = read_with(&[(":authority", format!("{id}-{port}.example.com"))], domains);
        prop_assert!(same(address.as_ref(), Form::OpenSandboxHost, &id, port));
        let address = read_with(&[("opensandbox-ingress-to", format!("{id}-{port}.Example.com"))], domains);
        prop_assert!(same(address.as_ref(), Form::OpenSandboxHeader, &id, port));
        let address = read(&[(":path", format!("/v1/sandboxes/{id}/proxy/{port}{rest}"))]);
        prop_assert!(same(address.as_ref(), Form::OpenSandboxProxyPath, &id, port));
        let address = read(&[(":path", format!("/sandboxes/{id}/{port}{rest}"))]);
        prop_assert!(same(address.as_ref(), Form::SandboxEnvPath, &id, port));
        let sent = [("x-sandbox-id", id.clone()), ("x-sandbox-port", port.to_string())];
        let address = read_with(&sent, r#"{"dialects":{"agent-sandbox":{"enabled":false}}}"#);
        prop_assert!(same(address.as_ref(), Form::SandboxEnvHeader, &id, port));
        let both = read(&sent).expect("one of the two readings is valid");
        let other = both.other_reading().unwrap_or(both);
        prop_assert!(same(Some(&other), Form::SandboxEnvHeader, &id, port));
        prop_assume!(id != "kruise");
        let address = read(&[(":path", format!("/{id}/{port}{rest}"))]);
        prop_assert!(same(address.as_ref(), Form::OpenSandboxPath, &id, port));
    }

    #[test]
    fn a_signed_route_is_read_back(id in id(), port in 1u16.., expires in any::<u64>(), tag in "[0-9a-f]{8}[0-9a-z]") {
        let text = base36(expires);
        let signed = |address: Option<&Address>, form| {
            let found = address.and_then(Address::signature);
            let whole = found.map(|found| (found.expires(), found.expires_text(), found.tag().as_slice()));
            same(address, form, &id, port) && whole == Some((expires, text.as_bytes(), tag.as_bytes()))
        };
        let domains = r#"{"domains":["example.com"],"dialects":{"kruise":{"host":false}}}"#;
        let label = format!("{id}-{port}-{text}-{tag}.example.com");
        prop_assert!(signed(read_with(&[(":authority", label.clone())], domains).as_ref(), Form::OpenSandboxHost));
        let header = read_with(&[("opensandbox-ingress-to", label)], domains);
        prop_assert!(signed(header.as_ref(), Form::OpenSandboxHeader));
        prop_assume!(id != "kruise" && id != "sandboxes");
        let path = format!("/{id}/{port}/{text}/{tag}/x");
        let address = read(&[(":path", path.clone())]);
        prop_assert!(signed(address.as_ref(), Form::OpenSandboxPath));
        let rewritten = address.as_ref().and_then(|address| address.rewrite(path.as_bytes(), true));
        prop_assert_eq!(rewritten.as_deref(), Some(b"/x".as_slice()));
    }

    #[test]
    fn namespace_and_name_are_read_back(namespace in "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name in "[a-z0-9._-]{1,188}") {
        let address = read(&[("x-sandbox-id", name.clone()), ("x-sandbox-namespace", namespace.clone())]);
        let address = address.expect("namespace and name are valid");
        prop_assert_eq!(address.object(), Some((namespace.as_str(), name.as_str())));
        prop_assert_eq!(address.id(), format!("{namespace}--{name}"));
    }

    #[test]
    fn a_reply_holds_no_bytes_of_the_client_but_a_valid_id(headers in request()) {
        let media = preferred_media(headers.as_slice());
        let (refusal, address) = match recognise(headers.as_slice(), &FilterConfig::default()) {
            Recognition::Addressed(address) => (Refusal::Unknown, Some(address)),
            Recognition::Malformed { form, part } => (Refusal::Malformed { form, part }, None),
            Recognition::Conflicting { taken, other } => (Refusal::Conflicting { taken, other }, None),
            Recognition::Unaddressed => (Refusal::Unaddressed, None),
        };
        let answer = reply(refusal, address.as_ref(), media);
        let plain = reply(refusal, None, media);
        match (&address, media) {
            (None, _) => prop_assert_eq!(&answer.body, &plain.body),
            (Some(address), Media::Json) => {
                let body: serde_json::Value = serde_json::from_str(&answer.body).expect("the body is JSON");
                prop_assert_eq!(&body["sandbox"], address.id());
            }
            // The message alone, which names no sandbox.
            (Some(_), Media::Grpc) => prop_assert_eq!(&answer.body, &plain.body),
            (Some(address), Media::Html) => {
                let row = format!("<dt>Sandbox</dt><dd>{}</dd>\n", address.id());
                prop_assert!(answer.body.contains(&row));
            }
        }
    }

    #[test]
    fn whatever_a_client_asks_for_it_waits_for_some_time_and_never_longer_than_the_most(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..40), "[0-9.e+-]{1,12}".prop_map(String::into_bytes)]
    ) {
        let config = FilterConfig::parse(br#"{"timeouts":{"max":100}}"#).expect("a config");
        let patience = config.patience(Dialect::AgentSandbox, Some(&bytes));
        prop_assert!(patience.request.is_none_or(|time| (1..=100_000).contains(&time)), "{patience:?}");
    }

    #[test]
    fn any_bytes_are_a_config_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = FilterConfig::parse(&bytes) {
            prop_assert!(!error.key.is_empty() && !error.reason.is_empty());
        }
    }
}
