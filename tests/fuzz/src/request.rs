//! A request made of fuzzed bytes, and what must hold for every request.

use sandgate_request::{
    Address, FilterConfig, Form, Headers, Part, Recognition, concluded, explain, recognise,
};
use sandgate_routes::is_valid_id;

/// A request written as lines of `name: value`. What has no name is dropped.
pub struct Request<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> Request<'a> {
    /// Reads the lines.
    pub fn parse(data: &'a [u8]) -> Self {
        let line = |line: &'a [u8]| {
            let colon = line.iter().skip(1).position(|byte| *byte == b':')? + 1;
            Some((&line[..colon], line[colon + 1..].trim_ascii_start()))
        };
        Self(data.split(|byte| *byte == b'\n').filter_map(line).collect())
    }

    /// A request with one header.
    pub fn of(name: &'a str, value: &'a [u8]) -> Self {
        Self(vec![(name.as_bytes(), value)])
    }
}

impl Headers for Request<'_> {
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        f(self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value))
    }

    fn repeats(&self, name: &str) -> bool {
        self.0.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).count() > 1
    }
}

/// Recognises a request and checks what holds for all of them.
pub fn checked(request: &Request<'_>, config: &FilterConfig) -> Recognition {
    let found = recognise(request, config);
    if let Recognition::Addressed(address) = &found {
        assert!(is_valid_id(address.id().as_bytes()), "an invalid ID: {address:?}");
        assert!(address.port() > 0, "port 0: {address:?}");
        let path = request.with(":path", |path| path.map(<[u8]>::to_vec));
        for signed in [false, true] {
            match path.as_deref().and_then(|path| address.rewrite(path, signed)) {
                Some(rewritten) => {
                    let original = path.as_deref().unwrap_or_default();
                    assert_eq!(rebuilt(address, original, &rewritten, signed), original, "{address:?}");
                }
                None => assert!(!address.rewrites_path(), "no path for {address:?}"),
            }
        }
    }
    if let Recognition::Addressed(address) = &found
        && let Some(other) = address.other_reading()
    {
        assert!(is_valid_id(other.id().as_bytes()), "an invalid ID: {other:?}");
        assert!(other.port() > 0 && !other.has_two_readings(), "{other:?}");
        if other.form() == Form::SandboxEnvHeader {
            // One header: to agent-sandbox the name of an object, to environments the ID itself.
            let name = address.object().map(|(_, name)| name);
            assert_eq!((name, address.port()), (Some(other.id()), other.port()), "{address:?} and {other:?}");
        } else {
            let signature = other.signature().map_or(String::new(), |signature| {
                let parts = [signature.expires_text(), signature.tag()].map(String::from_utf8_lossy);
                format!("-{}-{}", parts[0], parts[1])
            });
            let first = format!("{}-{}", address.port(), address.id());
            let second = format!("{}-{}{signature}", other.id(), other.port());
            assert_eq!(first, second, "two readings of different labels");
        }
    }
    assert_eq!(found, concluded(&explain(request, config)), "recognised and explained differ");
    found
}

/// The client's path, put together again from the address and the path for the sandbox.
fn rebuilt(address: &Address, original: &[u8], rewritten: &[u8], signed: bool) -> Vec<u8> {
    let (lead, infix) = match address.form() {
        Form::KruisePath => ("/kruise/", "/"),
        Form::SandboxEnvPath => ("/sandboxes/", "/"),
        Form::OpenSandboxProxyPath if original.starts_with(b"/v1/") => ("/v1/sandboxes/", "/proxy/"),
        Form::OpenSandboxProxyPath => ("/sandboxes/", "/proxy/"),
        _ => ("/", "/"),
    };
    let mut path = format!("{lead}{}{infix}{}", address.id(), address.port()).into_bytes();
    if let Some(signature) = address.signature().filter(|_| signed) {
        path.extend([b"/", signature.expires_text(), b"/", signature.tag()].concat());
    }
    assert_eq!(rewritten.first(), Some(&b'/'), "a path that does not begin with a slash");
    let slash_was_there = original.get(path.len()) == Some(&b'/');
    path.extend_from_slice(if slash_was_there { rewritten } else { &rewritten[1..] });
    path
}

/// An address, or the part that is wrong, in values that are easily compared.
pub type Reading = Result<(Form, String, u16), (Form, Part)>;

/// A config for a target.
pub fn config(json: &str) -> FilterConfig {
    FilterConfig::parse(json.as_bytes()).expect("the config of a target is valid")
}

/// A second opinion on ports, by the standard library.
pub fn port(text: &str) -> Result<u16, Part> {
    match text.parse::<u16>() {
        Ok(port) if port > 0 && port.to_string() == text => Ok(port),
        _ => Err(Part::Port),
    }
}

/// A second opinion on an ID and a port, in the words of a recognition.
pub fn expected(form: Form, id: &str, port: Result<u16, Part>) -> Reading {
    if !is_valid_id(id.as_bytes()) {
        return Err((form, Part::Id));
    }
    port.map(|port| (form, id.to_owned(), port)).map_err(|part| (form, part))
}

/// A recognition in the words of [`expected`]; `None` if the request addresses no sandbox.
pub fn summary(found: &Recognition) -> Option<Reading> {
    match found {
        Recognition::Addressed(address) => {
            Some(Ok((address.form(), address.id().to_owned(), address.port())))
        }
        Recognition::Malformed { form, part } => Some(Err((*form, *part))),
        Recognition::Unaddressed | Recognition::Conflicting { .. } => None,
    }
}
