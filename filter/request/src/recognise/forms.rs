//! The forms of address in paths and headers: OpenKruise with E2B, OpenSandbox, scitix Agent-Sandbox.
//!
//! Each function tries one form. The forms of the host are in [`host`], those of `X-Sandbox-ID` in
//! [`sandbox_id`](super::sandbox_id).

use sandgate_routes::is_valid_id;

use super::{
    Absence, Attempt, RouteSignature, host, is_digits, offer, parse_port, path_only, sent_port, split_once,
};
use crate::address::AskedPort;
use crate::{Address, FilterConfig, Form, Headers, Part};

const KRUISE_PREFIX: &[u8] = b"/kruise/";

/// `/kruise/{id}/{port}/{rest}`. Whatever begins with `/kruise/` has the shape. `api` as the ID segment is
/// the manager's API, which no header or host can turn into a request to a sandbox; `apix` is an ID like any
/// other.
pub(crate) fn kruise_path(
    path: Option<&[u8]>,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.kruise.path {
        return Attempt::Absent(Absence::Off);
    }
    let Some(path) = path else {
        return Attempt::Absent(Absence::NoPrefix);
    };
    let Some(tail) = path_only(path).strip_prefix(KRUISE_PREFIX) else {
        return Attempt::Absent(Absence::NoPrefix);
    };
    let (id, port_on) = match split_once(tail, b'/') {
        Some((b"api", _)) => return Attempt::Reserved,
        None if tail == b"api" => return Attempt::Reserved,
        None => return Attempt::Malformed(Part::Path),
        Some(parts) => parts,
    };
    let port = split_once(port_on, b'/').map_or(port_on, |(port, _)| port);
    let cut = KRUISE_PREFIX.len() + id.len() + 1 + port.len();
    offer(taken, Form::KruisePath, id, parse_port(port).map(AskedPort::from), cut, None)
}

/// `e2b-sandbox-id`, with `e2b-sandbox-port` or the default port. The ID header alone makes the shape, even
/// if empty.
pub(crate) fn kruise_header<H: Headers + ?Sized>(
    headers: &H,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    let kruise = &config.kruise;
    if !kruise.headers {
        return Attempt::Absent(Absence::Off);
    }
    // The port is read inside the ID's closure only if there is an ID, so the common request costs one read.
    headers.with(&kruise.id_header, |id| match id {
        None => Attempt::Absent(Absence::NoHeader),
        Some(_) if headers.repeats(&kruise.id_header) => Attempt::Malformed(Part::Repeated),
        Some(id) => {
            let default = AskedPort { number: kruise.default_port, is_default: true };
            let port = sent_port(headers, &kruise.port_header);
            let port = port.map(|port| port.map_or(default, AskedPort::from));
            offer(taken, Form::KruiseHeader, id, port, 0, None)
        }
    })
}

/// `{port}-{id}`: digits, a dash, then an ID which may itself have dashes.
pub(crate) fn port_and_id(label: &[u8]) -> Option<Label<'_>> {
    let (port, id) = split_once(label, b'-')?;
    is_digits(port).then_some(Label { id, port, signature: None })
}

/// The header and its older name, in the order they are looked for.
pub(crate) const INGRESS: [&str; 2] = ["opensandbox-ingress-to", "open-sandbox-ingress"];

/// `OpenSandbox-Ingress-To: {id}-{port}[.{domain}]`, signed or not. The header makes the shape, whatever it
/// holds. Under both of its names it must say the same.
pub(crate) fn opensandbox_header<H: Headers + ?Sized>(
    headers: &H,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.opensandbox.headers {
        return Attempt::Absent(Absence::Off);
    }
    let [name, old_name] = INGRESS;
    headers.with(name, |value| {
        headers.with(old_name, |old_value| {
            let Some(found) = value.or(old_value) else { return Attempt::Absent(Absence::NoHeader) };
            let differ = value.is_some() && old_value.is_some_and(|old| old != found);
            if differ || headers.repeats(name) || headers.repeats(old_name) {
                return Attempt::Malformed(Part::Repeated);
            }
            ingress(found, &config.domains, taken)
        })
    })
}

/// The label ends at the first dot, or at the domain where it is one of ours. A scheme in front of it is
/// dropped: clients put the base URL of an endpoint here.
fn ingress(value: &[u8], domains: &[String], taken: &mut Option<Address>) -> Attempt {
    if value.is_empty() {
        return Attempt::Malformed(Part::Id);
    }
    let host = value.strip_prefix(b"https://").unwrap_or(value);
    let host = host.strip_prefix(b"http://").unwrap_or(host);
    let name = host::without_port(host).0;
    let label =
        host::under(name, domains).or_else(|| split_once(host, b'.').map(|(label, _)| label)).unwrap_or(host);
    match id_and_port(label) {
        Some(Label { id, port, signature }) => {
            let port = parse_port(port).map(AskedPort::from);
            offer(taken, Form::OpenSandboxHeader, id, port, 0, signature)
        }
        None => Attempt::Malformed(Part::Port),
    }
}

/// The paths that any application may have for itself, in the order of their forms. Says in which form one
/// was found, or the last one where there is none.
pub(crate) fn weak_path(
    path: Option<&[u8]>,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> (Form, Attempt) {
    match sandbox_env_path(path, config, taken) {
        Attempt::Absent(_) => {}
        attempt => return (Form::SandboxEnvPath, attempt),
    }
    match opensandbox_proxy_path(path, config, taken) {
        Attempt::Absent(_) => (Form::OpenSandboxPath, opensandbox_path(path, config, taken)),
        attempt => (Form::OpenSandboxProxyPath, attempt),
    }
}

const SANDBOXES_PREFIX: &[u8] = b"/sandboxes/";

/// `/sandboxes/{id}/{port}/{rest}`. The prefix alone does not make the shape: E2B's API has paths such as
/// `/sandboxes/{id}/timeout`. So it is as weak as that of [`opensandbox_path`], and is tried before it.
pub(crate) fn sandbox_env_path(
    path: Option<&[u8]>,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.sandbox_env.path {
        return Attempt::Absent(Absence::Off);
    }
    let shape = |path| id_and_port_path(path, SANDBOXES_PREFIX, b"/");
    take_path(path.and_then(shape), Form::SandboxEnvPath, taken)
}

/// `/sandboxes/{id}/proxy/{port}/{rest}`, also below `/v1`. OpenSandbox's server has its API below the same
/// prefix, so the shape is as weak as that of [`sandbox_env_path`].
pub(crate) fn opensandbox_proxy_path(
    path: Option<&[u8]>,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.opensandbox.proxy_path {
        return Attempt::Absent(Absence::Off);
    }
    let shape = path.and_then(|path| {
        [SANDBOXES_PREFIX, b"/v1/sandboxes/"]
            .into_iter()
            .find_map(|prefix| id_and_port_path(path, prefix, b"/proxy/"))
    });
    take_path(shape, Form::OpenSandboxProxyPath, taken)
}

/// `/{id}/{port}/{rest}`, or signed `/{id}/{port}/{expires}/{signature}/{rest}`. The shape is a valid ID,
/// then a segment of nothing but digits: it is the weakest one, so it comes last.
pub(crate) fn opensandbox_path(
    path: Option<&[u8]>,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.opensandbox.path {
        return Attempt::Absent(Absence::Off);
    }
    let shape = path.and_then(|path| {
        let shape = id_and_port_path(path, b"/", b"/")?;
        Some(PathShape { signature: path_signature(path_only(path).get(shape.cut..)?), ..shape })
    });
    take_path(shape, Form::OpenSandboxPath, taken)
}

/// The first two segments of what follows a port, where they are a signature.
fn path_signature(rest: &[u8]) -> Option<RouteSignature> {
    let (expires, rest) = split_once(rest.strip_prefix(b"/")?, b'/')?;
    let tag = split_once(rest, b'/').map_or(rest, |(tag, _)| tag);
    RouteSignature::parse(expires, tag)
}

/// An ID and a port in a path, and where the path for the sandbox begins.
#[derive(Clone, Copy)]
struct PathShape<'a> {
    id: &'a [u8],
    port: &'a [u8],
    cut: usize,
    signature: Option<RouteSignature>,
}

/// Behind the prefix a valid ID, and behind the separator a segment of nothing but digits.
fn id_and_port_path<'a>(path: &'a [u8], prefix: &[u8], separator: &[u8]) -> Option<PathShape<'a>> {
    let tail = path_only(path).strip_prefix(prefix)?;
    let id = split_once(tail, b'/')?.0;
    let port_on = tail.get(id.len()..)?.strip_prefix(separator)?;
    let port = split_once(port_on, b'/').map_or(port_on, |(port, _)| port);
    let cut = prefix.len() + id.len() + separator.len() + port.len();
    (is_valid_id(id) && is_digits(port)).then_some(PathShape { id, port, cut, signature: None })
}

fn take_path(shape: Option<PathShape<'_>>, form: Form, taken: &mut Option<Address>) -> Attempt {
    match shape {
        Some(PathShape { id, port, cut, signature }) => {
            offer(taken, form, id, parse_port(port).map(AskedPort::from), cut, signature)
        }
        None => Attempt::Absent(Absence::NotIdAndPort),
    }
}

/// An ID and a port in a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) port: &'a [u8],
    pub(crate) signature: Option<RouteSignature>,
}

/// `{id}-{port}-{expires}-{signature}`, else `{id}-{port}`: an ID which may itself have dashes, a dash, then
/// digits. A label whose last two parts are no signature is an unsigned one, with another ID or with none.
pub(crate) fn id_and_port(label: &[u8]) -> Option<Label<'_>> {
    signed_label(label).or_else(|| unsigned_label(label, None))
}

fn signed_label(label: &[u8]) -> Option<Label<'_>> {
    let (rest, tag) = rsplit_once(label, b'-')?;
    let (rest, expires) = rsplit_once(rest, b'-')?;
    unsigned_label(rest, Some(RouteSignature::parse(expires, tag)?))
}

fn unsigned_label(label: &[u8], signature: Option<RouteSignature>) -> Option<Label<'_>> {
    let (id, port) = rsplit_once(label, b'-')?;
    is_digits(port).then_some(Label { id, port, signature })
}

fn rsplit_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().rposition(|byte| *byte == at)?;
    Some((bytes.get(..position)?, bytes.get(position + 1..)?))
}
